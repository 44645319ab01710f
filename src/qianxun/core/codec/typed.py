"""Whether a value is what its declared type says, field by field: for JSON that others may have written.

`plain.read` trusts what `plain` wrote. A file that anybody can hand in is read with `read_typed`, which refuses what no
database could store.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from qianxun.core.codec.plain import read
from qianxun.core.filters import Filter
from qianxun.core.unicode import is_storable

Value = TypeVar("Value")
INTEGERS: Final = range(-(2**63), 2**63)  # what a column takes


def read_typed(kind: type[Value], written: Any) -> Value:
    """As `plain.read`. Raises TypeError or KeyError for what is not written as the class declares."""
    if not isinstance(written, Mapping):
        raise TypeError(f"{kind.__name__} is no object")
    value = read(kind, written)
    if not fits(value, kind):
        raise TypeError(f"not a {kind.__name__}")
    return value


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the declared type, all that is in it included."""
    return _test(hint)(value)


Test = Callable[[Any], bool]


@cache
def _test(hint: Any) -> Test:
    if hint == Filter:
        return lambda value: isinstance(value, get_args(Filter))
    if isinstance(hint, type) and is_dataclass(hint):
        return _test_fields(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str | int | None) and value in inner
    if origin in (Union, types.UnionType):
        tests = [_test(kind) for kind in inner]
        return lambda value: any(test(value) for test in tests)
    if origin is tuple:
        return _test_items(inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_value = _test(inner[1])
        return lambda value: (
            isinstance(value, Mapping) and all(_is_text(key) and of_value(one) for key, one in value.items())
        )
    return lambda value: not isinstance(hint, type) or isinstance(value, hint)


def _test_fields(kind: Any) -> Test:
    tests: list[tuple[str, Test]] = []

    def test(value: Any) -> bool:
        if not tests:  # now: a class may have values of its own kind
            hints = get_type_hints(kind)
            tests.extend((field.name, _test(hints[field.name])) for field in fields(kind))
        return isinstance(value, kind) and all(fit(getattr(value, name)) for name, fit in tests)

    return test


def _test_items(kinds: tuple[Any, ...]) -> Test:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        of_item = _test(kinds[0])
        return lambda value: isinstance(value, tuple) and all(map(of_item, value))
    tests = [_test(kind) for kind in kinds]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(tests)
        and all(test(one) for test, one in zip(tests, value, strict=True))
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_storable(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and value in INTEGERS


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


_SIMPLE: Final[Mapping[Any, Test]] = {
    str: _is_text,
    int: _is_integer,
    float: _is_number,
    types.NoneType: lambda value: value is None,
    None: lambda value: value is None,
    Any: lambda value: True,
}
