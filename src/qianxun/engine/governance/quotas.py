"""Quotas of tenants: set, shown, and the searches of a minute counted against them.

Documents, chunks and bytes are counted by the records, in the transaction that would exceed them. Searches are counted
where they come in, in a file of the data folder that all its processes share, or in the database that the processes
share: the limit is one for all of them, and holds for every minute, wherever it begins.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from qianxun.core.errors import QuotaExceeded
from qianxun.core.governance.quotas import Quota, QuotaUse
from qianxun.core.system.cache import LRUCache
from qianxun.engine.admin.database import open_records
from qianxun.engine.governance.host import Host
from qianxun.engine.settings import Settings
from qianxun.records import Records
from qianxun.records.governance import quotas

FOLDER: Final = "quotas"
KNOWN_SECONDS: Final = 5.0  # for which a quota that was read holds
TENANTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of one tenant."""

    host: Host

    async def get(self) -> QuotaUse:
        """The tenant's quota, and what of it is used."""
        return await asyncio.to_thread(_use, self.host.records, self.host.settings.folder, self.host.tenant)

    async def set(self, quota: Quota) -> QuotaUse:
        """In the place of the earlier one; for operators. Raises BadInput."""
        await self.host.records.write(lambda tx: quotas.put(tx, self.host.tenant, quota))
        return await self.get()


def list_quotas(settings: Settings) -> list[QuotaUse]:
    """Of all tenants that have one, also while a service has the data folder open."""
    with open_records(settings) as records:
        return quotas_of_all(records, settings.folder)


def set_quota(settings: Settings, tenant: str, quota: Quota) -> QuotaUse:
    """Raises BadInput."""
    with open_records(settings) as records:
        records.run(lambda tx: quotas.put(tx, tenant, quota))
        return _use(records, settings.folder, tenant)


def quotas_of_all(records: Records, folder: Path, tenant: str | None = None) -> list[QuotaUse]:
    """Of the tenants that have one, or of this one if it has."""
    with records.reading() as tx:
        tenants = [name for name in quotas.every(tx) if tenant in (None, name)]
    return [_use(records, folder, tenant) for tenant in tenants]


def _use(records: Records, folder: Path, tenant: str) -> QuotaUse:
    with records.reading() as tx:
        quota, found = quotas.get(tx, tenant), Quota(**quotas.used(tx, tenant))
        counts = _file_counts(_place(folder, tenant)) if records.is_here else quotas.search_counts(tx, tenant)
    searches = quotas.recent_searches(counts, int(time.time()))
    return QuotaUse(tenant, quota, replace(found, searches_per_minute=searches))


# ── searches ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class SearchQuota:
    """Counts the searches of tenants that have a quota of them; of others it reads nothing but that."""

    records: Records
    folder: Path
    clock: Callable[[], float] = time.time
    refused: Callable[[], None] = lambda: None
    _known: LRUCache[str, Quota] = field(default_factory=lambda: LRUCache[str, Quota](TENANTS))

    async def count(self, tenant: str, searches: int = 1) -> None:
        """Raises QuotaExceeded, which says when to try again, for searches beyond the quota of the last minute. What is
        refused does not count: whoever keeps asking is served again as soon as there is room."""
        quota = self._known.get(tenant)
        if quota is None:
            quota = await self._read(tenant)
            self._known.put(tenant, quota, KNOWN_SECONDS)
        limit = quota.searches_per_minute
        if limit is None:
            return
        wait = await self._counted(tenant, int(self.clock()), limit, searches)
        if wait:
            self.refused()
            raise QuotaExceeded(
                f"租户“{tenant}”每分钟至多检索 {limit} 次",
                hint=f"{wait} 秒后再试，或请管理员调高：qianxun quotas set",
                retry_seconds=wait,
            )

    async def _read(self, tenant: str) -> Quota:
        def read() -> Quota:
            with self.records.single_statement() as tx:
                return quotas.get(tx, tenant)

        return read() if self.records.is_here else await asyncio.to_thread(read)

    async def _counted(self, tenant: str, second: int, limit: int, searches: int) -> int:
        """Returns the seconds to wait; 0: they are counted."""
        if self.records.is_here:
            try:
                return _count_in_file(self.folder, tenant, second, limit, searches, fcntl.LOCK_NB)
            except BlockingIOError:  # another process counts just now
                return await asyncio.to_thread(_count_in_file, self.folder, tenant, second, limit, searches)

        def count() -> int:
            with self.records.leasing() as tx:
                return quotas.count_searches(tx, tenant, second, limit, searches)

        return await asyncio.to_thread(count)


# ── counted in a file: a slot for each second of the window, with the second and its number ──────

_SLOT: Final = struct.Struct("<qq")


def _place(folder: Path, tenant: str) -> Path:
    return folder / FOLDER / blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _file_counts(place: Path) -> dict[int, int]:
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        return {}
    return dict(_SLOT.iter_unpack(data[: len(data) // _SLOT.size * _SLOT.size]))


def _count_in_file(folder: Path, tenant: str, second: int, limit: int, searches: int, waiting: int = 0) -> int:
    """`quotas.count_searches` in a file that all processes of the folder share. With LOCK_NB it raises BlockingIOError
    where another has it locked."""
    place = _place(folder, tenant)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | waiting)
        counts = _file_counts(place)
        wait = quotas.seconds_to_wait(counts, second, limit, searches)
        if not wait:
            slot = _SLOT.pack(second, counts.get(second, 0) + searches)
            os.pwrite(handle, slot, second % quotas.WINDOW * _SLOT.size)
        return wait
    finally:
        os.close(handle)  # and with it the lock
