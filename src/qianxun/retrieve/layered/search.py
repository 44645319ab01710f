"""One layered search on its way: what was asked, what the arms say of it, and of the question put in other words."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from qianxun.bases.base import OpenBase, Serving
from qianxun.core.errors import QianxunError
from qianxun.core.layered_types import LayeredRecall, LayeredResult, TableShown
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import RecallOptions
from qianxun.core.types import Chunk, ChunkKind, Degraded, Eq, Found, Keys, Query, all_of
from qianxun.retrieve.candidate_pool import CandidatePool
from qianxun.retrieve.layered.evidence import Evidence, listen
from qianxun.retrieve.layered.ladder import Admitted, LadderResult
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query
from qianxun.retrieve.run import DEEPEST, DEPTH, TRIES, current_generation, newest_only, with_weights
from qianxun.retrieve.terms.related import expanded
from qianxun.text.chinese import fold, stands_in
from qianxun.text.expansion import Expansion, Related


@dataclass
class LayeredSearch:
    """Evidence is asked for when the first layer wants it; what failed once is not asked again."""

    base: OpenBase
    serving: Serving
    asked: QueryPlan
    options: RecallOptions
    kind: ChunkKind
    degraded: list[Degraded] = field(default_factory=list)
    _pools: list[CandidatePool] = field(default_factory=list)
    _is_mixed: bool = False  # two versions of a document were found
    _held: Evidence | None = None
    _failure: QianxunError | None = None
    _is_deepest: bool = False  # the arms could not answer at a greater depth

    @property
    def is_named(self) -> bool:
        """The user named the documents: thresholds do not hold for those."""
        return bool(self.asked.named)

    async def evidence(self, depth: int = DEPTH) -> Evidence:
        """To this depth, or as deep as the arms could answer: what is held is not given up for what is beyond it."""
        if self._failure is not None:
            raise self._failure
        if self._held is None or (self._held.candidates.depth < depth and not self._is_deepest):
            told = (self.base, self.serving, self.asked, self.options, self.kind)
            try:
                self._held = await listen(*told, depth, self._held)
            except QianxunError as error:
                if self._held is None:
                    self._failure = error
                    raise
                self._is_deepest = True
                self.degraded.append(Degraded("depth", f"没能往深处再找，结果可能不全：{error}"))
            else:
                self._note(self._held)
        return self._held

    async def first(self, keys: Callable[[Evidence], Keys], count: int) -> tuple[Evidence, list[Found]]:
        """So many candidates of record of one ranking. Where it is full of what is gone, the arms are asked deeper."""
        depth = DEPTH
        while True:
            evidence = await self.evidence(depth)
            found = await evidence.first(keys(evidence).tolist(), count)
            candidates = evidence.candidates
            if len(found) >= count or not candidates.pool.dropped or candidates.is_all or depth >= DEEPEST:
                return evidence, found
            depth *= 4

    def newest(self, climbed: LadderResult, found: Callable[[int], Found]) -> LadderResult:
        """Without what is of a version of a document that another result's version has replaced."""
        held = {key: found(key) for key in climbed.held}
        kept = {each.chunk.key for each in newest_only(list(held.values()))}
        left = {key: each for key, each in climbed.held.items() if held[key].chunk.key in kept}
        self._is_mixed = len(left) < len(held)
        return replace(climbed, held=left)

    @property
    def is_settled(self) -> bool:
        """False: what was found has been replaced meanwhile. Where the index has moved since, what took its place is
        there to be found."""
        return not self._is_mixed and not any(pool.dropped for pool in self._pools)

    async def in_other_words(self) -> tuple[tuple[Expansion, ...], Evidence | None]:
        """The question with related words in the place of its own, and what the arms say of that."""
        before, own = await self.evidence(), self.asked.queries[0]
        expansions = await expanded(self.base, self.serving, own.text, where=own.where)
        if not expansions:
            return (), None
        analyse = self.base.analyser.analyse_query
        queries = tuple(Query(each.text, analyse(each.text), None, own.where) for each in expansions)
        meant = QueryPlan(queries, self.asked.named)
        options = replace(self.options, fuzzy=False)
        heard = await listen(self.base, self.serving, meant, options, self.kind, before=before)
        self._note(heard)
        return expansions, heard

    def _note(self, evidence: Evidence) -> None:
        self._pools.append(evidence.candidates.pool)
        self.degraded += evidence.candidates.heard.degraded


@dataclass(frozen=True, slots=True)
class Credit:
    """By which of the other wordings a text was found, and by which of its words."""

    at: int
    related: tuple[Related, ...]
    stands: bool  # False: none of the words stands in the text; it was the meaning, and the first wording is named


def credited(expansions: Sequence[Expansion], text: str) -> Credit:
    folded = fold(text)
    for at, expansion in enumerate(expansions):
        held = tuple(each for each in expansion.related if stands_in(fold(each.by), folded))
        if held:
            return Credit(at, held, True)
    return Credit(0, expansions[0].related, False)


def seen_in(evidence: Evidence, found: Found) -> dict[str, Any]:
    """What speaks for a result, as plain values."""
    key = found.chunk.key
    verdict = evidence.verdict(found)
    similarity = evidence.similarity(key)
    return {
        "words": list(verdict.matched),
        "coverage": round(verdict.coverage, 4),
        "similarity": None if similarity is None else round(similarity, 4),
        "keyword": round(evidence.share(key), 4),
    }


def told(related: Sequence[Related]) -> list[dict[str, Any]]:
    return [{"word": each.word, "by": each.by, "origin": each.origin} for each in related]


def result_of(
    chunk: Chunk, held: Admitted, content: str, details: Mapping[str, Any], table: TableShown | None = None
) -> LayeredResult:
    return LayeredResult(
        doc=chunk,
        score=held.score,
        strategy=held.layer.strategy,
        layer=held.layer.number,
        content=content,
        metadata=chunk.attributes.metadata,
        doc_id=chunk.doc_id,
        document_name=chunk.doc_name,
        match_details=details,
        table=table,
    )


Search: TypeAlias = Callable[[LayeredSearch], Awaitable[tuple[Sequence[LayeredResult], LadderResult]]]


async def searched(
    base: OpenBase,
    text: str,
    kind: ChunkKind,
    options: RecallOptions,
    wanted: int,
    search: Search,
    trace_id: str = "",
) -> LayeredRecall:
    """Climbs with ``search`` over the state of one moment; again, where what was found has been replaced meanwhile."""
    check_text(text)
    # A score that only says which rank a result has, or how it stands to the best, would pass every threshold.
    options = replace(options, where=all_of(options.where, Eq("kind", kind)), fusion="weighted")
    started = time.perf_counter()
    for _ in range(TRIES):
        with base.serving.borrow() as serving:
            generation = await current_generation(base, serving)
            weighted = await with_weights(serving, options)
            asked = await plan_query(base, text, weighted)
            searching = LayeredSearch(base, serving, asked, weighted, kind)
            results, climbed = await search(searching)
            has_moved = serving is not base.serving or generation.index != await serving.index.watermark()
        if searching.is_settled or not has_moved or time.perf_counter() - started > options.arm_seconds:
            break
    degraded = (*asked.degraded, *climbed.degraded, *searching.degraded)
    return LayeredRecall(
        query=text,
        kind=kind,
        results=tuple(results),
        layers=climbed.runs,
        wanted=wanted,
        degraded=tuple(dict.fromkeys(degraded)),
        seconds=time.perf_counter() - started,
        trace_id=trace_id or new_trace_id(),
        generation=generation,
    )
