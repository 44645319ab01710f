"""When a document is in force, and the day as of which a search looks.

People state it in a document's metadata (``valid_from``, ``valid_until``, ``supersedes``); what they do not state may
be read from the text (`text.validity`). Days are written as ISO has them, so that their order is that of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.errors import BadInput, BadQuery

VALIDITY_FIELDS: Final = ("valid_from", "valid_until", "supersedes")
ANY_TIME: Final = "any"  # as of no day: history, too
AsOfOrigin: TypeAlias = Literal["today", "request", "question"]

_DAY: Final = re.compile(r"(\d{4}) ?[-/.年] ?(\d{1,2}) ?[-/.月] ?(\d{1,2}) ?日?(?:[T ][\d:.+Zz\-]{1,30})?")


@dataclass(frozen=True, slots=True)
class Validity:
    """What is known of one document; "" and () where nothing is."""

    valid_from: str = ""  # the first day
    valid_until: str = ""  # the last day
    supersedes: tuple[str, ...] = ()  # documents, by id or name
    read: tuple[str, ...] = ()  # those of the fields above that were read from the text

    def __bool__(self) -> bool:
        return bool(self.valid_from or self.valid_until or self.supersedes)


NO_VALIDITY: Final = Validity()


@dataclass(frozen=True, slots=True)
class AsOf:
    """The day as of which a search looked, and who chose it."""

    day: str  # ISO
    origin: AsOfOrigin


def iso_day(written: str) -> str | None:
    """2024-01-01 for 2024-1-1, 2024/1/1, 2024年1月1日 and a moment of that day; None for what is no day."""
    found = _DAY.fullmatch(written.strip())
    if found is None:
        return None
    try:
        return date(*map(int, found.groups())).isoformat()
    except ValueError:
        return None


def stated_validity(metadata: Mapping[str, Any]) -> tuple[Validity, frozenset[str]]:
    """What people state, and which fields they do: one that is stated as "" has no value, whatever the text says.

    Raises BadInput for what is no day, or no name.
    """
    stated = frozenset([name for name in VALIDITY_FIELDS if metadata.get(name) is not None])
    if not stated:
        return NO_VALIDITY, stated
    named = metadata.get("supersedes") or ()
    named = (named,) if isinstance(named, str) else tuple(named)
    if not all(isinstance(one, str) for one in named):
        raise BadInput("metadata.supersedes 应为文档的编号或名称", hint='例如 "差旅办法（2019）"，几个时写成列表')
    validity = Validity(
        _day("valid_from", metadata.get("valid_from") or ""),
        _day("valid_until", metadata.get("valid_until") or ""),
        tuple(one.strip() for one in named if one.strip()),
    )
    if validity.valid_until and validity.valid_until < validity.valid_from:
        raise BadInput(
            f"metadata.valid_until（{validity.valid_until}）早于 valid_from（{validity.valid_from}）",
            hint="valid_until 是最后有效的一天",
        )
    return validity, stated


def _day(name: str, written: Any) -> str:
    if written == "":
        return ""
    day = iso_day(written) if isinstance(written, str) else None
    if day is None:
        raise BadInput(f"metadata.{name} 不是日期：{str(written)[:40]!r}", hint="写成 2024-01-01")
    return day


def checked_as_of(written: str) -> str:
    """ "" (today, or as the question says), ``any``, or an ISO day. Raises BadQuery."""
    if not isinstance(written, str):
        raise BadQuery(f"as_of 为 {written!r}", hint="写成 2024-01-01；any 为不论何时有效")
    if not written.strip() or written.strip() == ANY_TIME:
        return written.strip()
    day = iso_day(written)
    if day is None:
        raise BadQuery(f"as_of 不是日期：{written[:40]!r}", hint="写成 2024-01-01；any 为不论何时有效")
    return day
