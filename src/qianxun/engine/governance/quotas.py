"""Quotas of tenants: set, shown, and the searches of a minute counted against them.

Documents, chunks and bytes are counted by the records, in the transaction that would exceed them. Searches are counted
where they come in, in a file of the data folder that all its processes append to, or in the database that the
processes share: the limit is one for all of them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

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
    minute = int(time.time()) // 60
    with records.reading() as tx:
        quota, found = quotas.get(tx, tenant), Quota(**quotas.used(tx, tenant))
        counted = quotas.searches(tx, tenant, minute)
    if records.is_here:
        counted = _file_count(folder, tenant, minute)
    return QuotaUse(tenant, quota, replace(found, searches_per_minute=counted))


# ── searches ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class SearchQuota:
    """Counts the searches of tenants that have a quota of them; of others it reads nothing but that."""

    records: Records
    folder: Path
    clock: Callable[[], float] = time.time
    refused: Callable[[], None] = lambda: None
    _known: LRUCache[str, Quota] = field(default_factory=lambda: LRUCache[str, Quota](TENANTS))

    async def count(self, tenant: str) -> None:
        """Raises QuotaExceeded, which says when to try again, for a search beyond the quota of this minute."""
        quota = self._known.get(tenant)
        if quota is None:
            quota = await self._read(tenant)
            self._known.put(tenant, quota, KNOWN_SECONDS)
        limit = quota.searches_per_minute
        if limit is None:
            return
        now = self.clock()
        if await self._counted(tenant, int(now) // 60) > limit:
            self.refused()
            raise QuotaExceeded(
                f"租户“{tenant}”每分钟至多检索 {limit} 次",
                hint="等这一分钟过去，或请管理员调高：qianxun quotas set",
                retry_seconds=60 - int(now) % 60,
            )

    async def _read(self, tenant: str) -> Quota:
        def read() -> Quota:
            with self.records.single_statement() as tx:
                return quotas.get(tx, tenant)

        return read() if self.records.is_here else await asyncio.to_thread(read)

    async def _counted(self, tenant: str, minute: int) -> int:
        if self.records.is_here:
            return _count_in_file(self.folder, tenant, minute)

        def count() -> int:
            with self.records.leasing() as tx:
                return _search(tx, tenant, minute)

        return await asyncio.to_thread(count)


def _search(tx: Connection, tenant: str, minute: int) -> int:
    return quotas.count_search(tx, tenant, minute)


def _place(folder: Path, tenant: str, minute: int) -> Path:
    name = blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return folder / FOLDER / f"{name}.{minute}"


def _file_count(folder: Path, tenant: str, minute: int) -> int:
    try:
        return _place(folder, tenant, minute).stat().st_size
    except FileNotFoundError:
        return 0


def _count_in_file(folder: Path, tenant: str, minute: int) -> int:
    """A byte for every search: what is appended by several processes at once is all there, and nothing is locked."""
    place = _place(folder, tenant, minute)
    try:
        handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        for earlier in place.parent.glob(f"{place.stem}.*"):
            if earlier != place:
                earlier.unlink(missing_ok=True)
        handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, b".")
        return os.fstat(handle).st_size
    finally:
        os.close(handle)
