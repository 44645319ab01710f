"""How old a result is, if its document has a date, and what that costs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from qianxun.core.errors import BadInput
from qianxun.core.types import Found, Metadata, Scalar

FRESHNESS = 0.1  # set by hand: enough to order what is equally relevant
HALF_LIFE_DAYS = 365.0
DAY = 86_400.0
LONGEST_DATE = 64  # characters
# The first of these that can be read counts: a document is as old as its last change.
FIELDS = (
    "updated_at", "modified_at", "更新时间", "更新日期", "修改时间", "published_at", "发布时间", "发布日期",
    "created_at", "创建时间", "创建日期", "timestamp", "date", "time", "日期", "时间", "year", "年份", "年度",
)  # fmt: skip
_CHINESE = re.compile(r"(\d{4})\s*年(?:\s*(\d{1,2})\s*月(?:\s*(\d{1,2})\s*[日号])?)?")
_LOOSE = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")


def refreshed(
    results: Sequence[Found],
    *,
    weight: float = FRESHNESS,
    half_life_days: float = HALF_LIFE_DAYS,
    now: datetime | None = None,
) -> list[Found]:
    """score · (1 − weight · (1 − ½^(age ÷ half-life))) for what is dated; what is not keeps its score.

    Without ``now`` ages count from the newest date among the results, so that the same results rank the same on any
    day. A date that is yet to come is no age.
    """
    if not 0.0 <= weight <= 1.0 or not half_life_days > 0.0:
        raise BadInput("freshness 须在 0 到 1 之间，half_life_days 须大于零", hint="0 表示不看新旧")
    moments = [moment_of(found.chunk.attributes.metadata) for found in results]
    known = [moment for moment in moments if moment is not None]
    if weight == 0.0 or not known:
        return list(results)
    reference = max(known) if now is None else _seconds(now)
    return [
        found
        if moment is None
        else replace(found, score=found.score * _discount(reference - moment, weight, half_life_days))
        for found, moment in zip(results, moments, strict=True)
    ]


def _discount(age_seconds: float, weight: float, half_life_days: float) -> float:
    halvings = max(0.0, age_seconds) / (half_life_days * DAY)
    return float(1.0 - weight * (1.0 - 0.5 ** min(halvings, 1000.0)))


def moment_of(metadata: Metadata) -> float | None:
    """When the document was last changed, published or made, in seconds since 1970; None if nothing says so."""
    by_name = {name.casefold(): value for name, value in metadata.items()}
    for name in FIELDS if by_name else ():  # most documents have none
        value = by_name.get(name)
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        read = [moment for value in values if (moment := _moment(value)) is not None]
        if read:
            return max(read)
    return None


def _moment(value: Scalar) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _written(value.strip()) if len(value) <= LONGEST_DATE else None
    return _number(value) if 0 < value < 1e20 else None  # which NaN is not


def _number(value: int | float) -> float | None:
    """A year, a day as 20240305, or a time stamp in seconds, milliseconds or finer."""
    whole = int(value)
    if whole == value and 1900 <= whole <= 2100:
        return _day(whole, 1, 1)
    if whole == value and 19_000_101 <= whole <= 21_001_231:
        return _day(whole // 10_000, whole // 100 % 100, whole % 100)
    for divisor in (1.0, 1e3, 1e6, 1e9):
        if 1e8 <= value / divisor < 4.2e9:  # 1973 to 2103
            return value / divisor
    return None


def _written(text: str) -> float | None:
    if text.isascii() and text.isdigit():
        return _number(int(text))
    try:
        return _seconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        pass
    found = _CHINESE.match(text) or _LOOSE.match(text)
    return _day(int(found[1]), int(found[2] or 1), int(found[3] or 1)) if found else None


def _day(year: int, month: int, day: int) -> float | None:
    try:
        return _seconds(datetime.combine(date(year, month, day), datetime.min.time()))
    except ValueError:
        return None


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
