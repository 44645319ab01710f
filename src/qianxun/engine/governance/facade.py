"""`Engine.governance`: what one tenant has to account for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qianxun.engine.governance.audit import AuditLog
from qianxun.records import Records


class Host(Protocol):
    """What is needed of an engine."""

    @property
    def records(self) -> Records: ...
    @property
    def tenant(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Governance:
    """The parts of it, each in a module of its own."""

    engine: Host

    @property
    def audit(self) -> AuditLog:
        """Who changed what."""
        return AuditLog(self.engine.records, self.engine.tenant)
