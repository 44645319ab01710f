"""Browsers that signed in with a key: a token names the key, and the key's record decides at every request.

A token holds no secret of the key and grants nothing by itself: a key that was revoked ends every session that began
with it, at once and in every process. Tokens are authenticated by a key derived from ``secrets.key``, or from the file
in the data folder, so that they outlive a restart and are understood by every service with the same secret.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from qianxun.engine.across_tenants import KeyLookup
from qianxun.engine.engine import Engine
from qianxun.records.secrets.keys import LARGEST_ID, KeyHolder

SESSION_SECONDS: Final = 8 * 3600
PURPOSE: Final = "console session"


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that signed in. ``token`` is what its cookie holds."""

    holder: KeyHolder
    token: str
    expires: float  # seconds since 1970


@dataclass
class Sessions:
    engine: Engine
    keys: KeyLookup
    clock: Callable[[], float] = time.time
    _secret: bytes = b""
    _ended: dict[str, float] = field(default_factory=dict)  # tokens of this process that were signed out → expiry

    async def begin(self, key: str) -> Session | None:
        """Signs in; None for a key that is unknown or revoked. Raises RecordsUnavailable or BadSettings."""
        holder = await self.keys.holder(key)
        if holder is None:
            return None
        expires = int(self.clock()) + SESSION_SECONDS
        content = f"{holder.id}.{expires}.{secrets.token_urlsafe(16)}"
        return Session(holder, f"{content}.{await self._mac(content)}", float(expires))

    async def resume(self, token: str) -> Session | None:
        """The session of a token; None for one that is forged or over, or whose key was revoked."""
        content, _, mac = token.rpartition(".")
        key_id, _, rest = content.partition(".")
        expires = rest.partition(".")[0]
        if not (token.isascii() and key_id.isdigit() and expires.isdigit() and len(token) < 200):
            return None
        if not hmac.compare_digest(mac, await self._mac(content)):
            return None
        if int(expires) <= self.clock() or token in self._ended or int(key_id) > LARGEST_ID:
            return None
        holder = await self.keys.live(int(key_id))
        return None if holder is None else Session(holder, token, float(expires))

    def end(self, token: str) -> None:
        """Signs out: in this process the token counts no more, should anybody have a copy."""
        now = self.clock()
        self._ended = {ended: expires for ended, expires in self._ended.items() if expires > now}
        self._ended[token] = now + SESSION_SECONDS

    async def _mac(self, content: str) -> str:
        if not self._secret:
            self._secret = await asyncio.to_thread(self.engine.registered.sealing.token_key, PURPOSE)
        return hmac.new(self._secret, content.encode(), "sha256").hexdigest()
