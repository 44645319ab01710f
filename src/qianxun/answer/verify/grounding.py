"""Whether a sentence's figures are in what it cites: every number, date, share, dose and amount, in equal value, and of
the same thing."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Final

from qianxun.text.chinese import fold, grams
from qianxun.text.figures import (
    Code,
    Day,
    Figure,
    Number,
    Placed,
    Share,
    figures,
    measured,
    placed,
    prepared,
    same_amount,
)
from qianxun.text.math_text import without_formulas

_HEADED_BY: Final = re.compile(
    r"(?<![\d.])[（(:：/\s|]([十百千]?[万亿])"
)  # 营业收入（万元）: the cells below have no scale
_ITEMS: Final = ("[、和与及]|以及", "[，,]", "[；;]")
FITS: Final = 0.4  # of the words around a figure stand around another in the source
BETTER: Final = 0.3  # … and that many more than around the figure itself
_CLAUSE: Final = re.compile(r"[^，,；;。！？!?：:\n]*[，,；;。！？!?：:\n]*")
_SENTENCE_END: Final = re.compile(r"[。！？!?；;\n]\s*\Z")
_FEWEST: Final = 3  # pairs of characters that tell a clause from others


@dataclass(frozen=True)
class Evidence:
    """The texts that a sentence cites, read once; ``names``: of their documents, which are evidence as well."""

    texts: tuple[str, ...]
    names: tuple[str, ...] = ()

    @staticmethod
    def of(texts: Iterable[str], names: Iterable[str] = ()) -> Evidence:
        return Evidence(tuple(texts), tuple(names))

    @cached_property
    def text(self) -> str:
        return "\n".join((*self.names, *self.texts))

    @cached_property
    def plain(self) -> str:
        return re.sub(r"[\s,，]", "", fold(without_formulas(self.text)).replace("％", "%"))

    @cached_property
    def figures(self) -> Sequence[Figure]:
        return figures(self.text)

    @cached_property
    def occurrences(self) -> tuple[Sequence[Occurrence], ...]:
        """Of each text by itself: two documents may tell the same of two subjects."""
        return tuple(occurrences(text) for text in self.texts)

    @cached_property
    def days(self) -> tuple[Day, ...]:
        return tuple(each for each in self.figures if isinstance(each, Day))

    @cached_property
    def years(self) -> frozenset[int]:
        named = {each.year for each in self.days if each.year is not None}
        return frozenset(named | {int(value) for value in self.bare if value == int(value)})

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(each for each in self.figures if isinstance(each, Number))

    @cached_property
    def bare(self) -> frozenset[Decimal]:
        """Numbers without a unit."""
        return frozenset(value for each in self.numbers if not each.unit for value in each.values)

    @cached_property
    def shares(self) -> frozenset[Decimal]:
        return frozenset(value for each in self.figures if isinstance(each, Share) for value in each.values)

    @cached_property
    def scales(self) -> frozenset[str]:
        return frozenset(_HEADED_BY.findall(fold(self.text)))


def unsupported(sentence: str, evidence: Evidence, asked: str = "") -> list[Figure]:
    """The figures of a sentence that do not stand in the evidence, or stand there of something else."""
    lacking = [each for each in figures(sentence) if not is_in(each, sentence, evidence)]
    return lacking or _misplaced(sentence, evidence, asked)


def _misplaced(sentence: str, evidence: Evidence, asked: str) -> list[Figure]:
    """Those that every text which has them says of something else."""
    wrong: list[Figure] = []
    right: set[Figure] = set()
    for text, places in zip(evidence.texts, evidence.occurrences, strict=True):
        misled = list(misplaced(sentence, places, asked, " ".join(evidence.names)))
        alone = Evidence((text,), evidence.names)
        right.update(each for each in figures(sentence) if each not in misled and is_in(each, sentence, alone))
        wrong += misled
    return [each for each in dict.fromkeys(wrong) if each not in right]


def is_in(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    if _verbatim(figure.written, evidence.plain):
        return True
    if isinstance(figure, Day):
        return has_day(figure, evidence)
    if isinstance(figure, Share):
        return any(value in evidence.shares or value in evidence.bare for value in figure.values)
    if isinstance(figure, Number) and not figure.unit and evidence.shares.intersection(figure.values):
        return True
    if isinstance(figure, Code):
        return figure.plain in re.sub(r"[\s/-]", "", evidence.plain)
    if any(same_amount(figure, each) for each in evidence.numbers):
        return True
    if any(_is_part_of_date(figure.unit, value, evidence) for value in figure.values):
        return True
    if figure.digits and Decimal(figure.digits) in evidence.bare and figure.values[-1] != Decimal(figure.digits):
        return any(scale in figure.written for scale in evidence.scales)
    return figure.is_count and _counts_itself(figure, sentence)


def _verbatim(written: str, plain: str) -> bool:
    """Whether it stands there as it is written, and not within a longer number."""
    told = re.sub(r"[\s,，]", "", written)
    if not told:
        return False
    ahead = r"(?![\d.％%‰万亿])" if told[-1].isdigit() else ""
    return re.search(rf"(?<![\d.]){re.escape(told)}{ahead}", plain) is not None


def has_day(day: Day, evidence: Evidence) -> bool:
    if day.month is None and day.day is None:
        return day.year in evidence.years
    if day.month is None and day.year is None and _lasts(day, evidence):
        return True
    return any(_holds(held, day, evidence.years) for held in evidence.days)


def _lasts(day: Day, evidence: Evidence) -> bool:
    """十五日 may be a date or a time of fifteen days."""
    return any(each.unit in ("日", "天") and day.day in each.values for each in evidence.numbers)


def _holds(held: Day, day: Day, years: frozenset[int]) -> bool:
    """2018-01-15 holds 2018年1月 and 1月15日; 1月15日 holds 2018年1月15日 where 2018 is named beside it."""
    if day.month is not None and held.month != day.month:
        return False
    if day.day is not None and held.day != day.day:
        return False
    return day.year is None or held.year == day.year or (held.year is None and day.year in years)


def _is_part_of_date(unit: str, value: Decimal, evidence: Evidence) -> bool:
    """2018 of 2018年, where it stands alone; 15 of 15天, where the text has 15日."""
    if unit == "":
        return any(value in (each.year, each.month, each.day) for each in evidence.days)
    if unit == "年":
        return any(value == each.year for each in evidence.days)
    return unit in ("日", "天") and any(value == each.day for each in evidence.days if each.month is None)


def _counts_itself(figure: Number, sentence: str) -> bool:
    """主要有三种症状：发热、咳嗽和乏力: the sentence counts what it lists, or what the lines below it list."""
    behind = fold(sentence).partition(figure.written)[2]
    if behind.rstrip().endswith((":", "：")):
        return True
    listed = re.split("[:：]|包括|分别是|分别为|即|有", behind)[-1]
    return any(len([part for part in re.split(mark, listed) if part.strip()]) == figure.values[0] for mark in _ITEMS)


# ── a figure of something else ────────────────────────────────────────────────────────────────────


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
