"""Looking up keys in a database server that hangs: a table that somebody has locked answers nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, text

from qianxun.core.errors import RecordsUnavailable
from qianxun.engine.across_tenants import KeyLookup
from qianxun.records import Records
from qianxun.records.database.server import ConnectionOptions
from qianxun.records.secrets import keys
from tests.http.served import until_told

Story = Callable[[Records, Callable[[], Any]], Awaitable[None]]


def told(url: str, story: Story, seconds: float = 60, statement_seconds: float = 0.3) -> list[str]:
    """``story`` gets the records, and a lookup that answers the tenant of a key; the keys that were looked up."""
    asked: list[str] = []

    def find(tx: Connection, key: str) -> keys.KeyHolder | None:
        asked.append(key)
        return keys.find(tx, key)

    async def telling() -> None:
        records = Records.open(url, ConnectionOptions(statement_seconds=statement_seconds))
        with records.writing() as tx:
            _, key = keys.create(tx, "甲", "read")
        lookups = KeyLookup(records, seconds)

        async def tenant() -> str:
            holder = await lookups.read(lambda tx: find(tx, key))
            return holder.tenant if holder else ""

        try:
            await story(records, tenant)
        finally:
            records.close()

    asyncio.run(asyncio.wait_for(telling(), 120))
    return asked


@contextmanager
def hanging(records: Records) -> Iterator[None]:
    with records.engine.connect() as connection:
        connection.execute(text("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE"))
        yield


def test_while_the_last_one_failed_one_tries_and_the_others_are_told_at_once(migrated_postgres_url: str) -> None:
    async def story(records: Records, tenant: Callable[[], Any]) -> None:
        with hanging(records):
            with pytest.raises(RecordsUnavailable):
                await tenant()
            trying = asyncio.create_task(tenant())
            await asyncio.sleep(0)
            with pytest.raises(RecordsUnavailable):
                await tenant()
            assert not trying.done()
            with pytest.raises(RecordsUnavailable):
                await trying
        # What is in order may be late, too, on a busy machine.
        await until_told(lambda: _tried(tenant), ["甲"])
        await until_told(lambda: _tried(*[tenant] * 8), ["甲"] * 8)

    told(migrated_postgres_url, story)


async def _tried(*asked: Callable[[], Any]) -> list[Any]:
    """What came of them; of one whose answer was late, None."""
    answers = await asyncio.gather(*(each() for each in asked), return_exceptions=True)
    return [None if isinstance(each, RecordsUnavailable) else each for each in answers]


def test_those_who_wait_for_a_thread_do_not_try_what_has_failed_meanwhile(migrated_postgres_url: str) -> None:
    async def story(records: Records, tenant: Callable[[], Any]) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        with hanging(records):
            outcomes = await asyncio.gather(*(tenant() for _ in range(8)), return_exceptions=True)
        assert [type(each) for each in outcomes] == [RecordsUnavailable] * 8

    assert len(told(migrated_postgres_url, story)) == 1


def test_a_lookup_is_given_up_when_its_time_is_over(migrated_postgres_url: str) -> None:
    async def story(records: Records, tenant: Callable[[], Any]) -> None:
        with hanging(records), pytest.raises(RecordsUnavailable, match=r"数据库 0\.05 秒没有答复"):
            await tenant()

    told(migrated_postgres_url, story, seconds=0.05, statement_seconds=60)
