"""Requests, as the service reads them."""

from __future__ import annotations

import re
import secrets
from typing import Any
from urllib.parse import quote

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.ingest_types import Labels
from qianxun.core.types import Document


def segment(text: str) -> str:
    """One segment of a path: a slash is no separator in it, and ``..`` does not lead out of it."""
    if not text:
        raise NotFound("编号是空的", hint="写上编号")
    try:
        return quote(text, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise NotFound(f"没有编号为 {text!r} 的文档", hint="编号里有不成对的代理字符") from error


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
    told = {
        "name": one.name,
        "content": one.content,
        "format": one.format,
        **written_labels(Labels(one.user_id, one.project_id, one.content_type, one.tags, one.metadata)),
        "source": one.source,
        "pairs": [{"question": pair.question, "answer": pair.answer} for pair in one.pairs],
    }
    return {name: value for name, value in told.items() if value or name in ("name", "content")}


def written_labels(said: Labels) -> dict[str, Any]:
    told = {
        "user_id": said.user_id,
        "project_id": said.project_id,
        "content_type": said.content_type,
        "tags": list(said.tags),
        "metadata": {name: list(value) if isinstance(value, tuple) else value for name, value in said.metadata.items()},
    }
    return {name: value for name, value in told.items() if value}
