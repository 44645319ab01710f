"""Addresses that are told of events, and what is on its way to them.

A request is signed: ``X-Qianxun-Signature: t=<seconds since 1970>,v1=<hex>``, where v1 is the HMAC-SHA256, under the
hook's secret, of the time, a full stop and the body. `is_signed` is what a receiver does.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

EVENTS: Final = (
    "document.indexed", "document.failed", "document.deleted", "search.zero_results", "search.feedback",
)  # fmt: skip
TEST_EVENT: Final = "webhook.test"
SIGNATURE: Final = "X-Qianxun-Signature"
FRESH_SECONDS: Final = 300  # within which a signature counts: a copy of a request is of no use later
_SIGNED: Final = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address, and of which events it is told; ``knowledge_base_id`` 0: of every base of the tenant."""

    id: int
    url: str
    events: tuple[str, ...]
    knowledge_base_id: int
    created_at: datetime
    pending: int = 0  # deliveries on their way
    failed: int = 0  # … that were given up
    reason: str = ""  # of the last failure


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one address."""

    id: int
    webhook_id: int
    event: str
    status: str  # pending | failed; one that has arrived is not listed any more
    attempts: int
    reason: str
    created_at: datetime
    next_at: datetime


def signature(secret: str, body: bytes, seconds: int) -> str:
    mac = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={mac}"


def is_signed(secret: str, body: bytes, header: str, now: float) -> bool:
    """Whether a request came from who has the secret, and a moment ago."""
    found = _SIGNED.fullmatch(header)
    if found is None or abs(now - int(found[1])) > FRESH_SECONDS:
        return False
    return hmac.compare_digest(signature(secret, body, int(found[1])), header)
