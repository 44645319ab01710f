"""`Engine.governance`: what one tenant has to account for."""

from __future__ import annotations

from dataclasses import dataclass

from qianxun.engine.governance.audit import AuditLog
from qianxun.engine.governance.corrections import Corrections
from qianxun.engine.governance.host import Host
from qianxun.engine.governance.receipts import Receipts


@dataclass(frozen=True, slots=True)
class Governance:
    """The parts of it, each in a module of its own."""

    engine: Host

    @property
    def audit(self) -> AuditLog:
        """Who changed what."""
        return AuditLog(self.engine.records, self.engine.tenant)

    @property
    def corrections(self) -> Corrections:
        """What people corrected: chunks, documents, the results of questions."""
        return Corrections(self.engine)

    @property
    def receipts(self) -> Receipts:
        """Deletions that can be proved."""
        return Receipts(self.engine)
