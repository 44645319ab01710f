"""The day as of which a search looks: the request's, the question's own, or today. `resolve_as_of` is read first."""

from __future__ import annotations

import asyncio
import re
from calendar import monthrange
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Final

from qianxun.bases.base import OpenBase, read
from qianxun.bases.in_force import NOTHING_KNOWN, InForce, in_force
from qianxun.core.filters import Filter, all_of
from qianxun.core.governance.validity import ANY_TIME, AsOf
from qianxun.core.types import Found, Generation
from qianxun.records import bases

_YEAR: Final = re.compile(r"(?<!\d)((?:19|20)\d{2})\s?年(?:\s?(\d{1,2})\s?月)?(?!\d|[以之]?[后来]|至今|起)")
_YEAR_OF: Final = re.compile(rf"在?{_YEAR.pattern}(?:底|末|初|份|度)?(?:的时候|时|的|，|,)?")
_YEAR_IN_NUMERALS: Final = re.compile(r"[〇零一二三四五六七八九]{4}(?=\s?年)")
_NUMERALS: Final = str.maketrans("〇零一二三四五六七八九", "00123456789")


async def resolve_as_of(base: OpenBase, text: str, as_of: str, generation: Generation | None = None) -> AsOf | None:
    """The day, and who chose it; None where no day is to be looked at: by request, or because the base has no periods.

    The request chooses with ``as_of``; else a question that names a past year, when something was in force then that
    is not now; else it is today.
    """
    known = await periods(base, generation)  # at any time, too: results say what has taken their place
    if as_of == ANY_TIME or not known.periods:
        return None
    if as_of:
        return AsOf(as_of, "request")
    now, past = AsOf(date.today().isoformat(), "today"), AsOf(named_day(text), "question")
    if past.day and past.day < now.day and known.outdated(now).keys() - known.outdated(past).keys():
        return past
    return now


async def periods(base: OpenBase, generation: Generation | None = None) -> InForce:
    """Of the base's documents at this state of it, as read just before; or as it is now."""
    if generation is not None:
        state = (generation.records, generation.index)
    else:
        state = (await read(base, bases.generation), await base.index.watermark())
    if base.periods_at != state:
        base.periods, base.periods_at = await asyncio.to_thread(_read_periods, base), state
    return base.periods


def _read_periods(base: OpenBase) -> InForce:
    with base.records.reading() as tx:
        return in_force(tx, base.id)


def named_day(text: str) -> str:
    """The last day of the one year, or month, that a question names; "" if it names none or several."""
    digits = _YEAR_IN_NUMERALS.sub(lambda found: found.group().translate(_NUMERALS), text)
    found = {(int(year), int(month or 0)) for year, month in _YEAR.findall(digits)}
    if len(found) != 1:
        return ""
    ((year, month),) = found
    month = month if 1 <= month <= 12 else 12
    return f"{year:04d}-{month:02d}-{monthrange(year, month)[1]:02d}"


def without_day(text: str) -> str:
    """A question without the year, or month, that it names: 2022年的住宿标准 is 住宿标准."""
    digits = _YEAR_IN_NUMERALS.sub(lambda found: found.group().translate(_NUMERALS), text)
    rest = _YEAR_OF.sub("", digits).strip(" ，,")
    return rest or text


async def narrow_to_day(base: OpenBase, where: Filter, as_of: AsOf | None) -> Filter:
    """The filter, narrowed to what is in force on the day."""
    return where if as_of is None else all_of(where, (await periods(base)).where(as_of))


def outdated_documents(base: OpenBase) -> Mapping[str, str]:
    """Document → why it is not in force today; by what the last search read."""
    if base.periods is NOTHING_KNOWN:
        return {}
    return base.periods.outdated(AsOf(date.today().isoformat(), "today"))


def with_outdated(base: OpenBase, found: Iterable[Found]) -> list[Found]:
    """The results, each with why it is not in force today, where it is not."""
    outdated = outdated_documents(base)
    if not outdated:
        return list(found)
    return [replace(one, outdated=outdated.get(one.chunk.doc_id, "")) for one in found]
