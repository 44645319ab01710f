"""Layered recall of tables: by structure, then by meaning, by keywords and by related words; and what their cells say.

However many chunks a large table was cut into, it is one result, with the rows that match.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from qianxun.answer.table_answer import answer_from_tables
from qianxun.answer.table_shapes import AskedTable, TableAnswer
from qianxun.chinese import fold, stands_in
from qianxun.pipelines.base import OpenBase, read
from qianxun.pipelines.evidence import Evidence
from qianxun.pipelines.layered import Cited, LayeredRecall, LayeredResult, TableShown, cited_cells
from qianxun.pipelines.layers import Climbed, Held, Layer, Let, TableChoices, climb, table_ladder
from qianxun.pipelines.options import RecallOptions
from qianxun.pipelines.recall import DEEPEST, DEPTH
from qianxun.pipelines.searching import Searching, credited, searched, seen_in, told
from qianxun.recall.table import Names, Question, Structure, ask, keyword_match, names_of, structure
from qianxun.records import tables
from qianxun.records.tables import TableHead
from qianxun.types import Chunk, Degraded, Eq, Found, all_of

log = logging.getLogger(__name__)

LOOKED_AT: Final = 60  # tables whose structure is read, the best by words and meaning
ASKED: Final = 5  # tables that an exact answer may come from
GROUPS: Final = 3  # row groups of a large table that are shown from
ROWS: Final = 50  # of a large table that are shown


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
    target = min(top_k or chosen.max_results, chosen.max_results)
    of_tables = replace(options, where=all_of(options.where, Eq("kind", "table")))
    last: list[_Layers] = []

    async def search(searching: Searching) -> tuple[Sequence[LayeredResult], Climbed]:
        layers = _Layers(searching, chosen.structure_weight)
        last[:] = [layers]
        steps = {
            "structure": layers.structure,
            "semantic": layers.semantic,
            "keyword": layers.keyword,
            "expansion": layers.expansion,
        }
        climbed = await climb(table_ladder(chosen), steps, target)
        return await layers.results(climbed.best(target)), climbed

    recall = await searched(base, text, "table", of_tables, target, search, trace_id)
    return await _answered(base, last[0], recall) if answer and recall.results else recall


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A table that the arms found, by its chunks, best first."""

    head: TableHead
    found: Found  # the best chunk
    chunks: tuple[int, ...]
    names: Names


@dataclass
class _Layers:
    """What each layer lets in. One score for all: words and meaning, and how the table's structure fits."""

    searching: Searching
    weight: float  # of the structure
    _looked_at: dict[int, _Candidate] | None = None
    _seen: dict[int, _Candidate] = field(default_factory=dict)  # by any layer
    heads: dict[str, TableHead] = field(default_factory=dict)  # of the results, by their table's id

    async def structure(self, layer: Layer) -> Mapping[int, Let]:
        """By title, headers and type beside words and meaning."""
        evidence = await self.searching.evidence()
        question = self._question(evidence)
        let = {}
        for key, candidate in (await self._candidates()).items():
            fits = structure(question, candidate.names)
            score = self._score(evidence.score(candidate.found.chunk.key), fits)
            if self._is_let_in(score, layer):
                let[key] = self._let(evidence, candidate, question, {"structure": _rounded(fits)})
        return let

    async def semantic(self, layer: Layer) -> Mapping[int, Let]:
        evidence = await self.searching.evidence()
        evidence.expect("vector")
        question = self._question(evidence)
        let = {}
        for key, candidate in (await self._candidates()).items():
            similarity = max((evidence.similarity(chunk) or 0.0 for chunk in candidate.chunks), default=0.0)
            if self._is_let_in(similarity, layer):
                let[key] = self._let(evidence, candidate, question)
        return let

    async def keyword(self, layer: Layer) -> Mapping[int, Let]:
        """By the keywords in title, headers and content."""
        evidence = await self.searching.evidence()
        evidence.expect("keyword")
        question = self._question(evidence)
        words = [word for word in question.words if len(word) > 1] or list(question.words)
        let = {}
        for key, candidate in (await self._candidates()).items():
            match = keyword_match(words, candidate.names, candidate.found.chunk.text)
            if self._is_let_in(match, layer):
                let[key] = self._let(evidence, candidate, question, {"keyword_match": round(match, 4)})
        return let

    async def expansion(self, layer: Layer) -> Mapping[int, Let]:
        """What the question finds with related words in the place of its own."""
        expansions, evidence = await self.searching.in_other_words()
        if evidence is None:
            return {}
        let = {}
        questions = [ask(each.text, words) for each, words in zip(expansions, evidence.bench.weights, strict=True)]
        for key, candidate in (await self._grouped(evidence)).items():
            weight, related = credited(expansions, candidate.found.chunk.text)
            fits = max((structure(each, candidate.names) for each in questions), key=lambda fit: fit.score)
            score = weight * self._score(evidence.score(candidate.found.chunk.key), fits)
            if self._is_let_in(score, layer):
                self._seen.setdefault(key, candidate)
                seen = {**seen_in(evidence, candidate.found), "structure": _rounded(fits), "expansion": told(related)}
                let[key] = Let(score, seen)
        return let

    # ── candidates ───────────────────────────────────────────────────────────────────────────────

    async def _candidates(self) -> Mapping[int, _Candidate]:
        """By table, best first. One large table may fill all places with its chunks: then the arms are asked deeper."""
        if self._looked_at is None:
            depth = DEPTH
            while True:
                evidence = await self.searching.evidence(depth)
                self._looked_at = await self._grouped(evidence)
                if len(self._looked_at) >= LOOKED_AT or evidence.candidates.is_all or depth >= DEEPEST:
                    break
                depth *= 4
        return self._looked_at

    async def _grouped(self, evidence: Evidence) -> dict[int, _Candidate]:
        keys = evidence.fused.keys.tolist()
        heads = await read(self.searching.base, tables.heads, keys)
        chunks: dict[int, list[int]] = {}
        for key in keys:
            if key in heads:
                chunks.setdefault(heads[key].key, []).append(key)
        first = list(chunks)[:LOOKED_AT]
        best = {found.chunk.key: found for found in await evidence.found([chunks[table][0] for table in first])}
        grouped = {}
        for table in first:
            if found := best.get(chunks[table][0]):
                head = heads[found.chunk.key]
                names = names_of(head.title, head.columns, found.chunk.text)
                grouped[table] = _Candidate(head, found, tuple(chunks[table]), names)
        return grouped

    def _question(self, evidence: Evidence) -> Question:
        return ask(self.searching.asked.queries[0].text, evidence.bench.weights[0])

    def _score(self, fused: float, fits: Structure) -> float:
        return (1.0 - self.weight) * fused + self.weight * fits.score

    def _is_let_in(self, score: float, layer: Layer) -> bool:
        return score >= layer.threshold or self.searching.is_named

    def _let(
        self, evidence: Evidence, candidate: _Candidate, question: Question, seen: Mapping[str, Any] | None = None
    ) -> Let:
        self._seen[candidate.head.key] = candidate
        fits = structure(question, candidate.names)
        details = {**seen_in(evidence, candidate.found), "structure": _rounded(fits), **(seen or {})}
        return Let(self._score(evidence.score(candidate.found.chunk.key), fits), details)

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    async def results(self, best: Sequence[tuple[int, Held]]) -> list[LayeredResult]:
        base = self.searching.base
        starts = await read(base, tables.row_starts, [key for key, _ in best])
        words = self.searching.asked.queries[0].terms.words
        results = []
        for key, held in best:
            candidate = self._seen[key]
            groups = await self._groups(candidate)
            shown = _rows_shown(groups, starts.get(key, []), words)
            result, table = _result(candidate, held, shown, len(starts.get(key, [])))
            self.heads[table.id] = candidate.head
            results.append(result)
        return results

    async def _groups(self, candidate: _Candidate) -> list[Found]:
        if len(candidate.chunks) == 1:
            return [candidate.found]
        evidence = await self.searching.evidence()
        return await evidence.found(candidate.chunks[:GROUPS]) or [candidate.found]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is shown of a table: of a large one the header and the rows that match."""

    content: str
    numbers: tuple[int, ...]
    cells: tuple[tuple[str, ...], ...]


def _rows_shown(groups: Sequence[Found], starts: Sequence[int], words: Sequence[str]) -> _Rows:
    lines: dict[int, str] = {}
    for group in groups:
        lines |= _lines(group.chunk, starts)
    first = groups[0].chunk
    if len(lines) == len(starts) and len(groups) == 1:
        return _Rows(first.text, tuple(lines), tuple(map(_cells, lines.values())))
    matching = {row for row, line in lines.items() if any(stands_in(word, fold(line)) for word in words)}
    shown = sorted(matching or lines)[:ROWS]
    above = first.text[: _first_row(first, starts)].rstrip("\n")
    content = "\n".join(filter(None, [above, *(lines[row] for row in shown)]))
    return _Rows(content, tuple(shown), tuple(_cells(lines[row]) for row in shown))


def _lines(chunk: Chunk, starts: Sequence[int]) -> dict[int, str]:
    """The rows of a row group by their numbers."""
    offset = _offset(chunk)
    lines = {}
    for row in range(bisect_left(starts, chunk.start), bisect_left(starts, chunk.end)):
        stop = min(starts[row + 1] if row + 1 < len(starts) else chunk.end, chunk.end)
        lines[row] = chunk.text[starts[row] + offset : stop + offset].split("\n", 1)[0]
    return lines


def _first_row(chunk: Chunk, starts: Sequence[int]) -> int:
    """Where in its text the first row of a row group begins: above it stand title and header."""
    row = bisect_left(starts, chunk.start)
    return starts[row] + _offset(chunk) if row < len(starts) and starts[row] < chunk.end else 0


def _offset(chunk: Chunk) -> int:
    """From a place in the document to one in the chunk's text, which begins with a repeated header."""
    return len(chunk.text) - chunk.end


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))


def _result(candidate: _Candidate, held: Held, shown: _Rows, rows: int) -> tuple[LayeredResult, TableShown]:
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
    result = LayeredResult(
        doc=chunk,
        score=held.score,
        strategy=held.layer.strategy,
        layer=held.layer.number,
        content=shown.content,
        metadata=chunk.attributes.metadata,
        doc_id=chunk.doc_id,
        document_name=chunk.doc_name,
        match_details=held.details,
        table=table,
    )
    return result, table


def _rounded(fits: Structure) -> dict[str, float | None]:
    return {part: None if score is None else round(score, 4) for part, score in asdict(fits).items()}


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


async def _answered(base: OpenBase, layers: _Layers, recall: LayeredRecall) -> LayeredRecall:
    """With the answer that the cells of the first tables give. Without one the tables still stand."""
    question = layers.searching.asked.queries[0].text
    contexts = {each.table.id: _context(each) for each in recall.results[:ASKED] if each.table is not None}
    try:
        answer, cited = await asyncio.to_thread(_answer, base, question, layers.heads, contexts)
    except Exception as error:  # what a table of anybody's making may bring about; the tables themselves are found
        log.exception("no answer from tables")
        failed = Degraded("answer", f"没能从表格里得出答案：{type(error).__name__}: {error}")
        return replace(recall, degraded=(*recall.degraded, failed))
    return replace(recall, answer=answer, cited=cited, cells_total=len(answer.cells))


def _answer(
    base: OpenBase, question: str, heads: Mapping[str, TableHead], contexts: Mapping[str, str]
) -> tuple[TableAnswer, tuple[Cited, ...]]:
    with base.records.reading() as tx:
        held = tables.whole(tx, base.id, [heads[id_].key for id_ in contexts])
    whole = {id_: held[heads[id_].key] for id_ in contexts if heads[id_].key in held}
    answer = answer_from_tables(question, [AskedTable(id_, table, contexts[id_]) for id_, table in whole.items()])
    return answer, cited_cells(answer, whole)


def _context(result: LayeredResult) -> str:
    return " ".join([result.document_name, *result.doc.headings])
