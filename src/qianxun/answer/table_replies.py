"""Questions that the cells of a table answer exactly: the answer, and the rows that it rests on as passages."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from qianxun.answer.assemble import passage
from qianxun.answer.context import Answering
from qianxun.answer.state import AnswerState, TableLack, TableReply
from qianxun.answer.tables.answer import NEAREST
from qianxun.bases.base import OpenBase, read
from qianxun.core.answer_types import Passage
from qianxun.core.errors import QianxunError
from qianxun.core.layered_types import LayeredRecall, LayeredResult
from qianxun.core.table_answer_types import TableAnswer
from qianxun.core.types import Chunk, Degraded, Found
from qianxun.records import chunks, tables

MOST_PASSAGES: Final = 3  # a sum over a long table cites where its rows begin
_TABLED: Final = ("mix",)  # modes that look in every way there is


async def table_reply(
    answering: Answering, state: AnswerState, query: str
) -> tuple[TableReply | TableLack | None, tuple[Degraded, ...]]:
    """What the base's tables say to a question without a doubt, or why their cells cannot; None where there are none,
    or they leave a doubt."""
    if answering.tables is None or state.used_mode not in _TABLED:
        return None, ()
    if not await read(answering.base, tables.has_tables):
        return None, ()
    try:
        recall = await answering.tables(query)
    except QianxunError as error:  # the prose may still answer
        return None, (Degraded("tables", str(error)),)
    answer, late = recall.answer, tuple(each for each in recall.degraded if each.part == "answer")
    if answer is None or not (answer.sure or answer.understood):
        return None, late
    held = await asyncio.to_thread(_cited_chunks, answering.base, recall)
    if not held:
        return None, ()
    if not answer.sure:
        return TableLack(answer.reason.removesuffix(NEAREST), tuple(each.chunk for each in held)), ()
    keys = tuple(each.chunk.key for each in held)
    return TableReply(answer.text, answer.reading, recall.cited, _passages(held, answer), keys), ()


def _cited_chunks(base: OpenBase, recall: LayeredRecall) -> tuple[Found, ...]:
    """The chunks in which the cited rows stand, in their order."""
    answer = recall.answer
    result = next((each for each in recall.results if each.table and answer and each.table.id == answer.table), None)
    if answer is None or result is None:
        return ()
    named = (cell.row for cell in answer.cells) if answer.sure else answer.rows
    cited = sorted({row for row in named if row >= 0})
    held = _chunks(base, result, cited)[:MOST_PASSAGES]
    return tuple(Found(chunk, result.score, "table", {}) for chunk in held)


def _passages(held: Sequence[Found], answer: TableAnswer) -> tuple[Passage, ...]:
    about = {"table": answer.table, "reading": answer.reading, "cells": len(answer.cells)}
    made = (passage(each, number) for number, each in enumerate(held, start=1))
    return tuple(replace(each, metadata={**each.metadata, **about}) for each in made)


def _chunks(base: OpenBase, result: LayeredResult, rows: Sequence[int]) -> list[Chunk]:
    """Those of the table that hold these rows; the one that matched best where they cannot be told."""
    with base.records.reading() as tx:
        key = tables.of_chunks(tx, base.id, [result.doc.key]).get(result.doc.key)
        starts = tables.row_starts(tx, base.id, [key])[key] if key is not None else []
        own = [each for each in chunks.of_document(tx, base.id, result.doc_id) if each.kind == "table"]
    if not starts or not own or own[0].generation != result.doc.generation:
        return [result.doc]
    return _holding(own, (starts[row] for row in rows if row < len(starts))) or [result.doc]


def _holding(own: Sequence[Chunk], offsets: Iterable[int]) -> list[Chunk]:
    begins = [each.start for each in own]
    found: dict[int, Chunk] = {}
    for offset in offsets:
        at = bisect_right(begins, offset) - 1
        if at >= 0 and offset < own[at].end:
            found.setdefault(own[at].key, own[at])
    return list(found.values())
