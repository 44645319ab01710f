"""A caller's metadata, as the records and the index can hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qianxun.core.errors import BadInput
from qianxun.core.types import Metadata, MetadataValue, Scalar


def held_metadata(told: Mapping[Any, Any]) -> Metadata:
    """Lists as tuples, and without the names that have no value.

    Raises BadInput for what could be stored and never indexed: it would keep all that is written after it waiting.
    """
    return {_name(name): _value(name, value) for name, value in told.items() if value is not None}


def _name(name: Any) -> str:
    if isinstance(name, str):
        return name
    raise BadInput(f"metadata 的键 {name!r} 不是文字", hint="键写成文字")


def _value(name: str, value: Any) -> MetadataValue:
    if isinstance(value, list | tuple):
        return tuple(_scalar(name, each) for each in value)
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> Scalar:
    if isinstance(value, str | int | float):  # and so bool
        return value
    raise BadInput(
        f"metadata.{name[:80]} 的值应为文字、数字、真假，或它们的列表，不能是 {type(value).__name__}",
        hint="日期写成文字，如 2024-05-01；里面还有键值对的，展开成几个键",
    )
