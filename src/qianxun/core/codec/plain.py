"""Frozen values as plain JSON and back, by their declared types: what a checkpoint keeps must outlive the process."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


def plain(value: Any) -> Any:
    """Dataclasses as objects, tuples as lists; numbers of numpy as Python's. Raises TypeError for anything else."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)  # numpy's float is one, too, and not every checkpoint knows it
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    if hasattr(value, "item"):
        return plain(value.item())
    raise TypeError(f"no plain form of {type(value).__name__}")


def read(kind: type[Value], written: Mapping[str, Any]) -> Value:
    """The value that `plain` wrote. Fields that are not there keep their defaults; a TypeError says what lacks."""
    made: Any = kind  # mypy takes no class variable for hashable
    hints = _hints(made)
    told = {name: _read(hint, written[name]) for name, hint in hints.items() if name in written}
    return kind(**told)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _read(hint: Any, written: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(hint), written)
    if origin is tuple:
        return _read_tuple(get_args(hint), written)
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        inner = get_args(hint)[1]
        return {key: _read(inner, value) for key, value in written.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return read(hint, written)
    return written


def _read_union(kinds: tuple[Any, ...], written: Any) -> Any:
    """At most one of the kinds is an object or a list; all others are what JSON has for itself."""
    if isinstance(written, Mapping | list):
        wanted = next(kind for kind in kinds if _is_nested(kind))
        return _read(wanted, written)
    return written


def _is_nested(kind: Any) -> bool:
    if isinstance(kind, type) and is_dataclass(kind):
        return True
    return get_origin(kind) not in (None, Literal)


def _read_tuple(kinds: tuple[Any, ...], written: Any) -> tuple[Any, ...]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_read(kinds[0], each) for each in written)
    return tuple(_read(kind, each) for kind, each in zip(kinds, written, strict=True))
