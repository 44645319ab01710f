"""Conditions on rows as Milvus writes them: our own operators and names, and integers beside them.

No text of a user is ever part of one: attributes are compared by their hashes, everything else by numbers of ours.
Where a server knows templates the numbers are bound; older ones, and the light one, get them written in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """``text`` has a ``?`` for each of ``values``, in their order."""

    text: str
    values: tuple[Value, ...] = ()

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.text} and {other.text})", (*self.values, *other.values))

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"({self.text} or {other.text})", (*self.values, *other.values))

    def __invert__(self) -> Condition:
        return Condition(f"not ({self.text})", self.values)

    def bound(self) -> tuple[str, dict[str, Any]]:
        """An expression template, and what is bound to its names."""
        parts = self.text.split("?")
        names = [f"v{number}" for number in range(len(self.values))]
        text = parts[0] + "".join(f"{{{name}}}{part}" for name, part in zip(names, parts[1:], strict=True))
        values = [list(value) if isinstance(value, tuple) else value for value in self.values]
        return text, dict(zip(names, values, strict=True))

    def written(self) -> str:
        """The same with the numbers in their places."""
        parts = self.text.split("?")
        return parts[0] + "".join(f"{_number(value)}{part}" for value, part in zip(self.values, parts[1:], strict=True))


def _number(value: Value) -> str:
    """`int` refuses whatever is no number of ours."""
    return f"[{', '.join(str(int(one)) for one in value)}]" if isinstance(value, tuple) else str(int(value))


ALL = Condition("id >= 0")
NONE = Condition("id < 0")


def compared(field: str, operator: str, value: int) -> Condition:
    return Condition(f"{field} {operator} ?", (value,))


def among(field: str, values: Iterable[int]) -> Condition:
    numbers = tuple(values)
    return Condition(f"{field} in ?", (numbers,)) if numbers else NONE


def between(field: str, start: int, end: int) -> Condition:
    """From ``start`` to below ``end``."""
    return Condition(f"({field} >= ? and {field} < ?)", (start, end))


def has_any(field: str, values: Iterable[int]) -> Condition:
    """An array field holds one of these."""
    numbers = tuple(values)
    return Condition(f"array_contains_any({field}, ?)", (numbers,)) if numbers else NONE


def every(parts: Sequence[Condition]) -> Condition:
    return _joined(" and ", parts, ALL)


def either(parts: Sequence[Condition]) -> Condition:
    return _joined(" or ", parts, NONE)


def _joined(word: str, parts: Sequence[Condition], empty: Condition) -> Condition:
    if not parts:
        return empty
    return Condition(f"({word.join(part.text for part in parts)})", tuple(v for part in parts for v in part.values))
