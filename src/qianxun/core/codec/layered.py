"""Layered recalls as JSON, and back: as `shapes` does it for plain ones, for the service and its client.

Of the cells and rows that an answer cites the first travel, with how many there are: a count cites every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qianxun.core.codec.results import (
    read_chunk,
    read_degraded,
    read_generation,
    written_chunk,
    written_degraded,
    written_generation,
    written_metadata,
)
from qianxun.core.layered_types import MOST_CITED, Cited, LayeredRecall, LayeredResult, LayerRun, TableShown
from qianxun.core.table_answer_types import CitedCell, TableAnswer
from qianxun.core.types import Column

# ── answered ─────────────────────────────────────────────────────────────────────────────────────


def written_layered(knowledge_base: int, recall: LayeredRecall) -> dict[str, Any]:
    told: dict[str, Any] = {
        "knowledge_base_id": knowledge_base,
        "query": recall.query,
        "results": [_written_result(each) for each in recall.results],
        "layers": [_written_layer(each) for each in recall.layers],
        "wanted": recall.wanted,
        "degraded": written_degraded(recall.degraded),
        "time_cost_ms": round(recall.seconds * 1000),
        "seconds": recall.seconds,
        "trace_id": recall.trace_id,
        "generation": written_generation(recall.generation),
    }
    if recall.kind == "table":
        told["answer"] = _written_answer(recall) if recall.answer is not None else None
    return told


def read_layered(data: Mapping[str, Any]) -> LayeredRecall:
    answer = data.get("answer")
    return LayeredRecall(
        query=data["query"],
        kind="table" if "answer" in data else "text",
        results=tuple(_read_result(each) for each in data["results"]),
        layers=tuple(_read_layer(each) for each in data["layers"]),
        degraded=read_degraded(data["degraded"]),
        answer=_read_answer(answer) if answer is not None else None,
        cited=_read_cited(answer["cells"]) if answer is not None else (),
        cells_total=answer["cells_total"] if answer is not None else 0,
        wanted=data["wanted"],
        seconds=data["seconds"],
        trace_id=data["trace_id"],
        generation=read_generation(data["generation"]),
    )


def _written_result(result: LayeredResult) -> dict[str, Any]:
    """What the contract names first; the chunk's own text and metadata where the result's are others."""
    chunk = written_chunk(result.doc)
    metadata = written_metadata(result.metadata)
    own = {"content": chunk["content"], "metadata": chunk["metadata"]}
    told = {
        "doc_id": result.doc_id,
        "document_name": result.document_name,
        "content": result.content,
        "score": result.score,
        "strategy": result.strategy,
        "layer": result.layer,
        "match_details": dict(result.match_details),
        "metadata": metadata,
        **{name: value for name, value in chunk.items() if name not in ("doc_id", "doc_name", *own)},
        "chunk": None if own == {"content": result.content, "metadata": metadata} else own,
    }
    if result.doc.kind == "table":
        told["table"] = _written_table(result.table) if result.table is not None else None
    return told


def _read_result(data: Mapping[str, Any]) -> LayeredResult:
    chunk = read_chunk({**data, "doc_name": data["document_name"], **(data["chunk"] or {})})
    table = data.get("table")
    return LayeredResult(
        doc=chunk,
        score=data["score"],
        strategy=data["strategy"],
        layer=data["layer"],
        content=data["content"],
        metadata=_read_metadata(data["metadata"]),
        doc_id=data["doc_id"],
        document_name=data["document_name"],
        match_details=dict(data["match_details"]),
        table=_read_table(table) if table is not None else None,
    )


def _read_metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def _written_table(table: TableShown) -> dict[str, Any]:
    return {
        "id": table.id,
        "title": table.title,
        "type": table.type,
        "columns": [
            {"name": each.name, "path": list(each.path), "kind": each.kind, "unit": each.unit} for each in table.columns
        ],
        "rows": table.rows,
        "shown": list(table.shown),
        "cells": [list(row) for row in table.cells],
        "source": table.source,
        "notes": table.notes,
    }


def _read_table(data: Mapping[str, Any]) -> TableShown:
    columns = (Column(each["name"], tuple(each["path"]), each["kind"], each["unit"]) for each in data["columns"])
    return TableShown(
        id=data["id"],
        title=data["title"],
        type=data["type"],
        columns=tuple(columns),
        rows=data["rows"],
        shown=tuple(data["shown"]),
        source=data["source"],
        notes=data["notes"],
        cells=tuple(tuple(row) for row in data["cells"]),
    )


def _written_layer(run: LayerRun) -> dict[str, Any]:
    return {
        "layer": run.layer,
        "strategy": run.strategy,
        "ran": run.ran,
        "reason": run.reason,
        "count": run.count,
        "best": run.best,
        "time_cost_ms": round(run.seconds * 1000, 3),
    }


def _read_layer(data: Mapping[str, Any]) -> LayerRun:
    return LayerRun(
        layer=data["layer"],
        strategy=data["strategy"],
        ran=data["ran"],
        reason=data["reason"],
        count=data["count"],
        best=data["best"],
        seconds=data["time_cost_ms"] / 1000,
    )


# ── the answer over tables ───────────────────────────────────────────────────────────────────────


def _written_answer(recall: LayeredRecall) -> dict[str, Any] | None:
    answer = recall.answer
    if answer is None:
        return None
    return {
        "sure": answer.sure,
        "text": answer.text,
        "reading": answer.reading,
        "operation": answer.operation,
        "values": list(answer.values),
        "cells": [
            {"table": each.table, "row": each.row, "column": each.column, "column_name": each.name, "text": each.text}
            for each in recall.cited
        ],
        "cells_total": recall.cells_total,
        "confidence": answer.confidence,
        "table": answer.table,
        "rows": list(answer.rows[:MOST_CITED]),
        "rows_total": len(answer.rows),
        "reason": answer.reason,
        "understood": answer.understood,
    }


def _read_answer(data: Mapping[str, Any]) -> TableAnswer:
    return TableAnswer(
        sure=data["sure"],
        text=data["text"],
        reading=data["reading"],
        operation=data["operation"],
        values=tuple(data["values"]),
        cells=tuple(CitedCell(each["table"], each["row"], each["column"]) for each in data["cells"]),
        confidence=data["confidence"],
        table=data["table"],
        rows=tuple(data["rows"]),
        reason=data["reason"],
        understood=data.get("understood", False),  # an older service does not say
    )


def _read_cited(data: Sequence[Mapping[str, Any]]) -> tuple[Cited, ...]:
    told = ("table", "row", "column", "column_name", "text")
    return tuple(Cited(*(each[name] for name in told)) for each in data)
