"""What a client sends and reads beside searches and answers: documents, labels, bases, states. The rest is
`qianxun.core.codec.wire`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from qianxun.core.codec.plain import plain, read
from qianxun.core.codec.wire import SHAPES
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.evaluation_types import Case, EvaluationSet
from qianxun.core.ingest_types import Labels
from qianxun.core.types import Accepted, Document
from qianxun.doors.client.connection import Request

T = TypeVar("T")
Data = Mapping[str, Any]
PAGE = 500  # of a list, that one request takes


class Ask(Protocol):
    """Sends a request and reads its answer."""

    def __call__(self, request: Request, read: Callable[[Any], T]) -> Awaitable[T]: ...


# ── sent ─────────────────────────────────────────────────────────────────────────────────────────


def segment(text: str) -> str:
    """One segment of a path: a slash is no separator in it, and ``..`` does not lead out of it."""
    if not text:
        raise NotFound("编号是空的", hint="写上编号")
    try:
        return quote(text, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise NotFound(f"没有编号为 {text!r} 的文档", hint="编号里有不成对的代理字符") from error


def params_of(**given: Any) -> dict[str, str]:
    """A query: what says nothing is left out."""
    return {name: _text(value) for name, value in given.items() if value not in (None, "") and value is not False}


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return "true" if value is True else str(value)


def traced(trace_id: str) -> dict[str, str]:
    """The header that carries a trace (https://www.w3.org/TR/trace-context-1/)."""
    if not trace_id:
        return {}
    if not re.fullmatch("(?!0{32})[0-9a-f]{32}", trace_id):
        raise BadInput(f"trace_id 为 {trace_id[:80]!r}", hint="应为 32 位小写的十六进制数，不全为零")
    return {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}


def written_document(one: Document) -> dict[str, Any]:
    """The body that adds a document. Raises BadInput for one without an id, or one that was parsed here."""
    if not one.id:
        raise BadInput("文档没有编号", hint="给出 doc_id")
    if one.structure is not None:
        raise BadInput(f"文档“{one.name or one.id}”已在本地解析，不能经服务放入", hint="改为上传原文件（add）")
    one = replace(one, metadata={**one.stated_dates(), **one.metadata})  # where the service keeps them, too
    left_out = ("id", "structure", "created_at", "updated_at")
    written = {name: value for name, value in plain(one).items() if value and name not in left_out}
    written |= {} if one.access is None else {"access": list(one.access)}
    return {"name": one.name, "content": one.content, **written, "format": one.format}


def written_labels(labels: Labels) -> dict[str, Any]:
    """What says nothing is left out; but no access labels at all say that everybody may see it."""
    return {name: value for name, value in plain(labels).items() if value or (name == "access" and value is not None)}


# ── received ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Readiness:
    """A service that takes requests."""

    queue_depth: int  # writes that wait for an index
    unusable: int  # bases that cannot be opened, or whose index is damaged


@dataclass(frozen=True, slots=True)
class SentDocument:
    """A document that the service has accepted, and whether it is searchable yet."""

    accepted: Accepted
    is_searchable: bool


def value_of(kind: type[T]) -> Callable[[Data], T]:
    """Reads a response that is one value of this kind."""
    return lambda data: read(kind, data, SHAPES)


def values_of(kind: type[T], field: str = "list") -> Callable[[Data], list[T]]:
    """Reads a response that has values of this kind in a field."""
    return lambda data: [read(kind, one, SHAPES) for one in data[field]]


async def read_pages(
    ask: Ask,
    path: str,
    read: Callable[[Data], list[T]],
    *,
    limit: int | None = None,
    page: int = PAGE,
    cursor: str = "after",
    **params: Any,
) -> list[T]:
    """A list that comes a page at a time, and no more than ``limit`` of it. ``cursor`` is the parameter that takes what
    the last page gave as ``next``; a page may have fewer than were requested."""
    found: list[T] = []
    is_more = True
    while is_more and (limit is None or len(found) < limit):
        size = page if limit is None else min(page, limit - len(found))
        request = Request("GET", path, params=params_of(limit=size, **params))
        part, params[cursor] = await ask(request, lambda data: (read(data), data["next"]))
        found += part
        is_more = params[cursor] is not None
    return found


def read_saved_case(data: Data) -> tuple[EvaluationSet, Case]:
    return read(EvaluationSet, data["set"], SHAPES), read(Case, data["case"], SHAPES)


def read_statistics(data: Data) -> dict[str, int]:
    return {str(name): int(count) for name, count in data["statistics"].items()}


def read_sent(data: Data) -> SentDocument:
    """With as many chunk keys as there are chunks: which they are, only the service knows."""
    chunks, warnings = range(data["chunks"]), tuple(data.get("warnings", ()))  # an earlier service gives none of these
    accepted = Accepted(data["doc_id"], 0, data["generation"], data["outcome"], chunk_keys=chunks, warnings=warnings)
    return SentDocument(accepted, data["status"] == "indexed")


def read_readiness(data: Data) -> Readiness:
    return Readiness(data["queue_depth"], data["unusable"])
