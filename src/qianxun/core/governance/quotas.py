"""What a tenant may have and do at most; None is as much as there is room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KINDS: Final = ("documents", "chunks", "bytes", "searches_per_minute")
LARGEST: Final = 2**62


@dataclass(frozen=True, slots=True)
class Quota:
    """``bytes`` are of the texts of documents, in UTF-8."""

    documents: int | None = None
    chunks: int | None = None
    bytes: int | None = None
    searches_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A tenant's quota, and what of it is used now. ``searches_per_minute``: in the last minute."""

    tenant: str
    quota: Quota
    used: Quota
