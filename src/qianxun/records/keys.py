"""API keys: 256 random bits, shown once, stored as their SHA-256, each for one tenant and one scope."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, Dialect, Row, bindparam, func, insert, select, update

from qianxun.core.errors import BadInput, NotFound
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import Compiled, compiled
from qianxun.records.governance import audit
from qianxun.records.schema import ApiKeyRow

Scope: TypeAlias = Literal["read", "write"]
SCOPES: Final = ("read", "write")
PREFIX: Final = "qx_"
NAME_LIMIT: Final = 200
LARGEST_ID: Final = (1 << 63) - 1
_KEY: Final = re.compile(r"qx_[A-Za-z0-9_-]{43}", re.ASCII)
_TENANT: Final = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A stored key, without the key itself."""

    id: int
    tenant: str
    scope: Scope
    name: str
    created_at: str
    revoked_at: str | None = None


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The tenant and scope that a key grants."""

    id: int
    tenant: str
    scope: Scope


def create(tx: Connection, tenant: str, scope: Scope, name: str = "") -> tuple[KeyRow, str]:
    """Creates a key. Returns its row and, this once, the key itself."""
    if not _TENANT.fullmatch(tenant):
        raise BadInput("租户名须为 1–64 个字母、汉字、数字或 . _ -", hint="换一个租户名再试")
    if scope not in SCOPES:
        raise BadInput(f"没有名为 {scope!r} 的权限", hint="可用：read、write")
    if len(name) > NAME_LIMIT or not name.isprintable():
        raise BadInput(f"密钥的名称须为至多 {NAME_LIMIT} 个可见字符", hint="换一个名称再试")
    (number,) = allocate(tx, "key", 1)
    plaintext = PREFIX + secrets.token_urlsafe(32)
    now = datetime.now(UTC)
    tx.execute(
        insert(ApiKeyRow).values(
            id=number, digest=_digest(plaintext), tenant=tenant, scope=scope, name=name, created_at=now
        )
    )
    audit.append(tx, "", "key.create", f"key:{number}", tenant=tenant, details={"scope": scope, "name": name})
    return KeyRow(number, tenant, scope, name, now.isoformat(timespec="seconds")), plaintext


def find(tx: Connection, plaintext: str) -> KeyHolder | None:
    """The holder of a key; None for one that is unknown or revoked."""
    if not _KEY.fullmatch(plaintext):
        return None
    found = _live(tx.dialect).rows(tx, {"digest": _digest(plaintext)})
    return KeyHolder(*found[0]) if found else None


def live(tx: Connection, key: int) -> KeyHolder | None:
    """The holder of the key with this id; None for one that is unknown or revoked."""
    columns: tuple[Any, ...] = (ApiKeyRow.id, ApiKeyRow.tenant, ApiKeyRow.scope)
    found = tx.execute(select(*columns).where(ApiKeyRow.id == key, ApiKeyRow.revoked_at.is_(None))).first()
    return KeyHolder(*found) if found else None


@lru_cache
def _live(dialect: Dialect) -> Compiled:
    """Run by every request."""
    live = (ApiKeyRow.digest == bindparam("digest", type_=ApiKeyRow.digest.type)) & ApiKeyRow.revoked_at.is_(None)
    columns: tuple[Any, ...] = (ApiKeyRow.id, ApiKeyRow.tenant, ApiKeyRow.scope)
    return compiled(select(*columns).where(live), dialect)


def listed(tx: Connection) -> list[KeyRow]:
    """Every key, the revoked ones too, oldest first."""
    return [_row(found) for found in tx.execute(select(ApiKeyRow.__table__).order_by(ApiKeyRow.id))]


def revoke(tx: Connection, key: int) -> KeyRow:
    """Revokes a key for good, from the moment this commits. Raises NotFound."""
    key = key if 0 < key <= LARGEST_ID else 0  # drivers refuse larger numbers in their own way
    live = (ApiKeyRow.id == key) & ApiKeyRow.revoked_at.is_(None)
    revoked = tx.execute(update(ApiKeyRow).where(live).values(revoked_at=datetime.now(UTC))).rowcount
    found = tx.execute(select(ApiKeyRow.__table__).where(ApiKeyRow.id == key)).first()
    if found is None:
        raise NotFound("没有这个编号的密钥", hint="用 qianxun keys list 查看已有的密钥")
    if revoked:
        audit.append(tx, "", "key.revoke", f"key:{key}", tenant=found.tenant, details={"name": found.name})
    return _row(found)


def any_live(tx: Connection) -> bool:
    """Whether there is a key that is not revoked."""
    return tx.execute(select(ApiKeyRow.id).where(ApiKeyRow.revoked_at.is_(None)).limit(1)).first() is not None


def any_ever(tx: Connection) -> bool:
    """Whether there has ever been a key."""
    return _first(tx.dialect).rows(tx, {})[0][0] is not None


@lru_cache
def _first(dialect: Dialect) -> Compiled:
    """Run by every request, as long as there is no key."""
    return compiled(select(func.min(ApiKeyRow.id)), dialect)


def _digest(plaintext: str) -> str:
    return hashlib.sha256(plaintext.encode()).hexdigest()


def _row(found: Row[Any]) -> KeyRow:
    revoked = None if found.revoked_at is None else found.revoked_at.isoformat(timespec="seconds")
    return KeyRow(
        found.id, found.tenant, found.scope, found.name, found.created_at.isoformat(timespec="seconds"), revoked
    )
