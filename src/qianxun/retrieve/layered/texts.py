"""Layered recall of prose: by vector, by keywords where that gives too little, by related words where both do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from qianxun.bases.base import OpenBase
from qianxun.core.layered_types import LayeredRecall, LayeredResult
from qianxun.core.options import RecallOptions, check
from qianxun.core.types import Found, Keys, Query
from qianxun.rank.overlap import is_short, overlap
from qianxun.retrieve.layered.evidence import Evidence
from qianxun.retrieve.layered.ladder import (
    Admission,
    Admitted,
    LadderResult,
    Layer,
    TextChoices,
    run_ladder,
    text_ladder,
)
from qianxun.retrieve.layered.search import LayeredSearch, credited, result_of, searched, seen_in, told
from qianxun.text.chinese import Analyser
from qianxun.text.headings import under_headings


async def search_texts(
    base: OpenBase,
    text: str,
    chosen: TextChoices,
    options: RecallOptions,
    top_k: int | None = None,
    trace_id: str = "",
) -> LayeredRecall:
    """The passages that answer a question, best first, each with the layer that let it in."""
    check(options)
    ladder = text_ladder(chosen)
    target = ladder.target(top_k)

    async def search(searching: LayeredSearch) -> tuple[Sequence[LayeredResult], LadderResult]:
        layers = _Layers(searching, round(target * chosen.search_k_multiplier))
        steps = {"vector": layers.vector, "keyword": layers.keyword, "expansion": layers.expansion}
        climbed = searching.newest(await run_ladder(ladder, steps, target), layers.found)
        return [layers.result(key, held) for key, held in climbed.best(target)], climbed

    return await searched(base, text, "text", options, target, search, trace_id)


@dataclass
class _Layers:
    """What each layer lets in, and with what score: that of words and meaning together, whichever layer it was."""

    searching: LayeredSearch
    search_k: int
    _seen: dict[int, tuple[Evidence, Found]] = field(default_factory=dict)  # by any layer, the first time

    async def vector(self, layer: Layer) -> Mapping[int, Admission]:
        """The nearest chunks, scored again with their words: as alike, or as good, as the threshold wants."""
        (await self.searching.evidence()).expect("vector")
        evidence, nearest = await self.searching.first(lambda heard: heard.meaning.keys, self.search_k)
        let = {}
        for found in nearest:
            key = found.chunk.key
            score = max(evidence.score(key), evidence.similarity(key) or 0.0)
            if self._is_let_in(score, layer):
                let[key] = self._let(evidence, found)
        return let

    async def keyword(self, layer: Layer) -> Mapping[int, Admission]:
        """The chunks that share most words with the question, read again: see `_relevance`."""
        (await self.searching.evidence()).expect("keyword")
        evidence, nearest = await self.searching.first(lambda heard: heard.words.keys, self.search_k)
        let = {}
        for found in nearest:
            relevance = self._relevance(evidence, self.searching.asked.queries[0], found)
            if self._is_let_in(relevance, layer):
                let[found.chunk.key] = self._let(evidence, found, {"relevance": round(relevance, 4)})
        return let

    async def expansion(self, layer: Layer) -> Mapping[int, Admission]:
        """What the question finds with related words in the place of its own; and whatever else is not unrelated,
        because after this layer there is none."""
        expansions, evidence = await self.searching.in_other_words()
        rest = await self._rest()
        if evidence is None:
            return rest
        let = dict(rest)
        for found in await evidence.first(evidence.fused.keys.tolist(), self.search_k):
            credit = credited(expansions, under_headings(found.chunk.text, found.chunk.headings))
            weight, key = expansions[credit.at].weight, found.chunk.key
            let_in = self._let(evidence, found, {"expansion": told(credit.related)})
            relevance = self._relevance(evidence, evidence.candidates.asked.queries[credit.at], found)
            if credit.stands or self._is_let_in(weight * max(let_in.score, relevance), layer):
                own = rest[key].score if key in rest else 0.0
                let[key] = replace(let_in, score=max(weight * let_in.score, own))
        return let

    async def _rest(self) -> Mapping[int, Admission]:
        evidence, related = await self.searching.first(_related, self.search_k)
        return {found.chunk.key: self._let(evidence, found) for found in related}

    def found(self, key: int) -> Found:
        return self._seen[key][1]

    def result(self, key: int, held: Admitted) -> LayeredResult:
        evidence, found = self._seen[key]
        return result_of(found.chunk, held, found.chunk.text, {**seen_in(evidence, found), **held.details})

    def _is_let_in(self, score: float, layer: Layer) -> bool:
        return score >= layer.threshold or self.searching.is_named

    def _relevance(self, evidence: Evidence, asked: Query, found: Found) -> float:
        """Of a short question by how closely its words stand together; of a long one by its vector, by words where
        there is none, or by the share of its telling words that are there."""
        similarity = evidence.similarity(found.chunk.key)
        if similarity is None or is_short(asked.text):
            text = under_headings(found.chunk.text, found.chunk.headings)
            similarity = _overlap(self.searching.base.analyser, asked.terms.words, text)
        return similarity if is_short(asked.text) else max(similarity, evidence.verdict(found).coverage)

    def _let(self, evidence: Evidence, found: Found, seen: Mapping[str, Any] | None = None) -> Admission:
        self._seen.setdefault(found.chunk.key, (evidence, found))
        return Admission(evidence.score(found.chunk.key), seen or {})


def _related(evidence: Evidence) -> Keys:
    return evidence.fused.keys[evidence.fused.scores >= evidence.unrelated]


@lru_cache(maxsize=8192)
def _overlap(analyser: Analyser, asked: tuple[str, ...], text: str) -> float:
    """Kept, because a question that is asked again finds the same passages."""
    return overlap(asked, analyser.words(text), len(text))
