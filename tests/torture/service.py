"""The proofs of `tests.http`, for as long as asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.http.consistency import Ledger, Siege
from tests.http.cuts import Cuts, cut, cutting
from tests.http.questions import asking, writing
from tests.http.served import serving
from tests.http.survey import Survey, inhabited, survey


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


def cut_off(folder: Path, rounds: int, seed: int) -> Cuts:
    """So many streamed answers, eight at a time, whose model breaks off, each in its own way."""

    async def run() -> Cuts:
        async with asking(folder, writing(cutting(seed)), {"chat.timeout_seconds": 1.0}) as at:
            return await cut(at, rounds, at_once=8)

    return asyncio.run(run())
