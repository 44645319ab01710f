"""Figures that stand in no source because they were worked out from its figures: sums, differences, products, averages,
shares. Each is worked out again, and only where the sentence says what it does.

A sentence that shows what it started from is held to that; one that gives the result alone may have used any two or
three figures of its sources, or all, as long as there are few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations, permutations
from typing import Final, TypeVar

from qianxun.text.chinese import fold
from qianxun.text.figures import Clock, Day, Figure, Number, Share, amount, figures, measured

T = TypeVar("T", Day, Clock)

_ADDS: Final = re.compile(
    r"合计|[共总]计|[总一]共|(?<!公)共[^，。；\d]{0,4}\d|总[^，。；\d]{1,5}|之和|相加|加起来|累计|[=+＋]"
    r"|total|sum of|altogether",
    re.IGNORECASE,
)
_SUBTRACTS: Final = re.compile(
    r"相差|差[额距值]|之差|[多少高低](?:出|了|于|约|\d)|增[加长幅]?|减少?|下[降调跌]|提高|提[前早]|推迟|延长|缩短|降低?|上[升调涨浮]|涨|跌|还?剩|结?余"
    r"|节省|\d\s?[-−－]\s?\d|difference|more|less",
    re.IGNORECASE,
)
_MULTIPLIES: Final = re.compile(r"[×*x]\s?\d|乘|每|单价|each|per ", re.IGNORECASE)
_AVERAGES: Final = re.compile(r"平均|均[值为]|人均|average|mean", re.IGNORECASE)
_DIVIDES: Final = re.compile(
    r"相当于|等于|折合|占|增[加长]|减少|下降|提高|降低|上升|倍|percent of|growth|increase", re.IGNORECASE
)
_AMOUNTS_TO: Final = re.compile("相当于|等于|折合")
_LASTS: Final = re.compile(
    "共|历时|为期|长达|期限|租期|任期|合计|持续|前后|时隔|相隔|间隔|相差|[满约]|[年月天日]之?[后前]|[早晚迟]|提前|推迟|用了|耗时|之久"
)
_DAYS: Final = frozenset(["天", "日", "周", "星期", "个星期"])
_IS_WHOLE: Final = re.compile("其[余中]|剩余|余下|余款")  # 15万元中，10万元转账，其余5万元为现金
_STATES_RESULT: Final = re.compile("合计|共计|总共|一共|之和|加起来|相差|差额|之差")
_CLAUSES: Final = re.compile(r"[，；。！？;!?\n]|,(?!\d)")
_ANY_YEAR: Final = 2023  # of two dates without one
_DAY: Final = 24 * 60  # minutes
_PER: Final = {"月": 12, "季": 4}  # of a year
_PER_PART: Final = re.compile("平均每个?(?P<part>[月季])|(?P<short>[月季])度?均")
_MOST: Final = 8  # figures of the sources, where a sentence does not show which ones it used


def is_computed(figure: Figure, sentence: str, known: Sequence[Figure]) -> bool:
    """Returns True if a figure of the sentence follows from ``known`` ones, those of the sources, by what it says."""
    if not isinstance(figure, Number | Share):
        return False
    clause = _clause_of(figure, fold(sentence))
    if isinstance(figure, Number) and _is_lapse(figure, clause, _dated(sentence, known)):
        return True
    if isinstance(figure, Number) and _is_clock_lapse(figure, clause, sentence, known):
        return True
    own = [one for one in figures(sentence) if isinstance(one, Number | Share) and one != figure]
    if isinstance(figure, Number) and _is_of_cells(figure, clause, own, known):
        return True
    shown = [one for one in own if any(_equal(one, other) for other in known)]
    parts = [_amounts(one)[-1] for one in shown if _kind(one) == _kind(figure)]
    if _IS_WHOLE.search(sentence) and len(parts) > 1 and sum(parts) in _amounts(figure):
        return True
    if len(shown) < 2:
        shown = list(dict.fromkeys((*shown, *(one for one in known if isinstance(one, Number | Share)))))
        if len([one for one in shown if _kind(one) == _kind(figure)]) > _MOST:
            return False
    values, precision = _amounts(figure), _precision(figure)
    if any(result in values for result in _exact(figure, clause, fold(sentence), shown)):
        return True
    return any(abs(result - value) * 2 <= precision for result in _rounded(figure, clause, shown) for value in values)


def is_miscalculated(figure: Figure, sentence: str, known: Sequence[Figure], sources: str) -> bool:
    """Returns True if a sentence shows two figures and gives as their sum or difference what is neither: 200元 from
    300元 and 200元, though the source has that as well. Where the source itself calls it so, it is no result."""
    if not isinstance(figure, Number | Share):
        return False
    clauses = _CLAUSES.split(fold(sentence))
    written = re.compile(rf"(?<![\d.]){re.escape(figure.written)}")
    clause = next((part for part in clauses if written.search(part) and _STATES_RESULT.search(part)), "")
    words = _STATES_RESULT.search(clause)
    rest = figures("，".join(part for part in clauses if part is not clause))
    own = [one for one in rest if isinstance(one, Number | Share) and _kind(one) == _kind(figure)]
    shown = [one for one in own if any(_equal(one, other) for other in known)]
    if (
        words is None
        or len(shown) != 2
        or any(one in _amounts(figure) for one in _exact(figure, clause, clause, shown))
    ):
        return False
    stated = re.compile(rf"(?:{words.group()})[^。；\n]{{0,12}}{re.escape(figure.written)}")
    return not stated.search(fold(sources))


def _clause_of(figure: Number | Share, sentence: str) -> str:
    """Where a figure stands: the word that says what was done stands beside it."""
    written = re.compile(rf"(?<![\d.]){re.escape(figure.written)}")
    return next((part for part in _CLAUSES.split(sentence) if written.search(part)), "")


def _exact(figure: Number | Share, clause: str, sentence: str, shown: Sequence[Number | Share]) -> Iterator[Decimal]:
    """Sums, differences and products of figures of the same kind."""
    values = [value for one in shown if _kind(one) == _kind(figure) for value in _amounts(one)[-1:]]
    if _ADDS.search(clause):
        yield from (sum(group, Decimal(0)) for group in _groups(values))
    if _SUBTRACTS.search(clause):
        yield from (abs(a - b) for a, b in combinations(values, 2))
    if isinstance(figure, Number) and _ADDS.search(clause) and _MULTIPLIES.search(sentence):
        factors = [value for one in shown if _kind(one) != _kind(figure) for value in _amounts(one)[-1:]]
        yield from (a * b for a in values for b in factors[:_MOST])


def _rounded(figure: Number | Share, clause: str, shown: Sequence[Number | Share]) -> Iterator[Decimal]:
    """Averages, shares, growth and multiples: they are seldom written out in full."""
    same = [value for one in shown if _kind(one) == _kind(figure) for value in _amounts(one)[-1:]]
    if _AVERAGES.search(clause):
        yield from (sum(group, Decimal(0)) / len(group) for group in _groups(same))
    if (part := _PER_PART.search(clause)) is not None:
        yield from (value / _PER[part["part"] or part["short"]] for value in same)
    is_multiple = isinstance(figure, Number) and (figure.unit == "倍" or _AMOUNTS_TO.search(clause))
    if not _DIVIDES.search(clause) or (isinstance(figure, Number) and not is_multiple):
        return
    kinds = dict.fromkeys(_kind(one) for one in shown if isinstance(one, Number))
    for kind in kinds:
        values = [value for one in shown if _kind(one) == kind for value in _amounts(one)[-1:]]
        for a, b in permutations(values[:_MOST], 2):
            if b:
                yield from (a / b, abs(a - b) / b)


def _is_of_cells(figure: Number, clause: str, own: Sequence[Figure], known: Sequence[Figure]) -> bool:
    """快洗30分钟，比节能洗少160分钟: the cells of a table leave their unit to the head of the column."""
    cells = dict.fromkeys(
        Decimal(one.digits)
        for one in known
        if isinstance(one, Number) and one.digits and (not one.unit or one.written.endswith(_scaled_unit(figure)))
    )
    shown = [Decimal(one.digits) for one in own if isinstance(one, Number) and one.unit == figure.unit and one.digits]
    used = [value for value in shown if value in cells]
    if len(used) < 2:
        used = [*used, *(value for value in cells if value not in used)]
    if not figure.digits or len(used) > _MOST:
        return False
    wanted = Decimal(figure.digits)
    sums = (sum(group, Decimal(0)) for group in _groups(used)) if _ADDS.search(clause) else ()
    differences = (abs(a - b) for a, b in combinations(used, 2)) if _SUBTRACTS.search(clause) else ()
    return wanted in (*sums, *differences)


def _dated(sentence: str, known: Sequence[Figure]) -> list[tuple[Day, Day]]:
    """The pairs of dates that a time may be between: those that a sentence shows, where it shows from when to when; the
    one that it shows and those of the sources; else those of the sources."""
    return _pairs_of(_with_years(figures(sentence)), _with_years(known))


def _pairs_of(shown: Sequence[T], given: Sequence[T]) -> list[tuple[T, T]]:
    if len(set(shown)) > 1:
        return list(permutations(shown[:_MOST], 2))
    if shown:
        return [pair for other in given[: _MOST * _MOST] for pair in ((shown[0], other), (other, shown[0]))]
    return list(permutations(given[:_MOST], 2))


def _with_years(found: Sequence[Figure]) -> list[Day]:
    """Dates; one without a year or month is of that of the date before it: 2023年4月9日…同年5月16日…同月20日."""
    dates: list[Day] = []
    year = month = None
    for one in found:
        if isinstance(one, Day):
            year = one.year or year
            month = one.month or (month if one.day else None)
            dates.append(replace(one, year=year, month=month))
    return dates


def _is_clock_lapse(figure: Number, clause: str, sentence: str, known: Sequence[Figure]) -> bool:
    """历时75分钟: from 14:10 to 15:25."""
    if measured(figure.unit) != "秒" or not _LASTS.search(clause):
        return False
    shown = [one for one in figures(sentence) if isinstance(one, Clock)]
    given = [one for one in known if isinstance(one, Clock)]
    lapses = {
        amount(Decimal((until - since) % _DAY), "分钟")
        for first, last in _pairs_of(shown, given)
        for since in first.minutes
        for until in last.minutes
    }
    return not lapses.isdisjoint(_amounts(figure))


def _scaled_unit(figure: Number) -> str:
    """万元 of 3730万元: cells are counted in it."""
    return figure.written.lstrip("0123456789.,") or "\0"


def _is_lapse(figure: Number, clause: str, dated: Sequence[tuple[Day, Day]]) -> bool:
    """共五年: the time between two dates of the sources, the last day included or not; 三年后: between two years."""
    in_months = measured(figure.unit) == "月"
    if not (in_months or figure.unit in _DAYS) or not _LASTS.search(clause):
        return False
    wanted = set(_amounts(figure))
    if in_months and any(abs(a.year - b.year) * 12 in wanted for a, b in dated if a.year and b.year):
        return True
    days = [
        (first, last) for first, last in dated if first.month and last.month and bool(first.year) == bool(last.year)
    ]
    return any(wanted.intersection(_lapses(first, last, in_months)) for first, last in days)


def _lapses(first: Day, last: Day, in_months: bool) -> Iterator[Decimal]:
    """The time from one date to another, in what figures of its kind are compared in."""
    if (begin := _date(first)) is None or (end := _date(last)) is None or end <= begin:
        return
    for until in (end, end + timedelta(days=1)):
        if not in_months:
            yield amount(Decimal((until - begin).days), "天")
        elif until.day == begin.day or not (first.day and last.day):
            yield Decimal((until.year - begin.year) * 12 + until.month - begin.month)


def _date(day: Day) -> date | None:
    try:
        return date(day.year or _ANY_YEAR, day.month or 1, day.day or 1)
    except ValueError:  # 2月30日
        return None


def _groups(values: Sequence[Decimal]) -> Iterator[Sequence[Decimal]]:
    """Two or three of them, or all."""
    if len(values) <= _MOST:
        yield from combinations(values, 2)
        yield from combinations(values, 3)
    if len(values) > 3:
        yield values
    if len(values) <= 2 * _MOST:  # neighbours: the quarters of a row
        yield from (values[start:end] for start in range(len(values)) for end in range(start + 4, len(values) + 1))


def _kind(figure: Figure) -> str:
    """What can be added to what: 元 and 万元, 天 and 天, shares."""
    if isinstance(figure, Share):
        return "share"
    return (measured(figure.unit) or figure.unit or "number") if isinstance(figure, Number) else ""


def _amounts(figure: Number | Share) -> Sequence[Decimal]:
    return figure.values if isinstance(figure, Share) else [amount(value, figure.unit) for value in figure.values]


def _equal(one: Number | Share, other: Figure) -> bool:
    if not isinstance(other, Number | Share) or _kind(one) != _kind(other):
        return False
    return not set(_amounts(one)).isdisjoint(_amounts(other))


def _precision(figure: Number | Share) -> Decimal:
    """What the last digit that is written counts: .001 for 12.5%."""
    digits = re.search(r"\d+(?:\.(\d+))?", figure.written.replace(",", ""))
    if digits is None:
        return Decimal(0)
    written, decimals = Decimal(digits.group()), len(digits.group(1) or "")
    scale = abs(_amounts(figure)[-1] / written) if written else Decimal(1)
    return scale.scaleb(-decimals)
