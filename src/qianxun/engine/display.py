"""What doors need to show results to people: where a text matches a query, and the part of it that matches best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

from qianxun.core.explanation import CorrectionNote, Decisions, Explanation
from qianxun.core.governance.validity import ANY_TIME
from qianxun.core.types import EVERYTHING
from qianxun.ingest.tables.pipes import split_cells
from qianxun.rank.tiers import COVERED, STRICT
from qianxun.retrieve.arms import find_arm
from qianxun.retrieve.explain import filter_text
from qianxun.text.chinese import SENTENCE_END
from qianxun.text.matching import Span, query_terms, snippet, spans, weights
from qianxun.text.table_types import TableType, label

__all__ = [
    "COVERED",
    "STRICT",
    "TablePart",
    "change_texts",
    "decision_texts",
    "filter_text",
    "find_arm",
    "matching_part",
    "matching_rows",
    "matching_table",
    "query_words",
    "reason_texts",
    "spans",
    "supporting_sentence",
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
    return "\n".join(line if len(line) <= ROW_WIDTH else line[:ROW_WIDTH] + "…" for line in _matching(text, query))


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some rows of a table, the first of which has the names of the columns, and the lines around them."""

    above: str
    rows: Sequence[Sequence[str]]
    below: str = ""


def matching_table(text: str, query: str) -> TablePart:
    """What `matching_rows` gives, cell by cell and whole."""
    lines = _matching(text, query)
    is_row = [line.startswith("|") for line in lines]
    first = is_row.index(True) if True in is_row else len(lines)
    rows = [split_cells(line.strip())[1:] for line in lines[first:] if line.startswith("|")]
    cells = [row[:-1] if row and not row[-1] else row for row in rows]
    below = [line for line in lines[first:] if not line.startswith("|")]
    return TablePart("\n".join(lines[:first]), cells, "\n".join(below))


def _matching(text: str, query: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    body = next((at + 1 for at, line in enumerate(lines) if line.startswith("|")), 0)  # after the column names
    scores = weights(lines, query)
    best = sorted(range(body, len(lines)), key=lambda at: (-scores[at], at))[:ROWS]
    chosen = sorted(best[:1] + [at for at in best[1:] if scores[at] >= scores[best[0]] / 2 > 0])
    return [*lines[:body], *(lines[at] for at in chosen)]


def supporting_sentence(text: str, cited: str, question: str = "") -> Span:
    """The sentence of a source that a sentence of an answer takes most from; all of it where none does.

    Of a table, a row: that which fits the question, too.
    """
    at = text.find(cited.strip())
    if cited.strip() and at >= 0:
        return at, at + len(cited.strip())
    lines = list(pairwise([0, *_line_ends(text), len(text)]))
    rows = [span for span in lines if text.startswith("|", span[0])][1:]  # the first has the names of the columns
    ends = sorted({*(found.end() for found in SENTENCE_END.finditer(text)), *_line_ends(text), len(text)})
    parts = rows or [(start, end) for start, end in pairwise([0, *ends]) if text[start:end].strip()]
    scores = weights([text[start:end] for start, end in parts], f"{cited} {question}" if rows else cited)
    if not parts or max(scores) <= 0:
        return 0, len(text)
    start, end = parts[scores.index(max(scores))]
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def _line_ends(text: str) -> list[int]:
    return [at + 1 for at, sign in enumerate(text) if sign == "\n"]


def table_type_label(name: str) -> str:
    """The type of a table in Chinese; the name itself where there is no such type."""
    return {type_: label(type_) for type_ in get_args(TableType)}.get(name, name)


# ── why a chunk is a result, or not: (Chinese, English) ──────────────────────────────────────────


def reason_texts(why: Explanation) -> tuple[str, str]:
    """What became of a chunk."""
    alike = "" if why.similarity is None else f", similarity {why.similarity:.2f}"
    english = {
        "returned": f"returned, place {why.rank}" + (f", put first by rule {why.rule}" if why.rule else ""),
        "records": f"not of record: {why.status}　{why.reason}",
        "index": "of record, but not in the index",
        "rule": f"kept out of this question by rule {why.rule}",
        "validity": f"not in force on that day　{why.reason}",
        "filter": f"kept out by the filter　{why.reason}",
        "recall": "not among the candidates of any arm",
        "fuse": "found by an arm that counts for nothing here: its fused score is zero",
        "threshold": f"its score of {why.score or 0:.4f} is below the threshold",
        "tier": f"not let in: {why.coverage:.0%} of the query matched{alike}",
        "rerank": f"place {why.rank_before} before the reranker, {why.rank} after it",
        "top_k": f"place {why.rank}, behind the results asked for",
    }
    return why.reason, english[why.step]


def _correction_text(noted: CorrectionNote) -> tuple[str, str]:
    by, day, is_lost = noted.author, f"{noted.created_at:%Y-%m-%d}", noted.state == "needs_a_look"
    return (
        f"更正 {noted.id}：{noted.kind}，{by or '未署名'}，{day}{'，要人看一看' * is_lost}",
        f"correction {noted.id}: {noted.kind} by {by or 'nobody named'}, {day}{', needs a look' * is_lost}",
    )


def decision_texts(decisions: Decisions) -> list[tuple[str, str]]:
    """What people decided on a chunk and its document, one line each."""
    lines = [_correction_text(correction) for correction in decisions.corrections]
    if decisions.access:
        lines.append((f"可见：{'、'.join(decisions.access)}", f"seen by {', '.join(decisions.access)}"))
    if known := decisions.validity:
        parts = [(known.valid_from, "自 {} 起", "from {}"), (known.valid_until, "到 {} 止", "until {}")]
        parts.append(("、".join(known.supersedes), "取代 {}", "supersedes {}"))
        zh = "，".join(text.format(value) for value, text, _ in parts if value)
        en = ", ".join(text.format(value) for value, _, text in parts if value)
        lines.append((f"有效：{zh}{'（读自正文）' if known.read else ''}", f"valid {en}"))
    return lines


def change_texts(why: Explanation) -> tuple[str, str]:
    """The smallest change that brings a chunk."""
    parts = [_change_texts(name, value) for name, value in why.changes.items()]
    if why.chunk is not None and why.changes.get("doc_ids") == (why.chunk.doc_id,):
        name = why.chunk.doc_name or why.chunk.doc_id
        others = [_change_texts(*item) for item in why.changes.items() if item[0] != "doc_ids"]
        parts = [(f"只在它的文档“{name}”里找", f"only in its document “{name}”"), *others]
    return "；".join(zh for zh, _ in parts), "; ".join(en for _, en in parts)


def _change_texts(name: str, value: Any) -> tuple[str, str]:
    match name:
        case "top_k":
            return f"至少要 {value} 条", f"at least {value} results"
        case "threshold":
            return f"阈值不高于 {value:.4f}", f"a threshold of at most {value:.4f}"
        case "fuzzy":
            return "允许模糊匹配", "fuzzy matches allowed"
        case "where" if value == EVERYTHING:
            return "去掉过滤条件", "no filter"
        case "where":
            return f"过滤条件放宽为 {filter_text(value)}", f"the filter loosened to {filter_text(value)}"
        case "doc_ids":
            return f"在这些文档里找：{'、'.join(value)}", f"in these documents: {', '.join(value)}"
        case "as_of" if value == ANY_TIME:
            return "不论何时有效", "of any time"
        case "as_of":
            return f"按 {value} 有效的文档", f"as of {value}"
        case "rerank":
            return "不重排", "no reranker"
        case "mode":
            return "两路一起找", "both ways of searching"
    return f"{name} 改为 {value}", f"{name} = {value}"
