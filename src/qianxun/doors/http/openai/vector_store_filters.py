"""Filters as OpenAI's vector stores write them, as those of our own routes: checked and bounded by the same reader.

    {"type": "and", "filters": [{"type": "gte", "key": "年份", "value": 2020},
                                {"type": "ne", "key": "tags", "value": "旧"}]}

A key is one of our own fields (``doc_id``, ``tags`` …), or that of a document's metadata, with or without ``metadata.``
before it. ``ne`` and ``nin`` let through what has no such attribute at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from qianxun.core.filters import DEPTH_LIMIT, FIELDS, METADATA, BadFilterField, read_filters
from qianxun.core.types import Filter

BOUNDS: Final = ("gt", "gte", "lt", "lte")
COMPARISONS: Final = ("eq", "ne", *BOUNDS, "in", "nin")
COMPOUNDS: Final = ("and", "or")


def read_store_filters(written: Any) -> Filter:
    """The filter that a request wrote. Raises BadFilterField, naming the place."""
    return read_filters(None if written is None else _translated(written, "filters", 1))


def field_of(key: str) -> str:
    """The engine's name for an attribute."""
    return key if key in FIELDS or key.startswith(METADATA) else METADATA + key


def _translated(written: Any, at: str, depth: int) -> dict[str, Any]:
    if not isinstance(written, Mapping):
        raise BadFilterField(at, "应为对象", hint='例如 {"type": "eq", "key": "年份", "value": 2024}')
    kind = written.get("type")
    if kind in COMPOUNDS:
        return {str(kind): _parts(written.get("filters"), f"{at}.filters", depth)}
    if kind in COMPARISONS:
        return _comparison(str(kind), written, at)
    raise BadFilterField(f"{at}.type", "没有这种条件", hint=f"可用：{'、'.join((*COMPARISONS, *COMPOUNDS))}")


def _parts(written: Any, at: str, depth: int) -> list[dict[str, Any]]:
    if not isinstance(written, list):
        raise BadFilterField(at, "应为条件的列表", hint='例如 {"type": "or", "filters": […]}')
    if depth >= DEPTH_LIMIT:
        raise BadFilterField(at, f"嵌套超过 {DEPTH_LIMIT} 层", hint="把条件写得浅一些")
    return [_translated(part, f"{at}[{place}]", depth + 1) for place, part in enumerate(written)]


def _comparison(kind: str, written: Mapping[str, Any], at: str) -> dict[str, Any]:
    key, value = written.get("key"), written.get("value")
    if not isinstance(key, str) or not key:
        raise BadFilterField(f"{at}.key", "应为文字", hint="写出属性的名称")
    if (kind in ("in", "nin")) != isinstance(value, list):
        wanted = "值的列表" if kind in ("in", "nin") else "一个值：文字、数字或真假"
        raise BadFilterField(f"{at}.value", f"{kind} 的值应为{wanted}", hint="几个值用 in 或 nin")
    if isinstance(value, Mapping):
        raise BadFilterField(f"{at}.value", "值应为文字、数字或真假", hint="没有值的条件请去掉")
    condition = {field_of(key): {kind: value} if kind in BOUNDS else value}
    return {"not": condition} if kind in ("ne", "nin") else condition
