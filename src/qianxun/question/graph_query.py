"""A question as relations of a graph are matched with it: its units, which of them carry meaning, what is shared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from qianxun.question.words import cue, entries, joined
from qianxun.text.chinese import STOP_WORDS, Analyser, fold
from qianxun.text.synonyms import Thesaurus, shipped

_LONGEST: Final = 400  # characters of a question that are looked at
_OTHER_NAME: Final = 0.6  # how sure it is that 多高 asks for a 海拔
_OTHER_WORDS: Final = 24  # in the place of the question's own

_HAN: Final = "\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\U00020000-\\U000323af"  # and kana
# One character of Chinese, or a run of letters and digits.
_UNIT: Final = re.compile(rf"[^\W_{_HAN}]+(?:\.[0-9]+)?|[^\W_]")
_ENDING: Final = re.compile("(?:ations?|ions?|ings?|ors?|ers?|ed|es|s)$")  # directed, director, direction
_STEM: Final = 4  # letters that must be left of a word
_EMPTY: Final = frozenset(joined("filler.graph"))  # carry nothing, in a question or in a relation


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a relation answers to a question: which of its units, and how much of the relation's own words."""

    share: float  # in [0, 1]
    bits: int  # units of the question


NO_FIT: Final = Fit(0.0, 0)


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """A question cut into units; a set of units is the bits of a number."""

    folded: str
    units: tuple[str, ...]
    starts: tuple[int, ...]
    informative: int  # the units that carry meaning
    others: tuple[tuple[tuple[str, ...], int, float], ...] = ()  # (other words, the units they stand for, how sure)
    places: Mapping[str, Sequence[int]] = field(default_factory=dict, repr=False)  # where the units are
    # The units that a relation must have one of, to have anything to do with the question.
    sought: frozenset[str] = frozenset()
    _fits: dict[str, Fit] = field(default_factory=dict, repr=False)

    def bits(self, start: int, end: int) -> int:
        """The units within these characters."""
        return sum(1 << at for at, place in enumerate(self.starts) if start <= place < end)

    def share(self, bits: int) -> float:
        """How much of the question's meaning these units carry."""
        return (bits & self.informative).bit_count() / max(1, self.informative.bit_count())

    def fit(self, words: str) -> Fit:
        """What the question has of a relation's words; cached, because relations share their words."""
        fit = self._fits.get(words)
        if fit is None:
            own = units_of(words)
            fit = self._fits[words] = NO_FIT if self.sought.isdisjoint(own) else self._fit(own)
        return fit

    def _fit(self, own: Sequence[str]) -> Fit:
        best = _common(self, own)
        for other, bits, weight in self.others:
            share = weight * _likeness(other, own)
            if share > best.share:
                best = Fit(share, bits)
        return best


def graph_query(text: str, analyser: Analyser, own: Thesaurus | None = None) -> GraphQuery:
    """``own`` are the synonyms that the base's user gave."""
    folded = fold(text[:_LONGEST])
    found = list(_UNIT.finditer(folded))
    units, starts = tuple(_unit(unit.group()) for unit in found), tuple(unit.start() for unit in found)
    bare = GraphQuery(folded, units, starts, 0)
    empty = 0
    for lead in cue("small_talk.lead").finditer(folded):
        empty |= bare.bits(*lead.span())
    at = 0
    for word in analyser.segments(folded):
        if word in STOP_WORDS:
            empty |= bare.bits(at, at + len(word))
        at += len(word)
    informative = sum(1 << place for place, unit in enumerate(units) if unit not in _EMPTY) & ~empty
    others = tuple(_others(bare, filter(None, (own, shipped()))))[:_OTHER_WORDS]
    places: dict[str, list[int]] = {}
    for place, unit in enumerate(units):
        places.setdefault(unit, []).append(place)
    informative = informative or (1 << len(units)) - 1
    own_units = (unit for at, unit in enumerate(units) if informative >> at & 1)
    sought = frozenset((*own_units, *(unit for other, _, _ in others for unit in other)))
    return GraphQuery(folded, units, starts, informative, others, places, sought)


@lru_cache(maxsize=65_536)
def units_of(words: str) -> tuple[str, ...]:
    """A relation's units, without those that carry nothing."""
    return tuple(_unit(unit) for unit in _UNIT.findall(fold(words)) if unit not in _EMPTY)


def _unit(word: str) -> str:
    """A word of letters without its ending."""
    if len(word) <= _STEM or not word.isascii() or not word.isalpha():
        return word
    stem = _ENDING.sub("", word)
    return stem if len(stem) >= _STEM else word


def _others(query: GraphQuery, known: Iterable[Thesaurus]) -> Iterator[tuple[tuple[str, ...], int, float]]:
    for cue_, names in entries("graph.asked_for").items():
        at = query.folded.find(cue_)
        if at >= 0:
            yield from ((units_of(name), query.bits(at, at + len(cue_)), _OTHER_NAME) for name in names.split())
    for thesaurus in known:
        for at in range(len(query.folded)):
            for word in thesaurus.starting(query.folded, at):
                bits = query.bits(at, at + len(word))
                yield from ((units_of(other.word), bits, other.weight) for other in thesaurus.of(word) if len(word) > 1)


def _likeness(words: Sequence[str], others: Sequence[str]) -> float:
    """The share of the longer one that both have in common; one character of several is not enough."""
    common = len(set(words).intersection(others))
    return common / max(len(words), len(others), 1) if common > 1 or len(others) == 1 else 0.0


def _common(query: GraphQuery, words: Sequence[str]) -> Fit:
    """The longest runs of units that both have, longest first, none twice.

    A lone character that both have means little where the relation has others: 人 of 制片人 in 人口.
    """
    taken = bits = 0
    left = set(range(len(words)))
    shared = 0.0
    for length, start, other in sorted(_runs(query, words), key=lambda run: (-run[0], run[1], run[2])):
        covered = ((1 << length) - 1) << start
        there = range(other, other + length)
        if covered & taken or not covered & query.informative or not left.issuperset(there):
            continue
        taken |= covered
        left.difference_update(there)
        bits |= covered
        is_lone = length == 1 and len(words) > 1 and len(words[other]) == 1
        shared += 0.6 if is_lone else length
    return Fit(min(1.0, shared / len(words)), bits) if bits else NO_FIT


def _runs(query: GraphQuery, words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """(length, start in the question, start in the words) of every run that both have and that cannot begin sooner."""
    units = query.units
    for other, word in enumerate(words):
        for start in query.places.get(word, ()):
            if start and other and units[start - 1] == words[other - 1]:
                continue
            length = 1
            while units[start + length : start + length + 1] == tuple(words[other + length : other + length + 1]) != ():
                length += 1
            yield length, start, other
