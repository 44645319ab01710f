"""What the process that serves an engine does across tenants: check keys, count writes, tell why storage failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from qianxun.core.errors import QianxunError, RecordsUnavailable
from qianxun.core.governance.quotas import QuotaUse
from qianxun.core.system.shortages import shortage
from qianxun.engine.engine import Engine
from qianxun.engine.governance.quotas import quotas_of_all
from qianxun.engine.storage import folder_bytes, index_folder
from qianxun.records import Records, listing
from qianxun.records.database.disk_errors import is_disk_full, is_unwritable
from qianxun.records.governance import access, webhooks
from qianxun.records.secrets import keys

log = logging.getLogger(__name__)

KeyHolder = keys.KeyHolder

T = TypeVar("T")


class KeyLookup:
    """Reads keys from the records anew for every request: a revoked key is refused at once.

    After a failure one request at a time tries again and the others fail at once: no queue builds up in front of a
    database server that hangs, and the first request after its recovery is served.
    """

    def __init__(self, records: Records, seconds: float) -> None:
        """``seconds``: the timeout of a lookup."""
        self._records = records
        self._seconds = seconds
        self._failure: RecordsUnavailable | None = None  # of the last lookup
        self._is_retrying = False

    async def holder(self, key: str) -> keys.KeyHolder | None:
        """The tenant and scope of a key; None if it is unknown or revoked. Raises RecordsUnavailable."""
        return await self.read(lambda tx: keys.find(tx, key))

    async def live(self, key_id: int) -> keys.KeyHolder | None:
        """The same of a key that is known by its id. Raises RecordsUnavailable."""
        return await self.read(lambda tx: keys.live(tx, key_id))

    async def hides_documents(self, tenant: str) -> bool:
        """Whether anybody gave access labels in a base of the tenant. Raises RecordsUnavailable."""
        return await self.read(lambda tx: access.has_labels(tx, tenant))

    async def was_any_created(self) -> bool:
        """Returns True if a key has ever been created. Raises RecordsUnavailable."""
        return await self.read(keys.was_any_created)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Runs one short statement. Raises RecordsUnavailable."""
        if self._records.is_here:
            return self._read(work)
        if (failure := self._failure) is None:
            return await self._in_thread(partial(self._read_unless_failed, work))
        if self._is_retrying:
            raise _again(failure)
        self._is_retrying = True
        try:
            return await self._in_thread(partial(self._read, work))
        finally:
            self._is_retrying = False

    async def _in_thread(self, reading: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.to_thread(reading)
        except TimeoutError:
            self._failure = RecordsUnavailable(
                f"数据库 {self._seconds:g} 秒没有答复", hint="检查数据库服务器是否在运行；恢复后会自动继续"
            )
            raise self._failure from None

    def _read(self, work: Callable[[Connection], T]) -> T:
        """Notes its outcome in its thread: that takes up the next lookup before the event loop learns of this one."""
        try:
            with self._records.single_statement() as tx:
                result = work(tx)
        except RecordsUnavailable as error:
            self._failure = error
            raise
        self._failure = None
        return result

    def _read_unless_failed(self, work: Callable[[Connection], T]) -> T:
        """Another lookup may have failed while this one waited for a thread."""
        if (failure := self._failure) is not None:
            raise _again(failure)
        return self._read(work)


def _again(failure: RecordsUnavailable) -> RecordsUnavailable:
    return RecordsUnavailable(failure.message, hint=failure.hint)


def has_valid_key(engine: Engine) -> bool:
    """Returns True if there is a key that has not been revoked, of any tenant."""
    with engine.records.reading() as tx:
        return keys.is_any_active(tx)


async def pending_writes(engine: Engine) -> int | None:
    """How many changes wait to be indexed, in the bases of all tenants; None if the records cannot be read."""
    try:
        return await engine.admin.queue_depth()
    except (QianxunError, SQLAlchemyError) as error:
        log.warning("the number of pending writes is unknown: %s", type(error).__name__)
        return None


@dataclass(frozen=True, slots=True)
class StorageUse:
    """What all tenants' bases take together."""

    vectors: int
    records_bytes: int
    index_bytes: int  # in the data folder; an index in the records' database is counted there


async def storage_use(engine: Engine) -> StorageUse | None:
    """None if the records cannot be read."""

    def measured() -> StorageUse:
        with engine.records.reading() as tx:
            vectors, size = listing.vectors_of_all(tx), listing.database_bytes(tx)
        return StorageUse(vectors, size, folder_bytes(index_folder(engine.settings, engine.records.identity)))

    try:
        return await asyncio.to_thread(measured)
    except (QianxunError, SQLAlchemyError) as error:
        log.warning("what is stored could not be counted: %s", type(error).__name__)
        return None


async def webhook_deliveries(engine: Engine) -> dict[str, int] | None:
    """Events on their way to webhooks by status, of all tenants; None if the records cannot be read."""
    try:
        return await engine.records.read(webhooks.counts)
    except (QianxunError, SQLAlchemyError) as error:
        log.warning("the number of undelivered events is unknown: %s", type(error).__name__)
        return None


async def quota_uses(engine: Engine, tenant: str | None) -> list[QuotaUse]:
    """Of a tenant, or of all that have a quota. Raises RecordsUnavailable."""
    return await asyncio.to_thread(quotas_of_all, engine.records, engine.settings.folder, tenant)


def storage_failure(error: Exception) -> Literal["disk_full", "read_only", "shortage", "database", ""]:
    """Why an unexpected error was raised, if it was the disk, a limit of the system or the database."""
    if is_disk_full(error):
        return "disk_full"
    if is_unwritable(error):
        return "read_only"
    if shortage(error) is not None:
        return "shortage"
    return "database" if isinstance(error, OperationalError | InterfaceError) else ""
