"""Long lists of parameters, cut to what every database takes in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

IN_LIMIT = 500

T = TypeVar("T")


def in_slices(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), IN_LIMIT):
        yield values[start : start + IN_LIMIT]
