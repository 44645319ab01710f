"""The proofs of `tests.service`, for as long as asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.service.consistency import Ledger, Siege
from tests.service.served import serving
from tests.service.survey import Survey, inhabited, survey


def surveyed(folder: Path, examples: int, seed: int) -> Survey:
    """So many random requests to each operation of the OpenAPI document, beside those that are always made."""

    async def run() -> Survey:
        async with inhabited(folder) as (asked, known):
            loop, document = asyncio.get_running_loop(), asked.app.openapi()
            return await asyncio.to_thread(survey, asked.app, loop, document, known, examples, seed)

    return asyncio.run(run())


def besieged(folder: Path, rounds: int, seed: int) -> Ledger:
    """So many writes by each of 16 writers, beside 16 readers."""

    async def run() -> Ledger:
        async with serving(folder) as served:
            return await Siege(served.http, await served.base(), rounds, seed).run(writers=16, readers=16)

    return asyncio.run(run())
