"""What doors need to show results to people: where a text matches a query, and the part of it that matches best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from qianxun.rank.tiers import COVERED, STRICT
from qianxun.retrieve.arms import find_arm
from qianxun.retrieve.explain import filter_text
from qianxun.text.matching import Span, query_terms, snippet, spans, weights
from qianxun.text.table_types import TableType, label

__all__ = [
    "COVERED",
    "STRICT",
    "filter_text",
    "find_arm",
    "matching_part",
    "matching_rows",
    "query_words",
    "spans",
    "table_type_label",
]

ROWS = 3
ROW_WIDTH = 120  # characters shown of a table's row

query_words = query_terms


def matching_part(text: str, places: Sequence[Span], width: int) -> tuple[str, str, str]:
    """An ellipsis, the part of at most ``width`` characters that has most of the places, an ellipsis; "" for none."""
    start, end = snippet(text, places, width)
    return "…" if start else "", text[start:end], "…" if end < len(text) else ""


def matching_rows(text: str, query: str) -> str:
    """The header of a table in Markdown and the rows of it that match a query best."""
    lines = [line for line in text.splitlines() if line.strip()]
    body = next((at + 1 for at, line in enumerate(lines) if line.startswith("|")), 0)  # after the column names
    scores = weights(lines, query)
    best = sorted(range(body, len(lines)), key=lambda at: (-scores[at], at))[:ROWS]
    chosen = sorted(best[:1] + [at for at in best[1:] if scores[at] >= scores[best[0]] / 2 > 0])
    shown = [*lines[:body], *(lines[at] for at in chosen)]
    return "\n".join(line if len(line) <= ROW_WIDTH else line[:ROW_WIDTH] + "…" for line in shown)


def table_type_label(name: str) -> str:
    """The type of a table in Chinese; the name itself where there is no such type."""
    return {type_: label(type_) for type_ in get_args(TableType)}.get(name, name)
