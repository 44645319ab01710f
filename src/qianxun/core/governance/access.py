"""Who may see a document: labels on documents, and the principal on whose behalf a request comes.

A label names a user, a group or a role: ``user:alice``, ``group:财务``, ``role:hr``. A document with labels is there
for those who have at least one of them; one without labels is there for everybody in the tenant. A principal is whoever
asks, with the labels that it has. What a principal may not see is not there for it at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from qianxun.core.errors import BadInput

LABEL_LIMIT: Final = 128  # characters of one label
LABELS_LIMIT: Final = 200  # labels of one document, or of one rule
PRINCIPAL_LIMIT: Final = 2_000  # labels of one principal
PREFIX_LIMIT: Final = 500  # characters of a rule's prefix
_LABEL: Final = re.compile(r"(?:user|group|role):[\w.@+/-]{1,120}")
EXAMPLE: Final = "写成 user:姓名、group:部门 或 role:角色，例如 group:财务"

# What a key shows where a request names no principal: everything, or what has no labels.
Sees: TypeAlias = Literal["everything", "unlabelled"]
SEES: Final = ("everything", "unlabelled")


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf a request comes: the labels that it has. Without any it sees documents without labels."""

    labels: frozenset[str] = frozenset()
    name: str = ""  # as logs show it

    @property
    def shown(self) -> str:
        return self.name or "未表明身份者"


ANONYMOUS: Final = Principal()


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What is in a folder, or comes from a source, has these labels, unless it has labels of its own.

    Of several rules that fit, the one with the longest prefix counts.
    """

    prefix: str
    labels: tuple[str, ...]

    def fits(self, path: str) -> bool:
        return path == self.prefix or path.startswith(self.prefix + "/")


@dataclass(frozen=True, slots=True)
class DocumentAccess:
    """The labels of one document, and whether they are its own or those of a rule."""

    doc_id: str
    name: str
    labels: tuple[str, ...]
    is_own: bool


def checked_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Each once, in order. Raises BadInput for what is no label."""
    given = (labels,) if isinstance(labels, str) else tuple(labels)
    found = sorted({checked_label(one) for one in given})
    if len(found) > LABELS_LIMIT:
        raise BadInput(f"访问标签有 {len(found)} 个，上限 {LABELS_LIMIT} 个", hint="用 group: 或 role: 代替逐个用户")
    return tuple(found)


def checked_label(label: str) -> str:
    written = label.strip() if isinstance(label, str) else ""
    if not _LABEL.fullmatch(written) or len(written) > LABEL_LIMIT:
        raise BadInput(f"不是访问标签：{str(label)[:60]!r}", hint=EXAMPLE)
    return written


def checked_prefix(prefix: str) -> str:
    written = prefix.strip().rstrip("/")
    if not written or len(written) > PREFIX_LIMIT or not written.isprintable():
        raise BadInput(
            f"规则的目录须为 1–{PREFIX_LIMIT} 个可见字符", hint="写成文档的目录、来源或编号的开头，例如 人事/薪酬"
        )
    return written


def principal_of(labels: Iterable[str], name: str = "") -> Principal:
    """Of labels; named by them where no name is given. Raises BadInput."""
    found = frozenset(checked_label(label) for label in labels)
    if len(found) > PRINCIPAL_LIMIT:
        raise BadInput(f"主体的标签有 {len(found)} 个，上限 {PRINCIPAL_LIMIT} 个", hint="只给与知识库有关的组与角色")
    return Principal(found, name[:LABEL_LIMIT] or _name(found))


def _name(labels: Collection[str]) -> str:
    """The users among the labels, or else all of them: what two groups may see together is nothing for the first of
    them alone, which would read it in the log under its own name."""
    users = sorted(label for label in labels if label.startswith("user:"))
    written = ",".join(users or sorted(labels))
    if len(written) <= LABEL_LIMIT:
        return written
    mark = f"…{blake2b(written.encode(), digest_size=8).hexdigest()}"
    return written[: LABEL_LIMIT - len(mark)] + mark


def read_principal(written: str) -> Principal:
    """``user:alice, group:财务`` as a header, a setting or a flag has it; other letters may be percent-encoded."""
    parts = [unquote(part).strip() for part in written.split(",")]  # a name that has another sign opens nothing more
    named = [part for part in parts if part]
    if not named:
        raise BadInput("没有写明主体", hint="写成 user:alice,group:财务")
    return principal_of(named)


def principal_in_claims(claims: Mapping[str, Any], user: str, groups: str, roles: str) -> Principal:
    """Of a verified token's claims, by the names under which they have the user, groups and roles.

    ``realm_access.roles`` is a claim within a claim. What no label can be written with is left out: it could not have
    been given to a document, either.
    """
    subject = [value for value in _claim(claims, user) if value.strip()]
    named = [("user", value) for value in subject[:1]]
    named += [("group", value.strip("/")) for value in _claim(claims, groups)]  # some issuers write paths
    named += [("role", value) for value in _claim(claims, roles)]
    labels = [label for kind, value in named if _LABEL.fullmatch(label := f"{kind}:{value}")]
    name = _name([f"user:{subject[0]}"]) if subject else ""
    return Principal(frozenset(labels[:PRINCIPAL_LIMIT]), name)


def _claim(claims: Mapping[str, Any], path: str) -> list[str]:
    value: Any = claims
    for part in path.split(".") if path else [""]:
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
