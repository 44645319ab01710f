"""Tokens of an OpenID Connect issuer: verified against its keys, and read for who asks.

Signatures with a shared secret, and none at all, are never accepted: a token chooses its own header, and a public key
must not serve as a secret (RFC 8725, 2.1 and 3.1). Issuer, audience and expiry must be in it, and right.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qianxun.core.errors import BadSettings, MissingExtra, QianxunError, Unauthorized
from qianxun.core.governance.access import Principal, principal_in_claims
from qianxun.engine.settings import AccessSettings, Settings
from qianxun.models.remote.http import fetched
from qianxun.models.remote.url_policy import UrlPolicy
from qianxun.records.bases import check_tenant

log = logging.getLogger(__name__)

ASYMMETRIC: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)
KEY_BYTES: Final = 1 << 20  # of all keys together
TOKEN_LIMIT: Final = 16_384  # characters
FRESH_SECONDS: Final = 600.0  # for which keys are used before they are read again
AGAIN_SECONDS: Final = 30.0  # between two looks for a key that is not among them
FETCH_SECONDS: Final = 10.0
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Verified:
    """Who sent a token, and whose bases it opens."""

    tenant: str
    principal: Principal


def looks_like_token(text: str) -> bool:
    return len(text) <= TOKEN_LIMIT and _TOKEN.fullmatch(text) is not None


class TokenVerifier:
    """Verifies the tokens of one issuer. Raises BadSettings for settings with which it could not."""

    def __init__(
        self, settings: AccessSettings, policy: UrlPolicy, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._clock = clock
        self._keys: Mapping[str, Any] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        if self.is_configured:
            _check(settings)

    @property
    def is_configured(self) -> bool:
        return bool(self._settings.issuer)

    async def verified(self, token: str) -> Verified:
        """Raises Unauthorized, with a reason that tells nothing of the keys."""
        jwt = _library()
        try:
            header = jwt.get_unverified_header(token)
            algorithm, name = str(header.get("alg")), str(header.get("kid") or "")
            if algorithm not in self._settings.algorithms or algorithm not in ASYMMETRIC:
                raise Unauthorized("令牌的签名算法不被接受", hint=f"可用：{'、'.join(self._settings.algorithms)}")
            key = await self._key(name)
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway_seconds,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise Unauthorized("令牌已过期", hint="重新登录后再试") from None
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            log.info("a token was refused: %s", type(error).__name__)
            raise Unauthorized("令牌无效", hint="核对签发者、受众与签名密钥") from None
        return self._who(claims)

    def _who(self, claims: Mapping[str, Any]) -> Verified:
        own = self._settings
        principal = principal_in_claims(claims, own.user_claim, own.groups_claim, own.roles_claim)
        if not principal.name:
            raise Unauthorized(f"令牌里没有 {own.user_claim}", hint="核对 access.user_claim")
        tenant = str(claims.get(own.tenant_claim) or "") if own.tenant_claim else own.tenant
        try:
            return Verified(check_tenant(tenant), principal)
        except QianxunError:
            raise Unauthorized(f"令牌的 {own.tenant_claim} 不是租户名", hint="核对 access.tenant_claim") from None

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────

    async def _key(self, name: str) -> Any:
        """By its name; a token without one is tried with the only key there is. Raises Unauthorized."""
        async with self._reading:
            since = None if self._read_at is None else self._clock() - self._read_at
            is_unknown = name not in self._keys and not (not name and len(self._keys) == 1)
            if since is None or since > FRESH_SECONDS or (is_unknown and since > AGAIN_SECONDS):
                await self._read_keys()
        if not name and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if name not in self._keys:
            raise Unauthorized("令牌由不认识的密钥签名", hint="核对 access.jwks_url 或 access.jwks_file")
        return self._keys[name]

    async def _read_keys(self) -> None:
        """Where they cannot be had, those that were read before count on."""
        try:
            self._keys = await asyncio.to_thread(self._read)
        except (QianxunError, OSError, ValueError) as error:
            if not self._keys:
                raise Unauthorized("现在取不到签发者的公钥", hint="稍后重试；核对 access.jwks_url") from error
            log.warning("the issuer's keys could not be read again: %s", error)
        self._read_at = self._clock()

    def _read(self) -> dict[str, Any]:
        if self._settings.jwks_file:
            data = Path(self._settings.jwks_file).expanduser().read_bytes()[: KEY_BYTES + 1]
        else:
            data = fetched(self._settings.jwks_url, self._policy, KEY_BYTES, FETCH_SECONDS)
        return public_keys(data)


def public_keys(data: bytes) -> dict[str, Any]:
    """Name → key, of those that verify signatures. A shared secret among them is none. Raises ValueError."""
    jwt = _library()
    found = json.loads(data)
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise ValueError("no list of keys")
    usable: dict[str, Any] = {}
    for key in keys:
        if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP") or key.get("use") == "enc":
            continue
        try:
            usable[str(key.get("kid") or "")] = jwt.PyJWK.from_dict(key).key
        except jwt.PyJWTError as error:
            log.info("a key of the issuer is not used: %s", error)
    return usable


def _check(settings: AccessSettings) -> None:
    if not settings.audience or not (settings.jwks_url or settings.jwks_file):
        raise BadSettings(
            "有 access.issuer，还要 access.audience 与 access.jwks_url（或 jwks_file）", hint="补上它们，或去掉 issuer"
        )
    wrong = [algorithm for algorithm in settings.algorithms if algorithm not in ASYMMETRIC]
    if wrong or not settings.algorithms:
        raise BadSettings(
            f"access.algorithms 不能有 {'、'.join(wrong) or '空'}", hint=f"可用：{'、'.join(sorted(ASYMMETRIC))}"
        )
    _library()


def _library() -> Any:
    try:
        import jwt
    except ImportError as error:
        raise MissingExtra("PyJWT", "oidc") from error
    return jwt


def token_verifier(settings: Settings) -> TokenVerifier:
    """Of the issuer in the settings, whose keys are reached as registered models are: by the outbound policy."""
    return TokenVerifier(settings.access, UrlPolicy(allow=settings.outbound.allow))
