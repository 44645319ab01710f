"""What the audit log says: one entry for every change, and the result of checking its chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who changed what. ``who``, ``subject`` and ``details`` are empty where `is_erased`."""

    sequence: int
    created_at: datetime
    tenant: str
    action: str  # what and how: document.add, base.configure, key.revoke …
    who: str
    subject: str = ""  # a document, a base, a key …
    knowledge_base_id: int = 0  # 0: of no base
    details: Mapping[str, Any] = field(default_factory=dict)
    hash: str = ""
    is_erased: bool = False  # names were taken out on a person's demand; the chain covers their digest


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """Whether the log is as it was written. ``head`` is the hash of the last entry: noted elsewhere, it also shows
    when the end of the log was cut off."""

    entries: int
    erased: int
    head: str
    problems: tuple[str, ...] = ()

    @property
    def is_intact(self) -> bool:
        return not self.problems
