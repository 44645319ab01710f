"""A query in other words: synonyms of the base's user, of the shipped list, and related words learnt from the base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from qianxun.pipelines.base import OpenBase, Serving
from qianxun.recall.expansion import LIMIT, Expansion, Place, comparable, known_places, only_held, wordings
from qianxun.synonyms import shipped
from qianxun.types import EVERYTHING, Filter, Terms

PLACES: Final = 8  # words of one query that are said otherwise
WORDS: Final = 40  # other words that the index is asked for


async def expanded(
    base: OpenBase, serving: Serving, text: str, limit: int = LIMIT, *, where: Filter = EVERYTHING
) -> tuple[Expansion, ...]:
    """At most ``limit`` other wordings of a query, best first; none where nothing is known of its words.

    Only words that the index holds are said: another wording that finds nothing would take the place of one that does.
    """
    text = comparable(text)
    own = base.terms.own(base.about.config)
    places = known_places(text, own, shipped(), base.analyser)[:PLACES]
    return wordings(text, await _held(base, serving, places, limit), limit)


async def _held(base: OpenBase, serving: Serving, places: Sequence[Place], limit: int) -> list[Place]:
    """The places with the words that stand in the base."""
    others = list(dict.fromkeys(each.by for place in places for each in place.related))[:WORDS]
    if not others:
        return []
    parts = {word: tuple(dict.fromkeys(base.analyser.words(word))) for word in others}
    counts = await serving.index.count(Terms(tuple(dict.fromkeys(part for own in parts.values() for part in own))))
    held = {word: bool(own) and all(counts.words.get(part) for part in own) for word, own in parts.items()}
    return only_held(places, held, limit)
