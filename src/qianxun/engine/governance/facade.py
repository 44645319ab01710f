"""`Engine.governance`: what one tenant has to account for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from qianxun.engine.governance.audit import AuditLog
from qianxun.engine.governance.corrections import Corrections
from qianxun.records import Records

if TYPE_CHECKING:
    from qianxun.bases.base import OpenBase


class Host(Protocol):
    """What is needed of an engine."""

    @property
    def records(self) -> Records: ...
    @property
    def tenant(self) -> str: ...
    async def base(self, knowledge_base: int) -> OpenBase: ...


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
