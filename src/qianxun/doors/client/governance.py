"""What the operators of a service account for: `qianxun.engine.governance` over HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from qianxun.core.codec.plain import read
from qianxun.core.codec.wire import SHAPES
from qianxun.core.governance.audit import AuditEntry, AuditVerdict
from qianxun.doors.client.connection import Request
from qianxun.doors.client.registered import Ask


@dataclass(frozen=True, slots=True)
class ServiceGovernance:
    """Of the tenant of a key."""

    ask: Ask

    @property
    def audit(self) -> ServiceAudit:
        return ServiceAudit(self.ask)


@dataclass(frozen=True, slots=True)
class ServiceAudit:
    """Who changed what."""

    ask: Ask

    async def list(
        self, *, knowledge_base: int | None = None, action: str = "", limit: int = 50, before: int | None = None
    ) -> list[AuditEntry]:
        given = {"knowledge_base_id": knowledge_base, "action": action, "limit": limit, "before": before}
        params = {name: str(value) for name, value in given.items() if value not in (None, "")}
        request = Request("GET", "v1/audit", params=params)
        return await self.ask(request, lambda data: [read(AuditEntry, one, SHAPES) for one in data["list"]])

    async def verify(self, head: str = "") -> AuditVerdict:
        params = {"head": head} if head else {}
        return await self.ask(
            Request("GET", "v1/audit/verify", params=params), lambda data: read(AuditVerdict, data, SHAPES)
        )
