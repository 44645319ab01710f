"""Every JSON response: ``{code, msg, data}`` for a success, and with ``error``, a stable machine word, for a failure.

`handle_error` maps what a handler raises to a response. `openapi.returns` documents the responses of a route.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError, to_json
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from qianxun.core import errors
from qianxun.core.errors import QianxunError
from qianxun.core.filters import BadFilterField
from qianxun.doors.http.console.error_page import error_page, is_for_page
from qianxun.doors.http.console.render import language_of
from qianxun.doors.http.error_formats import FieldProblem, format_of, formatted
from qianxun.doors.http.field_errors import InvalidField, field_problems
from qianxun.engine.across_tenants import storage_failure

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS: Final = 1
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")

# status: (the word of an error that has none of its own, what the OpenAPI document says)
STATUSES: Final = {
    400: ("bad_request", "请求不合要求，说明里写着怎样改"),
    401: ("unauthorized", "没有密钥，或密钥无效、已吊销"),
    403: ("forbidden", "密钥不许做这件事；未设密钥时，不是从本机发来的请求"),
    404: ("not_found", "没有这样的知识库、文档、日志或模型（包括属于别的租户的）"),
    405: ("method_not_allowed", "这个地址没有这种方法"),
    408: ("request_timeout", "请求体迟迟没有到齐"),
    409: ("error", "名称或编号已被占用"),
    413: ("too_large", "请求体或文件太大"),
    415: ("unsupported_media_type", "不支持的文件或请求体类型"),
    422: ("validation", "字段的值不对，`fields` 逐个说明；或文件读不了"),
    429: ("quota_exceeded", "超过这个租户的配额；检索的次数等 `Retry-After` 所说的秒数再试"),
    500: ("internal", "没有料到的错误，凭 `trace_id` 查日志"),
    503: ("overloaded", "忙不过来、正在停止，或检索所依赖的部分不可用；过一会儿重试（见 `Retry-After`）"),
    507: ("disk_full", "磁盘已满，没有写完；此前存好的都在，检索照常"),
}

# The first kind that fits counts.
ERROR_STATUSES: Final[tuple[tuple[type[QianxunError], int], ...]] = (
    (InvalidField, 422), (errors.BadQuery, 422), (errors.BadFilter, 422), (errors.BadInput, 400),
    (errors.NotFound, 404), (errors.AlreadyThere, 409), (errors.Unauthorized, 401), (errors.Forbidden, 403),
    (errors.TooLarge, 413), (errors.UnsupportedFile, 415), (errors.Refused, 422),
    (errors.QuotaExceeded, 429),
    (errors.Overloaded, 503), (errors.RecordsUnavailable, 503), (errors.FolderInUse, 503), (errors.RecallFailed, 503),
    (errors.RetrieverUnavailable, 503), (errors.ModelError, 503), (errors.IndexUnusable, 503),
    (errors.MissingExtra, 503), (errors.LeaseLost, 503),
)  # fmt: skip


class Envelope(BaseModel, Generic[T]):
    """The response to a request that succeeded."""

    model_config = ConfigDict(defer_build=True)  # only the OpenAPI document reads it: it is built when that does

    code: int = Field(default=200, description="与 HTTP 状态码相同")
    msg: str = "success"
    data: T


def success(data: Any, status: int = 200, **beside: Any) -> Response:
    """``data``, which must be JSON already, in the envelope. No response model validates it again."""
    return json_response({"code": status, "msg": "success", "data": data, **beside}, status)


def json_response(content: Any, status: int = 200) -> Response:
    return Response(encode_json(content), status, media_type="application/json")


def encode_json(content: Any) -> bytes:
    try:
        return to_json(content, inf_nan_mode="null")
    except PydanticSerializationError:  # a lone surrogate: JSON can escape it, UTF-8 cannot encode it
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")


class ErrorResponse(Response):
    """An error in our own format; it is sent in the format of the requested path."""

    def __init__(self, content: dict[str, Any], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(encode_json(content), status, headers, "application/json")
        self.content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_for_page(scope):
            await error_page(Request(scope), self.content)(scope, receive, send)
            return
        content = formatted(self.content, scope["path"], dict(scope["headers"]))
        self.body, self.status_code = encode_json(content), content["code"]
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def problem(
    status: int,
    message: str,
    word: str = "",
    *,
    hint: str = "",
    fields: Sequence[FieldProblem] = (),
    english: bool = False,
    **more: str,
) -> ErrorResponse:
    """An error response. In English the kind of error comes first; the details are in the engine's own words."""
    word = word or STATUSES.get(status, ("error", ""))[0]
    kind = f"{word.replace('_', ' ').capitalize()}: " if english else ""
    message = f"{message}　{hint}" if hint else message
    content: dict[str, Any] = {"code": status, "msg": kind + message, "data": None, "error": word, **more}
    if fields:
        content["fields"] = [field.model_dump() for field in fields]
    headers = {503: {"Retry-After": str(RETRY_SECONDS)}, 401: {"WWW-Authenticate": "Bearer"}}
    return ErrorResponse(content, status, headers.get(status, {}))


def prefers_english(scope: Scope) -> bool:
    if is_for_page(scope):
        return language_of(Request(scope)) == "en"
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"accept-language", b"").lower().startswith(b"en")


def status_of(error: QianxunError) -> int:
    return next((status for kind, status in ERROR_STATUSES if isinstance(error, kind)), 500)


def error_response(error: Exception, scope: Scope) -> ErrorResponse:
    """The response to any error. An unexpected one shows no details, only the trace id to find it in the log."""
    english = prefers_english(scope)
    if isinstance(error, QianxunError):
        fields = []
        if isinstance(error, InvalidField | BadFilterField):
            fields = [FieldProblem(field=error.field, reason=error.reason)]
        made = problem(status_of(error), error.message, error.word, hint=error.hint, fields=fields, english=english)
        if isinstance(error, errors.QuotaExceeded) and error.retry_seconds:
            made.headers["Retry-After"] = str(error.retry_seconds)
        return made
    match storage_failure(error):
        case "disk_full":
            return problem(507, "磁盘已满，没有写完", hint="腾出空间后重试；此前存好的都在，检索照常", english=english)
        case "read_only":
            hint = "管理员看看磁盘是否变成了只读、目录的属主与权限；改好后重试，此前存好的都在，检索照常"
            return problem(503, "数据目录不能写入", "read_only", hint=hint, english=english)
        case "shortage":
            hint = "稍后重试；管理员可调高 ulimit -n，或加内存"
            return problem(503, "系统能打开的文件或内存暂时不够", hint=hint, english=english)
        case "database":
            return problem(503, "数据库暂时不可用", "records_unavailable", hint="稍后重试", english=english)
    trace_id = scope.get("state", {}).get("trace_id", "")
    return problem(500, "服务内部出错", hint="请把 trace_id 告诉管理员，凭它查日志", english=english, trace_id=trace_id)


def log_unforeseen(error: Exception) -> None:
    """An error that no handler foresaw: with its traceback, except for a lack of space or the like, which says itself
    what is wrong, comes with every request for as long as it lasts, and must not fill a disk that is full."""
    if storage_failure(error) in ("disk_full", "read_only", "shortage"):
        log.warning("%s: %s", type(error).__name__, str(error).partition("\n")[0])
    else:
        log.exception("unforeseen", exc_info=error)


async def handle_error(request: Request, error: Exception) -> Response:
    """The response to what a handler, a validator or the routing raises on purpose."""
    english = prefers_english(request.scope)
    if isinstance(error, RequestValidationError | ValidationError):
        message, fields = field_problems(error.errors(), english)
        return problem(422, message, fields=fields, english=english)
    if isinstance(error, HTTPException):
        response = problem(error.status_code, _http_message(error, request.scope["path"]), english=english)
        if error.status_code == 405:
            response.headers["Allow"] = ", ".join(_allowed_methods(request))
        return response
    if isinstance(error, QianxunError):
        return error_response(error, request.scope)
    raise error


def _http_message(error: HTTPException, path: str) -> str:
    """The messages of routing and of body parsing, which are in English and say no more than the status."""
    known = {
        400: "请求体读不了　应为 UTF-8 的 JSON",
        404: unknown_path_message(path),
        405: "这个地址没有这种方法，见 /docs",
    }
    return known.get(error.status_code, error.detail)


def unknown_path_message(path: str) -> str:
    """Clients append to the address they were configured with: if its /v1 is missing, the message says so."""
    if format_of(f"/v1{path}") is None:
        return "没有这个地址，见 /docs"
    return "没有这个地址　客户端里填的地址应以 /v1 结尾，见 /docs"


def path_exists(scope: Scope) -> bool:
    """Returns True if the path has a route, for whichever method."""
    return any(route.matches(scope)[0] is not Match.NONE for route in scope["app"].router.routes)


def _allowed_methods(request: Request) -> list[str]:
    """The methods of all routes of this path; the routing names those of the first alone."""
    routes = request.app.router.routes
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    allowed = [m for m, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in routes)]
    return ["GET", "HEAD", *allowed[1:]] if allowed[:1] == ["GET"] else allowed  # the guard routes HEAD as GET
