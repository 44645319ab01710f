"""What the parts of a year add up to: 全年 of 上半年 and 下半年, or of the quarters or months; 上半年 of its quarters.

A question for such a whole is answered as if the table had a column, or a row, of that name. What is added up is cited.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, NamedTuple

from qianxun.core.types import CellValue, Column, Table
from qianxun.question.words import cue
from qianxun.text.quantities import han_number

_HALVES, _QUARTERS, _MONTHS = 2, 4, 12  # of a year
_PERIOD: Final = re.compile(
    r"(?P<half>[上下])半年度?|第?(?P<quarter>[一二三四1-4])季度?|(?<![A-Za-z])[Qq](?P<q>[1-4])(?!\d)"
    r"|(?<![\d十个])(?P<month>1[0-2]|[1-9]|十[一二]?|[一二三四五六七八九])月份?(?!龄)"
)
_BRACKETS: Final = re.compile(r"[(（\[【][^)）\]】\n]{0,60}[)）\]】]")
_ADDABLE: Final = ("number", "money")
_WORDS: Final = ("text", "category", "date")
_MOST_ROWS: Final = 2_000


class Period(NamedTuple):
    """The ``place``th of so ``many`` parts of a year."""

    many: int
    place: int


@dataclass(frozen=True, slots=True)
class Parts:
    """Columns and rows that the author's table does not have, and those that they are the sums of."""

    columns: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rows: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def cells(self, cells: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """The author's cells that these are made of."""
        return tuple(
            (own_row, own_column)
            for row, column in cells
            for own_row in self.rows.get(row, (row,))
            for own_column in self.columns.get(column, (column,))
        )


def with_wholes(table: Table, question: str) -> tuple[Table, Parts]:
    """The table with what a question asks for of a year's parts; as it is, where it asks for nothing of the kind."""
    found = cue("period.whole").search(question)
    if found is None or len(table.rows) > _MOST_ROWS:
        return table, Parts()
    name = found.group()
    table, columns = _with_columns(table, name)
    table, rows = (table, {}) if columns else _with_rows(table, name)
    return table, Parts(columns, rows)


def period_of(text: str) -> tuple[Period, str] | None:
    """The part of a year that a name speaks of, and the rest of the name."""
    found = _PERIOD.search(text)
    if found is None:
        return None
    rest = (text[: found.start()] + text[found.end() :]).strip(" -_/·")
    if found["half"]:
        return Period(_HALVES, 1 if found["half"] == "上" else 2), rest
    written = found["quarter"] or found["q"] or found["month"]
    place = int(written) if written.isdigit() else han_number(written) or 0
    return Period(_MONTHS if found["month"] else _QUARTERS, place), rest


def _wanted(name: str, known: Mapping[Period, int]) -> tuple[int, ...]:
    """The parts that a name is the whole of, where all of them are known; none of what is known itself."""
    own = period_of(name)
    if own is not None and own[0] in known:
        return ()
    for many in (_HALVES, _QUARTERS, _MONTHS):
        half = range(1, many // 2 + 1) if "上" in name else range(many // 2 + 1, many + 1)
        places = range(1, many + 1) if own is None else half
        if own is not None and many == _HALVES:
            continue
        if all(Period(many, place) in known for place in places):
            return tuple(known[Period(many, place)] for place in places)
    return ()


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


def _with_columns(table: Table, name: str) -> tuple[Table, dict[int, tuple[int, ...]]]:
    groups: dict[tuple[tuple[str, ...], str], dict[Period, int]] = defaultdict(dict)
    for at, column in enumerate(table.columns):
        if column.kind in _ADDABLE and (read := _column_period(column)) is not None:
            groups[read[1], column.unit].setdefault(read[0], at)
    added: dict[int, tuple[int, ...]] = {}
    columns, rows, texts = list(table.columns), list(map(list, table.rows)), list(map(list, table.texts))
    for (path, _), known in groups.items():
        parts = _wanted(name, known)
        if not parts or any(_is_whole(column.name, name, path) for column in table.columns):
            continue
        own = (*path[:-1], f"{name}{path[-1]}") if path else (name,)
        added[len(columns)] = parts
        columns.append(replace(table.columns[parts[0]], name=" / ".join(own), path=own))
        for row, shown in zip(rows, texts, strict=True):
            total = _sum([row[part] for part in parts])
            row.append(total)
            shown.append("" if total is None else str(total))
    if not added:
        return table, {}
    return replace(table, columns=tuple(columns), rows=tuple(map(tuple, rows)), texts=tuple(map(tuple, texts))), added


def _is_whole(column: str, name: str, path: Sequence[str]) -> bool:
    """Returns True if a column is the author's own whole: 全年, 全年合计, 全年收入 of parts of 收入; not 全年目标."""
    if name not in column:
        return False
    rest, own = (_BRACKETS.sub("", text).replace(name, "").strip() for text in (column, path[-1] if path else ""))
    return rest in ("", own) or cue("aggregate.sum").search(rest) is not None


def _column_period(column: Column) -> tuple[Period, tuple[str, ...]] | None:
    for at, part in enumerate(column.path):
        if (read := period_of(part)) is not None:
            rest = [read[1]] if read[1] else []
            return read[0], (*column.path[:at], *rest, *column.path[at + 1 :])
    return None


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _with_rows(table: Table, name: str) -> tuple[Table, dict[int, tuple[int, ...]]]:
    """A row for every group of rows that are alike but for the part of the year."""
    column = next((at for at, _ in enumerate(table.columns) if _names_periods(table, at)), None)
    if column is None:
        return table, {}
    keys = [at for at, one in enumerate(table.columns) if one.kind in _WORDS and at != column]
    groups: dict[tuple[str, ...], dict[Period, int]] = defaultdict(dict)
    for row, cells in enumerate(table.texts):
        if (read := period_of(cells[column])) is not None:
            groups[(*(cells[at] for at in keys), read[1])].setdefault(read[0], row)
    rows, texts, added = list(table.rows), list(table.texts), dict[int, tuple[int, ...]]()
    for group, known in groups.items():
        parts = _wanted(name, known)
        if not parts or any(cells[column] == name for cells in table.texts):
            continue
        added[len(rows)] = parts
        own = dict(zip(keys, group, strict=False))
        whole = tuple(
            _whole(table, at, parts, f"{group[-1]}{name}" if at == column else own.get(at)) for at in _all(table)
        )
        rows.append(whole)
        texts.append(tuple("" if value is None else str(value) for value in whole))
    return replace(table, rows=tuple(rows), texts=tuple(texts)), added


def _all(table: Table) -> range:
    return range(len(table.columns))


def _names_periods(table: Table, column: int) -> bool:
    filled = [cells[column] for cells in table.texts if cells[column].strip()]
    named = sum(period_of(cell) is not None for cell in filled)
    return table.columns[column].kind in _WORDS and named >= 2 and named * 2 > len(filled)


def _whole(table: Table, column: int, parts: Sequence[int], key: str | None) -> CellValue:
    if key is not None:
        return key
    is_rate = cue("superlative.per_unit").search(table.columns[column].name)
    if table.columns[column].kind not in _ADDABLE or is_rate:
        return None
    return _sum([table.rows[part][column] for part in parts])


def _sum(values: Sequence[CellValue]) -> int | float | None:
    numbers = [
        Decimal(str(value)) for value in values if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if len(numbers) < len(values):
        return None
    total = sum(numbers, Decimal(0))
    return int(total) if total == total.to_integral_value() else float(total)


def shown_parts(table: Table, parts: Parts, columns: Iterable[int], rows: Iterable[int]) -> str:
    """How the wholes that a plan uses came about, for people."""
    named = []
    for column in dict.fromkeys(columns):
        if column in parts.columns:
            added = "、".join(f"“{table.columns[part].name}”" for part in parts.columns[column])
            named.append(f"“{table.columns[column].name}”由{added}相加")
    counted = [
        f"由第 {'、'.join(str(part + 1) for part in parts.rows[row])} 行相加" for row in rows if row in parts.rows
    ]
    return "，".join((*named, *dict.fromkeys(counted)))
