"""Columns in memory that grow at their end while readers hold earlier, shorter views of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

ROW = np.dtype(
    [
        ("row", "<i8"),  # never reused, ascending: what the keyword index knows an entry by
        ("key", "<i8"),
        ("document", "<i8"),
        ("check", "<u8"),  # sum of the vector's words, see `vectors.row_sums`
        ("owner", "<u4"),  # whose facts are this row's attributes
        ("lane", "u1"),  # CONTENT or QUESTION
        ("vector", "u1"),  # 1 when it has one
        ("spare", "<u2"),
    ]
)
CONTENT, QUESTION = 0, 1


class Columns:
    """One array per field of a record type."""

    def __init__(self, table: NDArray[np.void]) -> None:
        self._names = tuple(table.dtype.names or ())
        self._arrays: dict[str, Column] = {name: np.array(table[name]) for name in self._names}
        self._length = len(table)

    def __len__(self) -> int:
        return self._length

    def append(self, table: NDArray[np.void]) -> None:
        """Adds records behind everything that a reader can see."""
        end = self._length + len(table)
        for name in self._names:
            array = self._arrays[name]
            if end > len(array):
                array = np.empty(max(end, 2 * len(array), 1024), dtype=array.dtype)
                array[: self._length] = self._arrays[name][: self._length]
                self._arrays[name] = array
            array[self._length : end] = table[name]
        self._length = end

    def view(self) -> Mapping[str, Column]:
        """The columns as they are now; later appends do not change them."""
        return {name: self._arrays[name][: self._length] for name in self._names}
