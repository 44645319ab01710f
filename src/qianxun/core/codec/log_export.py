"""Logged searches as lines of a file: JSON Lines with everything, or a table for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.codec.wire import written_log
from qianxun.core.log_types import LogEntry

ExportForm: TypeAlias = Literal["jsonl", "csv"]
COLUMNS: Final = (
    "id", "created_at", "knowledge_base_id", "retrieval_mode", "query", "tier", "chunk_count", "zero", "time_cost_ms",
    "from_cache", "degraded", "rating", "comment", "trace_id", "first_chunk_id", "first_score",
)  # fmt: skip
FORMULA: Final = (
    "=",
    "+",
    "-",
    "@",
    "＝",
    "＋",
    "－",
    "＠",
    "\t",
    "\r",
)  # how a cell begins that a spreadsheet would compute


def exported_header(form: ExportForm) -> str:
    """With the mark by which spreadsheets know UTF-8."""
    return "\ufeff" + _row(COLUMNS) if form == "csv" else ""


def exported_line(entry: LogEntry, form: ExportForm) -> str:
    written = written_log(entry)
    if form == "jsonl":
        return json.dumps(written, ensure_ascii=False) + "\n"
    feedback, first = entry.feedback, entry.results[0] if entry.results else ("", "")
    more = {
        "degraded": "；".join(f"{missing.part}：{missing.reason}" for missing in entry.degraded),
        "rating": feedback.rating if feedback else "",
        "comment": feedback.comment if feedback else "",
        "first_chunk_id": first[0],
        "first_score": first[1],
    }
    return _row([_cell({**written, **more}[name]) for name in COLUMNS])


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is shown as text."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value


def _row(cells: Any) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()
