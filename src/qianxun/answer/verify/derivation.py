"""Figures that follow in one step from figures that a sentence speaks of: 八成 of 168000元 and 134400元, 2.5升 of 5升
and 二分之一, 9月4日 from 9月3日 and 次日.

`arithmetic` wants a word that says what was done; here no word is needed, because the figures worked with must be those
of the things that the sentence names or shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations, permutations
from typing import Final

from qianxun.answer.verify.rounding import Hedge, is_rounded
from qianxun.text.chinese import fold
from qianxun.text.figures import Day, Figure, Number, Share, amount, figures, measured

_MOST: Final = 8  # of a kind: with more of them any figure would follow from some two
_FEW: Final = 3
_NEXT_DAY: Final = re.compile("次日|翌日|第二天|隔天|隔日")
_RATES: Final = re.compile("每|按|单价|日均|月均|[×x*]")
_RATIO: Final = re.compile("占|比|相当|增|降|减|成|率|倍|分之|其中")
_IN_PERIODS: Final = (  # (what it is given by, in all of what, how often)
    ("每月|每个月|月均|/月", "季度?|三个月", 3),
    ("每月|每个月|月均|/月", "半年|上半年|下半年", 6),
    ("每月|每个月|月均|/月", "全?年", 12),
    ("每季", "全?年", 4),
    ("每[天日]", "周|星期", 7),
    ("每周", "全?年", 52),
)


def follows(
    figure: Figure,
    sentence: str,
    source: str,
    known: Sequence[Figure],
    named: Sequence[Figure],
    shown: Sequence[Figure],
    hedge: Hedge | None,
) -> bool:
    """Returns True if a figure of the sentence is a result of those that it shows, of ``named`` ones, those of what it
    speaks of, or of ``known`` ones of the source, where it has so few of a kind that it is clear which are meant."""
    if isinstance(figure, Day):
        return _is_next_day(figure, source, [one for one in known if isinstance(one, Day)])
    if not isinstance(figure, Number | Share):
        return False
    numbers = [one for one in dict.fromkeys(named) if isinstance(one, Number) and not one.is_count]
    stated = [one for one in dict.fromkeys(shown) if isinstance(one, Number) and not one.is_count]
    kinds = Counter(_kind(one) for one in stated)
    if any(count > 1 for count in kinds.values()):
        numbers = [one for one in stated if kinds[_kind(one)] > 1]
    if isinstance(figure, Share):
        has_cue = hedge is not None or _RATIO.search(fold(sentence)) is not None
        results: Iterator[Decimal] = _shares(numbers, _few_shares(known, named)) if has_cue else iter(())
        return any(_is_result(figure, Share("", (one,)), hedge) for one in results)
    if figure.unit == "倍":
        ratios = (a / b for a, b in _ratios(numbers))
        return any(_is_result(figure, Number("", (one,), "倍"), hedge) for one in ratios)
    unit = figure.unit
    size = amount(Decimal(1), unit)
    known_kinds = dict.fromkeys(_kind(one) for one in known if isinstance(one, Number))
    numbers = [one for kind in known_kinds for one in _few_numbers(kind, known, named)]
    found = _amounts(figure, numbers, _few_shares(known, named), fold(sentence), fold(source))
    return any(_is_result(figure, Number("", (one / size,), unit), hedge) for one in found)


def _amounts(
    figure: Number, numbers: Sequence[Number], shares: Sequence[Decimal], sentence: str, source: str
) -> Iterator[Decimal]:
    """In the unit that others of its kind are compared in."""
    of_kind = [one for one in numbers if _kind(one) == _kind(figure)]
    of_kind = of_kind or [one for one in numbers if not one.unit]  # cells whose unit is written nowhere
    values = list(dict.fromkeys(amount(one.values[-1], one.unit) for one in of_kind))
    if len(values) > _MOST:
        return
    yield from (abs(a - b) for a, b in combinations(values, 2))
    yield from (a + b for a, b in combinations(values, 2))
    parts = [value * share for value in values for share in shares]
    yield from parts
    yield from (value * (1 - share) for value in values for share in shares)
    yield from (value * (1 + share) for value in values for share in shares)
    if _RATES.search(sentence) or _RATES.search(source):
        supposed = [one for one in figures(sentence) if isinstance(one, Number)]  # 3学分的课要交270元
        counts = [one.values[-1] for one in (*supposed, *numbers) if _kind(one) != _kind(figure)][:_MOST]
        yield from (value * count for value in (*values, *parts) for count in counts)
        yield from (
            value * times
            for rate, period, times in _IN_PERIODS
            if re.search(rate, sentence + source) and re.search(period, sentence)
            for value in values
        )


def _shares(numbers: Sequence[Number], shares: Sequence[Decimal]) -> Iterator[Decimal]:
    yield from (1 - share for share in shares)
    yield from (abs(a - b) for a, b in combinations(shares, 2))
    for a, b in _ratios(numbers):
        yield a / b
        yield abs(a - b) / b
        if a < b:
            yield 1 - a / b


def _ratios(numbers: Sequence[Number]) -> Iterator[tuple[Decimal, Decimal]]:
    for kind in dict.fromkeys(_kind(one) for one in numbers):
        values = list(dict.fromkeys(amount(one.values[-1], one.unit) for one in numbers if _kind(one) == kind))
        if len(values) <= _MOST // 2:
            yield from ((a, b) for a, b in permutations(values, 2) if b)


def _few_numbers(kind: str, known: Sequence[Figure], named: Sequence[Figure]) -> list[Number]:
    own = dict.fromkeys(one for one in known if isinstance(one, Number) and _kind(one) == kind)
    values = {amount(one.values[-1], one.unit) for one in own}
    chosen = own if len(values) <= _FEW else named
    return list(dict.fromkeys(one for one in chosen if isinstance(one, Number) and _kind(one) == kind))


def _few_shares(known: Sequence[Figure], named: Sequence[Figure]) -> list[Decimal]:
    own = dict.fromkeys(value for one in known if isinstance(one, Share) for value in one.values)
    chosen = own if len(own) <= _FEW else (value for one in named if isinstance(one, Share) for value in one.values)
    return list(dict.fromkeys(chosen))[:_MOST]


def _kind(figure: Number) -> str:
    return measured(figure.unit) or figure.unit or "number"


def _is_result(figure: Number | Share, result: Number | Share, hedge: Hedge | None) -> bool:
    """Equal, or rounded to the last digit that is written, or in the direction that is said."""
    if hedge is not None and is_rounded(figure, hedge, result):
        return True
    value, wanted = result.values[0], figure.values[-1]
    return value == wanted or abs(value - wanted) * 2 <= _last_digit(figure, wanted)


def _last_digit(figure: Number | Share, wanted: Decimal) -> Decimal:
    """What the last decimal that is written counts: .01万 of 21.37万元; nothing for a whole amount."""
    digits = re.search(r"(?<!\d)(\d{1,30})\.(\d{1,30})", figure.written.replace(",", ""))
    if digits is None:
        return Decimal("0.01") if isinstance(figure, Share) and "%" in figure.written else Decimal(0)
    scale = wanted / Decimal(digits.group()) if wanted else Decimal(1)
    return abs(scale).scaleb(-len(digits[2]))


def _is_next_day(day: Day, source: str, known: Sequence[Day]) -> bool:
    if day.day is None or not _NEXT_DAY.search(source):
        return False
    for one in known:
        if one.month is None or one.day is None:
            continue
        try:
            after = date(one.year or day.year or 2000, one.month, one.day) + timedelta(days=1)
        except ValueError:  # 2月30日
            continue
        if (after.month, after.day) == (day.month or after.month, day.day) and day.year in (None, after.year):
            return True
    return False
