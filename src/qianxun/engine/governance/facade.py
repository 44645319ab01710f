"""`Engine.governance`: what one tenant has to account for."""

from __future__ import annotations

from dataclasses import dataclass

from qianxun.engine.governance.access import Access
from qianxun.engine.governance.audit import AuditLog
from qianxun.engine.governance.corrections import Corrections
from qianxun.engine.governance.host import Host
from qianxun.engine.governance.quotas import Quotas
from qianxun.engine.governance.receipts import Receipts
from qianxun.engine.governance.webhooks import Webhooks
from qianxun.records.tenancy import BaseRecords, read_only


@dataclass(frozen=True, slots=True)
class Governance:
    """The parts of it, each in a module of its own."""

    engine: Host

    @property
    def audit(self) -> AuditLog:
        """Who changed what. Raises Forbidden for an engine that reads on behalf of a principal."""
        self._require_owner()
        return AuditLog(self.engine.records, self.engine.tenant)

    @property
    def corrections(self) -> Corrections:
        """What people corrected: chunks, documents, the results of questions."""
        return Corrections(self.engine)

    @property
    def quotas(self) -> Quotas:
        """What the tenant may have and do at most."""
        self._require_owner()
        return Quotas(self.engine)

    @property
    def receipts(self) -> Receipts:
        """Deletions that can be proved. Raises Forbidden for an engine that reads on behalf of a principal."""
        self._require_owner()
        return Receipts(self.engine)

    @property
    def access(self) -> Access:
        """Who may see which documents."""
        host = self.engine
        return Access(lambda base: BaseRecords(host.records, base, host.tenant, host.principal))

    @property
    def webhooks(self) -> Webhooks:
        """Addresses that are told of events."""
        self._require_owner()
        return Webhooks(self.engine)

    def _require_owner(self) -> None:
        """Raises Forbidden for an engine that reads on behalf of a principal."""
        if self.engine.principal is not None:
            raise read_only(self.engine.principal)
