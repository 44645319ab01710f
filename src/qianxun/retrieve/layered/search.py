"""What the layers of one search share: the evidence of the arms, gathered once, and the run over one state of the base.

`run_layered` is the function to read first.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from qianxun.bases.base import OpenBase, Serving
from qianxun.bases.table_cache import TableCache
from qianxun.core.errors import QianxunError, RetrieverUnavailable
from qianxun.core.layered_types import LayeredRecall, LayeredResult, TableShown
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import SearchOptions
from qianxun.core.types import NOTHING, Chunk, ChunkKind, Degraded, Eq, Found, Keys, Query, Ranking, all_of
from qianxun.retrieve.candidate_pool import ScoresByKey
from qianxun.retrieve.fuse import DEEPEST, DEPTH, Candidates, fused_curve, gather, with_weights
from qianxun.retrieve.layered.ladder import Admitted, LadderResult, Layer
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query
from qianxun.retrieve.question_rules import PINNED, PINNED_SCORE
from qianxun.retrieve.rerank_and_tiers import TierCriteria, tier_criteria
from qianxun.retrieve.run import TRIES, current_generation, newest_only
from qianxun.retrieve.terms.related import expanded
from qianxun.retrieve.timings import Steps
from qianxun.text.chinese import fold, occurs_in
from qianxun.text.expansion import Expansion, Related
from qianxun.text.headings import under_headings

# A score below these: the result has nothing to do with the question. A share of words is small soon.
UNRELATED: Final = 0.1
UNRELATED_BY_WORDS: Final = 0.02
RULE: Final = Layer(0, PINNED, 0.0, 0.0)  # what no layer let in


@dataclass(frozen=True, slots=True)
class Evidence:
    """The candidates of one kind of chunk, with scores in [0, 1] that mean the same for every question."""

    candidates: Candidates
    criteria: TierCriteria
    related: Keys  # the candidates whose fused score is not unrelated, best first
    fused: ScoresByKey  # words and meaning together, as `retrieve` shows them
    meaning: ScoresByKey
    words: ScoresByKey
    failed: Mapping[str, str]  # arm → why it did not answer

    def require(self, arm: str) -> None:
        """Raises RetrieverUnavailable if the arm did not answer."""
        if arm in self.failed:
            raise RetrieverUnavailable(self.failed[arm])

    def similarity(self, key: int) -> float | None:
        """None if nothing is known of the chunk's meaning."""
        return self.meaning.score(key) if key in self.meaning else None

    async def first(self, keys: Sequence[int], count: int | None = None) -> list[Found]:
        """The first ``count`` of these candidates, or all, that are in the records, in this order."""
        return await self.candidates.pool.first(len(keys) if count is None else count, keys)

    async def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """Those of these candidates that are in the records, in this order."""
        return await self.candidates.pool.chunks([key for key in keys if key in self.candidates.pool])

    async def pinned(self) -> list[Found]:
        """The chunks that people put first for this question, in the order of their rules."""
        rules = self.candidates.rules.pinned
        return [replace(one, pinned=rules[one.chunk.key]) for one in await self.candidates.pool.pinned(list(rules))]

    def details(self, chunk: Chunk) -> dict[str, Any]:
        """What a result was found by, as plain values."""
        words, covered = self.criteria.covered_words(chunk)
        similarity = self.similarity(chunk.key)
        return {
            "words": list(words),
            "coverage": round(covered, 4),
            "similarity": None if similarity is None else round(similarity, 4),
            "keyword": round(self.words.score(chunk.key), 4),
        }


async def gather_evidence(
    base: OpenBase,
    serving: Serving,
    plan: QueryPlan,
    options: SearchOptions,
    kind: ChunkKind,
    depth: int = DEPTH,
    before: Evidence | None = None,
) -> Evidence:
    """Runs the arms, or those that answered ``before``: one that failed or was late would be so again. ``options``
    have their weights. Raises RecallFailed if none answers."""
    only = tuple(before.candidates.results.rankings) if before is not None else ()
    candidates = await gather(base, serving, plan, options, depth, Steps(), only)
    if before is not None:
        candidates.pool.take_read(before.candidates.pool)
    results, signals, ranking = candidates.results, candidates.signals, candidates.pool.candidates
    calibrate = base.curves.table_vector if kind == "table" else base.curves.vector
    fused = Ranking.ordered(ranking.keys, fused_curve(base, results, options)(ranking.scores))
    failed = {missing.part: missing.reason for missing in results.degraded if missing.part not in results.rankings}
    return Evidence(
        candidates,
        await tier_criteria(base, serving, candidates),
        fused.keys[fused.scores >= (UNRELATED if "vector" in signals else UNRELATED_BY_WORDS)],
        ScoresByKey(fused),
        ScoresByKey(signals.get("vector", NOTHING), calibrate),
        ScoresByKey(signals.get("keyword", NOTHING)),
        failed | dict(before.failed) if before is not None else failed,
    )


@dataclass
class LayeredSearch:
    """Evidence is gathered when the first layer needs it; what failed once is not tried again."""

    base: OpenBase
    serving: Serving
    plan: QueryPlan
    options: SearchOptions
    kind: ChunkKind
    tables: TableCache  # of the state of the records that is searched
    degraded: list[Degraded] = field(default_factory=list)
    _gathered: list[Evidence] = field(default_factory=list)
    _is_mixed: bool = False  # two versions of a document were found
    _evidence: Evidence | None = None
    _failure: QianxunError | None = None
    _is_deepest: bool = False  # the arms could not answer at a greater depth

    def is_admitted(self, score: float, threshold: float) -> bool:
        """Thresholds do not hold for documents that the user named."""
        return score >= threshold or bool(self.plan.named)

    async def evidence(self, depth: int = DEPTH) -> Evidence:
        """To this depth, or as deep as the arms could answer: what was found is not given up for what is deeper."""
        if self._failure is not None:
            raise self._failure
        known = self._evidence
        if known is None or (known.candidates.depth < depth and not self._is_deepest):
            try:
                self._evidence = await self._gather(self.plan, self.options, depth, known)
            except QianxunError as error:
                if known is None:
                    self._failure = error
                    raise
                self._is_deepest = True
                self.degraded.append(Degraded("depth", f"没能往深处再找，结果可能不全：{error}"))
        assert self._evidence is not None
        return self._evidence

    async def pinned(self) -> tuple[Evidence | None, list[Found]]:
        """What people put first; nothing where no arm answers."""
        try:
            evidence = await self.evidence()
        except QianxunError:  # every layer reports it
            return None, []
        return evidence, await evidence.pinned()

    async def first(self, keys: Callable[[Evidence], Keys], count: int) -> tuple[Evidence, list[Found]]:
        """The first candidates of one ranking. If it is full of deleted chunks the arms go deeper."""
        depth = DEPTH
        while True:
            evidence = await self.evidence(depth)
            found = await evidence.first(keys(evidence).tolist(), count)
            candidates = evidence.candidates
            if len(found) >= count or not candidates.pool.dropped or candidates.is_all or depth >= DEEPEST:
                return evidence, found
            depth *= 4

    def newest(self, result: LadderResult, found: Callable[[int], Found]) -> LadderResult:
        """Without what is of a version of a document that another result's version has replaced."""
        by_id = {id_: found(id_) for id_ in result.admitted}
        newest = {one.chunk.key for one in newest_only(list(by_id.values()))}
        left = {id_: one for id_, one in result.admitted.items() if by_id[id_].chunk.key in newest}
        self._is_mixed = len(left) < len(by_id)
        return replace(result, admitted=left)

    @property
    def is_settled(self) -> bool:
        """False: what was found has been replaced meanwhile. If the index has changed since, the newer version is
        there to be found."""
        return not self._is_mixed and not any(one.candidates.pool.dropped for one in self._gathered)

    async def in_other_words(self) -> tuple[tuple[Expansion, ...], Evidence | None]:
        """The question with related words in place of its own, and the evidence for that."""
        before, own = await self.evidence(), self.plan.queries[0]
        expansions = await expanded(self.base, self.serving, own.text, where=own.where)
        if not expansions:
            return (), None
        analyse = self.base.analyser.analyse_query
        queries = tuple(Query(one.text, analyse(one.text), None, own.where) for one in expansions)
        plan = QueryPlan(queries, self.plan.named)
        return expansions, await self._gather(plan, replace(self.options, fuzzy=False), DEPTH, before)

    async def _gather(self, plan: QueryPlan, options: SearchOptions, depth: int, before: Evidence | None) -> Evidence:
        evidence = await gather_evidence(self.base, self.serving, plan, options, self.kind, depth, before)
        self._gathered.append(evidence)
        self.degraded += evidence.candidates.results.degraded
        return evidence


@dataclass(frozen=True, slots=True)
class Credit:
    """By which of the other wordings a text was found, and by which of its words."""

    at: int
    related: tuple[Related, ...]
    is_found: bool  # False: none of the words is in the text; it was the meaning, and the first wording is named

    def details(self) -> dict[str, Any]:
        related = [{"word": one.word, "by": one.by, "origin": one.origin} for one in self.related]
        return {"expansion": related}


def credit(expansions: Sequence[Expansion], chunk: Chunk, fold_text: Callable[[Chunk], str]) -> Credit:
    """By the chunk's text with its headings; ``fold_text`` has folded most texts already."""
    folded = fold(under_headings(chunk.text, chunk.headings)) if chunk.headings else fold_text(chunk)
    for at, expansion in enumerate(expansions):
        found = tuple(related for related in expansion.related if occurs_in(fold(related.by), folded))
        if found:
            return Credit(at, found, True)
    return Credit(0, expansions[0].related, False)


def with_pinned(result: LadderResult, rules: Mapping[int, int]) -> LadderResult:
    """With what people put first (id → rule), whichever layer let it in, or none: as sure as a result can be."""
    known = {id_: result.admitted.get(id_, Admitted(RULE, PINNED_SCORE, {})) for id_ in rules}
    pinned = {
        id_: replace(one, score=PINNED_SCORE, details={**one.details, "pinned": rules[id_]})
        for id_, one in known.items()
    }
    return replace(result, admitted={**result.admitted, **pinned})


def result_of(
    chunk: Chunk, admitted: Admitted, content: str, details: Mapping[str, Any], table: TableShown | None = None
) -> LayeredResult:
    return LayeredResult(
        doc=chunk,
        score=admitted.score,
        strategy=admitted.layer.strategy,
        layer=admitted.layer.number,
        content=content,
        metadata=chunk.attributes.metadata,
        doc_id=chunk.doc_id,
        document_name=chunk.doc_name,
        match_details=details,
        table=table,
    )


Search: TypeAlias = Callable[[LayeredSearch], Awaitable[tuple[Sequence[LayeredResult], LadderResult]]]


async def run_layered(
    base: OpenBase, text: str, kind: ChunkKind, options: SearchOptions, target: int, search: Search, trace_id: str = ""
) -> LayeredRecall:
    """Runs ``search`` over the state of one moment; again, if what was found has been replaced meanwhile."""
    check_text(text)
    # A score that only says which rank a result has, or how it compares to the best, would pass every threshold.
    options = replace(options, where=all_of(options.where, Eq("kind", kind)), fusion="weighted")
    started = time.perf_counter()
    for _ in range(TRIES):
        with base.serving.borrow() as serving:
            generation = await current_generation(base, serving)
            tables = base.tables = base.tables.for_state(generation.records)
            weighted = await with_weights(base, serving, options, generation.records)
            plan = await plan_query(base, text, weighted, generation=generation)
            state = LayeredSearch(base, serving, plan, weighted, kind, tables)
            results, ladder = await search(state)
            has_moved = serving is not base.serving or generation.index != await serving.index.watermark()
        if state.is_settled or not has_moved or time.perf_counter() - started > options.arm_seconds:
            break
    return LayeredRecall(
        query=text,
        kind=kind,
        results=tuple(results),
        layers=ladder.runs,
        wanted=target,
        degraded=tuple(dict.fromkeys((*plan.degraded, *ladder.degraded, *state.degraded))),
        seconds=time.perf_counter() - started,
        trace_id=trace_id or new_trace_id(),
        generation=generation,
        as_of=plan.as_of,
    )
