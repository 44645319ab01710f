"""A query in other words: synonyms of the base's user, of the shipped list, and related words learnt from the base.

Read `expanded` first. Related words are the nearest of a base's own words by their vectors, if near enough to mean the
same. A model of sentences finds words alike that share a character (事故, 故事), so those must be nearer than others;
and it puts opposites side by side (左侧, 右侧), so those are left out by their characters. Both are measured:
docs/decisions/0011-related-terms.md.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, Serving, in_model_thread
from qianxun.bases.known_terms import LearntTerms
from qianxun.core.errors import ModelError
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import EVERYTHING, Filter, Terms, Vector, Vectors
from qianxun.core.vectors import embed
from qianxun.records import terms
from qianxun.text.chinese import STOP_WORDS, fold
from qianxun.text.expansion import (
    LIMIT,
    Expansion,
    Place,
    Related,
    comparable,
    known_places,
    unknown_words,
    with_counts,
    wordings,
)
from qianxun.text.synonyms import shipped

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Nearness:
    """The least cosine of words without a common character, and of those that have one."""

    apart: float
    sharing: float

    def is_reached(self, cosine: float, word: str, term: str) -> bool:
        return cosine >= (self.sharing if set(word) & set(term) else self.apart)


IN_BASE: Final = Nearness(0.76, 0.88)  # for a word that the base has itself: another may lead away
NOT_IN_BASE: Final = Nearness(0.68, 0.80)  # for one that it has not: there is nothing to lose
NEIGHBOURS: Final = 2

LONGEST: Final = 200  # characters; a longer query has words enough to be found by
PLACES: Final = 8  # words of one query that are replaced
WORDS: Final = 40  # other words that are looked up in the index
LEARNT_PLACES: Final = 4  # … of which so many by what was learnt
LEARNT_WEIGHT: Final = 0.8  # of a cosine: less than that of a word of a list
SECONDS: Final = 1.0  # for the vectors of a query's words; without them there are fewer wordings
_LOOKED_AT: Final = 12

_HAN_WORD: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]{2,}")
_NEGATIONS: Final = frozenset("不没无未非别勿")
_NUMERALS: Final = frozenset("一二三四五六七八九十百千万亿两几第零")
_PAIRS: Final = (
    "左右上下前后内外里外大小多少男女高低早晚进出入出买卖东西南北东北东南西南西北今昨今明昨明来去长短冷热新旧真假好坏"
    "优劣优缺利弊增减升降加减正负正反收支借还供需存取公私阴阳生死轻重快慢强弱粗细深浅宽窄厚薄胖瘦远近始终起止开关问答"
    "攻守胜负输赢主客主次甲乙春夏春秋春冬夏秋夏冬秋冬父母夫妻兄弟姐妹儿女软硬干湿明暗黑白"
)
_OPPOSITES: Final = frozenset(map(frozenset, zip(_PAIRS[::2], _PAIRS[1::2], strict=True)))


async def expanded(
    base: OpenBase, serving: Serving, text: str, limit: int = LIMIT, *, where: Filter = EVERYTHING
) -> tuple[Expansion, ...]:
    """At most ``limit`` other wordings of a query, best first; none if nothing is known of its words.

    Only with words that are in the index: a wording that finds nothing would take the place of one that does. Words
    learnt from the base must be in chunks that pass ``where``: a request sees no words of what it may not see.
    """
    if len(text) > LONGEST:
        return ()
    text = comparable(text)
    known = known_places(text, base.terms.synonyms_of(base.about.config), shipped(), base.analyser)[:PLACES]
    others = list(dict.fromkeys(related.by for place in known for related in place.related))[:WORDS]
    parts = {word: tuple(dict.fromkeys(base.analyser.words(word))) for word in others}
    looked_up = tuple(dict.fromkeys(part for own in parts.values() for part in own))
    counts = (await serving.index.count(Terms(looked_up))).words if looked_up else {}
    found = {word: min((counts.get(part, 0) for part in own), default=0) for word, own in parts.items()}
    places = with_counts(known, found, limit)
    places += await _learnt(base, serving, text, places, where)
    return wordings(text, sorted(places, key=lambda place: place.start), limit)


# ── learnt words ─────────────────────────────────────────────────────────────────────────────────


async def _learnt(base: OpenBase, serving: Serving, text: str, places: Sequence[Place], where: Filter) -> list[Place]:
    """The places of words that no list has, with related words of the base itself."""
    model = serving.model
    unknown = unknown_words(text, places, base.analyser) if model is not None else {}
    words = [word for word in unknown if can_have_neighbours(word)]
    if model is None or not words:
        return []
    learnt = await _learnt_terms(base, model)
    if not learnt.terms:
        base.terms.note_lack()
        return []
    counts = (await serving.index.count(Terms(tuple(words)))).words
    rarest = sorted(words, key=lambda word: counts.get(word, 0))[:LEARNT_PLACES]
    vectors = await _vectors(base, model, rarest)

    def near() -> dict[str, list[tuple[str, float]]]:
        return {
            word: neighbours(word, vector, learnt.terms, learnt.vectors, IN_BASE if counts.get(word) else NOT_IN_BASE)
            for word, vector in vectors.items()
        }

    found = await asyncio.to_thread(near)
    others = sorted({term for terms in found.values() for term, _ in terms})
    # Looked up, because a count may include deleted chunks.
    visible = {term for term in others if len(await serving.index.match(Terms((term,)), 1, where, "all"))}
    folded = fold(text)
    learnt_places = []
    for word, terms_found in found.items():
        place = unknown[word]
        written = text[place.start : place.end]
        related = tuple(
            Related(written, term, "learnt", round(min(cosine, 1.0) * LEARNT_WEIGHT, 4))
            for term, cosine in terms_found
            if term in visible and term not in folded
        )
        learnt_places += [replace(place, related=related)] if related else []
    return learnt_places


async def _learnt_terms(base: OpenBase, model: EmbeddingModel) -> LearntTerms:
    """The words of the base under this model, read once after they were learnt."""
    key = (model.name, model.dimension)
    found = base.terms.learnt(key)
    if found is None:
        version = base.terms.version
        found = LearntTerms(key, *await base.records.read(lambda tx: terms.learnt(tx, base.id, *key)))
        base.terms.store(found, version)
    return found


async def _vectors(base: OpenBase, model: EmbeddingModel, words: Sequence[str]) -> dict[str, Vector]:
    """The vectors of a query's words, from the cache or the model; none if that fails or takes long."""
    key = (model.name, model.dimension)
    missing = [word for word in words if base.terms.vector(key, word) is None]
    if missing:
        try:
            async with asyncio.timeout(SECONDS):
                vectors = await in_model_thread(base, "embedding", model.name, embed, missing, model)
        except (ModelError, TimeoutError) as error:
            # The vector arm reports it; here there are merely fewer wordings.
            log.info("no related words for a query of base %s: %s", base.id, error or "timeout")
        except Exception:  # any model may raise anything
            log.exception("no related words for a query of base %s: its model failed", base.id)
        else:
            base.terms.store_vectors(key, missing, vectors)
    found = {word: base.terms.vector(key, word) for word in words}
    return {word: vector for word, vector in found.items() if vector is not None}


# ── neighbours ───────────────────────────────────────────────────────────────────────────────────


def can_have_neighbours(word: str) -> bool:
    """Words of Han characters: of others a Chinese model makes the same vector, whatever they are. No numbers."""
    return _HAN_WORD.fullmatch(word) is not None and word not in STOP_WORDS and _NUMERALS.isdisjoint(word)


def neighbours(
    word: str, vector: Vector, terms: Sequence[str], vectors: Vectors, least: Nearness = IN_BASE
) -> list[tuple[str, float]]:
    """The terms that are related to a word, nearest first, with their cosines; ties in the order of the terms.

    What contains the other is found by its characters, and is no other wording; nor is the opposite.
    """
    if not len(terms):
        return []
    # Not by BLAS: on busy cores its threads wait longer for one another (13 ms) than this takes for 5,000 words (1 ms).
    cosines = np.einsum("ij,j->i", vectors, vector)
    nearest = np.argpartition(-cosines, min(_LOOKED_AT, len(terms) - 1))[:_LOOKED_AT]
    ordered = sorted((-float(cosines[at]), terms[at]) for at in nearest)
    near = ((term, -cosine) for cosine, term in ordered if least.is_reached(-cosine, word, term))
    others = (
        (term, cosine)
        for term, cosine in near
        if term not in word and word not in term and not are_opposites(word, term)
    )
    return list(others)[:NEIGHBOURS]


def are_opposites(one: str, other: str) -> bool:
    """左侧 and 右边, 能用 and 不能用; by their characters, so that not all are known."""
    if _NEGATIONS.isdisjoint(one) != _NEGATIONS.isdisjoint(other):
        return True
    only_one, only_other = set(one) - set(other), set(other) - set(one)
    return any(frozenset((left, right)) in _OPPOSITES for left in only_one for right in only_other)
