"""The indexer ends when it is told to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.jobs.background import run_indexer
from qianxun.records import Records
from qianxun.records.database.open import sqlite_url


@pytest.mark.parametrize("turns", range(4))
def test_it_ends_even_when_it_is_woken_in_the_same_moment(turns: int, tmp_path: Path) -> None:
    """A close right after a write: `asyncio.wait_for` would forget the cancellation, and the close would never end."""

    async def run() -> None:
        records, woken = Records.open(sqlite_url(tmp_path / "qianxun.db")), asyncio.Event()

        async def work(_tenant: str, _base: int) -> None:
            raise AssertionError("there is none")

        indexer = asyncio.create_task(run_indexer(records, woken, work))
        async with asyncio.timeout(60):
            while not woken._waiters:  # noqa: ASYNC110  # nobody tells that it sleeps
                await asyncio.sleep(0.005)
        woken.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        indexer.cancel()
        done, _ = await asyncio.wait([indexer], timeout=60)
        assert indexer in done
        records.close()

    asyncio.run(run())
