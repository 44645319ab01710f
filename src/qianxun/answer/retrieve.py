"""The retrieve step: what the base has for this wording, beside what earlier ones found; and the exact answer of its
tables, with the rows it rests on as passages."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from qianxun.answer.assemble import is_beside, passage
from qianxun.answer.state import Answering, AnswerState, PartReply, Step, TableLack, TableReply
from qianxun.answer.tables.answer import NEAREST
from qianxun.bases.base import OpenBase, chunks_by_keys, read
from qianxun.core.answer_types import Passage
from qianxun.core.errors import QianxunError, RecallFailed
from qianxun.core.layered_types import LayeredRecall, LayeredResult, TableAnswer
from qianxun.core.limits import QUERY_LIMIT
from qianxun.core.types import Chunk, Degraded, Found
from qianxun.graph.modes import ModeRecall
from qianxun.question.question import read as read_question
from qianxun.records import chunks, tables

EXTENDED: Final = 3  # of what was found best comes with what stands around it in its section
REWORDED: Final = 0.9  # of the score of what the question itself did not find, or found worse
MOST_PASSAGES: Final = 3  # a sum over a long table cites where its rows begin
_TABLED: Final = ("mix",)  # modes that look in every way there is


async def retrieved(answering: Answering, state: AnswerState) -> tuple[AnswerState, Step]:
    """The state with what was found for its wording; the graph's context and the tables are those of the first."""
    is_first = not state.asked
    # Neither needs what the other finds.
    tables = asyncio.ensure_future(table_reply(answering, state, state.wording)) if is_first else None
    try:
        recall = await _searched(answering, state)
        table, failed = (None, ()) if tables is None else await tables
    finally:
        if tables is not None:
            tables.cancel()
    parts = await _part_replies(answering, state) if is_first and not isinstance(table, TableReply) else ()
    found = merged(state.found, recall.results, answering.options.top_k)
    beside = await _neighbours(answering, found[:EXTENDED])
    details = {"query": state.wording, "mode": state.used_mode, "found": len(recall.results), "kept": len(found)}
    state = replace(
        state,
        found=found,
        beside=beside,
        has_new={result.chunk.key for result in found} != {result.chunk.key for result in state.found},
        graph=recall.context if is_first else state.graph,
        tie=recall.tie if is_first else state.tie,
        table=table if isinstance(table, TableReply) else state.table,
        part_tables=parts if is_first else state.part_tables,
        lack=table if isinstance(table, TableLack) else state.lack,
        asked=(*state.asked, state.wording),
        generation=state.generation or recall.generation,
        steps=(*state.steps, *recall.steps),
    )
    return state, Step(details=details, degraded=(*recall.degraded, *failed))


async def _searched(answering: Answering, state: AnswerState) -> ModeRecall:
    query = f"{state.wording} {state.given_words}".strip()[:QUERY_LIMIT]
    again = answering.search_again or answering.search
    try:
        recall = await (again if state.asked else answering.search)(query, state.used_mode)
        # Each question of several finds its own; the whole would find what is between them.
        for part in read_question(state.wording).parts:
            own = await again(part, state.used_mode)
            found = merged(recall.results, own.results, answering.options.top_k)
            recall = replace(recall, results=found, degraded=tuple(dict.fromkeys((*recall.degraded, *own.degraded))))
        return recall
    except RecallFailed as error:
        if not state.asked:
            raise
        return ModeRecall(query, state.used_mode, degraded=(Degraded("recall", str(error)),))  # others found something


def merged(before: Sequence[Found], found: Sequence[Found], top_k: int) -> tuple[Found, ...]:
    """The results of another wording merged with earlier ones: a chunk once, with its better score, best first.

    A score is for the wording that was searched for, which may say the question less well: it counts a little less.
    """
    if not before:
        return tuple(found[:top_k])
    best = {result.chunk.key: result for result in before}
    for result in found:
        known, reworded = best.get(result.chunk.key), replace(result, score=result.score * REWORDED)
        if known is None or reworded.score > known.score:
            best[result.chunk.key] = reworded
    return tuple(sorted(best.values(), key=lambda result: (-result.score, result.chunk.key)))[:top_k]


async def _neighbours(answering: Answering, found: Sequence[Found]) -> tuple[Chunk, ...]:
    """The chunks right before and after these in their sections. Those of a document have consecutive keys."""
    known = {result.chunk.key: result.chunk for result in found if not result.chunk.is_edited}
    keys = sorted({key + step for key in known for step in (-1, 1)} - known.keys())
    others = await chunks_by_keys(answering.base, keys) if keys else {}
    return tuple(
        other
        for key, other in sorted(others.items())
        if any(is_beside(known[near], other) for near in (key - 1, key + 1) if near in known)
    )


# ── exact answers of tables ──────────────────────────────────────────────────────────────────────


async def table_reply(
    answering: Answering, state: AnswerState, query: str
) -> tuple[TableReply | TableLack | None, tuple[Degraded, ...]]:
    """The exact answer of the base's tables, or why their cells give none; None where there are no tables, or a doubt
    is left."""
    if answering.tables is None or state.used_mode not in _TABLED:
        return None, ()
    if not await read(answering.base, tables.has_tables):
        return None, ()
    try:
        recall = await answering.tables(query)
    except QianxunError as error:  # the prose may still answer
        return None, (Degraded("tables", str(error)),)
    answer, late = recall.answer, tuple(part for part in recall.degraded if part.part == "answer")
    if answer is None or not (answer.sure or answer.understood):
        return None, late
    is_here = answering.base.records.is_here  # a short read, as in a search
    look_up = partial(_cited_chunks, answering.base, recall)
    cited = look_up() if is_here else await asyncio.to_thread(look_up)
    if not cited:
        return None, ()
    if not answer.sure:
        return TableLack(answer.reason.removesuffix(NEAREST), tuple(result.chunk for result in cited)), ()
    keys = tuple(result.chunk.key for result in cited)
    return TableReply(answer.text, answer.reading, recall.cited, _passages(cited, answer), keys, answer.leftover), ()


async def _part_replies(answering: Answering, state: AnswerState) -> tuple[PartReply, ...]:
    """What tables answer of a question that asks several things."""
    found = []
    for part in read_question(state.wording).parts:
        reply, _ = await table_reply(answering, state, part)
        if isinstance(reply, TableReply):
            found.append(PartReply(part, reply))
    return tuple(found)


def _cited_chunks(base: OpenBase, recall: LayeredRecall) -> tuple[Found, ...]:
    """The chunks that have the cited rows, in their order."""
    answer = recall.answer
    result = next((one for one in recall.results if one.table and answer and one.table.id == answer.table), None)
    if answer is None or result is None:
        return ()
    named = (cell.row for cell in answer.cells) if answer.sure else answer.rows
    cited = sorted({row for row in named if row >= 0})
    chunks_ = _chunks(base, result, cited)[:MOST_PASSAGES]
    return tuple(Found(chunk, result.score, "table", {}) for chunk in chunks_)


def _passages(cited: Sequence[Found], answer: TableAnswer) -> tuple[Passage, ...]:
    about = {"table": answer.table, "reading": answer.reading, "cells": len(answer.cells)}
    made = (passage(result, number) for number, result in enumerate(cited, start=1))
    return tuple(replace(one, metadata={**one.metadata, **about}) for one in made)


def _chunks(base: OpenBase, result: LayeredResult, rows: Sequence[int]) -> list[Chunk]:
    """The table's chunks that have these rows; the one that matched best where these are not known."""
    with base.records.reading() as tx:
        key = tables.keys_by_chunk(tx, base.id, [result.doc.key]).get(result.doc.key)
        starts = tables.row_starts(tx, base.id, [key])[key] if key is not None else []
        own = [chunk for chunk in chunks.document_chunks(tx, base.id, result.doc_id) if chunk.kind == "table"]
    if not starts or not own or own[0].generation != result.doc.generation:
        return [result.doc]
    return _holding(own, (starts[row] for row in rows if row < len(starts))) or [result.doc]


def _holding(own: Sequence[Chunk], offsets: Iterable[int]) -> list[Chunk]:
    begins = [chunk.start for chunk in own]
    found: dict[int, Chunk] = {}
    for offset in offsets:
        at = bisect_right(begins, offset) - 1
        if at >= 0 and offset < own[at].end:
            found.setdefault(own[at].key, own[at])
    return list(found.values())
