"""Figures that stand in no source because they were worked out from its figures: sums, differences, products, averages,
shares. Each is worked out again, and only where the sentence says what it does.

A sentence that shows what it started from is held to that; one that gives the result alone may have used any two or
three figures of its sources, or all, as long as there are few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations, permutations
from typing import Final

from qianxun.text.chinese import fold
from qianxun.text.figures import Day, Figure, Number, Share, amount, figures, measured

_ADDS: Final = re.compile(
    r"合计|[共总]计|[总一]共|(?<!公)共[^，。；\d]{0,4}\d|总(?:金?额|价|费用|和)|之和|相加|加起来|累计|[=+＋]"
    r"|total|sum of|altogether",
    re.IGNORECASE,
)
_SUBTRACTS: Final = re.compile(
    r"相差|差[额距值]|之差|[多少高低](?:出|了|于|约|\d)|增[加长幅]?|减少?|下[降调跌]|提高|提[前早]|推迟|延长|缩短|降低?|上[升调涨浮]|涨|跌|还?剩|结?余"
    r"|节省|[-−－]|difference|more|less",
    re.IGNORECASE,
)
_MULTIPLIES: Final = re.compile(r"[×*x]\s?\d|乘|每|单价|each|per ", re.IGNORECASE)
_AVERAGES: Final = re.compile(r"平均|均[值为]|人均|average|mean", re.IGNORECASE)
_DIVIDES: Final = re.compile(
    r"相当于|等于|折合|占|增[加长]|减少|下降|提高|降低|上升|倍|percent of|growth|increase", re.IGNORECASE
)
_AMOUNTS_TO: Final = re.compile("相当于|等于|折合")
_LASTS: Final = re.compile("共|历时|为期|长达|期限|租期|任期|合计|持续|前后|时隔|相隔|间隔|[满约]")
_CLAUSES: Final = re.compile(r"[，；。！？;!?\n]|,(?!\d)")
_MOST: Final = 8  # figures of the sources, where a sentence does not show which ones it used


def is_computed(figure: Figure, sentence: str, known: Sequence[Figure]) -> bool:
    """Returns True if a figure of the sentence follows from ``known`` ones, those of the sources, by what it says."""
    if not isinstance(figure, Number | Share):
        return False
    clause = _clause_of(figure, fold(sentence))
    if isinstance(figure, Number) and _is_lapse(figure, clause, known):
        return True
    own = [one for one in figures(sentence) if isinstance(one, Number | Share) and one != figure]
    if isinstance(figure, Number) and _is_of_cells(figure, clause, own, known):
        return True
    shown = [one for one in own if any(_equal(one, other) for other in known)]
    if len(shown) < 2:
        shown = list(dict.fromkeys((*shown, *(one for one in known if isinstance(one, Number | Share)))))
        if len([one for one in shown if _kind(one) == _kind(figure)]) > _MOST:
            return False
    values, precision = _amounts(figure), _precision(figure)
    if any(result in values for result in _exact(figure, clause, fold(sentence), shown)):
        return True
    return any(abs(result - value) * 2 <= precision for result in _rounded(figure, clause, shown) for value in values)


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
        Decimal(one.digits) for one in known if isinstance(one, Number) and one.digits and not one.unit
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


def _is_lapse(figure: Number, clause: str, known: Sequence[Figure]) -> bool:
    """共五年: the time between two dates of the sources, the last day included or not."""
    if measured(figure.unit) not in ("月", "天") or not _LASTS.search(clause):
        return False
    days = [one for one in known if isinstance(one, Day) and one.year and one.month][:_MOST]
    for first, last in permutations(days, 2):
        if (begin := _date(first)) is None or (end := _date(last)) is None or end <= begin:
            continue
        for until in (end, end + timedelta(days=1)):
            months = (until.year - begin.year) * 12 + until.month - begin.month
            lapses = [Decimal(months)] if until.day == begin.day or not (first.day and last.day) else []
            lapses = lapses if measured(figure.unit) == "月" else [Decimal((until - begin).days)]
            if any(value in lapses for value in _amounts(figure)):
                return True
    return False


def _date(day: Day) -> date | None:
    try:
        return date(day.year or 1, day.month or 1, day.day or 1)
    except ValueError:  # 2月30日
        return None


def _groups(values: Sequence[Decimal]) -> Iterator[Sequence[Decimal]]:
    """Two or three of them, or all."""
    if len(values) <= _MOST:
        yield from combinations(values, 2)
        yield from combinations(values, 3)
    if len(values) > 3:
        yield values


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
