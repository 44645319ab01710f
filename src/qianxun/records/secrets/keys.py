"""API keys: 256 random bits, shown once, stored as their SHA-256, each for one tenant and one scope."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, Dialect, Row, bindparam, func, insert, select, update

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.governance.access import SEES, Sees, checked_labels
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import Compiled, compiled
from qianxun.records.governance import audit
from qianxun.records.schema import ApiKeyRow

Scope: TypeAlias = Literal["read", "write"]
SCOPES: Final = ("read", "write")
PREFIX: Final = "qx_"
NAME_LIMIT: Final = 200
LARGEST_ID: Final = (1 << 63) - 1
HOLDER: Final[tuple[Any, ...]] = (
    ApiKeyRow.id,
    ApiKeyRow.tenant,
    ApiKeyRow.scope,
    ApiKeyRow.sees,
    ApiKeyRow.vouches,
    ApiKeyRow.principal,
)
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
    sees: Sees = "everything"  # without a principal
    vouches: bool = False  # may say on whose behalf it asks
    principal: tuple[str, ...] = ()  # the labels of the one on whose behalf it always asks


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The tenant and scope that a key grants, and on whose behalf it may ask."""

    id: int
    tenant: str
    scope: Scope
    sees: Sees = "everything"
    vouches: bool = False
    principal: tuple[str, ...] = ()


def create(
    tx: Connection,
    tenant: str,
    scope: Scope,
    name: str = "",
    *,
    sees: Sees | None = None,
    vouches: bool = False,
    principal: Sequence[str] = (),
) -> tuple[KeyRow, str]:
    """Creates a key. Returns its row and, this once, the key itself.

    ``principal``: the labels of the one on whose behalf it always asks. ``vouches``: each request may name one. Without
    either it shows what ``sees`` says; None: everything if it may write, else what has no access labels.
    """
    bound = checked_labels(principal)
    _check_rights(scope, sees, vouches, bound)
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
            id=number,
            digest=_digest(plaintext),
            tenant=tenant,
            scope=scope,
            name=name,
            created_at=now,
            sees=sees,
            vouches=vouches,
            principal=list(bound) or None,
        )
    )
    details: dict[str, Any] = {"scope": scope, "name": name}
    rights = {"sees": sees, "vouches": vouches or None, "principal": list(bound) or None}
    details |= {name: value for name, value in rights.items() if value is not None}
    audit.append(tx, "", "key.create", f"key:{number}", tenant=tenant, details=details)
    created = now.isoformat(timespec="seconds")
    return KeyRow(number, tenant, scope, name, created, None, _shown(scope, sees, vouches), vouches, bound), plaintext


def _check_rights(scope: Scope, sees: Sees | None, vouches: bool, principal: Sequence[str]) -> None:
    """Raises BadInput for rights that contradict each other."""
    if sees is not None and sees not in SEES:
        raise BadInput(f"没有名为 {sees!r} 的可见范围", hint=f"可用：{'、'.join(SEES)}")
    if principal and (scope != "read" or vouches or sees is not None):
        raise BadInput("绑定主体的密钥只能读，也不能代表别人", hint="去掉 --vouch 与 --sees，用 --scope read")


def _shown(scope: str, sees: str | None, vouches: bool) -> Sees:
    """What a key shows without a principal. Of one that may name them and did not, nothing is taken for granted."""
    if sees is None:
        return "everything" if scope == "write" and not vouches else "unlabelled"
    return "everything" if sees == "everything" else "unlabelled"


def find(tx: Connection, plaintext: str) -> KeyHolder | None:
    """The holder of a key; None for one that is unknown or revoked."""
    if not _KEY.fullmatch(plaintext):
        return None
    found = _live(tx.dialect).rows(tx, {"digest": _digest(plaintext)})
    return _holder(found[0]) if found else None


def live(tx: Connection, key: int) -> KeyHolder | None:
    """The holder of the key with this id; None for one that is unknown or revoked."""
    found = tx.execute(select(*HOLDER).where(ApiKeyRow.id == key, ApiKeyRow.revoked_at.is_(None))).first()
    return _holder(found) if found else None


def _holder(row: Sequence[Any]) -> KeyHolder:
    number, tenant, scope, sees, vouches, principal = row
    return KeyHolder(number, tenant, scope, _shown(scope, sees, bool(vouches)), bool(vouches), tuple(principal or ()))


@lru_cache
def _live(dialect: Dialect) -> Compiled:
    """Run by every request."""
    live = (ApiKeyRow.digest == bindparam("digest", type_=ApiKeyRow.digest.type)) & ApiKeyRow.revoked_at.is_(None)
    return compiled(select(*HOLDER).where(live), dialect)


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


def is_any_active(tx: Connection) -> bool:
    """Whether there is a key that is not revoked."""
    return tx.execute(select(ApiKeyRow.id).where(ApiKeyRow.revoked_at.is_(None)).limit(1)).first() is not None


def was_any_created(tx: Connection) -> bool:
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
        found.id,
        found.tenant,
        found.scope,
        found.name,
        found.created_at.isoformat(timespec="seconds"),
        revoked,
        _shown(found.scope, found.sees, bool(found.vouches)),
        bool(found.vouches),
        tuple(found.principal or ()),
    )
