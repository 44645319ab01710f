"""Bases that other processes write to: what follows a write is begun here as if it had been made here, and what they
purge is forgotten here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from qianxun.bases.base import OpenBase
from qianxun.core.errors import NotFound, QianxunError
from qianxun.records import Records, bases
from qianxun.records.database.counters import last

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0


async def follow_writes(records: Records, opened: Callable[[str, int], Awaitable[OpenBase]]) -> None:
    """Goes on until it is cancelled. What was written before it began is left as it is."""
    seen: dict[int, int] | None = None

    async def look() -> None:
        nonlocal seen
        now = await records.read(bases.indexed_sequences)
        for base, (tenant, sequence) in now.items() if seen is not None else ():
            if seen is not None and sequence != seen.get(base, 0):
                await _note(opened, tenant, base)
        seen = {base: sequence for base, (_, sequence) in now.items()}

    await _look_on(look)


async def follow_purges(records: Records, forget: Callable[[], Awaitable[object]]) -> None:
    """Goes on until it is cancelled: ``forget`` is called when another process, or this one, has purged something."""
    seen: int | None = None

    async def look() -> None:
        nonlocal seen
        now = await records.read(lambda tx: last(tx, "purge"))
        if seen is not None and now != seen:
            await forget()
        seen = now

    await _look_on(look)


async def _look_on(look: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await look()
        except QianxunError as error:
            log.warning("what others have done is looked at again in %s seconds: %s", LOOK_SECONDS, error)
        except Exception:  # the door of a background loop: it must outlive any one failure
            log.exception("what others have done is looked at again after an unexpected failure")
        await asyncio.sleep(LOOK_SECONDS)


async def _note(opened: Callable[[str, int], Awaitable[OpenBase]], tenant: str, number: int) -> None:
    try:
        base = await opened(tenant, number)
    except NotFound:  # deleted meanwhile
        return
    base.terms.note_write()
    base.graph.note_write()
