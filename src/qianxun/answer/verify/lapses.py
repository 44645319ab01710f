"""Times that follow from others: how long it is from one date or hour to another, and what is so long after it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import permutations, product
from typing import Final, Literal, TypeAlias, TypeVar

from qianxun.text.figures import Clock, Day, Figure, Number, Share, amount, measured

Derivation: TypeAlias = Literal["surely", "possibly", "no"]
"""Whether a figure follows from others."""

T = TypeVar("T", Day, Clock)

MOST: Final = 16  # dates or times that are compared: with more of them any lapse is between some two
MOST_DATES: Final = 60  # on which an age is reckoned
LONGEST: Final = 3_000  # days, months or years from one date to another
_NEXT_DAY: Final = "次日|翌日|第二天|隔天|隔日"
REACH: Final = 160  # characters from a date to what is of the day after it
_ANY_YEAR: Final = 2023  # of two dates without one
_DAY_MINUTES: Final = 24 * 60


def dated(found: Sequence[Figure]) -> list[Day]:
    """Dates; one without a year or month is of that of the date before it: 2023年4月9日…同年5月16日…同月20日."""
    dates: list[Day] = []
    year = month = None
    for one in found:
        if isinstance(one, Day):
            year = one.year or year
            month = one.month or (month if one.day else None)
            dates.append(replace(one, year=year, month=month))
    return dates


def lapses(figure: Number | Share, pool: Sequence[Figure], shown: Sequence[Figure]) -> Iterator[float]:
    """The time between two dates or times of day: of those that the sentence shows, where it shows two."""
    kind = measured(figure.unit) if isinstance(figure, Number) else ""
    if kind == "月" or kind == "秒" or (isinstance(figure, Number) and figure.unit in ("岁", "周岁")):
        pairs = _shown_first(dated(shown), dated(pool))
        for first, last in pairs:
            yield from _between(first, last, kind)
    if kind == "秒":
        clocks = [one for one in pool if isinstance(one, Clock)]
        own = [one for one in shown if isinstance(one, Clock)]
        for begin, end in _shown_first(own, clocks):
            for since, until in product(begin.minutes, end.minutes):
                yield float(amount(Decimal((until - since) % _DAY_MINUTES), "分钟"))


def ages(figure: Number | Share, pool: Sequence[Figure], text: str) -> Iterator[float]:
    """How old somebody who is born on a date of the pool is on the others."""
    if not isinstance(figure, Number) or figure.unit not in ("岁", "周岁"):
        return
    days = dated(pool)[:MOST_DATES]
    born = [one for one in days if f"{one.written}出生" in text or f"生于{one.written}" in text]
    yield from (age for first in born for last in days for age in _between(first, last, ""))


def _shown_first(shown: Sequence[T], pool: Sequence[T]) -> Iterator[tuple[T, T]]:
    if len(set(shown)) > 1:
        yield from permutations(shown[:MOST], 2)
    elif shown:
        yield from (pair for other in pool[:MOST] for pair in ((shown[0], other), (other, shown[0])))
    else:
        yield from permutations(pool[:MOST], 2)


def _between(first: Day, last: Day, kind: str) -> Iterator[float]:
    """From one date to another, the last day included or not."""
    if first.year and last.year and kind != "秒":
        years = abs(first.year - last.year)
        yield float(years * 12 if kind == "月" else years)
    begin, end = _date(first), _date(last)
    if bool(first.year) != bool(last.year) or not (first.month and last.month) or not begin or not end or end <= begin:
        return
    for until in (end, end + timedelta(days=1)):
        months = (until.year - begin.year) * 12 + until.month - begin.month - (until.day < begin.day)
        if kind == "秒":
            yield float(amount(Decimal((until - begin).days), "天"))
        elif kind == "月" and not (first.day and last.day):
            yield from (float(months), float(months + 1))
        elif kind == "月" and until.day == begin.day:
            yield float(months)
        elif kind != "月":
            yield float(months // 12)


def is_day_after(day: Day, text: str, pool: Sequence[Figure], shown: Sequence[Figure] = ()) -> Derivation:
    """A date that is so many days, months or years before or after another; 次日. It surely is where ``shown`` has what
    it is reckoned from: of many dates and times some two lead to any."""
    numbers = (one for one in pool if isinstance(one, Number) and one.values[0] < LONGEST)
    times = [one for one in numbers if measured(one.unit) in ("月", "秒")]
    days = [one for one in dated(pool) if one.written != day.written and one.month and one.day]
    hits = 0
    for known, time in product(days[:MOST], times[:MOST]):
        hits += any(_is_day(day, known.year, one) for one in _moved(known, time))
    is_next = any(
        _is_day(day, one.year, moved) and re.search(rf"{re.escape(one.written)}[^\n]{{0,{REACH}}}(?:{_NEXT_DAY})", text)
        for one in days
        for moved in _moved(one, None)
    )
    if not hits and not is_next:
        return "no"
    is_shown = any(isinstance(one, Day) or one in times for one in shown)
    return "surely" if is_next or (is_shown and len(days) * len(times) <= MOST) else "possibly"


def _moved(known: Day, time: Number | None) -> Iterator[date]:
    begin = _date(known)
    if begin is None:
        return
    if time is None:
        yield begin + timedelta(days=1)
        return
    size = int(amount(time.values[-1], time.unit))
    for sign in (1, -1):
        try:
            if measured(time.unit) == "月":
                months = begin.year * 12 + begin.month - 1 + sign * size
                moved = date(months // 12, months % 12 + 1, min(begin.day, 28))
                moved += timedelta(days=begin.day - moved.day)
            else:
                moved = begin + timedelta(seconds=sign * size)
            found = (moved, moved - timedelta(days=1), moved + timedelta(days=1))
        except (ValueError, OverflowError):
            continue
        yield from found


def _is_day(day: Day, year: int | None, moved: date) -> bool:
    is_year = day.year is None or year is None or day.year == moved.year
    return is_year and (day.month or moved.month) == moved.month and (day.day or moved.day) == moved.day


def is_clock_after(clock: Clock, pool: Sequence[Figure]) -> Derivation:
    clocks = [one for one in pool if isinstance(one, Clock) and one.written != clock.written]
    times = [one for one in pool if isinstance(one, Number) and measured(one.unit) == "秒"]
    for known, time in product(clocks[:MOST], times[:MOST]):
        minutes = int(amount(time.values[-1], time.unit)) // 60
        if any(one in clock.minutes for at in known.minutes for one in ((at + minutes) % 1440, (at - minutes) % 1440)):
            return "surely" if len(clocks) * len(times) <= MOST else "possibly"
    return "no"


def _date(day: Day) -> date | None:
    try:
        found = date(day.year or _ANY_YEAR, day.month or 1, day.day or 1)
    except ValueError:  # 2月30日
        return None
    return found if found < date.max else None  # which has no day after it
