"""The body of an error: in our own format, and in that of the API of another product.

Routes, routing, guard and middleware all write errors in our own format. On its way out the response takes the format
that belongs to the requested path. Every format has all of our own fields, except that ``error`` is an object in
OpenAI's. ``code`` is the HTTP status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

Content = dict[str, Any]
Headers = Mapping[bytes, bytes]
Format = Callable[[Content, Headers], Content]


class FieldProblem(BaseModel):
    """A field that was refused."""

    field: str = Field(examples=["retrieval_config.top_k"])
    reason: str = Field(examples=["应不大于 100"])


class BaseProblem(BaseModel):
    """The fields that errors have in every format."""

    code: int = Field(description="HTTP 状态码", examples=[404])
    msg: str = Field(examples=["没有编号为 7 的知识库　用 GET /v1/knowledge-bases 查看已有的知识库"])
    data: None = None
    fields: list[FieldProblem] | None = Field(default=None, description="只在 422 时有：哪些字段不对，为什么")
    trace_id: str | None = Field(default=None, description="只在 500 时有：凭它在日志里找到原因")


class Problem(BaseProblem):
    """An error. ``error`` is stable and meant for programs, ``msg`` for people."""

    error: str = Field(description="机器可读、不会改变的词", examples=["not_found"])


class DifyProblem(Problem):
    """An error in the format of Dify's external knowledge API."""

    error_code: int = Field(
        description="1001 没有或写错 Authorization，1002 密钥不对，2001 没有这个知识库，其余为 HTTP 状态码",
        examples=[2001],
    )
    error_msg: str = Field(description="与 msg 相同")


class RerankProblem(Problem):
    """An error as the clients of Cohere (``message``) and Jina (``detail``) read it."""

    message: str = Field(description="与 msg 相同")
    detail: str = Field(description="与 msg 相同")


class OpenAIError(BaseModel):
    message: str
    type: str = Field(examples=["invalid_request_error"])
    param: str | None = Field(description="不对的字段")
    code: str = Field(description="机器可读、不会改变的词", examples=["not_found"])


class OpenAIProblem(BaseProblem):
    """An error as OpenAI's clients read it."""

    error: OpenAIError


def dify(content: Content, headers: Headers) -> Content:
    kind, _, key = headers.get(b"authorization", b"").partition(b" ")
    has_key = (kind.lower() == b"bearer" and bool(key.strip())) or bool(headers.get(b"x-api-key"))
    code = {401: 1002 if has_key else 1001, 404: 2001}  # as DifyProblem documents them
    return {**content, "error_code": code.get(content["code"], content["code"]), "error_msg": content["msg"]}


def rerank(content: Content, _headers: Headers) -> Content:
    return {**content, "message": content["msg"], "detail": content["msg"]}


def openai(content: Content, _headers: Headers) -> Content:
    """OpenAI's clients expect status 400 for every invalid request."""
    code = content["code"]
    error = {
        "message": content["msg"],
        "type": "server_error" if code >= 500 else "invalid_request_error",
        "param": content["fields"][0]["field"] if content.get("fields") else None,
        "code": content["error"],
    }
    return {**content, "code": 400 if code in (415, 422) else code, "error": error}


FORMATS: Final[Mapping[str, Format]] = {
    "/retrieval": dify,
    "/v1/rerank": rerank,
    "/v2/rerank": rerank,
    "/v1/chat/completions": openai,
    "/v1/embeddings": openai,
    "/v1/models": openai,
    "/v1/vector_stores": openai,
    "/v1/files": openai,
    "/v1/responses": openai,
}
WITH_SUBPATHS: Final = ("/v1/models", "/v1/vector_stores", "/v1/files")


def format_of(path: str) -> Format | None:
    """The error format of a path; None for our own."""
    return FORMATS.get(next((root for root in WITH_SUBPATHS if path.startswith(f"{root}/")), path))


def formatted(content: Content, path: str, headers: Headers) -> Content:
    """An error in our own format, converted to the format of ``path``."""
    convert = format_of(path)
    return content if convert is None else convert(content, headers)
