"""What every answer looks like: ``{code, msg, data}``, and for errors ``error``, a stable machine word."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from qianxun.core.errors import (
    AlreadyThere,
    BadFilter,
    BadInput,
    BadQuery,
    FolderInUse,
    Forbidden,
    IndexUnusable,
    MissingExtra,
    ModelError,
    NotFound,
    Overloaded,
    QianxunError,
    RecallFailed,
    RecordsUnavailable,
    Refused,
    RetrieverUnavailable,
    TooLarge,
    Unauthorized,
    UnsupportedFile,
)
from qianxun.core.filters import BadFilterField
from qianxun.doors.http.error_formats import FieldProblem, Problem, Said, form_of, formed
from qianxun.records.database.disk_errors import is_disk_full

T = TypeVar("T")

RETRY_SECONDS: Final = 1
FIELDS: Final = 20  # of one body that are told
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
BLANK: Final = "Should say what to look for"  # where a pattern is all that was said
LONGEST: Final = 200  # characters of a caller's own text in an answer


class Envelope(BaseModel, Generic[T]):
    """The envelope of every answer that is not an error."""

    code: int = Field(default=200, description="与 HTTP 状态码相同")
    msg: str = "success"
    data: T


class InvalidField(BadInput):
    """A field of a request that only the engine could find wrong: told as other wrong fields are."""

    word = "validation"

    def __init__(self, field: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{field}：{reason}", hint=hint)
        self.field = field
        self.reason = reason


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def success(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The envelope around ``data``, which is JSON already: no model looks at it again."""
    return as_json({"code": status, "msg": "success", "data": data}, status, headers)


def as_json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(content), status, headers, "application/json")


def encoded(content: Any) -> bytes:
    try:
        return to_json(content, inf_nan_mode="null")
    except PydanticSerializationError:  # half of a surrogate pair: JSON can say it, UTF-8 cannot
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")


DESCRIPTIONS: Final = {
    400: "请求不合要求，说明里写着怎样改",
    401: "没有密钥，或密钥无效、已吊销",
    403: "密钥不许做这件事；未设密钥时，不是从本机发来的请求",
    404: "没有这样的知识库、文档、日志或模型（包括属于别的租户的）",
    405: "这个地址没有这种方法",
    408: "请求体迟迟没有到齐",
    409: "名称或编号已被占用",
    413: "请求体或文件太大",
    415: "不支持的文件或请求体类型",
    422: "字段的值不对，`fields` 逐个说明；或文件读不了",
    500: "没有料到的错误，凭 `trace_id` 查日志",
    503: "忙不过来、正在停止，或检索所依赖的部分不可用；过一会儿重试（见 `Retry-After`）",
    507: "磁盘已满，未写入任何内容；检索照常",
}
WORDS: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "too_large",
    415: "unsupported_media_type",
    422: "validation",
    500: "internal",
    503: "overloaded",
    507: "disk_full",
}
EVERYWHERE: Final = (401, 403, 500, 503)


def error_responses(*statuses: int, form: type[Said] = Problem) -> dict[int | str, dict[str, Any]]:
    """What a route's documentation says of these error statuses and of those that every route may answer.

    ``form`` is that of the door that the route belongs to (`qianxun.doors.http.error_formats`).
    """
    with_body = (408,) if 413 in statuses else ()
    told = sorted({*statuses, *with_body, *EVERYWHERE})
    found: dict[int | str, dict[str, Any]] = {
        status: {"model": form, "description": DESCRIPTIONS[status]} for status in told
    }
    found[503]["headers"] = {"Retry-After": {"description": "几秒后再试", "schema": {"type": "integer"}}}
    return found


# ── errors ───────────────────────────────────────────────────────────────────────────────────────

# The first kind that fits counts.
STATUSES: Final[tuple[tuple[type[QianxunError] | tuple[type[QianxunError], ...], int], ...]] = (
    ((InvalidField, BadQuery, BadFilter), 422),
    (BadInput, 400),
    (NotFound, 404),
    (AlreadyThere, 409),
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooLarge, 413),
    (UnsupportedFile, 415),
    (Refused, 422),
    ((Overloaded, RecordsUnavailable, FolderInUse), 503),
    ((RecallFailed, RetrieverUnavailable, ModelError, IndexUnusable, MissingExtra), 503),
)


class Told(Response):
    """An error on its way out, in the form of the door that was asked."""

    def __init__(self, content: dict[str, Any], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(encoded(content), status, headers, "application/json")
        self.content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = formed(self.content, scope["path"], dict(scope["headers"]))
        self.body, self.status_code = encoded(told), told["code"]
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def status_of(error: QianxunError) -> int:
    return next((status for kinds, status in STATUSES if isinstance(error, kinds)), 500)


def problem(
    status: int,
    message: str,
    word: str = "",
    *,
    hint: str = "",
    fields: Sequence[FieldProblem] = (),
    english: bool = False,
    **more: str,
) -> Told:
    """An error as every route tells it. In English the kind of error comes first; the details are the engine's own."""
    word = word or WORDS.get(status, "error")
    told = f"{message}　{hint}" if hint else message
    kind = f"{word.replace('_', ' ').capitalize()}: " if english else ""
    content: dict[str, Any] = {"code": status, "msg": kind + told, "data": None, "error": word, **more}
    if fields:
        content["fields"] = [each.model_dump() for each in fields]
    headers = {}
    if status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Told(content, status, headers)


def prefers_english(request: Request) -> bool:
    return english_wanted(request.scope)


def english_wanted(scope: Scope) -> bool:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"accept-language", b"").lower().startswith(b"en")


def failure(error: Exception, trace_id: str, *, english: bool = False) -> dict[str, Any]:
    """What is said of the error of an answer that is on its way already."""
    said = failed(error, trace_id, english=english).content
    return {"error": said["error"], "msg": said["msg"], "trace_id": trace_id}


def failed(error: Exception, trace_id: str, *, english: bool = False) -> Told:
    """An error whether or not somebody raised it on purpose."""
    return of_error(error, english=english) if isinstance(error, QianxunError) else unforeseen(error, trace_id, english)


def of_error(error: QianxunError, *, english: bool = False) -> Told:
    fields = []
    if isinstance(error, InvalidField | BadFilterField):
        fields = [FieldProblem(field=error.field, reason=error.reason)]
    return problem(status_of(error), error.message, error.word, hint=error.hint, fields=fields, english=english)


async def told(request: Request, error: Exception) -> Response:
    """The answer to whatever a handler raises on purpose."""
    english = prefers_english(request)
    if isinstance(error, QianxunError):
        return of_error(error, english=english)
    if isinstance(error, RequestValidationError | ValidationError):
        return wrong_fields(error.errors(), english=english)
    if isinstance(error, HTTPException):
        answer = problem(error.status_code, _said(error, request.scope["path"]), english=english)
        if error.status_code == 405:
            answer.headers["Allow"] = ", ".join(_allowed(request))
        return answer
    raise error


def _said(error: HTTPException, path: str) -> str:
    """Routing and the reading of bodies say no more than their status in English."""
    known = {
        400: "请求体读不了　应为 UTF-8 的 JSON",
        404: no_address(path),
        405: "这个地址没有这种方法，见 /docs",
    }
    return known.get(error.status_code, error.detail)


def no_address(path: str) -> str:
    """Clients add the rest of an address to what they were told: where that lacks its /v1, it is said."""
    if form_of(f"/v1{path}") is None:
        return "没有这个地址，见 /docs"
    return "没有这个地址　客户端里填的地址应以 /v1 结尾，见 /docs"


def is_address(scope: Scope) -> bool:
    """Whether there is anything there, by whichever method."""
    return any(route.matches(scope)[0] is not Match.NONE for route in scope["app"].router.routes)


def _allowed(request: Request) -> list[str]:
    """The methods of this address: of all its routes, where routing names those of the first alone."""
    asked = [(method, {**request.scope, "method": method}) for method in METHODS]
    routes = request.app.router.routes
    found = [method for method, scope in asked if any(route.matches(scope)[0] is Match.FULL for route in routes)]
    return ["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] else found  # the guard has HEAD answered as GET is


def unforeseen(error: Exception, trace_id: str, english: bool = False) -> Told:
    """The answer to what nobody raised on purpose: no detail but where to look."""
    if is_disk_full(error):
        return problem(507, "磁盘已满，没有写入任何内容", hint="腾出空间后重试；检索照常可用", english=english)
    if isinstance(error, OperationalError | InterfaceError):
        return problem(503, "数据库暂时不可用", "records_unavailable", hint="稍后重试", english=english)
    hint = "请把 trace_id 告诉管理员，凭它查日志"
    return problem(500, "服务内部出错", hint=hint, english=english, trace_id=trace_id)


# ── fields ───────────────────────────────────────────────────────────────────────────────────────

# What pydantic says in English, by its type of error.
REASONS: Final = {
    "missing": "缺少这个字段",
    "extra_forbidden": "没有这个字段",
    "json_invalid": "请求体不是合法的 JSON",
    "string_type": "应为文字",
    "string_too_short": "至少 {min_length} 个字符",
    "string_too_long": "最多 {max_length} 个字符",
    "string_pattern_mismatch": "形式不对，应符合 {pattern}",
    "string_unicode": "含有不成对的代理字符",
    "int_type": "应为整数",
    "int_parsing": "应为整数",
    "int_parsing_size": "整数太大",
    "int_from_float": "应为整数",
    "float_type": "应为数字",
    "float_parsing": "应为数字",
    "finite_number": "应为有限的数字",
    "bool_type": "应为 true 或 false",
    "bool_parsing": "应为 true 或 false",
    "list_type": "应为列表",
    "too_short": "至少 {min_length} 项",
    "too_long": "最多 {max_length} 项",
    "dict_type": "应为键值对",
    "model_type": "应为键值对",
    "model_attributes_type": "应为键值对；请求头 Content-Type 应为 application/json",
    "literal_error": "应为 {expected}",
    "enum": "应为 {expected}",
    "greater_than": "应大于 {gt}",
    "greater_than_equal": "应不小于 {ge}",
    "less_than": "应小于 {lt}",
    "less_than_equal": "应不大于 {le}",
    "none_required": "应为 null",
    "blank": "不能为空，写出要找的内容",
    "number": "应为数字",
    "metadata_value": "应为文字（至多 1 万字）、数字、真假，或它们的列表（至多 1000 项）",
    "condition_value": "应为文字（至多 1024 字）、64 位之内的数字、真假，或它们的列表（至多 1000 项）",
    "model_id": "应为模型的编号（正整数）或名称，如 maxsim",
    "visible": "应为可见的字符，首尾没有空格",
    "local_path": "接口不读服务器上的文件：图片写在 img_base64 里，表格写在 table_data 里",
    "one_of": "应当只给 {expected} 中的一个",
    "table_data": "应为 Markdown、CSV、HTML 的文字，或行的列表（都是键值对，或都是列表）",
    "union_tag_invalid": "type 应为 {expected_tags}",
    "parts": "所有消息的内容合起来最多 {most} 段",
    "token_ids": "应为文字，不是 token 的编号：LangChain 的 OpenAIEmbeddings 请设 check_embedding_ctx_length=False",
    "union_tag_not_found": "缺少 type：image 或 table",
}


def wrong_fields(errors: Sequence[ErrorDetails | Mapping[str, Any]], *, english: bool = False) -> Told:
    """Of a field that might be several things, why it is not the first of them."""
    first: dict[str, ErrorDetails | Mapping[str, Any]] = {}
    for each in errors:
        first.setdefault(_field(each), each)
    found = list(first.items())[:FIELDS]
    fields = [FieldProblem(field=field, reason=_reason(each, english)) for field, each in found]
    message = "；".join(f"{each.field}：{each.reason}" if each.field else each.reason for each in fields[:3])
    more = f"，等 {len(first)} 处" if len(first) > 3 else ""
    return problem(422, message + more, fields=fields, english=english)


# What stands in a place between the names of fields: which of several types was tried there.
TRIED: Final = re.compile(r"constrained-(str|int|float)|(list|dict)\[[a-z,\-\[\]]+\]")


def _field(error: Mapping[str, Any]) -> str:
    place = [str(part) for part in error["loc"] if not TRIED.fullmatch(str(part))]
    if error["type"] == "json_invalid":
        return "body"
    if place and place[0] in ("body", "query", "path", "header"):
        place = place[1:] or place
    return ".".join(place)[:LONGEST]


def _where_json_ends(error: Mapping[str, Any], english: bool) -> str:
    """Up to where a body could be read: a position, or a line and column, as who read it has told."""
    place = error["loc"][-1:]
    told = re.search(r"at line (\d+) column (\d+)", error["msg"])
    if english:
        return f"{error['msg']} (at character {place[0] + 1})" if place and isinstance(place[0], int) else error["msg"]
    if told is not None:
        return f"{REASONS['json_invalid']}（读到第 {told[1]} 行第 {told[2]} 列）"
    return REASONS["json_invalid"] + (
        f"（读到第 {place[0] + 1} 个字符）" if place and isinstance(place[0], int) else ""
    )


def _reason(error: Mapping[str, Any], english: bool) -> str:
    said: str = error["msg"]
    if error["type"] == "json_invalid":
        return _where_json_ends(error, english)
    is_blank = error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == r"\S"
    if is_blank and english:
        return BLANK
    known = REASONS.get("blank" if is_blank else error["type"])
    if known is None or english:
        return said[:LONGEST]
    told = error.get("ctx", {})
    if isinstance(told.get("expected"), str):  # 'a', 'b' or 'c'
        told = {**told, "expected": told["expected"].replace("' or '", "' 或 '").replace("', '", "'、'")}
    try:
        return known.format(**told)[:LONGEST]
    except KeyError:
        return said[:LONGEST]
