"""A figure that stands in a source, but of something else: 2017年9月 said of what happened in 2017年4月.

The words around a figure in an answer are compared with those around figures of its kind in the source. Where they fit
another figure much better than every place of its own, it was taken from the wrong place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.text.chinese import grams
from qianxun.text.figures import (
    Code,
    Day,
    Figure,
    Number,
    Placed,
    Share,
    measured,
    placed,
    prepared,
    same_amount,
)

FITS: Final = 0.4  # of the words around a figure stand around another in the source
BETTER: Final = 0.3  # … and that many more than around the figure itself
_CLAUSE: Final = re.compile(r"[^，,；;。！？!?：:\n]*[，,；;。！？!?：:\n]*")
_SENTENCE_END: Final = re.compile(r"[。！？!?；;\n]\s*\Z")
_FEWEST: Final = 3  # pairs of characters that tell a clause from others


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A figure, and the pairs of characters around it: those of its clause, and those of its sentence."""

    figure: Figure
    clause: frozenset[str]
    sentence: frozenset[str]


def occurrences(text: str) -> list[Occurrence]:
    folded = prepared(text)
    found = placed(folded)
    bare = _without_figures(folded, found)
    clauses = [match.span() for match in _CLAUSE.finditer(folded) if match.group()]
    told = [_pairs(bare[start:end]) for start, end in clauses]
    ends = [bool(_SENTENCE_END.search(folded[start:end])) for start, end in clauses]
    starts = [start for start, _ in clauses]
    places = []
    for each in found:
        at = bisect_right(starts, each.start) - 1
        places.append(Occurrence(each.figure, _around(at, told, ends), _whole(at, told, ends)))
    return places


def _without_figures(text: str, found: Sequence[Placed]) -> str:
    kept, last = [], 0
    for each in found:
        kept += [text[last : each.start], " " * (each.end - each.start)]
        last = each.end
    return "".join((*kept, text[last:]))


def _pairs(text: str) -> frozenset[str]:
    return frozenset(gram for gram in grams(text) if len(gram) > 1)


def _around(at: int, told: Sequence[frozenset[str]], ends: Sequence[bool]) -> frozenset[str]:
    """The clause; with its neighbours where it says too little by itself: 2017年9月，…"""
    around = told[at]
    after = at
    while len(around) < _FEWEST and after + 1 < len(told) and not ends[after]:
        after += 1
        around = around | told[after]
    while len(around) < _FEWEST and at > 0 and not ends[at - 1]:
        at -= 1
        around = around | told[at]
    return around


def _whole(at: int, told: Sequence[frozenset[str]], ends: Sequence[bool]) -> frozenset[str]:
    first = last = at
    while first > 0 and not ends[first - 1]:
        first -= 1
    while last + 1 < len(told) and not ends[last]:
        last += 1
    return frozenset().union(*told[first : last + 1])


def misplaced(sentence: str, source: Sequence[Occurrence], asked: str = "", names: str = "") -> Iterator[Figure]:
    """The figures of a sentence that its source says of something else. An answer of a few words is one to what was
    ``asked``; ``names`` of the document tell none of its places from another, nor does what none of them has."""
    telling = frozenset().union(*(each.sentence for each in source)) - _pairs(names)
    question = _pairs(asked) & telling
    said = occurrences(sentence)
    for each in said:
        if isinstance(each.figure, Code):
            continue
        here = Occurrence(each.figure, each.clause & telling, each.sentence & telling)
        if len(here.clause) < _FEWEST:
            here = Occurrence(each.figure, here.clause | question, here.sentence | question)
        own = [other for other in source if _same(each.figure, other.figure)]
        rivals = [other for other in source if _rivals(each.figure, other.figure)]
        is_alone = not any(_rivals(each.figure, other.figure) for other in said)
        if own and rivals:
            rival = _most(here, rivals, is_alone)
            if rival >= FITS and rival - _most(here, own, is_alone) >= BETTER:
                yield each.figure


def _most(answer: Occurrence, places: Sequence[Occurrence], is_alone: bool) -> float:
    """By the clause; where the sentence has no other figure of the kind, by the whole of it as well."""
    if not is_alone:
        return max(_shared(answer.clause, each.clause) for each in places)
    return max((_shared(answer.clause, each.clause) + _shared(answer.sentence, each.sentence)) / 2 for each in places)


def _shared(answer: frozenset[str], place: frozenset[str]) -> float:
    return len(answer & place) / max(len(answer), 1)


def _same(one: Figure, other: Figure) -> bool:
    if isinstance(one, Day) and isinstance(other, Day):
        return all(a is None or b is None or a == b for a, b in zip(_parts(one), _parts(other), strict=True))
    if isinstance(one, Number) and isinstance(other, Number):
        return same_amount(one, other)
    if isinstance(one, Share | Number) and isinstance(other, Share | Number):
        return bool(set(one.values) & set(other.values))
    return False


def _rivals(one: Figure, other: Figure) -> bool:
    """Of one kind, and different."""
    if isinstance(one, Day) and isinstance(other, Day):
        return not _same(one, other)
    if isinstance(one, Number) and isinstance(other, Number):
        return measured(one.unit) == measured(other.unit) and not same_amount(one, other)
    return isinstance(one, Share) and isinstance(other, Share) and not _same(one, other)


def _parts(day: Day) -> tuple[int | None, int | None, int | None]:
    return day.year, day.month, day.day
