"""Stored tables of an open base in memory: which chunk is of which table, their heads, those that were read whole, and
what searches work out of a table alone, whatever the question.

All of it holds at one state of the records: any write to the base empties it. So what has been deleted is found missing
in the records, as it would be without this cache. Used on the event loop alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from qianxun.core.limits import MIB
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Table
from qianxun.records.tables import TableHead

MOST_KEYS: Final = 50_000  # chunks and tables that are remembered; then it begins anew
MOST_BYTES: Final = 64 * MIB  # of whole tables
MOST_DERIVED_BYTES: Final = 72 * MIB  # of what was made of tables: also of the largest that is remembered whole
CELL_BYTES: Final = 200  # what a cell costs, as text and as value
Value = TypeVar("Value")


class TableCache:
    """One for each open base and state of its records."""

    def __init__(self, state: int = -1) -> None:
        self._state = state  # of the records, as `records.bases.generation` counts it
        self.table_of: dict[int, int | None] = {}  # chunk → its table; None: it has none
        self.heads: dict[int, TableHead | None] = {}
        self.row_starts: dict[int, list[int] | None] = {}
        self.whole: LRUCache[int, Table] = LRUCache(bytes_limit=MOST_BYTES, size=_table_bytes)
        # What was made of a table and its size, by a key that names it.
        self.derived: LRUCache[Any, tuple[int, Any]] = LRUCache(bytes_limit=MOST_DERIVED_BYTES, size=_derived_bytes)

    def for_state(self, state: int) -> TableCache:
        """This one, if it is of that state of the records and not too large; else an empty one to take its place."""
        is_full = len(self.table_of) + len(self.heads) > MOST_KEYS
        return TableCache(state) if state != self._state or is_full else self

    def once(self, key: Any, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """What ``make`` returns, made once for a key; it costs about ``size`` bytes."""
        known = self.derived.get(key)
        if known is not None:
            found: Value = known[1]
            return found
        made = make()
        self.derived.put(key, (size(made), made))
        return made


def _derived_bytes(_: Any, made: tuple[int, Any]) -> int:
    return made[0]


def _table_bytes(_: int, table: Table) -> int:
    return CELL_BYTES * (1 + len(table.columns) * (len(table.rows) + 1))
