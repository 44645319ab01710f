"""How often somebody may try to sign in: so many failures from one address, and in all, within some minutes.

A key has 256 random bits, so nobody guesses one; the limit keeps a script from costing lookups, and says so aloud.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

WITHIN_SECONDS: Final = 300.0
FROM_ONE_ADDRESS: Final = 10
IN_ALL: Final = 200


@dataclass
class Attempts:
    """Failures of the last minutes; `wait_seconds` before an attempt, `failed` after one."""

    clock: Callable[[], float] = time.monotonic
    _failures: deque[tuple[float, str]] = field(default_factory=deque)  # of all addresses, the oldest first

    def wait_seconds(self, address: str) -> int:
        """How long this address has to wait; 0: it may try."""
        now = self.clock()
        while self._failures and self._failures[0][0] <= now - WITHIN_SECONDS:
            self._failures.popleft()
        own = [at for at, failed in self._failures if failed == address]
        oldest = own[-FROM_ONE_ADDRESS] if len(own) >= FROM_ONE_ADDRESS else None
        if oldest is None and len(self._failures) >= IN_ALL:
            oldest = self._failures[0][0]
        return 0 if oldest is None else max(1, round(oldest + WITHIN_SECONDS - now))

    def failed(self, address: str) -> None:
        self._failures.append((self.clock(), address))
