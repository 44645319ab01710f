"""A query in other words: synonyms of the base's user, of the shipped list, and related words learnt from the base."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from qianxun.bases.base import OpenBase, Serving, in_model_thread
from qianxun.bases.known_terms import LearntTerms
from qianxun.core.errors import ModelError
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import EVERYTHING, Filter, Terms, Vector
from qianxun.models.embedding import embed
from qianxun.records import terms
from qianxun.retrieve.terms.neighbours import HELD, LACKING, can_have_neighbours, neighbours
from qianxun.text.chinese import fold
from qianxun.text.expansion import (
    LIMIT,
    Expansion,
    Place,
    Related,
    comparable,
    known_places,
    only_held,
    unknown_words,
    wordings,
)
from qianxun.text.synonyms import shipped

log = logging.getLogger(__name__)

LONGEST: Final = 200  # characters; a longer query has words enough to be found by
PLACES: Final = 8  # words of one query that are said otherwise
WORDS: Final = 40  # other words that the index is asked for
LEARNT_PLACES: Final = 4  # … of which so many by what was learnt
LEARNT_WEIGHT: Final = 0.8  # of a cosine: less than that of a word that somebody has written down
SECONDS: Final = 1.0  # for the vectors of a query's words; without them it is said in fewer ways


async def expanded(
    base: OpenBase, serving: Serving, text: str, limit: int = LIMIT, *, where: Filter = EVERYTHING
) -> tuple[Expansion, ...]:
    """At most ``limit`` other wordings of a query, best first; none where nothing is known of its words.

    Only words that the index holds are said: another wording that finds nothing would take the place of one that does.
    Words learnt from the base must stand in what ``where`` lets through: nobody is told words of what is not theirs.
    """
    if len(text) > LONGEST:
        return ()
    text = comparable(text)
    known = known_places(text, base.terms.own(base.about.config), shipped(), base.analyser)[:PLACES]
    places = await _held(base, serving, known, limit)
    places += await _learnt(base, serving, text, places, where)
    return wordings(text, sorted(places, key=lambda place: place.start), limit)


async def _held(base: OpenBase, serving: Serving, places: Sequence[Place], limit: int) -> list[Place]:
    """The places with the words that stand in the base."""
    others = list(dict.fromkeys(each.by for place in places for each in place.related))[:WORDS]
    parts = {word: tuple(dict.fromkeys(base.analyser.words(word))) for word in others}
    wanted = tuple(dict.fromkeys(part for own in parts.values() for part in own))
    counts = (await serving.index.count(Terms(wanted))).words if wanted else {}
    held = {word: min((counts.get(part, 0) for part in own), default=0) for word, own in parts.items()}
    return only_held(places, held, limit)


# ── learnt ───────────────────────────────────────────────────────────────────────────────────────


async def _learnt(base: OpenBase, serving: Serving, text: str, places: Sequence[Place], where: Filter) -> list[Place]:
    """The places of words that nobody has written a synonym of, with related words of the base itself."""
    model = serving.model
    asked = unknown_words(text, places, base.analyser) if model is not None else {}
    words = [word for word in asked if can_have_neighbours(word)]
    if model is None or not words:
        return []
    learnt = await _learnt_terms(base, model)
    if not learnt.terms:
        base.terms.note_lack()
        return []
    counts = (await serving.index.count(Terms(tuple(words)))).words
    rarest = sorted(words, key=lambda word: counts.get(word, 0))[:LEARNT_PLACES]
    near = await asyncio.to_thread(_near, await _vectors(base, model, rarest), learnt, counts)
    held = await _standing(serving, {term for found in near.values() for term, _ in found}, where)
    return [
        place
        for word, found in near.items()
        if (place := _with_neighbours(text, asked[word], [each for each in found if each[0] in held])).related
    ]


def _near(
    vectors: Mapping[str, Vector], learnt: LearntTerms, counts: Mapping[str, int]
) -> dict[str, list[tuple[str, float]]]:
    return {
        word: neighbours(word, vector, learnt.terms, learnt.vectors, HELD if counts.get(word) else LACKING)
        for word, vector in vectors.items()
    }


def _with_neighbours(text: str, place: Place, found: Sequence[tuple[str, float]]) -> Place:
    word = text[place.start : place.end]
    related = (Related(word, term, "learnt", round(min(cosine, 1.0) * LEARNT_WEIGHT, 4)) for term, cosine in found)
    return replace(place, related=tuple(each for each in related if each.by not in fold(text)))


async def _standing(serving: Serving, words: Iterable[str], where: Filter) -> set[str]:
    """Those of the words that occur in a chunk which passes ``where``: a count may include deleted chunks."""
    return {word for word in sorted(words) if len(await serving.index.match(Terms((word,)), 1, where, "all"))}


async def _learnt_terms(base: OpenBase, model: EmbeddingModel) -> LearntTerms:
    """The words of the base under this model, read once after they were learnt."""
    key = (model.name, model.dimension)
    held = base.terms.learnt(key)
    if held is None:
        version = base.terms.version
        found = await base.records.read(lambda tx: terms.learnt(tx, base.id, *key))
        held = LearntTerms(key, *found)
        base.terms.store(held, version)
    return held


async def _vectors(base: OpenBase, model: EmbeddingModel, words: Sequence[str]) -> dict[str, Vector]:
    """The vectors of a query's words, those asked for before without the model; none where it fails or takes long."""
    key = (model.name, model.dimension)
    lacking = [word for word in words if base.terms.vector(key, word) is None]
    if lacking:
        try:
            async with asyncio.timeout(SECONDS):
                made = await in_model_thread(base, "embedding", model.name, embed, lacking, model)
        except (ModelError, TimeoutError) as error:
            # Whoever searches by meaning is told by that arm; here the query is merely said in fewer ways.
            log.info("no related words for a query of base %s: %s", base.id, error or "timeout")
        except Exception:  # the door of a model, which may be anybody's
            log.exception("no related words for a query of base %s: its model failed", base.id)
        else:
            base.terms.store_vectors(key, lacking, made)
    found = {word: base.terms.vector(key, word) for word in words}
    return {word: vector for word, vector in found.items() if vector is not None}
