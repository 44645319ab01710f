"""Short reads of the records before anything else is done for a request: whose key it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from qianxun.core.errors import RecordsUnavailable
from qianxun.records import Records

T = TypeVar("T")


class Lookups:
    """Anew for every request: what was revoked a moment ago opens nothing now.

    While the last one failed, one at a time tries again, and the others are told so at once: nobody queues behind a
    database server that hangs, and the first to come after its return is served.
    """

    def __init__(self, records: Records, seconds: float) -> None:
        """``seconds``: after which one is given up."""
        self._records = records
        self._seconds = seconds
        self._failure: RecordsUnavailable | None = None  # of the last one
        self._is_trying = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Raises RecordsUnavailable."""
        if self._records.is_here:
            return self._glance(work)
        if (failure := self._failure) is None:
            return await self._attempt(partial(self._glance_unless_failed, work))
        if self._is_trying:
            raise _again(failure)
        self._is_trying = True
        try:
            return await self._attempt(partial(self._glance, work))
        finally:
            self._is_trying = False

    async def _attempt(self, reading: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.to_thread(reading)
        except TimeoutError:
            self._failure = RecordsUnavailable(
                f"数据库 {self._seconds:g} 秒没有答复", hint="检查数据库服务器是否在运行；恢复后会自动继续"
            )
            raise self._failure from None

    def _glance(self, work: Callable[[Connection], T]) -> T:
        """Notes here, and not in the event loop, how it went: the thread takes up the next one before that knows."""
        try:
            with self._records.glancing() as tx:
                found = work(tx)
        except RecordsUnavailable as error:
            self._failure = error
            raise
        self._failure = None
        return found

    def _glance_unless_failed(self, work: Callable[[Connection], T]) -> T:
        """Another one may have failed while this one waited for a thread."""
        if (failure := self._failure) is not None:
            raise _again(failure)
        return self._glance(work)


def _again(failure: RecordsUnavailable) -> RecordsUnavailable:
    return RecordsUnavailable(failure.message, hint=failure.hint)
