"""Layered recall of tables: by structure, then by meaning, by keywords and by related words; and what their cells say.

However many chunks a large table was cut into, it is one result, with the rows that match.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from qianxun.answer.tables.answer import OutOfTime, answer_from_tables
from qianxun.bases.base import OpenBase, read
from qianxun.core.layered_types import Cited, LayeredRecall, LayeredResult, TableShown, cited_cells
from qianxun.core.options import RecallOptions, check
from qianxun.core.table_answer_types import AskedTable, TableAnswer
from qianxun.core.types import Chunk, Degraded, Found
from qianxun.records.tables import TableHead, row_starts, whole
from qianxun.retrieve.layered.evidence import UNRELATED
from qianxun.retrieve.layered.found_tables import LOOKED_AT, FoundTables, TableCandidate, expansions_asked, found_tables
from qianxun.retrieve.layered.ladder import (
    Admission,
    Admitted,
    LadderResult,
    Layer,
    TableChoices,
    run_ladder,
    table_ladder,
)
from qianxun.retrieve.layered.search import LayeredSearch, credited, result_of, searched, seen_in, told
from qianxun.retrieve.layered.table_fit import Structure, ask
from qianxun.retrieve.layered.table_rows import RowsShown, rows_shown
from qianxun.retrieve.run import DEEPEST, DEPTH
from qianxun.text.headings import under_headings

log = logging.getLogger(__name__)

ASKED: Final = 5  # tables that an exact answer may come from
GROUPS: Final = 3  # row groups of a large table that are shown from


async def search_tables(
    base: OpenBase,
    text: str,
    chosen: TableChoices,
    options: RecallOptions,
    top_k: int | None = None,
    *,
    answer: bool = True,
    trace_id: str = "",
) -> LayeredRecall:
    """The tables that answer a question, best first, each with the layer that let it in; and the answer itself where
    it can be read off or computed from their cells without a doubt."""
    check(options)
    ladder = table_ladder(chosen)
    target = ladder.target(top_k)
    last: list[_Layers] = []

    async def search(searching: LayeredSearch) -> tuple[Sequence[LayeredResult], LadderResult]:
        layers = _Layers(searching, chosen.structure_weight)
        last[:] = [layers]
        steps = {
            "structure": layers.structure,
            "semantic": layers.semantic,
            "keyword": layers.keyword,
            "expansion": layers.expansion,
        }
        climbed = searching.newest(await run_ladder(ladder, steps, target), layers.found)
        return await layers.results(climbed.best(target)), climbed

    recall = await searched(base, text, "table", options, target, search, trace_id)
    return await _answered(base, last[0], recall, options.arm_seconds) if answer and recall.results else recall


@dataclass
class _Layers:
    """What each layer lets in. One score for all: words and meaning, and how the table's structure fits."""

    searching: LayeredSearch
    weight: float  # of the structure
    heads: dict[str, TableHead] = field(default_factory=dict)  # of the results, by their table's id
    _found: FoundTables | None = None
    _seen: dict[int, FoundTables] = field(default_factory=dict)  # where each table was seen first, by any layer

    async def structure(self, layer: Layer) -> Mapping[int, Admission]:
        """By title, headers and type beside words and meaning."""
        tables = await self._tables()
        return self._let_in(layer, tables, {key: tables.score(key, tables.fits(key)) for key in tables.candidates})

    async def semantic(self, layer: Layer) -> Mapping[int, Admission]:
        tables = await self._tables()
        tables.evidence.expect("vector")
        return self._let_in(layer, tables, {key: tables.similarity(key) or 0.0 for key in tables.candidates})

    async def keyword(self, layer: Layer) -> Mapping[int, Admission]:
        """By the keywords in title, headers and content."""
        tables = await self._tables()
        tables.evidence.expect("keyword")
        matches = {key: tables.keyword_match(key) for key in tables.candidates}
        return self._let_in(layer, tables, matches, lambda key: {"keyword_match": round(matches[key], 4)})

    async def expansion(self, layer: Layer) -> Mapping[int, Admission]:
        """What the question finds with related words in the place of its own; and whatever else is not unrelated,
        because after this layer there is none."""
        expansions, evidence = await self.searching.in_other_words()
        rest = await self._rest()
        if evidence is None:
            return rest
        tables = await found_tables(self.searching.base, evidence, expansions_asked(expansions, evidence), self.weight)
        let = dict(rest)
        for key, candidate in tables.candidates.items():
            chunk = candidate.found.chunk
            credit = credited(expansions, under_headings(chunk.text, chunk.headings))
            score = expansions[credit.at].weight * tables.score(key, self._fits(tables, key))
            if credit.stands or self._is_let_in(score, layer):
                score = max(score, rest[key].score if key in rest else 0.0)
                let[key] = replace(self._let(tables, key, {"expansion": told(credit.related)}), score=score)
        return let

    async def _rest(self) -> Mapping[int, Admission]:
        tables = await self._tables()
        scores = {key: tables.score(key, self._fits(tables, key)) for key in tables.candidates}
        return {key: self._let(tables, key) for key, score in scores.items() if score >= UNRELATED}

    async def _tables(self) -> FoundTables:
        """One large table may fill all places with its chunks: then the arms are asked deeper."""
        depth = DEPTH
        while self._found is None:
            evidence = await self.searching.evidence(depth)
            question = ask(self.searching.asked.queries[0].text, evidence.bench.weights[0])
            found = await found_tables(self.searching.base, evidence, [question], self.weight)
            if len(found.candidates) >= LOOKED_AT or evidence.candidates.is_all or depth >= DEEPEST:
                self._found = found
            depth *= 4
        return self._found

    def _let_in(
        self,
        layer: Layer,
        tables: FoundTables,
        scores: Mapping[int, float],
        seen: Callable[[int], Mapping[str, Any]] = lambda _: {},
    ) -> dict[int, Admission]:
        return {
            key: self._let(tables, key, seen(key)) for key, score in scores.items() if self._is_let_in(score, layer)
        }

    def _is_let_in(self, score: float, layer: Layer) -> bool:
        return score >= layer.threshold or self.searching.is_named

    def _let(self, tables: FoundTables, key: int, seen: Mapping[str, Any] | None = None) -> Admission:
        self._seen.setdefault(key, tables)
        return Admission(tables.score(key, self._fits(tables, key)), seen or {})

    def _fits(self, tables: FoundTables, key: int) -> Structure | None:
        """None where it could not be told, of which the structure layer has spoken: the rest of the score stands."""
        try:
            return tables.fits(key)
        except Exception:  # the names come from anybody's file, and the table is found all the same
            log.exception("the structure of a table could not be compared")
            return None

    def found(self, key: int) -> Found:
        return self._seen[key].candidates[key].found

    async def results(self, best: Sequence[tuple[int, Admitted]]) -> list[LayeredResult]:
        base = self.searching.base
        starts = await read(base, row_starts, [key for key, _ in best])
        results = []
        for key, held in best:
            candidate = self._seen[key].candidates[key]
            shown = await self._shown(key, candidate, starts.get(key, []))
            held = replace(held, details={**self._details(key), **held.details})
            result, table = _result(candidate, held, shown, len(starts.get(key, [])))
            self.heads[table.id] = candidate.head
            results.append(result)
        return results

    def _details(self, key: int) -> dict[str, Any]:
        tables = self._seen[key]
        fits = self._fits(tables, key)
        similarity = tables.similarity(key)
        seen = seen_in(tables.evidence, tables.candidates[key].found)
        seen |= {"similarity": None if similarity is None else round(similarity, 4)}
        return seen if fits is None else {**seen, "structure": _rounded(fits)}

    async def _shown(self, key: int, candidate: TableCandidate, starts: Sequence[int]) -> RowsShown:
        head, asked = candidate.head, filter(None, (self._found, self._seen[key]))
        words = {word: tells for each in asked for question in each.questions for word, tells in question.words.items()}
        shown = rows_shown(await self._groups(candidate), starts, words, len(head.columns), head.notes)
        if not shown.is_cut:
            return shown
        table = (await read(self.searching.base, whole, [key])).get(key)
        return shown if table is None else replace(shown, cells=tuple(table.texts[row] for row in shown.numbers))

    async def _groups(self, candidate: TableCandidate) -> list[Chunk]:
        if len(candidate.chunks) > 1 and self._found is not None:
            found = await self._found.evidence.found(candidate.chunks[:GROUPS])
            return [each.chunk for each in found] or [candidate.found.chunk]
        return [candidate.found.chunk]


def _result(candidate: TableCandidate, held: Admitted, shown: RowsShown, rows: int) -> tuple[LayeredResult, TableShown]:
    chunk, head = candidate.found.chunk, candidate.head
    table = TableShown(
        id=f"{chunk.doc_id}#{head.position}",
        title=head.title,
        type=candidate.names.type or "",
        columns=head.columns,
        rows=rows,
        shown=shown.numbers,
        source=head.source,
        notes=head.notes,
        cells=shown.cells,
    )
    return result_of(chunk, held, shown.content, held.details, table), table


def _rounded(fits: Structure) -> dict[str, float | None]:
    return {part: None if score is None else round(score, 4) for part, score in asdict(fits).items()}


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


async def _answered(base: OpenBase, layers: _Layers, recall: LayeredRecall, seconds: float) -> LayeredRecall:
    """With the answer that the cells of the first tables give. Without one, or in time, the tables still stand."""
    question = layers.searching.asked.queries[0].text
    contexts = {each.table.id: _context(each) for each in recall.results[:ASKED] if each.table is not None}
    over = time.monotonic() + seconds
    try:
        async with asyncio.timeout(seconds):  # the thread itself ends with the table that it is reading
            answer, cited = await asyncio.to_thread(_answer, base, question, layers.heads, contexts, over)
    except (TimeoutError, OutOfTime):
        late = Degraded("answer", f"{seconds:g} 秒内没有读完这些表格，没有给出精确的答案；用 @文档名 只问其中一份")
        return replace(recall, degraded=(*recall.degraded, late))
    except Exception as error:  # what a table of anybody's making may bring about; the tables themselves are found
        log.exception("no answer from tables")
        failed = Degraded("answer", f"没能从表格里得出答案：{type(error).__name__}: {error}")
        return replace(recall, degraded=(*recall.degraded, failed))
    return replace(recall, answer=answer, cited=cited, cells_total=len(answer.cells))


def _answer(
    base: OpenBase, question: str, heads: Mapping[str, TableHead], contexts: Mapping[str, str], over: float
) -> tuple[TableAnswer, tuple[Cited, ...]]:
    with base.records.reading() as tx:
        held = whole(tx, base.id, [heads[id_].key for id_ in contexts])
    asked = {id_: held[heads[id_].key] for id_ in contexts if heads[id_].key in held}
    tables = [AskedTable(id_, table, contexts[id_]) for id_, table in asked.items()]
    answer = answer_from_tables(question, tables, stop=lambda: time.monotonic() > over)
    return answer, cited_cells(answer, asked)


def _context(result: LayeredResult) -> str:
    return " ".join([result.document_name, *result.doc.headings])
