"""Whether a sentence's figures stand in what it cites: every number, date, share, dose and amount, in equal value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Final

from qianxun.answer.verify.misplaced import Occurrence, misplaced, occurrences
from qianxun.text.chinese import fold
from qianxun.text.figures import Code, Day, Figure, Number, Share, figures, same_amount
from qianxun.text.math_text import without_formulas

_HEADED_BY: Final = re.compile(
    r"(?<![\d.])[（(:：/\s|]([十百千]?[万亿])"
)  # 营业收入（万元）: the cells below have no scale
_ITEMS: Final = ("[、和与及]|以及", "[，,]", "[；;]")


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
    lacking = [each for each in figures(sentence) if not stands(each, sentence, evidence)]
    return lacking or _misplaced(sentence, evidence, asked)


def _misplaced(sentence: str, evidence: Evidence, asked: str) -> list[Figure]:
    """Those that every text which has them says of something else."""
    wrong: list[Figure] = []
    right: set[Figure] = set()
    for text, placed in zip(evidence.texts, evidence.occurrences, strict=True):
        misled = list(misplaced(sentence, placed, asked, " ".join(evidence.names)))
        alone = Evidence((text,), evidence.names)
        right.update(each for each in figures(sentence) if each not in misled and stands(each, sentence, alone))
        wrong += misled
    return [each for each in dict.fromkeys(wrong) if each not in right]


def stands(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    if _verbatim(figure.written, evidence.plain):
        return True
    if isinstance(figure, Day):
        return day_stands(figure, evidence)
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


def day_stands(day: Day, evidence: Evidence) -> bool:
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
