"""A query in other words: some of its words replaced by others that mean the same. Pure and deterministic.

First the places: words of the user's own list, then of the shipped one, the longest first, none overlapping another.
Then the wordings: each place by itself with the best word for it, all places together, then the next best words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.text.chinese import STOP_WORDS, Analyser, fold
from qianxun.text.synonyms import Origin, Thesaurus

LIMIT: Final = 4
_NEXT_BEST: Final = 0.97  # of the weight, for each better word that there is for the same place
_TOGETHER: Final = 0.98  # … and for each place beyond the first that is replaced
_FITS_ANYWHERE: Final = 3  # so many characters are no accident, wherever the segmenter cuts


@dataclass(frozen=True, slots=True)
class Related:
    """``by`` in place of ``word``, a word of the query; ``origin`` is the list that relates them."""

    word: str
    by: str
    origin: Origin
    weight: float


@dataclass(frozen=True, slots=True)
class Expansion:
    """The query with some words replaced. ``weight`` is in (0, 1]: how far its results are those of the query."""

    text: str
    related: tuple[Related, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class Place:
    """A word of the query, its position in the text, and what may replace it, best first.

    ``alone``: the user's list has it without a synonym, so that nothing replaces it.
    """

    start: int
    end: int
    related: tuple[Related, ...] = ()
    alone: bool = False


# ── places ───────────────────────────────────────────────────────────────────────────────────────


def known_places(text: str, own: Thesaurus, shipped: Thesaurus, analyser: Analyser) -> list[Place]:
    """The places of a query (as `comparable` gives it) whose words either list knows, in the order of the text."""
    folded = fold(text)
    edges = _edges(folded, analyser)
    chosen: list[Place] = []
    for thesaurus in (own, shipped):
        for start, end in _found(folded, thesaurus, edges, chosen):
            word = folded[start:end]
            # What is in the query already is no other wording: 高血压病 does not become 高血压病病.
            related = (one for one in _related(text[start:end], word, own, shipped) if fold(one.by) not in folded)
            chosen.append(Place(start, end, tuple(related), word in own.alone))
    return sorted(chosen, key=lambda place: place.start)


def comparable(text: str) -> str:
    """The text itself where folding keeps every character at its place, else its folded form."""
    folded = fold(text)
    return text if len(folded) == len(text) else folded


def unknown_words(text: str, places: Sequence[Place], analyser: Analyser) -> dict[str, Place]:
    """The significant words of the query outside these places, folded, each with its first position."""
    found: dict[str, Place] = {}
    start = 0
    for segment in analyser.segments(fold(text)):
        end = start + len(segment)
        if is_significant(segment) and not any(_overlap(start, end, place) for place in places):
            found.setdefault(segment, Place(start, end))
        start = end
    return found


def is_significant(word: str) -> bool:
    """True if a folded word can have related words: no stop word, no number, nothing of one character."""
    return len(word) > 1 and word not in STOP_WORDS and word.isalnum() and not any(map(str.isnumeric, word))


def _edges(folded: str, analyser: Analyser) -> frozenset[int]:
    """Where words begin and end."""
    edges = {0}
    at = 0
    for segment in analyser.segments(folded):
        at += len(segment)
        edges.add(at)
    return frozenset(edges)


def _found(
    folded: str, thesaurus: Thesaurus, edges: frozenset[int], taken: Sequence[Place]
) -> Iterator[tuple[int, int]]:
    at = 0
    fixed = list(taken)  # ``taken`` grows while this is read
    while at < len(folded):
        fitting = (
            word
            for word in thesaurus.starting(folded, at)
            if _is_separate(folded, at, at + len(word), edges)
            and not any(_overlap(at, at + len(word), place) for place in fixed)
        )
        word = next(fitting, "")
        if word:
            yield at, at + len(word)
        at += len(word) or 1


def _is_separate(folded: str, start: int, end: int, edges: frozenset[int]) -> bool:
    """年假 is no word of 去年假期, nor ai of mail."""
    for at in (start, end):
        around = folded[max(at - 1, 0) : at + 1]
        if 0 < at < len(folded) and around.isascii() and around.isalnum():
            return False
    return (start in edges and end in edges) or (end - start >= _FITS_ANYWHERE and not folded[start:end].isascii())


def _overlap(start: int, end: int, place: Place) -> bool:
    return start < place.end and place.start < end


def _related(written: str, word: str, own: Thesaurus, shipped: Thesaurus) -> tuple[Related, ...]:
    found = [Related(written, other.word, "user", other.weight) for other in own.of(word)]
    if word not in own.alone:
        known = {fold(one.by) for one in found}
        found += [
            Related(written, other.word, "shipped", other.weight)
            for other in shipped.of(word)
            if fold(other.word) not in known
        ]
    return tuple(found)


# ── wordings ─────────────────────────────────────────────────────────────────────────────────────


def wordings(text: str, places: Sequence[Place], limit: int = LIMIT) -> tuple[Expansion, ...]:
    """At most ``limit`` expansions of a query, best first; places do not overlap.

    What was learnt is a guess: it is not put into the same wording as words of a list.
    """
    replaceable = [place for place in places if place.related]
    singles = [_replaced(text, [(place, at)]) for place in replaceable for at in range(len(place.related))]
    singles.sort(key=lambda one: -one.weight)
    written = [place for place in replaceable if place.related[0].origin != "learnt"] or replaceable
    together = [_replaced(text, [(place, 0) for place in written])] if len(written) > 1 else []
    best = [*_distinct(text, singles)][: max(limit - len(together), 1)] + together
    return tuple(sorted(_distinct(text, best), key=lambda one: -one.weight)[:limit])


def _replaced(text: str, chosen: Sequence[tuple[Place, int]]) -> Expansion:
    related = tuple(
        replace(place.related[at], weight=round(place.related[at].weight * _NEXT_BEST**at, 4)) for place, at in chosen
    )
    wording = text
    for (place, _), one in reversed(list(zip(chosen, related, strict=True))):
        wording = wording[: place.start] + _spaced(wording, place, one.by) + wording[place.end :]
    mean = sum(one.weight for one in related) / len(related)
    return Expansion(wording, related, round(mean * _TOGETHER ** (len(related) - 1), 4))


def _spaced(text: str, place: Place, word: str) -> str:
    """Letters do not run into the letters beside them."""
    before, after = text[place.start - 1 : place.start] if place.start else "", text[place.end : place.end + 1]
    left = " " if _are_letters(before, word[:1]) else ""
    return left + word + (" " if _are_letters(word[-1:], after) else "")


def _are_letters(left: str, right: str) -> bool:
    return bool(left and right) and (left + right).isascii() and (left + right).isalnum()


def _distinct(text: str, expansions: Iterable[Expansion]) -> Iterator[Expansion]:
    seen = {fold(text)}
    for expansion in expansions:
        if fold(expansion.text) not in seen:
            seen.add(fold(expansion.text))
            yield expansion


def with_counts(places: Iterable[Place], counts: Mapping[str, int], most: int) -> list[Place]:
    """The places with those words that occur in the base, at most so many for each; a place without any is none.

    Of words that weigh the same those come first that occur in more of the base's entries.
    """
    found = []
    for place in places:
        known = (related for related in place.related if counts.get(related.by))
        best = sorted(known, key=lambda one: (-one.weight, -counts[one.by]))[:most]
        if best or place.alone:
            found.append(replace(place, related=tuple(best)))
    return found
