"""Figures that stand in no source because they follow from its figures: a sum, a difference, a product, a share, a
lapse between two dates (`lapses`), and what follows from such a result in one more step.

`derived` searches, and does not ask for the word that names the operation. A figure surely follows where the sentence
shows what it worked with, or says that it works something out and few other results are near: of many one hits any
number. It possibly follows where any two steps from the figures of the sources lead to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, permutations, product
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.answer.verify.lapses import Derivation, ages, dated, is_clock_after, is_day_after, lapses
from qianxun.answer.verify.rounding import Hedge, is_rounded
from qianxun.text.chinese import fold
from qianxun.text.figures import Clock, Day, Figure, Number, Share, amount, figures, measured

MOST: Final = 40  # figures that are worked with
MOST_ALIKE: Final = 100  # … of one kind
MOST_DATES: Final = 3  # of which one is surely that at which somebody is so old
MOST_NEAR: Final = 200  # results near a figure that are looked at one by one
MOST_TWICE: Final = 16  # … in two steps
FEW: Final = 3  # of a kind, of which any may be meant
LIKELY: Final = 0.35  # results near a figure, of the numbers that may be there: a clause that says that it computes
APART: Final = 0.35  # … of differences alone, where it says that it is one, and of times between two dates
TWICE: Final = 0.12  # … in two steps
NEAR: Final = 3.0  # times: how near results are counted
LARGEST: Final = 1e18  # nothing is worked out beyond, nor below its inverse: floats would overflow
_COMPUTES: Final = re.compile(
    "合计|共|总|之和|相加|加起来|累计|全年|[=+＋×*]|相差|差[额距值]|之差|[多少高低早晚](?:出|了|约|[\\d一二两三四五六七八九十])|增|减|降|(?<!毫)升|涨|跌|剩|余|差"
    "|提前|推迟|延长|缩短|节省|便宜|贵|平均|均|占|比(?!例)|相当|等于|折|倍|分之|成|率|乘|每|单价|即|也就是|换算|算|历时|为期|长达|期限|租期|任期|持续|前后"
    "|时隔|相隔|间隔|[满约近]|之?[后前]|超|不到|不足|用时|用了|耗时|之久|应[为付交缴]|届满|到期|截至|截止"
    "|total|sum|difference|average|per|times|more|less"
)
_SUMS: Final = re.compile("合计|[共总]计|[总一]共|之和|相加|加起来|相差|差额|之差")
_DIFFERENCES: Final = frozenset(["相差", "差额", "之差"])
_TOTALS: Final = "合计|[共总]计|[总一]共|之和|相加|加起来|(?<=[，,、])共"
_PARTIAL: Final = re.compile(
    "等|其中|包括|含|另|除|还|其余|每|×|乘以|倍|折|[两二三四][者项]"
)  # not all that is added is shown
_SENTENCE_ENDS: Final = re.compile("[。；;！？!?\n]")
_RESULTS: Final = re.compile(
    f"{_SUMS.pattern}|(?<!公)共(?!同)|占|相当|等于|平均|倍|剩|还差|折合|换算|(?<!减)[多少][出了]|即|也就是"
    "|(?<![同环])比[^，。]{1,20}[多少高低早晚长短]"
    "|历时|为期|长达|持续|相隔|时隔|间隔"
)
_CLAUSES: Final = re.compile(r"[，；。！？;!?\n]|,(?!\d)")
_MONTH: Final = re.compile(r"[^个]{1,3}月份?")  # of a date
_MONTH_SECONDS, _YEAR_SECONDS = 30.0 * 86_400, 365.0 * 86_400
_PERIODS: Final = (3.0, 4.0, 6.0, 7.0, 12.0, 24.0, 30.0, 52.0, 60.0, 365.0)  # months of a quarter … days of a year
_HALVED: Final = re.compile("减半|折半|半价|对半|一半|半数")
_HALF: Final = Share("一半", (Decimal("0.5"),))
_RATE: Final = re.compile("每|[日月季年]均|全年|一年|半年|一季|季度|一周|一天|一个月")


FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantity:
    """``count``: the number as it is written, by which others are multiplied: 60 of 60天."""

    kind: str
    value: float
    count: float


def derived(
    figure: Figure,
    sentence: str,
    pools: Sequence[Sequence[Figure]],
    shown: Sequence[Figure],
    hedge: Hedge | None = None,
    source: str = "",
) -> Derivation:
    """Whether a figure of the sentence follows from those of one of the ``pools``. ``shown``: the other figures of the
    sentence, which it may start from. ``source``: what the pools are from, which may count by the month, or tell of the
    day after."""
    if isinstance(figure, Number | Share) and _MONTH.fullmatch(figure.written):
        return "no"
    found: Derivation = "no"
    text = f"{sentence}\n{source}"
    for pool in pools:
        known = list(dict.fromkeys((*pool, *shown)))
        if isinstance(figure, Day):
            one = is_day_after(figure, text, known, shown if _COMPUTES.search(clause_of(figure, fold(text))) else ())
        elif isinstance(figure, Clock):
            one = is_clock_after(figure, known)
        elif isinstance(figure, Number | Share):
            one = _from(figure, text, known, shown, hedge, found)
        else:
            return "no"
        if one == "surely":
            return one
        found = one if one == "possibly" else found
    return found


def _from(
    figure: Number | Share,
    text: str,
    pool: Sequence[Figure],
    shown: Sequence[Figure],
    hedge: Hedge | None,
    found: Derivation,
) -> Derivation:
    """``found``: what was found with nearer figures."""
    wanted = _Wanted(figure, hedge)
    if not any(wanted.values):  # of two that are equal the difference is 0
        return "possibly"
    clause = clause_of(figure, fold(text))
    computes, is_result = _COMPUTES.search(clause) is not None, _RESULTS.search(clause) is not None
    if any(map(wanted.is_met, ages(figure, pool, text))):
        return "possibly" if len(dated(pool)) > MOST_DATES else "surely"
    between = [(one, False) for one in lapses(figure, pool, shown)]
    has_lapsed = any(wanted.is_met(one) for one, _ in between)
    if has_lapsed and computes and (_starts_from(shown) or _chance(wanted, between) <= APART):
        return "surely"
    periods = _PERIODS if _RATE.search(fold(text)) else ()
    pool = [*pool, _HALF] if _HALVED.search(text) else pool
    own, all_ = (
        [one for one in _quantities(known, wanted) if one.kind != wanted.kind or one.value not in wanted.values]
        for known in (shown, pool)
    )
    worked_out = list(_results(own, wanted.kind))
    if any(wanted.is_met(*one) for one in worked_out) and (computes or _chance(wanted, worked_out) <= LIKELY):
        return "surely"
    if len(all_) > MOST:  # a table: its cells are added, not multiplied
        all_ = [one for one in all_ if one.kind == wanted.kind]
    if len(all_) > MOST_ALIKE:  # any number follows from some three
        return "possibly"
    once = list(_results(all_, wanted.kind, periods))
    if is_result and (_is_difference(wanted, clause, all_) or _is_hardly_chance(wanted, all_, once, computes)):
        return "surely"
    is_met = found == "possibly" or has_lapsed or any(wanted.is_met(one, is_quotient) for one, is_quotient in once)
    is_met = is_met or any(map(wanted.is_met, _converted(all_, wanted.kind)))
    return "possibly" if is_met or _is_met_in_two(wanted, all_) else "no"


def _starts_from(shown: Sequence[Figure]) -> bool:
    """Of all dates of a source some two are always so far apart."""
    return any(isinstance(one, Day | Clock) for one in shown)


def is_of_rows(figure: Figure, sentence: str, of_rows: Sequence[Sequence[Figure]]) -> bool:
    """Returns True unless a clause gives a total or a mean that is none of the rows and columns that it names."""
    clause = clause_of(figure, fold(sentence))
    is_mean, is_total = "平均" in clause, re.search("合计|[共总]计|[总一]共|之和", clause) is not None
    if not isinstance(figure, Number | Share) or figure.written.startswith("每") or not (is_mean or is_total):
        return True
    wanted = _Wanted(figure, None)
    for group in of_rows:
        values = [one.value for one in _quantities(group, wanted) if one.kind == wanted.kind]
        neighbours = (values[start:end] for start, end in combinations(range(len(values) + 1), 2))
        for parts in (*neighbours, *combinations(values[:MOST_TWICE], 2)):
            if len(parts) > 1 and wanted.is_met(sum(parts) / (len(parts) if is_mean else 1), is_mean):
                return True
    return False


def _is_difference(wanted: _Wanted, clause: str, pool: Sequence[Quantity]) -> bool:
    """Where a clause says that it is one, other results do not count."""
    values = [one.value for one in pool if one.kind == wanted.kind]
    between = [(abs(a - b), False) for a, b in combinations(values, 2)]
    return any(word in clause for word in _DIFFERENCES) and _chance(wanted, between) <= APART


def _is_hardly_chance(
    wanted: _Wanted, pool: Sequence[Quantity], once: Sequence[tuple[float, bool]], computes: bool
) -> bool:
    if _are_few(pool, wanted.kind) and any(map(wanted.is_met, _of_few(pool, wanted.kind, computes))):
        return True
    if _chance(wanted, once) <= LIKELY:
        return True
    return len(pool) <= MOST_TWICE and _chance(wanted, list(_twice(pool, wanted.kind))) <= TWICE


def clause_of(figure: Figure, sentence: str) -> str:
    written = re.compile(rf"(?<![\d.]){re.escape(figure.written)}")
    return next((part for part in _CLAUSES.split(sentence) if written.search(part)), "")


def is_computing(figure: Figure, sentence: str) -> bool:
    """Returns True if the clause of a figure says that it is worked out."""
    return _RESULTS.search(clause_of(figure, fold(sentence))) is not None


# ── what is compared ─────────────────────────────────────────────────────────────────────────────


class _Wanted:
    """A figure, and which results are it: equal, or rounded to the last digit that is written, or as it says."""

    def __init__(self, figure: Number | Share, hedge: Hedge | None) -> None:
        self.figure, self.hedge = figure, hedge
        self.kind = kind_of(figure)
        self.values = [float(value) for value in _amounts(figure)]
        self.digit = _last_digit(figure)

    def is_met(self, result: float, is_quotient: bool = False) -> bool:
        if any(value and not 1 / LARGEST <= abs(value) <= LARGEST for value in self.values):
            return False
        for value in self.values:
            has_decimals = "." in self.figure.written or "点" in self.figure.written
            near = 0.5001 * self.digit if is_quotient or has_decimals else 1e-9 * max(abs(value), 1.0)
            if abs(result - value) <= near:
                return True
        return self.hedge is not None and result > 0 and self._is_rounded(result)

    def _is_rounded(self, result: float) -> bool:
        assert self.hedge is not None
        if isinstance(self.figure, Share):
            return is_rounded(self.figure, self.hedge, Share("", (Decimal(str(result)),)))
        size = float(amount(Decimal(1), self.figure.unit))
        return is_rounded(self.figure, self.hedge, Number("", (Decimal(str(result / size)),), self.figure.unit))

    def is_met_by_any(self, results: FloatArray, *, are_quotients: bool) -> bool:
        return any(
            self.is_met(float(one), are_quotients)
            for value in self.values
            for one in np.unique(results[np.abs(results - value) <= self._reach(value)])[:MOST_NEAR]
        )

    def _reach(self, value: float) -> float:
        """How far a result may be from it, at most."""
        return abs(value) / 2 if self.hedge is not None else self.digit + 1e-9 * max(abs(value), 1.0)

    @property
    def step(self) -> float:
        """What its last digit counts that is not zero, the second one at most: 100 of 33600 and of 5000."""
        value = Decimal(str(self.values[-1] or 1.0)).normalize()
        exponent = value.as_tuple().exponent
        last = 10.0**exponent if isinstance(exponent, int) else 1.0
        return max(self.digit, min(last, 10.0 ** (value.adjusted() - 1)))


def _chance(wanted: _Wanted, results: Sequence[tuple[float, bool]]) -> float:
    """How many of the numbers that may be near a figure are results: the chance that it is one by coincidence; 1 where
    it is none."""
    if not any(wanted.is_met(one, is_quotient) for one, is_quotient in results):
        return 1.0
    value = abs(wanted.values[-1]) or 1.0
    near = {round(one / wanted.step) for one, _ in results if value / NEAR <= one <= NEAR * value}
    return len(near) * wanted.step / ((NEAR - 1 / NEAR) * value)


def kind_of(figure: Figure) -> str:
    """What can be added to what: 元 and 万元, 天 and 天, shares."""
    if isinstance(figure, Share):
        return "share"
    return (measured(figure.unit) or figure.unit or "number") if isinstance(figure, Number) else ""


def _amounts(figure: Number | Share) -> Sequence[Decimal]:
    return figure.values if isinstance(figure, Share) else [amount(value, figure.unit) for value in figure.values]


def _last_digit(figure: Number | Share) -> float:
    """What the last digit that is written counts: .01万 of 21.37万元, .001 of 12.5%."""
    digits = re.search(r"\d+(?:\.(\d+))?", figure.written.replace(",", ""))
    if digits is None:
        return 0.05 if isinstance(figure, Share) and "成" in figure.written else 0.0
    written, decimals = Decimal(digits.group()), len(digits[1] or "")
    scale = abs(_amounts(figure)[-1] / written) if written else Decimal(1)
    return float(scale.scaleb(-decimals))


def _quantities(pool: Sequence[Figure], wanted: _Wanted) -> list[Quantity]:
    """Numbers without a unit, the cells of a table, are read as those of the figure, and as those that count."""
    found: dict[Quantity, None] = {}
    scale = 1.0
    if isinstance(wanted.figure, Number) and wanted.figure.digits and float(wanted.figure.digits):
        scale = wanted.values[-1] / float(wanted.figure.digits)
    for one in pool:
        if isinstance(one, Day) and one.day and not one.month:  # 逾期10日
            found[Quantity("秒", float(amount(Decimal(one.day), "天")), float(one.day))] = None
        if not isinstance(one, Number | Share):
            continue
        kind, value, count = kind_of(one), float(_amounts(one)[-1]), float(one.values[-1])
        found[Quantity(kind, value, count)] = None
        is_cell = kind == "number" and not (isinstance(one, Number) and one.is_count)
        if is_cell and wanted.kind not in ("number", "share", "倍"):
            found |= {Quantity(wanted.kind, size, count): None for size in (value * scale, value)}
    return list(found)


# ── one step, and two ────────────────────────────────────────────────────────────────────────────


def _results(pool: Sequence[Quantity], kind: str, periods: Sequence[float] = ()) -> Iterator[tuple[float, bool]]:
    """What follows of a kind in one step; with whether it is a quotient, which is seldom written out in full."""
    if kind in ("share", "倍"):
        yield from ((one, True) for one in _ratios(pool))
        if kind == "倍":
            rates = [one.value for one in pool if one.kind == "share"]
            yield from ((1 + rate, False) for rate in rates)  # 上浮50%: 1.5倍
            yield from ((a / b, True) for a, b in permutations(rates, 2) if b > 0)
            return
    values = [one.value for one in pool if one.kind == kind]
    shares = [one.value for one in pool if one.kind == "share"]
    counts = [one.count for one in pool if one.kind not in (kind, "share") and one.count > 1]
    for a, b in combinations(values, 2):
        yield a + b, False
        yield abs(a - b), False
    yield from ((one, False) for one in _sums(values))
    yield from ((part, False) for part in _parts(pool, kind))
    if kind == "share":
        yield from ((1 - share, False) for share in shares)
    else:
        yield from ((a / b, False) for a, b in _pairs_of_a_kind(pool) if b > 1 and a % b < 1e-9)
    yield from ((sum(group) / len(group), True) for group in (values, *combinations(values, 2)) if len(group) > 1)
    for value, count in product(values, (*counts, *periods)):
        yield value * count, False
        yield value / count, True


def _are_few(pool: Sequence[Quantity], kind: str) -> bool:
    """Returns True if it is clear which figures are meant."""
    return all(sum(one.kind == wanted for one in pool) <= FEW for wanted in (kind, "share"))


def _of_few(pool: Sequence[Quantity], kind: str, computes: bool) -> Iterator[float]:
    yield from _parts(pool, kind)
    values = [one.value for one in pool if one.kind == kind] if computes else []
    for a, b in combinations(values, 2):
        yield from (a + b, abs(a - b))
    yield sum(values)


def _parts(pool: Sequence[Quantity], kind: str) -> Iterator[float]:
    """不得超过容量的二分之一: a share of an amount, or what it leaves; 利率上浮50%."""
    shares = [one.value for one in pool if one.kind == "share"]
    values = [one.value for one in pool if one.kind == kind]
    yield from (value * part for value in values for share in shares for part in (share, 1 - share, 1 + share))


def _converted(pool: Sequence[Quantity], kind: str) -> Iterator[float]:
    """三个月 for 90天: months have no certain number of days."""
    for one, seconds in product(pool, (_MONTH_SECONDS, _YEAR_SECONDS / 12)):
        if kind == "月" and one.kind == "秒":
            yield one.value / seconds
        elif kind == "秒" and one.kind == "月":
            yield one.value * seconds


def _sums(values: Sequence[float]) -> Iterator[float]:
    """Of three, of neighbours, such as the quarters of a row, of all."""
    if len(values) <= MOST_TWICE:
        yield from map(sum, combinations(values, 3))
    for start in range(len(values)):
        yield from (sum(values[start:end]) for end in range(start + 3, min(len(values), start + MOST_TWICE) + 1))
    if len(values) > 3:
        yield sum(values)


def _ratios(pool: Sequence[Quantity]) -> Iterator[float]:
    for a, b in _pairs_of_a_kind(pool):
        yield a / b
        yield abs(a - b) / b
        if a < b:
            yield a / (a + b)


def _pairs_of_a_kind(pool: Sequence[Quantity]) -> Iterator[tuple[float, float]]:
    for kind in dict.fromkeys(one.kind for one in pool if one.kind != "share"):
        values = list(dict.fromkeys(one.value for one in pool if one.kind == kind))
        yield from ((a, b) for a, b in permutations(values, 2) if b > 0)


def _twice(pool: Sequence[Quantity], kind: str) -> Iterator[tuple[float, bool]]:
    """What follows from a result and the rest: 工程总价的千分之一，逾期60日."""
    for results, are_quotients in _second_steps(pool, kind):
        yield from ((one, are_quotients) for one in results.tolist())


def _is_met_in_two(wanted: _Wanted, pool: Sequence[Quantity]) -> bool:
    return any(
        wanted.is_met_by_any(results, are_quotients=are_quotients)
        for results, are_quotients in _second_steps(pool, wanted.kind)
    )


def _second_steps(pool: Sequence[Quantity], kind: str) -> Iterator[tuple[FloatArray, bool]]:
    """Each result of one step together with each quantity; with whether they are quotients."""
    for first in dict.fromkeys((kind, "share")):
        once = np.array(sorted({one for one, _ in _results(pool, first) if 0 < one < LARGEST}))
        for other in pool if once.size else ():
            if first == other.kind == kind:
                yield from ((once + other.value, False), (np.abs(once - other.value), False))
            if first == kind != "share" and other.kind != kind:
                yield once * other.count, False
            if first == kind != "share" and other.kind not in (kind, "share") and other.count > 1:
                yield once / other.count, True
            if first == "share" and other.kind == kind:
                yield once * other.value, False
            if kind == first == other.kind == "share" and other.value > 0:
                yield once / other.value, True


# ── what is worked out wrongly ───────────────────────────────────────────────────────────────────


def is_miscalculated(figure: Figure, sentence: str, known: Sequence[Figure], sources: str) -> bool:
    """Returns True if a sentence shows figures and gives as their sum or difference what is neither: 200元 from 300元
    and 200元, though the source has that as well. Where the source itself calls it so, it is no result."""
    if not isinstance(figure, Number | Share):
        return False
    clauses = _CLAUSES.split(fold(sentence))
    written = re.compile(rf"(?<![\d.]){re.escape(figure.written)}")
    clause = next((part for part in clauses if written.search(part) and _SUMS.search(part)), "")
    words = _SUMS.search(clause)
    if words is None:
        return False
    wanted = _Wanted(figure, None)
    shown = _shown("，".join(part for part in clauses if part is not clause), wanted, known)
    if not 2 <= len(shown) <= 4 or any(wanted.is_met(one) for one in _of_shown(shown, words.group())):
        return False
    stated = re.compile(rf"(?:{words.group()})[^。；\n]{{0,12}}{re.escape(figure.written)}")
    return not stated.search(fold(sources))


def does_not_add_up(figure: Figure, sentence: str) -> bool:
    """Returns True if a sentence gives as the total of two or more figures that it shows before it what they do not add
    up to, be it that of its source: 乘客电梯8台、载货电梯1台，共10台."""
    if not isinstance(figure, Number):
        return False
    folded = fold(sentence)
    found = re.search(rf"(?:{_TOTALS})[^，。；\d]{{0,6}}(?<![\d.]){re.escape(figure.written)}", folded)
    if found is None or _PARTIAL.search(folded):
        return False
    wanted = _Wanted(figure, None)
    before = figures(_SENTENCE_ENDS.split(folded[: found.start()])[-1])
    shown = [float(_amounts(one)[-1]) for one in before if isinstance(one, Number) and kind_of(one) == wanted.kind]
    return 2 <= len(shown) <= 4 and not wanted.is_met(sum(shown))


def _shown(text: str, wanted: _Wanted, known: Sequence[Figure]) -> list[Quantity]:
    own = [one for one in figures(text) if isinstance(one, Number | Share) and kind_of(one) == wanted.kind]
    amounts = {value for one in known if isinstance(one, Number | Share) for value in _amounts(one)}
    return _quantities([one for one in own if not amounts.isdisjoint(_amounts(one))], wanted)


def _of_shown(shown: Sequence[Quantity], words: str) -> Iterator[float]:
    """The sums of two or more, or their differences: 相差 is no sum."""
    values = [one.value for one in shown]
    if words in _DIFFERENCES:
        yield from (abs(a - b) for a, b in combinations(values, 2))
    else:
        yield from (sum(group) for size in range(2, len(values) + 1) for group in combinations(values, size))
