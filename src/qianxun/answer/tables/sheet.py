"""A table made ready for questions: plain cells, names, its label column, its rows of totals."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from qianxun.answer.tables.match import Name, keys_in, keys_of, match, names_of, places
from qianxun.answer.tables.periods import Parts
from qianxun.core.layered_types import TableInput
from qianxun.core.types import CellValue, Column, Table
from qianxun.question.table_query import plain, plain_all, runs, span, union
from qianxun.question.words import cue

NUMERIC: Final = ("number", "money", "percent")
WORDS: Final = ("text", "category")
_LONGEST_LABEL: Final = 60
_BRACKETED: Final = re.compile(r"\([^()]*\)$")
_LONGEST_FORM: Final = 60
SHEET_BYTES: Final = 20_000
CELL_BYTES: Final = 200  # in plain form, with its rows and its pairs of characters
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CellMention:
    """A cell's text that is in the question, and the rows that have it in that column."""

    column: int
    text: str
    mask: int
    rows: tuple[int, ...]


class Sheet:
    """One table, read once; for any question. What of it a question can name is looked up by pairs of characters, so
    that a question costs by what it names and not by the number of cells."""

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
        self._varieties: dict[int, float] = {}
        self._rows_by_text: dict[int, Mapping[str, Sequence[int]]] = {}
        self._last_cells: tuple[str, list[CellMention]] = ("", [])  # a question is read several ways

    def __len__(self) -> int:
        return len(self.table.rows)

    def size(self) -> int:
        """Bytes in memory beside its table, about, once it has been asked about."""
        return SHEET_BYTES + CELL_BYTES * len(self) * len(self.columns)

    def about_in(self, text: str) -> int:
        """The characters of a question that the table's title and surroundings explain."""
        return match(self.about, text).mask

    def plain_cells(self, column: int) -> list[str]:
        if column not in self._plain:
            self._plain[column] = plain_all([row[column] for row in self.table.texts]) if len(self) else []
        return self._plain[column]

    def values(self, column: int) -> list[CellValue]:
        return [row[column] for row in self.table.rows]

    @cached_property
    def plain_names(self) -> tuple[str, ...]:
        """The names of the columns in plain form."""
        return tuple(plain(column.name) for column in self.columns)

    def plain_last_name(self, column: int) -> str:
        """What a column is called below all that stands above it, in plain form."""
        return self._plain_last_names[column]

    @cached_property
    def _plain_last_names(self) -> tuple[str, ...]:
        return tuple(plain(self._last_name(column)) for column in range(len(self.columns)))

    def _last_name(self, column: int) -> str:
        return self.columns[column].name.split(" / ")[-1].strip()

    def bare_name(self, column: int) -> str:
        """The last part of its header, without brackets."""
        return _BRACKETED.sub("", self.plain_last_name(column))

    def is_numeric(self, column: int) -> bool:
        return self.columns[column].kind in NUMERIC

    def is_measure(self, column: int) -> bool:
        """Returns True if its numbers measure something: neither a running number nor a year."""
        return self._measures[column]

    @cached_property
    def _measures(self) -> tuple[bool, ...]:
        return tuple(map(self._is_measure, range(len(self.columns))))

    def _is_measure(self, column: int) -> bool:
        last = self._last_name(column)
        return self.is_numeric(column) and not cue("table.identifying").search(last) and not self.is_yearly(column)

    @cached_property
    def has_total(self) -> bool:
        """Returns True if the numbers of a column sum up those of others: 合计, 应发合计."""
        return any(map(self._is_total, range(len(self.columns))))

    def _is_total(self, column: int) -> bool:
        last = self.plain_last_name(column).partition("(")[0]
        return self.is_measure(column) and cue("table.total_row").fullmatch(last) is not None

    def is_yearly(self, column: int) -> bool:
        """Returns True if its numbers are years."""
        return self._years[column]

    @cached_property
    def _years(self) -> tuple[bool, ...]:
        return tuple(map(self._is_yearly, range(len(self.columns))))

    def _is_yearly(self, column: int) -> bool:
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
        if column not in self._varieties:
            filled = [cell for cell in self.plain_cells(column) if cell]
            self._varieties[column] = len(set(filled)) / len(filled) if filled else 0.0
        return self._varieties[column]

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
        found = []
        for cell in self._cells_within(text):
            is_enough = cell in ("男", "女") or (len(cell) >= 2 and any(map(str.isalnum, cell)))
            mask = places(cell, text) if is_enough else 0
            for column in self._worded_cells[cell]:
                if own := mask if is_enough else self._stated(column, cell, text):
                    found.append(CellMention(column, cell, own, tuple(self.rows_by_text(column)[cell])))
        sexes = [cell for cell in found if cell.text in ("男", "女")]
        return longest([cell for cell in found if cell not in sexes] if len(sexes) > 1 else found)

    @cached_property
    def _worded_cells(self) -> Mapping[str, Sequence[int]]:
        """Every cell that a question may name, and the columns that have it."""
        found: dict[str, list[int]] = defaultdict(list)
        for column in filter(self.is_worded, range(len(self.columns))):
            for cell in self.rows_by_text(column):
                found[cell].append(column)
        return found

    @cached_property
    def _cells_by_beginning(self) -> Mapping[str, Sequence[str]]:
        """The same cells by their first two characters; by one, where it is all of a cell."""
        return _grouped((cell[:2], cell) for cell in self._worded_cells)

    def _cells_within(self, text: str) -> Iterable[str]:
        """Those that are somewhere in a text, each once."""
        found: dict[str, None] = {}
        for begun in sorted(self._cells_by_beginning.keys() & keys_in(text)):
            at = text.find(begun)
            while at >= 0:
                found.update((cell, None) for cell in self._cells_by_beginning[begun] if text.startswith(cell, at))
                at = text.find(begun, at + 1)
        return found

    # What may be named in part

    def columns_sharing(self, text: str) -> list[int]:
        """The columns whose names have anything in common with a text; of no other is a character in it."""
        shared = self._columns_by_key.keys() & keys_in(text)
        return sorted({column for key in shared for column in self._columns_by_key[key]})

    @cached_property
    def _columns_by_key(self) -> Mapping[str, Sequence[int]]:
        return _grouped((key, column) for column, name in enumerate(self.names) for key in name.keys)

    def labels_sharing(self, text: str) -> Mapping[int, Sequence[str]]:
        """By column, the cells on the left, before any measure, that have a pair of characters in common with a text:
        of no other are two characters that follow each other in it."""
        found: dict[int, dict[str, None]] = defaultdict(dict)
        for key in self._labels_by_key.keys() & keys_in(text):
            for column, cell in self._labels_by_key[key]:
                found[column][cell] = None
        return {column: list(found[column]) for column in sorted(found)}

    @cached_property
    def _labels_by_key(self) -> Mapping[str, Sequence[tuple[int, str]]]:
        first_measure = next((c for c in range(len(self.columns)) if self.is_measure(c)), len(self.columns))
        words = [c for c in range(first_measure) if self.columns[c].kind in WORDS]
        cells = ((c, cell) for c in words for cell in self.rows_by_text(c) if 2 <= len(cell) <= _LONGEST_LABEL)
        return _grouped((key, one) for one in cells for key in keys_of(one[1]))

    def _stated(self, column: int, piece: str, text: str) -> int:
        """The characters of a cell of one letter right after the name of its column: A of 评级为A."""
        name = self.plain_last_name(column)
        if not (len(piece) == 1 and piece.isalpha() and name and name in text):
            return 0
        after = re.compile(f"{re.escape(name)}(?:为|是|=|等于|:)?({re.escape(piece)})(?![a-z0-9+-])")
        return union(span(*hit.span(1)) for hit in after.finditer(text))


def _grouped(pairs: Iterable[tuple[str, Value]]) -> Mapping[str, Sequence[Value]]:
    found: dict[str, list[Value]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)


def longest(found: Sequence[CellMention]) -> list[CellMention]:
    """Without those places that lie within a longer one."""
    spans = {place for cell in found for place in runs(cell.mask)}
    outer = {one for one in spans if not any(o != one and o[0] <= one[0] and one[1] <= o[1] for o in spans)}
    own = [(cell, union(span(*place) for place in runs(cell.mask) if place in outer)) for cell in found]
    cells = [CellMention(cell.column, cell.text, mask, cell.rows) for cell, mask in own if mask]
    return sorted(cells, key=lambda cell: (cell.mask & -cell.mask, cell.column))
