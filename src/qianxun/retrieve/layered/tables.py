"""Layered retrieval of tables: by structure, by meaning, by keywords, by related words; and what their cells say.

However many chunks a large table was cut into, it is one result, with the rows that match.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from qianxun.answer.tables.answer import OutOfTime, answer_from_tables
from qianxun.answer.tables.sheet import Sheet
from qianxun.bases.base import OpenBase, read
from qianxun.core.layered_options import TableEngine
from qianxun.core.layered_types import (
    LayeredRecall,
    LayeredResult,
    TableInput,
    TableShown,
    cited_cells,
)
from qianxun.core.options import SearchOptions, check
from qianxun.core.system.quick_work import QuickWork
from qianxun.core.types import Degraded, Found, Table
from qianxun.question.question import read as read_question
from qianxun.records.tables import TableHead, row_starts, whole
from qianxun.retrieve.fuse import DEEPEST, DEPTH
from qianxun.retrieve.layered.ladder import (
    Admission,
    Admitted,
    LadderResult,
    Layer,
    run_ladder,
    table_ladder,
)
from qianxun.retrieve.layered.search import UNRELATED, LayeredSearch, credit, result_of, run_layered, with_pinned
from qianxun.retrieve.layered.table_fit import (
    Structure,
    TableCandidates,
    compared_tables,
    stored,
    table_candidates,
)
from qianxun.retrieve.layered.table_rows import RowGroups, RowsShown, row_groups

log = logging.getLogger(__name__)

ANSWERED_FROM: Final = 5  # tables that an exact answer may come from
GROUPS: Final = 3  # row groups of a large table that are shown from
_ANSWERING: Final = QuickWork()


async def search_tables(
    base: OpenBase,
    text: str,
    chosen: TableEngine,
    options: SearchOptions,
    top_k: int | None = None,
    *,
    answer: bool = True,
    trace_id: str = "",
) -> LayeredRecall:
    """The tables that answer a question, best first, each with the layer that admitted it; and the answer itself where
    it can be read off or computed from their cells without a doubt."""
    check(options)
    ladder = table_ladder(chosen)
    target = ladder.target(top_k)
    last: list[_Layers] = []

    async def search(state: LayeredSearch) -> tuple[Sequence[LayeredResult], LadderResult]:
        layers = _Layers(state, chosen.structure_weight, compared_tables(ladder.cap))
        last[:] = [layers]
        steps = {
            "structure": layers.structure,
            "semantic": layers.semantic,
            "keyword": layers.keyword,
            "expansion": layers.expansion,
        }
        result = with_pinned(await run_ladder(ladder, steps, target), await layers.pinned())
        result = state.newest(result, layers.found)
        return await layers.results(result.best(target)), result

    recall = await run_layered(base, text, "table", options, target, search, trace_id)
    return await _answered(base, last[0], recall, options.arm_seconds) if answer and recall.results else recall


@dataclass
class _Layers:
    """What each layer admits. One score for all: words and meaning, and how the table's structure fits."""

    state: LayeredSearch
    weight: float  # of the structure
    compared: int  # tables whose structure is compared
    heads: dict[str, TableHead] = field(default_factory=dict)  # of the results, by their table's id
    _own: TableCandidates | None = None
    _first: dict[int, TableCandidates] = field(default_factory=dict)  # as the first layer found each table

    async def structure(self, layer: Layer) -> Mapping[int, Admission]:
        """By title, headers and type beside words and meaning."""
        found = await self._candidates()
        return self._admit_all(layer, found, found.structured_scores())

    async def semantic(self, layer: Layer) -> Mapping[int, Admission]:
        found = await self._candidates()
        found.evidence.require("vector")
        return self._admit_all(layer, found, {key: found.similarity(key) or 0.0 for key in found.tables})

    async def keyword(self, layer: Layer) -> Mapping[int, Admission]:
        """By the keywords in title, headers and content."""
        found = await self._candidates()
        found.evidence.require("keyword")
        matches = {key: found.keyword_match(key) for key in found.tables}
        return self._admit_all(layer, found, matches, lambda key: {"keyword_match": round(matches[key], 4)})

    async def expansion(self, layer: Layer) -> Mapping[int, Admission]:
        """What the question finds with related words in place of its own; and whatever else is not unrelated, because
        this layer is the last."""
        expansions, evidence = await self.state.in_other_words()
        own = await self._candidates()
        rest = {key: self._admit(own, key) for key, score in self._scores(own).items() if score >= UNRELATED}
        if evidence is None:
            return rest
        texts = zip(expansions, evidence.criteria.weights, strict=True)
        questions = [read_question(expansion.text).for_table_search(words) for expansion, words in texts]
        found = await table_candidates(self.state.base, evidence, questions, self.weight, self.compared)
        fitted = self._scores(found)
        admitted = dict(rest)
        for key, candidate in found.tables.items():
            by = credit(expansions, candidate.found.chunk, evidence.criteria.folded)
            score = expansions[by.at].weight * fitted[key]
            if by.is_found or self.state.is_admitted(score, layer.threshold):
                score = max(score, rest[key].score if key in rest else 0.0)
                admitted[key] = replace(self._admit(found, key, by.details()), score=score)
        return admitted

    async def _candidates(self) -> TableCandidates:
        """One large table may fill all places with its chunks: then the arms go deeper."""
        depth = DEPTH
        while self._own is None:
            evidence = await self.state.evidence(depth)
            question = read_question(self.state.plan.queries[0].text).for_table_search(evidence.criteria.weights[0])
            found = await table_candidates(self.state.base, evidence, [question], self.weight, self.compared)
            if len(found.tables) >= self.compared or evidence.candidates.is_all or depth >= DEEPEST:
                self._own = found
            depth *= 4
        return self._own

    def _admit_all(
        self,
        layer: Layer,
        found: TableCandidates,
        scores: Mapping[int, float],
        details: Callable[[int], Mapping[str, Any]] = lambda _: {},
    ) -> dict[int, Admission]:
        admitted = (key for key, score in scores.items() if self.state.is_admitted(score, layer.threshold))
        return {key: self._admit(found, key, details(key)) for key in admitted}

    def _admit(self, found: TableCandidates, key: int, details: Mapping[str, Any] | None = None) -> Admission:
        self._first.setdefault(key, found)
        return Admission(found.score(key, self._fits(found, key)), details or {})

    def _scores(self, found: TableCandidates) -> Mapping[int, float]:
        return found.scores({key: self._fits(found, key) for key in found.tables})

    def _fits(self, found: TableCandidates, key: int) -> Structure | None:
        """None if it could not be compared, which the structure layer has reported: the rest of the score counts."""
        try:
            return found.fits(key)
        except Exception:  # the names come from any file, and the table is found all the same
            log.exception("the structure of a table could not be compared")
            return None

    async def pinned(self) -> dict[int, int]:
        """Table → the rule that puts a chunk of it first."""
        evidence, pinned = await self.state.pinned()
        own = await self._candidates() if evidence is not None and pinned else None
        keys = {key for key, one in own.tables.items() if one.found.pinned} if own is not None else ()
        self._first |= {key: own for key in keys if own is not None}
        return {key: self.found(key).pinned for key in keys}

    def found(self, key: int) -> Found:
        return self._first[key].tables[key].found

    async def results(self, best: Sequence[tuple[int, Admitted]]) -> list[LayeredResult]:
        keys = [key for key, _ in best]
        starts = await stored(self.state.base, self.state.tables.row_starts, row_starts, keys)
        shown = await self._shown(keys, starts)
        tables = await whole_tables(self.state.base, [key for key in keys if shown[key].is_cut])
        for key, table in tables.items():  # what is shown has parts of their rows
            shown[key] = replace(shown[key], cells=tuple(table.texts[row] for row in shown[key].numbers))
        return [self._result(key, admitted, len(starts[key] or ()), shown[key]) for key, admitted in best]

    def _result(self, key: int, admitted: Admitted, rows: int, shown: RowsShown) -> LayeredResult:
        found = self._first[key]
        candidate, fits, similarity = found.tables[key], self._fits(found, key), found.similarity(key)
        chunk, head = candidate.found.chunk, candidate.head
        details = found.evidence.details(chunk)
        details["similarity"] = None if similarity is None else round(similarity, 4)
        if fits is not None:
            parts = {"score": fits.score, "title": fits.title, "headers": fits.headers, "type": fits.type}
            details["structure"] = {part: None if score is None else round(score, 4) for part, score in parts.items()}
        table = TableShown(
            id=f"{chunk.doc_id}#{head.position}",
            title=head.title,
            type=candidate.names.kind or candidate.names.type or "",
            columns=head.columns,
            rows=rows,
            shown=shown.numbers,
            source=head.source,
            notes=head.notes,
            cells=shown.cells,
        )
        self.heads[table.id] = head
        return result_of(chunk, admitted, shown.content, {**details, **admitted.details}, table)

    async def _shown(self, keys: Sequence[int], starts: Mapping[int, Sequence[int] | None]) -> dict[int, RowsShown]:
        cut = {key: chunks[:GROUPS] for key in keys if len(chunks := self._first[key].tables[key].chunks) > 1}
        if cut and self._own is not None:
            await self._own.evidence.chunks([chunk for chunks in cut.values() for chunk in chunks])  # in one statement
        return {key: (await self._rows(key, starts[key] or ())).shown(self._words(self._first[key])) for key in keys}

    def _words(self, found: TableCandidates) -> Mapping[str, float]:
        """The words of the question, and of the wordings that found a table."""
        own = self._own.words if self._own is not None else {}
        return own if found is self._own else {**own, **found.words}

    async def _rows(self, key: int, starts: Sequence[int]) -> RowGroups:
        candidate = self._first[key].tables[key]
        head, groups = candidate.head, [candidate.found.chunk]
        if len(candidate.chunks) > 1 and self._own is not None:
            groups = await self._own.evidence.chunks(candidate.chunks[:GROUPS]) or groups
        made = partial(row_groups, groups, starts, len(head.columns), head.notes)
        return self.state.tables.once(("rows", key, *(chunk.key for chunk in groups)), made, RowGroups.size)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


async def _answered(base: OpenBase, layers: _Layers, recall: LayeredRecall, seconds: float) -> LayeredRecall:
    """With the answer that the cells of the first tables give. Without one, or in time, the tables are returned."""
    question = layers.state.plan.queries[0].text
    contexts = {
        result.table.id: " ".join([result.document_name, *result.doc.headings])
        for result in recall.results[:ANSWERED_FROM]
        if result.table is not None
    }
    deadline, cache = time.monotonic() + seconds, layers.state.tables
    keys = {id_: layers.heads[id_].key for id_ in contexts}
    try:
        async with asyncio.timeout(seconds):  # the thread itself ends with the table that it is reading
            known = await whole_tables(base, list(keys.values()))
            tables = {id_: known[key] for id_, key in keys.items() if key in known}
            sheets = [
                cache.once(("sheet", keys[id_], id_, context), partial(_sheet, id_, tables[id_], context), Sheet.size)
                for id_, context in contexts.items()
                if id_ in tables
            ]
            cells = sum(len(sheet) * len(sheet.columns) for sheet in sheets)
            reading = partial(answer_from_tables, question, sheets, stop=partial(_is_past, deadline))
            answer = await _ANSWERING.run(cells + len(question), reading)
    except (TimeoutError, OutOfTime):
        reason = f"{seconds:g} 秒内没有读完这些表格，没有给出精确的答案；用 @文档名 只问其中一份"
    except Exception as error:  # any table may bring one about; the tables themselves are found
        log.exception("no answer from tables")
        reason = f"没能从表格里得出答案：{type(error).__name__}: {error}"
    else:
        return replace(recall, answer=answer, cited=cited_cells(answer, tables), cells_total=len(answer.cells))
    return replace(recall, degraded=(*recall.degraded, Degraded("answer", reason)))


async def whole_tables(base: OpenBase, keys: Sequence[int]) -> dict[int, Table]:
    """These tables with their cells; each is read once while the base does not change."""
    cache = base.tables.whole
    found = {key: cache.get(key) for key in keys}
    if missing := [key for key, table in found.items() if table is None]:
        for key, table in (await read(base, whole, missing)).items():
            cache.put(key, table)
            found[key] = table
    return {key: table for key, table in found.items() if table is not None}


def _sheet(id_: str, table: Table, context: str) -> Sheet:
    return Sheet(TableInput(id_, table, context))


def _is_past(deadline: float) -> bool:
    return time.monotonic() > deadline
