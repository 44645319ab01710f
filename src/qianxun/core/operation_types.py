"""Work that goes on after the request that started it: rebuilds, verifications, evaluation runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

OperationKind: TypeAlias = Literal["verify", "rebuild", "evaluate"]
OperationStatus: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Operation:
    """The state of one. They are of the process that runs them, and gone with it."""

    id: int
    kind: OperationKind
    knowledge_base_id: int
    status: OperationStatus
    done: int
    total: int  # 0: not known
    created_at: datetime
    ended_at: datetime | None = None
    reason: str = ""  # why it failed
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        return self.status in ("queued", "running")
