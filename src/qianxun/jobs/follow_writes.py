"""Bases that other processes write to: what follows a write is begun here as if it had been made here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from qianxun.bases.base import OpenBase
from qianxun.core.errors import NotFound, QianxunError
from qianxun.records import Records, bases

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0


async def follow_writes(records: Records, opened: Callable[[str, int], Awaitable[OpenBase]]) -> None:
    """Goes on until it is cancelled. What was written before it began is left as it is."""
    seen = dict[int, int]()
    is_first = True
    while True:
        try:
            now = await records.read(bases.indexed_sequences)
            for base, (tenant, sequence) in now.items():
                if not is_first and sequence != seen.get(base, 0):
                    await _note(opened, tenant, base)
            seen, is_first = {base: sequence for base, (_, sequence) in now.items()}, False
        except QianxunError as error:
            log.warning("whether others have written is looked at again in %s seconds: %s", LOOK_SECONDS, error)
        except Exception:  # the door of a background loop: it must outlive any one failure
            log.exception("whether others have written is looked at again after an unexpected failure")
        await asyncio.sleep(LOOK_SECONDS)


async def _note(opened: Callable[[str, int], Awaitable[OpenBase]], tenant: str, number: int) -> None:
    try:
        base = await opened(tenant, number)
    except NotFound:  # deleted meanwhile
        return
    base.terms.note_write()
    base.graph.note_write()
