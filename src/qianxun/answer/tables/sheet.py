"""A table made ready for questions: plain cells, names, its label column, its rows of totals."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from qianxun.answer.tables.match import Name, match, names_of, places
from qianxun.answer.tables.periods import Parts
from qianxun.core.layered_types import TableInput
from qianxun.core.system.cache import cached_texts
from qianxun.core.types import CellValue, Column, Table
from qianxun.question.table_query import plain, plain_all, runs, span, union
from qianxun.question.words import cue

NUMERIC: Final = ("number", "money", "percent")
WORDS: Final = ("text", "category")
_LONGEST_LABEL: Final = 60
_BRACKETED: Final = re.compile(r"\([^()]*\)$")
_LONGEST_FORM: Final = 60


@dataclass(frozen=True, slots=True)
class CellMention:
    """A cell's text that is in the question, and the rows that have it in that column."""

    column: int
    text: str
    mask: int
    rows: tuple[int, ...]


class Sheet:
    """One table, read once; for any question."""

    def __init__(self, given: TableInput, parts: Parts | None = None) -> None:
        self.given = given
        self.id = given.id
        self.parts = parts or Parts()
        self.table: Table = given.table
        self.columns: tuple[Column, ...] = given.table.columns
        self.names: tuple[Name, ...] = names_of(given.table.columns)
        about = f"{given.table.title} {given.context} {given.table.notes} {given.table.source}"
        self.about = plain(cue("table.stated_unit").sub(" ", about))  # 万元 of a question belongs to its number
        self._plain: dict[int, list[str]] = {}
        self._rows_by_text: dict[int, Mapping[str, Sequence[int]]] = {}
        self._last_cells: tuple[str, list[CellMention]] = ("", [])  # a question is read several ways

    def __len__(self) -> int:
        return len(self.table.rows)

    def about_in(self, text: str) -> int:
        """The characters of a question that the table's title and surroundings explain."""
        return match(self.about, text).mask

    def plain_cells(self, column: int) -> list[str]:
        if column not in self._plain:
            self._plain[column] = plain_all([row[column] for row in self.table.texts]) if len(self) else []
        return self._plain[column]

    def values(self, column: int) -> list[CellValue]:
        return [row[column] for row in self.table.rows]

    def _last_name(self, column: int) -> str:
        return self.columns[column].name.split(" / ")[-1].strip()

    def bare_name(self, column: int) -> str:
        """The last part of its header, without brackets."""
        return _BRACKETED.sub("", plain(self._last_name(column)))

    def is_numeric(self, column: int) -> bool:
        return self.columns[column].kind in NUMERIC

    def is_measure(self, column: int) -> bool:
        """Returns True if its numbers measure something: neither a running number nor a year."""
        last = self._last_name(column)
        return self.is_numeric(column) and not cue("table.identifying").search(last) and not self.is_yearly(column)

    def is_total(self, column: int) -> bool:
        """Returns True if its numbers sum up those of other columns: 合计, 应发合计."""
        last = plain(self._last_name(column)).partition("(")[0]
        return self.is_measure(column) and cue("table.total_row").fullmatch(last) is not None

    def is_yearly(self, column: int) -> bool:
        """Returns True if its numbers are years."""
        last = self._last_name(column)
        if self.columns[column].kind != "number" or not cue("table.yearly").search(last):
            return False
        numbers = [value for value in self.values(column) if isinstance(value, int | float)]
        return bool(numbers) and all(isinstance(value, int) and 1000 <= value <= 2200 for value in numbers)

    def unit(self, column: int) -> str:
        """The unit of a column: its own, or that of the whole table: 单位：万元."""
        own = self.columns[column].unit
        if own or not self.is_measure(column) or cue("table.counted_column").search(self.columns[column].name):
            return own
        stated = cue("table.stated_unit").search(f"{self.table.title} {self.table.notes} {self.table.source}")
        stated = stated or cue("table.title_unit").search(self.table.title)
        return stated.group(1) if stated else ""

    @cached_property
    def label(self) -> int | None:
        """The column that names its rows: words, mostly different ones, called a name if one is."""
        texts = [c for c, column in enumerate(self.columns) if column.kind in WORDS and self._is_wordy(c)]
        if not texts:
            return None
        named = [c for c in texts if cue("table.naming").search(self._last_name(c))]
        different = [c for c in texts if self.variety(c) > 0.5]
        return next(iter([c for c in named if c in different] or different or named or texts))

    @cached_property
    def number_column(self) -> int | None:
        """The column that has another number for each row: 资产编号."""
        numbers = (c for c, column in enumerate(self.columns) if cue("table.number_of_row").search(column.name))
        return next((c for c in numbers if all(self.plain_cells(c)) and self.variety(c) == 1.0), None)

    def _is_wordy(self, column: int) -> bool:
        last = self._last_name(column)
        filled = [cell for cell in self.plain_cells(column)[:200] if cell]
        short = sum(len(cell) <= _LONGEST_LABEL for cell in filled)
        return bool(filled) and short * 2 > len(filled) and not cue("table.identifying").search(last)

    def variety(self, column: int) -> float:
        """The share of its filled cells that no other repeats: 1 where each row has its own."""
        filled = [cell for cell in self.plain_cells(column) if cell]
        return len(set(filled)) / len(filled) if filled else 0.0

    @cached_property
    def totals(self) -> frozenset[int]:
        """Rows that sum up others."""
        texts = [c for c, column in enumerate(self.columns) if column.kind in WORDS][:3]
        return frozenset(
            r
            for c in texts
            for r, cell in enumerate(self.plain_cells(c))
            if cell and cue("table.total_row").fullmatch(cell)
        ) | frozenset(self.parts.rows)

    @cached_property
    def is_wordy(self) -> bool:
        """Returns True if it is a small table of words alone, four columns or more: rows of one kind, or a form."""
        words = all(column.kind in WORDS for column in self.columns)
        return words and len(self.columns) >= 4 and len(self) <= _LONGEST_FORM

    @cached_property
    def is_form(self) -> bool:
        """Returns True if names and values take turns in it, unlike rows of one kind: nothing to count there. What has
        no letter is no name: 021-55667788."""
        if not any(column.path for column in self.columns):
            return True
        if not self.is_wordy:
            return False
        names = [cell for c in range(0, len(self.columns), 2) for cell in self.plain_cells(c) if cell]
        values = {cell for c in range(1, len(self.columns), 2) for cell in self.plain_cells(c) if cell}
        are_names = len(set(names)) == len(names) and values.isdisjoint(
            names
        )  # 早班 of a roster is beside 晚班 and below
        return are_names and all(any(map(str.isalpha, name)) for name in names)

    def rows_by_text(self, column: int) -> Mapping[str, Sequence[int]]:
        if column not in self._rows_by_text:
            found: dict[str, list[int]] = defaultdict(list)
            for row, cell in enumerate(self.plain_cells(column)):
                if cell:
                    found[cell].append(row)
            self._rows_by_text[column] = found
        return self._rows_by_text[column]

    def is_worded(self, column: int) -> bool:
        """Returns True if a question may name its cells word for word."""
        kind = self.columns[column].kind
        last = self._last_name(column)
        return kind in WORDS or (kind == "number" and bool(cue("table.identifying").search(last)))

    def cells_in(self, text: str) -> list[CellMention]:
        """Every cell that is in a question, the longest at a place; the same words may be in two columns."""
        before, cells = self._last_cells  # another thread may read the table for another question meanwhile
        if before != text or not text:
            cells = self._find_cells(text)
            self._last_cells = (text, cells)
        return list(cells)

    def _find_cells(self, text: str) -> list[CellMention]:
        pieces = _pieces(text)
        found = []
        for column in range(len(self.columns)):
            if not self.is_worded(column):
                continue
            rows = self.rows_by_text(column)
            for piece in pieces.intersection(rows):
                is_enough = piece in ("男", "女") or (len(piece) >= 2 and any(map(str.isalnum, piece)))
                mask = places(piece, text) if is_enough else self._stated(column, piece, text)
                if mask:
                    found.append(CellMention(column, piece, mask, tuple(rows[piece])))
        sexes = [cell for cell in found if cell.text in ("男", "女")]
        return longest([cell for cell in found if cell not in sexes] if len(sexes) > 1 else found)

    def _stated(self, column: int, piece: str, text: str) -> int:
        """The characters of a cell of one letter right after the name of its column: A of 评级为A."""
        name = re.escape(plain(self._last_name(column)))
        after = re.compile(f"{name}(?:为|是|=|等于|:)?({re.escape(piece)})(?![a-z0-9+-])")
        is_letter = len(piece) == 1 and piece.isalpha() and bool(name)
        return union(span(*hit.span(1)) for hit in after.finditer(text)) if is_letter else 0


@cached_texts(8)  # for the tables that a question is read against; twenty thousand pieces of the longest
def _pieces(text: str) -> frozenset[str]:
    return frozenset(text[start:end] for start in range(len(text)) for end in range(start + 1, len(text) + 1))


def longest(found: Sequence[CellMention]) -> list[CellMention]:
    """Without those places that lie within a longer one."""
    spans = {place for cell in found for place in runs(cell.mask)}
    outer = {one for one in spans if not any(o != one and o[0] <= one[0] and one[1] <= o[1] for o in spans)}
    own = [(cell, union(span(*place) for place in runs(cell.mask) if place in outer)) for cell in found]
    cells = [CellMention(cell.column, cell.text, mask, cell.rows) for cell, mask in own if mask]
    return sorted(cells, key=lambda cell: (cell.mask & -cell.mask, cell.column))
