"""Layered recall of prose: by vector, by keywords where that gives too little, by related words where both do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from qianxun.chinese import Analyser
from qianxun.pipelines.base import OpenBase
from qianxun.pipelines.evidence import Evidence
from qianxun.pipelines.layered import LayeredRecall, LayeredResult
from qianxun.pipelines.layers import Climbed, Held, Layer, Let, TextChoices, climb, text_ladder
from qianxun.pipelines.options import RecallOptions
from qianxun.pipelines.searching import Searching, credited, searched, seen_in, told
from qianxun.rank.overlap import is_short, overlap
from qianxun.types import Chunk, Eq, Found, all_of


async def search_texts(
    base: OpenBase,
    text: str,
    chosen: TextChoices,
    options: RecallOptions,
    top_k: int | None = None,
    trace_id: str = "",
) -> LayeredRecall:
    """The passages that answer a question, best first, each with the layer that let it in."""
    target = min(top_k or chosen.max_results, chosen.max_results)
    of_prose = replace(options, where=all_of(options.where, Eq("kind", "text")))

    async def search(searching: Searching) -> tuple[Sequence[LayeredResult], Climbed]:
        layers = _Layers(searching, round(target * chosen.search_k_multiplier))
        steps = {"vector": layers.vector, "keyword": layers.keyword, "expansion": layers.expansion}
        climbed = await climb(text_ladder(chosen), steps, target)
        return [layers.result(key, held) for key, held in climbed.best(target)], climbed

    return await searched(base, text, "text", of_prose, target, search, trace_id)


@dataclass
class _Layers:
    """What each layer lets in, and with what score: that of words and meaning together, whichever layer it was."""

    searching: Searching
    search_k: int
    _chunks: dict[int, Chunk] = field(default_factory=dict)

    async def vector(self, layer: Layer) -> Mapping[int, Let]:
        """The nearest chunks, scored again with their words: as alike, or as good, as the threshold wants."""
        evidence = await self.searching.evidence()
        evidence.expect("vector")
        nearest = await evidence.found(evidence.meaning.keys[: self.search_k].tolist())
        let = {}
        for found in nearest:
            key = found.chunk.key
            score = max(evidence.score(key), evidence.similarity(key) or 0.0)
            if self._is_let_in(score, layer):
                let[key] = self._let(evidence, found)
        return let

    async def keyword(self, layer: Layer) -> Mapping[int, Let]:
        """The chunks that share most words with the question, read again: see `_relevance`."""
        evidence = await self.searching.evidence()
        evidence.expect("keyword")
        let = {}
        for found in await evidence.found(evidence.words.keys[: self.search_k].tolist()):
            relevance = self._relevance(evidence, found)
            if self._is_let_in(relevance, layer):
                let[found.chunk.key] = self._let(evidence, found, {"relevance": round(relevance, 4)})
        return let

    async def expansion(self, layer: Layer) -> Mapping[int, Let]:
        """What the question finds with related words in the place of its own."""
        expansions, evidence = await self.searching.in_other_words()
        if evidence is None:
            return {}
        let = {}
        for found in await evidence.found(evidence.fused.keys[: self.search_k].tolist()):
            weight, related = credited(expansions, found.chunk.text)
            score = weight * evidence.score(found.chunk.key)
            if self._is_let_in(score, layer):
                let[found.chunk.key] = replace(self._let(evidence, found, {"expansion": told(related)}), score=score)
        return let

    def result(self, key: int, held: Held) -> LayeredResult:
        chunk = self._chunks[key]
        return LayeredResult(
            doc=chunk,
            score=held.score,
            strategy=held.layer.strategy,
            layer=held.layer.number,
            content=chunk.text,
            metadata=chunk.attributes.metadata,
            doc_id=chunk.doc_id,
            document_name=chunk.doc_name,
            match_details=held.details,
        )

    def _is_let_in(self, score: float, layer: Layer) -> bool:
        return score >= layer.threshold or self.searching.is_named

    def _relevance(self, evidence: Evidence, found: Found) -> float:
        """Of a short question by its words, of a long one by its vector, and by words where there is none."""
        similarity = evidence.similarity(found.chunk.key)
        own = self.searching.asked.queries[0]
        if similarity is not None and not is_short(own.text):
            return similarity
        return _overlap(self.searching.base.analyser, own.terms.words, found.chunk.text)

    def _let(self, evidence: Evidence, found: Found, seen: Mapping[str, Any] | None = None) -> Let:
        key = found.chunk.key
        self._chunks[key] = found.chunk
        return Let(evidence.score(key), {**seen_in(evidence, found), **(seen or {})})


@lru_cache(maxsize=8192)
def _overlap(analyser: Analyser, asked: tuple[str, ...], text: str) -> float:
    """Kept, because a question that is asked again finds the same passages."""
    return overlap(asked, analyser.words(text), len(text))
