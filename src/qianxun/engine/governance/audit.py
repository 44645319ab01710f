"""Who changed what: the audit log, read and checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from qianxun.core.governance.audit import AuditEntry, AuditVerdict
from qianxun.engine.admin.database import open_records
from qianxun.engine.settings import Settings
from qianxun.records import Records
from qianxun.records.governance import audit


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The changes of one tenant; those of all with the tenant None, which is for operators."""

    records: Records
    tenant: str | None

    async def list(
        self, *, knowledge_base: int | None = None, action: str = "", limit: int = 50, before: int | None = None
    ) -> list[AuditEntry]:
        """The newest first; ``action`` may be the first part of one ("document"), ``before`` is the number at which the
        last page ended."""
        chosen: dict[str, Any] = {"knowledge_base": knowledge_base, "action": action, "limit": limit, "before": before}
        return await self.records.read(lambda tx: audit.entries(tx, tenant=self.tenant, **chosen))

    async def verify(self, head: str = "", *, tenant: str | None = None) -> AuditVerdict:
        """Reads the log of all tenants, which is one chain, and works every hash out again. ``head`` is that of an
        earlier verdict, which should still be there. Of one ``tenant``: what of it is that tenant's."""
        return await self.records.read(lambda tx: audit.verify(tx, head, tenant=tenant))


@contextmanager
def open_audit_log(settings: Settings) -> Iterator[AuditLog]:
    """The log of all tenants, also while a service has the data folder open."""
    with open_records(settings) as records:
        yield AuditLog(records, None)
