"""A table that comes with a question, given as rows: from lists and mappings of any make to a `Table`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from qianxun.core.errors import BadInput, TooLarge, Unreadable
from qianxun.core.types import Table
from qianxun.ingest.tables.cells import is_missing, number, percent
from qianxun.ingest.tables.grid import EMPTY, Cell, Grid, clean, place, read_table

MOST_CELLS: Final = 1_000_000
MOST_COLUMNS: Final = 1_000
LONGEST_CELL: Final = 20_000
_FORMS: Final = "Markdown、CSV 文字、字典的列表、或列表的列表（第一行是列名）"


def table_of_rows(data: Any) -> Table:
    """The table in rows that a caller hands over: mappings, lists, or columns by their names.

    Rows need not be equally long. Raises BadInput, TooLarge or Unreadable, saying what to do next.
    """
    if isinstance(data, Mapping):
        data = _from_columns(data)
    if not _is_list(data):
        raise BadInput("table_data 不是表格", hint=f"可用：{_FORMS}")
    if not data:
        raise Unreadable("表格是空的", hint="请给出至少一行列名和一行数据")
    if all(isinstance(row, Mapping) for row in data):
        grid, headed = _of_mappings(data), 1
    elif all(_is_list(row) for row in data):
        grid, headed = _of_lists(data), None
    else:
        raise BadInput("table_data 的各行形式不一", hint=f"可用：{_FORMS}")
    if grid.width == 1:
        grid = _numbered(grid)
    table = read_table(grid, header_rows=headed)
    if table is None or not table.rows:
        raise Unreadable("表格没有数据行", hint="请在列名之下给出至少一行数据")
    return table


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _from_columns(data: Mapping[Any, Any]) -> Any:
    """{"年份": [2023, 2024], "收入": [1, 2]}, or one row alone."""
    columns = list(data.values())
    if columns and all(_is_list(column) for column in columns):
        tallest = max(map(len, columns))
        rows = [[column[at] if at < len(column) else None for column in columns] for at in range(tallest)]
        return [list(data), *rows]
    return [data]


def _of_mappings(data: Sequence[Mapping[Any, Any]]) -> Grid:
    names = list(dict.fromkeys(name for row in data for name in row))
    _check_size(len(data), len(names))
    header = ((0, c, Cell(shown(name) or f"列{c + 1}", header=True)) for c, name in enumerate(names))
    body = ((r, c, _cell(row.get(name))) for r, row in enumerate(data, 1) for c, name in enumerate(names))
    return place([*header, *body])


def _of_lists(data: Sequence[Sequence[Any]]) -> Grid:
    _check_size(len(data), max(map(len, data)))
    rows = [[_cell(value) for value in row] for row in data]
    return place((*_merged_header(rows), *_placed(rows)))


def _placed(rows: Sequence[Sequence[Cell]]) -> list[tuple[int, int, Cell]]:
    return [(r, c, cell) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell.text]


def _merged_header(rows: list[list[Cell]]) -> list[tuple[int, int, Cell]]:
    """A header that a spreadsheet had merged and that its export repeats: 2023年, 2023年 above 收入, 成本.

    Takes the cells it merges out of the first two rows.
    """
    if len(rows) < 3 or len(rows[0]) != len(rows[1]) or any(map(_is_value, [*rows[0], *rows[1]])):
        return []
    merged: list[tuple[int, int, Cell]] = []
    at = 0
    for text, run in groupby([cell.text for cell in rows[0]]):
        wide = len(list(run))
        under = [cell.text for cell in rows[1][at : at + wide]]
        if text and wide > 1 and len(set(under)) == wide and all(under):
            merged.append((0, at, Cell(text, col_span=wide)))
        elif text and under == [text]:
            merged.append((0, at, Cell(text, row_span=2)))
        at += wide
    if all(cell.col_span == 1 for _, _, cell in merged):
        return []  # the second row is a row like any other that repeats a name
    for _, at, cell in merged:
        rows[0][at : at + cell.col_span] = [EMPTY] * cell.col_span
        if cell.row_span > 1:
            rows[1][at] = EMPTY
    return merged


def _is_value(cell: Cell) -> bool:
    return bool(cell.text) and not is_missing(cell.text) and (number(cell.text) or percent(cell.text)) is not None


def _numbered(grid: Grid) -> Grid:
    """A list of single values is a table too, once its rows are counted."""
    head, *rows = grid.rows
    if _is_value(head[0]):
        head, rows = [Cell("值", header=True)], grid.rows
    counted = [[Cell("序号", header=True), *head], *([Cell(str(at)), *row] for at, row in enumerate(rows, 1))]
    return Grid(counted)


def _check_size(rows: int, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise TooLarge(f"表格超过 {MOST_COLUMNS} 列", hint="请只给出要问的列")
    if (rows + 1) * columns > MOST_CELLS:
        raise TooLarge(f"表格超过 {MOST_CELLS} 个单元格", hint="请只给出要问的行，或把它作为文件加入知识库再问")


def _cell(value: Any) -> Cell:
    text = shown(value)
    return Cell(text) if text else EMPTY


def shown(value: Any) -> str:
    """A value as a cell shows it, on one line."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_list(value) or isinstance(value, Mapping):
        value = _nested(value)
    return clean(str(value)[:LONGEST_CELL].encode("utf-8", "replace").decode("utf-8"))


def _nested(value: Any) -> str:
    if _is_list(value) and all(not _is_list(each) and not isinstance(each, Mapping) for each in value):
        return "、".join(filter(None, map(shown, value)))
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError, TypeError) as failure:
        raise BadInput("单元格里嵌套的数据无法表示", hint="请把每个单元格写成文字或数字") from failure
