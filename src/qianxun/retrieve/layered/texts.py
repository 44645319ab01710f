"""Layered retrieval of prose: by vector, by keywords where that gives too little, by related words where both do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from qianxun.bases.base import OpenBase
from qianxun.core.layered_options import TextEngine
from qianxun.core.layered_types import LayeredRecall, LayeredResult
from qianxun.core.options import SearchOptions, check
from qianxun.core.types import Found, Query
from qianxun.retrieve.layered.ladder import (
    Admission,
    Admitted,
    LadderResult,
    Layer,
    run_ladder,
    text_ladder,
)
from qianxun.retrieve.layered.search import Evidence, LayeredSearch, credit, result_of, run_layered, with_pinned
from qianxun.text.headings import under_headings

# Of short questions, which mean too little to a model: set by hand.
SHORT: Final = 15  # characters: below it words decide, from it on the vector
JACCARD: Final = 0.7
DENSITY: Final = 0.3
_WIDE: Final = 3  # a passage of so many times the question's words at the most
_PER: Final = 100  # characters: one word of the question in so many is dense


async def search_texts(
    base: OpenBase,
    text: str,
    chosen: TextEngine,
    options: SearchOptions,
    top_k: int | None = None,
    trace_id: str = "",
) -> LayeredRecall:
    """The passages that answer a question, best first, each with the layer that admitted it."""
    check(options)
    ladder = text_ladder(chosen)
    target = ladder.target(top_k)

    async def search(state: LayeredSearch) -> tuple[Sequence[LayeredResult], LadderResult]:
        layers = _Layers(state, round(target * chosen.search_k_multiplier))
        steps = {"vector": layers.vector, "keyword": layers.keyword, "expansion": layers.expansion}
        result = with_pinned(await run_ladder(ladder, steps, target), await layers.pinned())
        result = state.newest(result, layers.found)
        return [layers.result(key, admitted) for key, admitted in result.best(target)], result

    return await run_layered(base, text, "text", options, target, search, trace_id)


@dataclass
class _Layers:
    """What each layer admits. The score is that of words and meaning together, whichever layer it was."""

    state: LayeredSearch
    search_k: int
    _first: dict[int, tuple[Evidence, Found]] = field(default_factory=dict)  # as the first layer found it

    async def vector(self, layer: Layer) -> Mapping[int, Admission]:
        """The nearest chunks, scored again with their words: as similar, or as good, as the threshold."""
        (await self.state.evidence()).require("vector")
        evidence, nearest = await self.state.first(lambda evidence: evidence.meaning.keys, self.search_k)
        admitted = {}
        for found in nearest:
            key = found.chunk.key
            if self._passes(max(evidence.fused.score(key), evidence.similarity(key) or 0.0), layer):
                admitted[key] = self._admit(evidence, found)
        return admitted

    async def keyword(self, layer: Layer) -> Mapping[int, Admission]:
        """The chunks that share most words with the question, read again: see `_relevance`."""
        (await self.state.evidence()).require("keyword")
        evidence, nearest = await self.state.first(lambda evidence: evidence.words.keys, self.search_k)
        admitted = {}
        for found in nearest:
            relevance = self._relevance(evidence, self.state.plan.queries[0], found)
            if self._passes(relevance, layer):
                admitted[found.chunk.key] = self._admit(evidence, found, {"relevance": round(relevance, 4)})
        return admitted

    async def expansion(self, layer: Layer) -> Mapping[int, Admission]:
        """What the question finds with related words in place of its own; and whatever else is not unrelated, because
        this layer is the last."""
        expansions, evidence = await self.state.in_other_words()
        own, related = await self.state.first(lambda evidence: evidence.related, self.search_k)
        rest = {found.chunk.key: self._admit(own, found) for found in related}
        if evidence is None:
            return rest
        admitted = dict(rest)
        for found in await evidence.first(evidence.fused.keys.tolist(), self.search_k):
            by = credit(expansions, found.chunk, self.state.base.chunks.folded)
            weight, key = expansions[by.at].weight, found.chunk.key
            admission = self._admit(evidence, found, by.details())
            relevance = self._relevance(evidence, evidence.candidates.plan.queries[by.at], found)
            if by.is_found or self._passes(weight * max(admission.score, relevance), layer):
                score = rest[key].score if key in rest else 0.0
                admitted[key] = replace(admission, score=max(weight * admission.score, score))
        return admitted

    async def pinned(self) -> dict[int, int]:
        """Chunk → the rule that puts it first."""
        evidence, pinned = await self.state.pinned()
        if evidence is not None:
            self._first |= {found.chunk.key: (evidence, found) for found in pinned}
        return {found.chunk.key: found.pinned for found in pinned}

    def found(self, key: int) -> Found:
        return self._first[key][1]

    def result(self, key: int, admitted: Admitted) -> LayeredResult:
        evidence, found = self._first[key]
        return result_of(found.chunk, admitted, found.chunk.text, {**evidence.details(found.chunk), **admitted.details})

    def _passes(self, score: float, layer: Layer) -> bool:
        return self.state.is_admitted(score, layer.threshold)

    def _relevance(self, evidence: Evidence, query: Query, found: Found) -> float:
        """Of a short question by how close together its words are; of a long one by its vector, by words where there
        is none, or by the share of its words that are there."""
        similarity = evidence.similarity(found.chunk.key)
        if similarity is None or is_short(query.text):
            text = under_headings(found.chunk.text, found.chunk.headings)
            similarity = overlap(query.terms.words, self.state.base.analyser.words(text), len(text))
        return similarity if is_short(query.text) else max(similarity, evidence.criteria.assess(found).coverage)

    def _admit(self, evidence: Evidence, found: Found, details: Mapping[str, Any] | None = None) -> Admission:
        self._first.setdefault(found.chunk.key, (evidence, found))
        return Admission(evidence.fused.score(found.chunk.key), details or {})


# ── short questions ──────────────────────────────────────────────────────────────────────────────


def is_short(text: str) -> bool:
    return len(text.strip()) < SHORT


def overlap(query: Sequence[str], words: Sequence[str], length: int) -> float:
    """.7 · Jaccard + .3 · density, in [0, 1]. ``words`` are those of the passage in order, ``length`` its characters.

    The Jaccard likeness is that of the stretch of the passage which fits best, as long as the question or up to three
    times that: over a whole passage it would only say how long the passage is.
    """
    terms = frozenset(query)
    if not terms or not words:
        return 0.0
    hits = sum(word in terms for word in words)
    density = min(1.0, hits * _PER / max(length, 1))
    return min(1.0, JACCARD * _likeness(terms, words) + DENSITY * density)


def _likeness(terms: frozenset[str], words: Sequence[str]) -> float:
    best = 0.0
    for start, word in enumerate(words):
        if word not in terms:
            continue
        seen: set[str] = set()
        shared: set[str] = set()
        for end in range(start, min(start + _WIDE * len(terms), len(words))):
            seen.add(words[end])
            if words[end] in terms:
                shared.add(words[end])
                best = max(best, len(shared) / (len(terms) + max(len(seen), len(terms)) - len(shared)))
        if best == 1.0:
            break
    return best
