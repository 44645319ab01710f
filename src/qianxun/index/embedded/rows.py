"""The rows of the index in memory: a column for each field, which of them live, and which an arm searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.system.cache import LRUCache
from qianxun.core.types import IndexEntry, Keys, VectorField
from qianxun.index.embedded.extents import State, read
from qianxun.index.shared import LANES

ROWS, TOKENS = "rows", "tokens"  # files
POPULATIONS = 64  # of one state: of 100,000 rows each takes .4 MB
Mask = NDArray[np.bool_]
Column = NDArray[Any]
Arm: TypeAlias = Literal["keywords"] | VectorField

ROW = np.dtype(
    [
        ("row", "<i8"),  # never reused, ascending: identifies an entry in the keyword index
        ("key", "<i8"),
        ("document", "<i8"),
        ("check", "<u8"),  # sum of the vector's words, see `precision.row_sums`
        ("owner", "<u4"),  # whose facts are this row's attributes
        ("lane", "u1"),  # of `LANES`
        ("vector", "u1"),  # 1 when it has one
        ("lengths", "<u2"),  # of words and grams, see `packed_lengths`; 0 in rows of an earlier version
    ]
)
# How many tokens a row has, exactly: averages over the live rows alone are made of them. A file of its own, which an
# earlier version did not write: its rows have `UNCOUNTED` of each.
TOKEN_COUNTS = np.dtype([("words", "<u4"), ("grams", "<u4")])
UNCOUNTED = 2**32 - 1
RECORD = np.dtype([*ROW.descr, *TOKEN_COUNTS.descr])  # in memory


class Columns:
    """Arrays of equal length by name; they grow at the end while readers use earlier, shorter views of them."""

    def __init__(self, arrays: Mapping[str, Column]) -> None:
        self._arrays = dict(arrays)
        self._length = len(next(iter(arrays.values())))

    def __len__(self) -> int:
        return self._length

    def append(self, table: NDArray[np.void]) -> None:
        """Adds records after everything that a reader can see."""
        end = self._length + len(table)
        for name, array in self._arrays.items():
            if end > len(array):
                array = np.empty(max(end, 2 * len(array), 1024), dtype=array.dtype)
                array[: self._length] = self._arrays[name][: self._length]
                self._arrays[name] = array
            array[self._length : end] = table[name]
        self._length = end

    def view(self) -> Mapping[str, Column]:
        """The columns as they are now; later appends do not change them."""
        return {name: array[: self._length] for name, array in self._arrays.items()}


@dataclass(frozen=True)
class Rows:
    """What is in the store at one moment. Masks are made once: every search needs them, and none changes them."""

    columns: Mapping[str, Column]
    live: Mask
    _masks: dict[str, Mask] = field(default_factory=dict, repr=False, compare=False)
    # What was worked out for a population, by its digest.
    populations: LRUCache[str, Any] = field(default_factory=lambda: LRUCache(POPULATIONS), repr=False, compare=False)
    filtered: dict[tuple[str, str], Mask] = field(default_factory=dict, repr=False, compare=False)  # by arm and filter

    def __len__(self) -> int:
        return len(self.live)

    @cached_property
    def dead(self) -> int:
        return len(self.live) - int(np.count_nonzero(self.live))

    def in_keywords(self) -> Mask:
        if "keywords" not in self._masks:
            self._masks["keywords"] = self.live & (self.columns["lane"] == LANES["content"])
        return self._masks["keywords"]

    def searched_by(self, arm: Arm) -> Mask:
        return self.in_keywords() if arm == "keywords" else self.with_vector(arm)

    def with_vector(self, field: VectorField) -> Mask:
        if field not in self._masks:
            self._masks[field] = self.live & (self.columns["lane"] == LANES[field]) & (self.columns["vector"] == 1)
        return self._masks[field]

    def dying(self, removed: Sequence[int], entries: Sequence[IndexEntry]) -> Column:
        """The slots that a batch ends: those of removed documents and those whose key comes anew."""
        mask = _among(self.columns["document"], np.array(removed, dtype=np.int64))
        for kind, lane in LANES.items():
            keys = np.array([entry.key for entry in entries if entry.field == kind], dtype=np.int64)
            mask |= _among(self.columns["key"], keys) & (self.columns["lane"] == lane)
        return np.flatnonzero(mask & self.live)


def _among(column: Column, values: Column) -> Mask:
    """Membership. New keys are larger than all old ones, which makes the common case free."""
    known = values[values <= column.max()] if len(column) else values[:0]
    return np.isin(column, known) if len(known) else np.zeros(len(column), dtype=bool)


def stored_rows(folder: Path, state: State) -> Mapping[str, Column]:
    """The rows of the files, each with its counts of tokens, as columns of `RECORD`."""
    stored = np.frombuffer(read(folder / ROWS, state.extent(ROWS)), dtype=ROW)
    counts = np.frombuffer(read(folder / TOKENS, state.extent(TOKENS)), dtype=TOKEN_COUNTS)
    counts = np.concatenate([counts, no_counts(len(stored) - len(counts))])
    return {name: np.array(part[name]) for part in (stored, counts) for name in part.dtype.names or ()}


def no_counts(rows: int) -> NDArray[np.void]:
    return np.full(rows, UNCOUNTED, dtype="<u4").repeat(2).view(TOKEN_COUNTS)


def fields_of(table: NDArray[np.void], kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Those fields of records that a file has."""
    part = np.empty(len(table), dtype=kind)
    for name in kind.names or ():
        part[name] = table[name]
    return part


def field_keys(rows: Rows, field: VectorField) -> Keys:
    keys: Keys = np.sort(rows.columns["key"][rows.with_vector(field)])
    return keys
