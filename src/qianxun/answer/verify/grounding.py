"""Whether a sentence's figures are in what it cites: every number, date, share, dose and amount, in equal value, and of
the same thing."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Final

from qianxun.answer.verify.arithmetic import is_computed, is_miscalculated
from qianxun.answer.verify.counting import is_counted
from qianxun.answer.verify.rounding import Hedge, hedge_of, is_rounded
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import (
    Clock,
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
    without_formulas,
)

_HEADED_BY: Final = re.compile(
    r"(?<![\d.])[（(:：/\s|]([十百千]?[万亿])"
)  # 营业收入（万元）: the cells below have no scale
FITS: Final = 0.4  # of the words around a figure stand around another in the source
SURELY: Final = 0.9  # … where both are in one sentence
NEAR_RIVAL, FAR_OWN = 0.5, 0.2  # … where the figure itself is in another text alone
BETTER: Final = 0.3  # … and that many more than around the figure itself
_CLAUSE: Final = re.compile(r"[^，,；;。！？!?：:\n]*[，,；;。！？!?：:\n]*")
_SENTENCE_END: Final = re.compile(r"[。！？!?；;\n]\s*\Z")
_POINTS: Final = "百分点"
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
        return tuple(figure for figure in self.figures if isinstance(figure, Day))

    @cached_property
    def years(self) -> frozenset[int]:
        named = {day.year for day in self.days if day.year is not None}
        return frozenset(named | {int(value) for value in self.bare if value == int(value)})

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(figure for figure in self.figures if isinstance(figure, Number))

    @cached_property
    def bare(self) -> frozenset[Decimal]:
        """Numbers without a unit."""
        return frozenset(value for number in self.numbers if not number.unit for value in number.values)

    @cached_property
    def shares(self) -> frozenset[Decimal]:
        return frozenset(value for figure in self.figures if isinstance(figure, Share) for value in figure.values)

    @cached_property
    def scales(self) -> frozenset[str]:
        return frozenset(_HEADED_BY.findall(fold(self.text)))


def unsupported(sentence: str, evidence: Evidence, query: str = "", of_rows: Sequence[Figure] = ()) -> list[Figure]:
    """The figures of a sentence that do not stand in the evidence, or stand there of something else. ``of_rows``: those
    of the rows of a table that it names, from which others may be worked out."""
    stated = list(dict.fromkeys(figures(sentence)))
    missing = [figure for figure in stated if not is_in(figure, sentence, evidence)]
    missing = [one for one in missing if not _is_rounded(one, sentence, evidence)]
    missing = _not_worked_out(missing, sentence, evidence, of_rows)
    if missing:
        return missing
    if wrong := [one for one in stated if is_miscalculated(one, sentence, evidence.figures, evidence.text)]:
        return wrong
    misled = _misplaced(sentence, evidence, query)
    return _not_worked_out(misled, sentence, evidence, of_rows)


def _not_worked_out(
    missing: Sequence[Figure], sentence: str, evidence: Evidence, of_rows: Sequence[Figure]
) -> list[Figure]:
    """What follows neither from the sources nor from what was worked out before it: 合计3730万元，比目标少70万元."""
    results: list[Figure] = []
    left = []
    for figure in missing:
        known = [(*evidence.figures, *results), *([(*of_rows, *results)] if of_rows else [])]
        if any(is_computed(figure, sentence, one) for one in known):
            results.append(figure)
        else:
            left.append(figure)
    return left


def _misplaced(sentence: str, evidence: Evidence, query: str) -> list[Figure]:
    """Those that every text which has them has for something else."""
    wrong: list[Figure] = []
    right: set[Figure] = set()
    for text, places in zip(evidence.texts, evidence.occurrences, strict=True):
        misled = list(misplaced(sentence, places, query, " ".join(evidence.names)))
        alone = Evidence((text,), evidence.names)
        right.update(figure for figure in figures(sentence) if figure not in misled and is_in(figure, sentence, alone))
        wrong += misled
    found = [figure for figure in dict.fromkeys(wrong) if figure not in right]
    return found or (_strays(sentence, evidence) if len(evidence.texts) > 1 else [])


def _strays(sentence: str, evidence: Evidence) -> list[Figure]:
    """Figures that stand only in a text about something else, while another text has a different one right here."""
    everywhere = [place for places in evidence.occurrences for place in places]
    own_figures = occurrences(sentence)
    found: list[Figure] = []
    for one in own_figures:
        is_alone = not any(_rivals(one.figure, other.figure) for other in own_figures)
        if isinstance(one.figure, Code) or len(one.clause) < _FEWEST or not is_alone:
            continue
        own = [place for place in everywhere if _same(one.figure, place.figure)]
        rivals = [place for place in everywhere if _rivals(one.figure, place.figure)]
        if not own or not rivals:
            continue
        nearest = max(_shared(one.clause, place.clause) for place in rivals)
        if nearest >= NEAR_RIVAL and max(_shared(one.clause, place.clause) for place in own) <= FAR_OWN:
            found.append(one.figure)
    return found


def _is_rounded(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    """约1400万人 for 1361万人, where no other figure of the source is nearer to what the sentence speaks of."""
    hedge = hedge_of(figure, sentence)
    if hedge is None:
        return False
    one = next((one for one in occurrences(sentence) if one.figure == figure), None)
    return one is not None and any(_rounds_here(one, hedge, places) for places in evidence.occurrences)


def _rounds_here(one: Occurrence, hedge: Hedge, places: Sequence[Occurrence]) -> bool:
    own = [place for place in places if is_rounded(one.figure, hedge, place.figure)]
    rivals = [place for place in places if _rivals(one.figure, place.figure) and place not in own]
    if not own or not rivals:
        return bool(own)
    return _most(one, own, is_alone=True) > _most(one, rivals, is_alone=True) - BETTER


def is_in(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    if not isinstance(figure, Clock) and _verbatim(figure.written, evidence.plain):
        return True
    if isinstance(figure, Day):
        return has_day(figure, evidence)
    if isinstance(figure, Clock):
        return any(_same(figure, one) for one in evidence.figures)
    if isinstance(figure, Share):
        return any(value in evidence.shares or value in evidence.bare for value in figure.values)
    if isinstance(figure, Number) and not figure.unit and evidence.shares.intersection(figure.values):
        return True
    if isinstance(figure, Code):
        return figure.plain in re.sub(r"[\s/-]", "", evidence.plain)
    if any(_is_amount(figure, number) for number in evidence.numbers):
        return True
    if figure.written.startswith("每") and re.search(f"(?:[/／每按]|每个|一个)(?:{figure.unit})", evidence.plain):
        return True  # 免费停车（小时/月） is what may be had 每月
    if any(_is_part_of_date(figure.unit, value, evidence) for value in figure.values):
        return True
    if figure.digits and Decimal(figure.digits) in evidence.bare and figure.values[-1] != Decimal(figure.digits):
        return any(scale in figure.written for scale in evidence.scales)
    return is_counted(figure, sentence, evidence.text, evidence.numbers)


def _is_amount(figure: Number, known: Number) -> bool:
    """Equal in value; 第八条 is no 8个月."""
    is_ordinal = known.written.startswith("第") and not figure.written.startswith("第")
    return not (is_ordinal and measured(figure.unit)) and same_amount(figure, known)


def _verbatim(written: str, plain: str) -> bool:
    """Returns True if it is there as it is written, and not within a longer number."""
    bare = re.sub(r"[\s,，]", "", written)
    if not bare:
        return False
    ahead = r"(?![\d.％%‰万亿])" if bare[-1].isdigit() else ""
    return re.search(rf"(?<![\d.]){re.escape(bare)}{ahead}", plain) is not None


def has_day(day: Day, evidence: Evidence) -> bool:
    if day.month is None and day.day is None:
        return day.year in evidence.years
    if day.month is None and day.year is None and _lasts(day, evidence):
        return True
    return any(_covers(known, day, evidence.years) for known in evidence.days)


def _lasts(day: Day, evidence: Evidence) -> bool:
    """十五日 may be a date or a time of fifteen days."""
    return any(number.unit in ("日", "天") and day.day in number.values for number in evidence.numbers)


def _covers(known: Day, day: Day, years: frozenset[int]) -> bool:
    """2018-01-15 holds 2018年1月 and 1月15日; 1月15日 holds 2018年1月15日 where 2018 is named beside it."""
    if day.month is not None and known.month != day.month:
        return False
    if day.day is not None and known.day != day.day:
        return False
    return day.year is None or known.year == day.year or (known.year is None and day.year in years)


def _is_part_of_date(unit: str, value: Decimal, evidence: Evidence) -> bool:
    """2018 of 2018年, where it is alone; 15 of 15天, where the text has 15日."""
    if unit == "":
        return any(value in (day.year, day.month, day.day) for day in evidence.days)
    if unit == "年":
        return any(value == day.year for day in evidence.days)
    return unit in ("日", "天") and any(value == day.day for day in evidence.days if day.month is None)


# ── a figure of something else ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A figure, and the pairs of characters around it: those of its clause, and those of its sentence."""

    figure: Figure
    clause: frozenset[str]
    sentence: frozenset[str]
    frame: str = ""  # the characters right before and after it, where both are words: 自…起


def occurrences(text: str) -> list[Occurrence]:
    folded = prepared(text)
    found = placed(folded)
    bare = _without_figures(folded, found)
    clauses = [
        match.span() for match in _CLAUSE.finditer(bare) if match.group()
    ]  # the marks of 1,361 and 21:54 end none
    pairs = [_pairs(bare[start:end]) for start, end in clauses]
    ends = [bool(_SENTENCE_END.search(bare[start:end])) for start, end in clauses]
    starts = [start for start, _ in clauses]
    places = []
    for hit in found:
        at = bisect_right(starts, hit.start) - 1
        frame = folded[max(hit.start - 1, 0) : hit.start] + folded[hit.end : hit.end + 1]
        frame = frame if len(frame) == 2 and frame.isalpha() else ""
        places.append(Occurrence(hit.figure, _around(at, pairs, ends), _whole(at, pairs, ends), frame))
    return places


def _without_figures(text: str, found: Sequence[Placed]) -> str:
    parts, last = [], 0
    for hit in found:
        parts += [text[last : hit.start], " " * (hit.end - hit.start)]
        last = hit.end
    return "".join((*parts, text[last:]))


def _pairs(text: str) -> frozenset[str]:
    return frozenset(gram for gram in grams(text) if len(gram) > 1)


def _around(at: int, pairs: Sequence[frozenset[str]], ends: Sequence[bool]) -> frozenset[str]:
    """The clause; with its neighbours where it is too short by itself: 2017年9月，…"""
    around = pairs[at]
    after = at
    while len(around) < _FEWEST and after + 1 < len(pairs) and not ends[after]:
        after += 1
        around = around | pairs[after]
    while len(around) < _FEWEST and at > 0 and not ends[at - 1]:
        at -= 1
        around = around | pairs[at]
    return around


def _whole(at: int, pairs: Sequence[frozenset[str]], ends: Sequence[bool]) -> frozenset[str]:
    first = last = at
    while first > 0 and not ends[first - 1]:
        first -= 1
    while last + 1 < len(pairs) and not ends[last]:
        last += 1
    return frozenset().union(*pairs[first : last + 1])


def misplaced(sentence: str, source: Sequence[Occurrence], query: str = "", names: str = "") -> Iterator[Figure]:
    """The figures of a sentence that its source has for something else. An answer of a few words is read with its
    ``query``; ``names`` of the document do not distinguish its places, nor does what none of them has."""
    informative = frozenset().union(*(other.sentence for other in source)) - _pairs(names)
    question = _pairs(query) & informative
    own_figures = occurrences(sentence)
    for one in own_figures:
        if isinstance(one.figure, Code):
            continue
        here = replace(one, clause=one.clause & informative, sentence=one.sentence & informative)
        if len(here.clause) < _FEWEST:
            here = replace(here, clause=here.clause | question, sentence=here.sentence | question)
        own = [other for other in source if _same(one.figure, other.figure)]
        rivals = [other for other in source if _rivals(one.figure, other.figure)]
        is_alone = not any(_rivals(one.figure, other.figure) for other in own_figures)
        if own and rivals:
            rival = _most(here, rivals, is_alone)
            is_other = rival >= FITS and rival - _most(here, own, is_alone) >= BETTER
            is_other = is_other and not _is_framed(here, own, rivals)
            is_other = is_other and not _is_accompanied(own, rivals, source, own_figures)
            if is_other or _is_of_other_subject(here, own, rivals):
                yield one.figure


def _is_framed(answer: Occurrence, own: Sequence[Occurrence], rivals: Sequence[Occurrence]) -> bool:
    """自9月1日起: the figure itself is put alike in the source, and no other is."""
    frames = {place.frame for place in own} - {place.frame for place in rivals}
    return bool(answer.frame) and answer.frame in frames


def _is_accompanied(
    own: Sequence[Occurrence], rivals: Sequence[Occurrence], source: Sequence[Occurrence], stated: Sequence[Occurrence]
) -> bool:
    """一等奖每人5000元，不超过5%: what else it states is beside this figure in the source, and beside no other."""
    others = [place for place in source if any(_same(one.figure, place.figure) for one in stated)]
    beside = {place.sentence for place in others if not any(_same(place.figure, one.figure) for one in own)}
    return any(one.sentence in beside for one in own) and not any(one.sentence in beside for one in rivals)


def _is_of_other_subject(answer: Occurrence, own: Sequence[Occurrence], rivals: Sequence[Occurrence]) -> bool:
    """Two patients in one sentence of the source: there the clause alone tells whose a figure is."""
    beside = [one for one in rivals if any(one.sentence == other.sentence for other in own)]
    if not beside or len(answer.clause) < _FEWEST:
        return False
    rival = max(_shared(answer.clause, one.clause) for one in beside)
    return rival >= SURELY and rival - max(_shared(answer.clause, one.clause) for one in own) >= BETTER


def _most(answer: Occurrence, places: Sequence[Occurrence], is_alone: bool) -> float:
    """By the clause; where the sentence has no other figure of the kind, by the whole of it as well."""
    if not is_alone:
        return max(_shared(answer.clause, one.clause) for one in places)
    return max((_shared(answer.clause, one.clause) + _shared(answer.sentence, one.sentence)) / 2 for one in places)


def _shared(answer: frozenset[str], place: frozenset[str]) -> float:
    return len(answer & place) / max(len(answer), 1)


def _same(one: Figure, other: Figure) -> bool:
    if isinstance(one, Day) and isinstance(other, Day):
        return all(a is None or b is None or a == b for a, b in zip(_parts(one), _parts(other), strict=True))
    if isinstance(one, Clock) and isinstance(other, Clock):
        return not set(one.minutes).isdisjoint(other.minutes)
    if isinstance(one, Number) and isinstance(other, Number):
        return same_amount(one, other)
    if isinstance(one, Share | Number) and isinstance(other, Share | Number):
        return bool(set(one.values) & set(other.values))
    return False


def _rivals(one: Figure, other: Figure) -> bool:
    """Of one kind, and different."""
    if (isinstance(one, Day) and isinstance(other, Day)) or (isinstance(one, Clock) and isinstance(other, Clock)):
        return not _same(one, other)
    if isinstance(one, Number) and isinstance(other, Number):
        is_interval = one.written.startswith("每") != other.written.startswith("每")  # 每月 is no time of 10个月
        return measured(one.unit) == measured(other.unit) and not is_interval and not same_amount(one, other)
    is_kind = (_POINTS in one.written) == (_POINTS in other.written)  # a change is no share
    return isinstance(one, Share) and isinstance(other, Share) and is_kind and not _same(one, other)


def _parts(day: Day) -> tuple[int | None, int | None, int | None]:
    return day.year, day.month, day.day
