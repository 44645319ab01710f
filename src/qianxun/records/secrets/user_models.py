"""Models that users registered. Every function sees one tenant's rows; keys come here sealed and leave sealed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Dialect, bindparam, delete, func, insert, select, update

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.model_types import MODEL_TYPES, NewModel, UserModel
from qianxun.records import bases
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import Compiled, compiled
from qianxun.records.governance import audit
from qianxun.records.schema import KnowledgeBaseRow, UserModelRow

MOST_OF_A_USER: Final = 200
MASKED_FROM: Final = 16  # a shorter key shows nothing of itself

_TEXTS: Final = {"config_name": 200, "base_url": 2048, "model_name": 200}
_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "model_dim": (0, 65_536),
    "max_tokens": (0, 10_000_000),
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "timeout": (1, 600),
    "status": (0, 1),
    "is_default": (0, 1),
}
_FRACTIONS: Final = ("temperature", "top_p")
_LARGEST_ID: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A key as it is stored; ``sealed`` is None where the model needs no key."""

    sealed: bytes | None = field(repr=False)
    masked: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A registered model with what it takes to open it."""

    model: UserModel
    version: int
    sealed_key: bytes | None = field(repr=False)


_SEEN: Final = tuple(field.name for field in fields(UserModel))
_COLUMNS: Final = tuple(column.name for column in UserModelRow.__table__.columns)


# ── checks ─────────────────────────────────────────────────────────────────────────────────


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored, without ``api_key``. Raises BadInput, naming the field."""
    return {name: _checked(name, value) for name, value in values.items() if name != "api_key"}


def is_user(user_id: str) -> bool:
    return 0 < len(user_id) <= 128 and user_id.isprintable() and user_id == user_id.strip()


def check_user(user_id: str) -> str:
    if not is_user(user_id):
        raise BadInput("user_id 须为 1–128 个可见字符，首尾没有空格", hint="改正 user_id")
    return user_id


def check_type(model_type: str) -> str:
    if model_type not in MODEL_TYPES:
        raise BadInput(f"model_type 不能是 {str(model_type)[:40]!r}", hint=f"可用：{'、'.join(MODEL_TYPES)}")
    return model_type


def masked(api_key: str) -> str:
    if not api_key:
        return ""
    return f"{'sk-' if api_key.startswith('sk-') else ''}…{api_key[-4:]}" if len(api_key) >= MASKED_FROM else "…"


def _checked(name: str, value: Any) -> Any:
    if name == "model_type":
        return check_type(value)
    if name in _TEXTS:
        return _text(name, value)
    if name in _NUMBERS:
        return _number(name, value)
    raise BadInput(
        f"模型没有名为 {name[:40]} 的字段", hint=f"可用：{'、'.join(field.name for field in fields(NewModel))}"
    )


def _text(name: str, value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not 0 < len(text) <= _TEXTS[name] or not text.isprintable():
        raise BadInput(f"{name} 须为 1–{_TEXTS[name]} 个可见字符", hint=f"改正 {name}")
    return text


def _number(name: str, value: Any) -> int | float:
    least, most = _NUMBERS[name]
    if isinstance(value, (int, float)) and math.isfinite(value) and least <= value <= most:
        if name == "top_p" and value == 0:
            raise BadInput("top_p 须大于 0", hint="不限制时写 1")
        if name in _FRACTIONS:
            return float(value)
        if float(value).is_integer():
            return int(value)
    kind = "" if name in _FRACTIONS else "整数，"
    raise BadInput(f"{name} 的值不对", hint=f"应为{kind}在 {least:g} 到 {most:g} 之间")


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def next_id(tx: Connection) -> int:
    (number,) = allocate(tx, "user_model", 1)
    return number


def add(tx: Connection, tenant: str, user_id: str, number: int, values: Mapping[str, Any], key: SealedKey) -> UserModel:
    """Keeps a new model under an id of `next_id`; ``values`` are `checked` and whole."""
    own = _of_user(tenant, user_id)
    count = tx.execute(select(func.count()).select_from(UserModelRow).where(own)).scalar_one()
    if count >= MOST_OF_A_USER:
        raise BadInput(f"一个用户至多登记 {MOST_OF_A_USER} 个模型", hint="先删去不用的模型")
    _check_dimension(values)
    now = datetime.now(UTC)
    stored_values = {**values, "masked_key": key.masked, "sealed_key": key.sealed}
    about = {"id": number, "tenant": tenant, "user_id": user_id, "version": 1, "created_at": now, "updated_at": now}
    tx.execute(insert(UserModelRow).values(**about, **stored_values))
    if values["is_default"]:
        _only_default(tx, tenant, user_id, values["model_type"], number)
        _revise(tx, tenant)
    added = get(tx, tenant, number, user_id)
    audit.append(tx, "", "model.add", f"user-model:{number}", tenant=tenant, details=_about(added))
    return added


def change(
    tx: Connection, tenant: str, user_id: str, number: int, values: Mapping[str, Any], key: SealedKey | None
) -> UserModel:
    """Stores the changes; they are in force from the moment this commits. Raises NotFound or BadInput."""
    before = get(tx, tenant, number, user_id)
    _check_change(tx, tenant, before, values, key)
    changes = dict(values) if key is None else {**values, "masked_key": key.masked, "sealed_key": key.sealed}
    tx.execute(
        update(UserModelRow)
        .where(_of_user(tenant, user_id), UserModelRow.id == number)
        .values(**changes, version=UserModelRow.version + 1, updated_at=datetime.now(UTC))
    )
    if values.get("is_default"):
        _only_default(tx, tenant, user_id, before.model_type, number)
    _revise(tx, tenant)
    changed = get(tx, tenant, number, user_id)
    about = {**_about(changed), "changed": sorted((*values, *(("api_key",) if key is not None else ())))}
    audit.append(tx, "", "model.change", f"user-model:{number}", tenant=tenant, details=about)
    return changed


def _about(model: UserModel) -> dict[str, str]:
    return {"user_id": model.user_id, "name": model.config_name}


def remove(tx: Connection, tenant: str, user_id: str, number: int) -> None:
    about = _about(get(tx, tenant, number, user_id))
    audit.append(tx, "", "model.remove", f"user-model:{number}", tenant=tenant, details=about)
    tx.execute(delete(UserModelRow).where(_of_user(tenant, user_id), UserModelRow.id == number))
    _revise(tx, tenant)


def get(tx: Connection, tenant: str, number: int, user_id: str | None = None) -> UserModel:
    """Raises NotFound for another tenant's, and for another user's where one is named."""
    return stored(tx, tenant, number, user_id).model


def stored(tx: Connection, tenant: str, number: int, user_id: str | None = None) -> Stored:
    can_be = 0 < number <= _LARGEST_ID  # larger ones drivers refuse, each in its own way
    rows = _one(tx.dialect).rows(tx, {"tenant": tenant, "number": number}) if can_be else []
    found = dict(zip(_COLUMNS, rows[0], strict=True)) if rows else None
    if found is None or user_id not in (None, found["user_id"]):
        raise NotFound(f"没有编号为 {number} 的模型", hint="核对编号，或先登记这个模型")
    return Stored(_model(found), found["version"], found["sealed_key"])


@lru_cache
def _one(dialect: Dialect) -> Compiled:
    """Run by every call of a registered model."""
    tenant, number = (
        bindparam("tenant", type_=UserModelRow.tenant.type),
        bindparam("number", type_=UserModelRow.id.type),
    )
    own = (UserModelRow.tenant == tenant) & (UserModelRow.id == number)
    return compiled(select(UserModelRow.__table__).where(own), dialect)


def every(tx: Connection, tenant: str, user_id: str | None = None, model_type: str | None = None) -> list[UserModel]:
    """The tenant's models in the order of their registration."""
    query = select(UserModelRow.__table__).where(UserModelRow.tenant == tenant)
    if user_id is not None:
        query = query.where(UserModelRow.user_id == user_id)
    if model_type is not None:
        query = query.where(UserModelRow.model_type == model_type)
    return [_model(row) for row in tx.execute(query.order_by(UserModelRow.id)).mappings()]


def default(tx: Connection, tenant: str, user_id: str, model_type: str) -> UserModel | None:
    own = _of_user(tenant, user_id) & (UserModelRow.model_type == model_type) & (UserModelRow.is_default == 1)
    latest = UserModelRow.updated_at.desc(), UserModelRow.id.desc()
    found = tx.execute(select(UserModelRow.__table__).where(own).order_by(*latest).limit(1)).mappings().first()
    return None if found is None else _model(found)


def _of_user(tenant: str, user_id: str) -> Any:
    return (UserModelRow.tenant == tenant) & (UserModelRow.user_id == user_id)


def _check_change(
    tx: Connection, tenant: str, before: UserModel, values: Mapping[str, Any], key: SealedKey | None
) -> None:
    changed = {name for name, value in values.items() if value != getattr(before, name)}
    if "model_type" in changed:
        raise BadInput("model_type 登记后不能改", hint="另外登记一个模型")
    if "base_url" in changed and before.masked_key and key is None:
        # Otherwise a user who may change a model could have its key sent to another address.
        raise BadInput(
            "改 base_url 时须重新给出 api_key", hint="原来的密钥不会发往新的地址；不需要密钥时给空的 api_key"
        )
    if changed & {"model_name", "model_dim"} and (users := _bases_with(tx, tenant, before)):
        raise BadInput(
            f"知识库“{users[0]}”的向量是这个模型算的，model_name 与 model_dim 不能改",
            hint="登记一个新的模型，再用它重建知识库",
        )
    _check_dimension({"model_type": before.model_type, "model_dim": before.model_dim, **values})


def _check_dimension(values: Mapping[str, Any]) -> None:
    if values["model_type"] == "embedding" and values["model_dim"] < 1:
        raise BadInput("嵌入模型须给出 model_dim", hint="填写它的向量维度，例如 1024")


def _bases_with(tx: Connection, tenant: str, model: UserModel) -> list[str]:
    own = (KnowledgeBaseRow.tenant == tenant) & (KnowledgeBaseRow.embedding_model == model.ref)
    return list(tx.execute(select(KnowledgeBaseRow.name).where(own).order_by(KnowledgeBaseRow.id).limit(1)).scalars())


def _only_default(tx: Connection, tenant: str, user_id: str, model_type: str, number: int) -> None:
    others = _of_user(tenant, user_id) & (UserModelRow.model_type == model_type) & (UserModelRow.id != number)
    tx.execute(update(UserModelRow).where(others, UserModelRow.is_default == 1).values(is_default=0))


def _revise(tx: Connection, tenant: str) -> None:
    """Any base of the tenant may name the model, or a request to it: cached answers before the change are outdated."""
    own = select(KnowledgeBaseRow.id).where(KnowledgeBaseRow.tenant == tenant)
    for knowledge_base in tx.execute(own).scalars().all():
        bases.revise(tx, knowledge_base)


def _model(row: Mapping[Any, Any]) -> UserModel:
    moments: dict[str, Any] = {name: row[name].isoformat(timespec="seconds") for name in ("created_at", "updated_at")}
    return UserModel(**({name: row[name] for name in _SEEN} | moments))
