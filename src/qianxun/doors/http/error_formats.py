"""What an error looks like: in our own form, and in that of the door by which another program came in.

Whoever answers an error (a route, the routing, the guard, the outermost layer) says it in our own form; the response
takes on its way out the form that belongs to the path that was asked for. Every form holds all of our own but the
word ``error``, whose place is an object in OpenAI's. ``code`` is the status that is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

Content = dict[str, Any]
Headers = Mapping[bytes, bytes]
Form = Callable[[Content, Headers], Content]

# ── as the documentation shows them ──────────────────────────────────────────────────────────────


class FieldProblem(BaseModel):
    """One field that is not as it should be."""

    field: str = Field(examples=["retrieval_config.top_k"])
    reason: str = Field(examples=["应不大于 100"])


class Said(BaseModel):
    """What an error says in every form."""

    code: int = Field(description="HTTP 状态码", examples=[404])
    msg: str = Field(examples=["没有编号为 7 的知识库　用 GET /v1/knowledge-bases 查看已有的知识库"])
    data: None = None
    fields: list[FieldProblem] | None = Field(default=None, description="只在 422 时有：哪些字段不对，为什么")
    trace_id: str | None = Field(default=None, description="只在 500 时有：凭它在日志里找到原因")


class Problem(Said):
    """An error. ``error`` is stable and meant for programs, ``msg`` for people."""

    error: str = Field(description="机器可读、不会改变的词", examples=["not_found"])


class DifyProblem(Problem):
    """An error as Dify's external knowledge API words it."""

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


class OpenAIProblem(Said):
    """An error as OpenAI's clients read it."""

    error: OpenAIError


# ── as they are answered ─────────────────────────────────────────────────────────────────────────

NO_AUTHORIZATION: Final = 1001
WRONG_KEY: Final = 1002
NO_KNOWLEDGE: Final = 2001


def dify(content: Content, headers: Headers) -> Content:
    code = {401: WRONG_KEY if _has_key(headers) else NO_AUTHORIZATION, 404: NO_KNOWLEDGE}
    return {**content, "error_code": code.get(content["code"], content["code"]), "error_msg": content["msg"]}


def rerank(content: Content, _headers: Headers) -> Content:
    return {**content, "message": content["msg"], "detail": content["msg"]}


def openai(content: Content, _headers: Headers) -> Content:
    """Its clients know one status for whatever is wrong with a request."""
    code = 400 if content["code"] in (415, 422) else content["code"]
    return {**content, "code": code, "error": openai_error(content)}


def openai_error(content: Content) -> Content:
    """The ``error`` of OpenAI's form; also for an answer that is on its way already."""
    fields = content.get("fields") or [{"field": None}]
    return {
        "message": content["msg"],
        "type": "server_error" if content.get("code", 500) >= 500 else "invalid_request_error",
        "param": fields[0]["field"],
        "code": content["error"],
    }


def _has_key(headers: Headers) -> bool:
    kind, _, key = headers.get(b"authorization", b"").partition(b" ")
    return (kind.lower() == b"bearer" and bool(key.strip())) or bool(headers.get(b"x-api-key"))


DOORS: Final[Mapping[str, Form]] = {
    "/retrieval": dify,
    "/v1/rerank": rerank,
    "/v1/chat/completions": openai,
    "/v1/embeddings": openai,
    "/v1/models": openai,
    "/v1/vector_stores": openai,
}
WITH_ALL_BELOW: Final = ("/v1/models", "/v1/vector_stores")


def form_of(path: str) -> Form | None:
    """That of the door that ``path`` belongs to; None where it is our own."""
    return DOORS.get(next((door for door in WITH_ALL_BELOW if path.startswith(f"{door}/")), path))


def formed(content: Content, path: str, headers: Headers) -> Content:
    """The error, told in our own form, in that of the door that ``path`` belongs to; our own where that is none."""
    form = form_of(path)
    return content if form is None else form(content, headers)
