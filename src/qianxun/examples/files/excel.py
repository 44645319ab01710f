"""A workbook of examples: one sheet per category, headings anywhere in its first rows."""

from __future__ import annotations

import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import openpyxl
from openpyxl.cell.cell import ERROR_CODES, Cell, MergedCell
from openpyxl.utils import cell as coordinate
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.worksheet.worksheet import Worksheet

from qianxun.core.errors import TooLarge, Unreadable
from qianxun.examples.files.cleaning import LABELS, NOTES, REQUIRED, field_of, is_blank
from qianxun.examples.files.contents import MIB, MOST_ROWS, Contents, Row, category_of, check_file, expected_names

SUFFIXES: Final = (".xlsx", ".xlsm")
GUIDE: Final = "填写说明"  # the instructions in the template
HEADING_ROWS: Final = 10
_MOST_UNPACKED: Final = 192 * MIB
_MOST_CELLS: Final = 3_000_000
_MERGED: Final = re.compile(rb'<(?:\w{1,8}:)?mergeCell [^>]{0,80}?ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
_OLE: Final = b"\xd0\xcf\x11\xe0"  # an encrypted workbook, or one of before 2007
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError, ValueError)
_BROKEN: Final = (*_DAMAGED, TypeError, AttributeError, IndexError, InvalidFileException, SyntaxError, OSError)

AnyCell: TypeAlias = Cell | MergedCell
Line: TypeAlias = tuple[int, dict[int, AnyCell]]  # (row, column → cell)


def read_workbook(path: Path, prefix: str = "", more: Sequence[str] = ()) -> Contents:
    """Raises Refused (Unreadable, TooLarge, UnsupportedFile) or NotFound, saying what to do."""
    check_file(path, SUFFIXES)
    _check_archive(path)
    book = _open(path, data_only=False)
    named = ((sheet.title, category_of(sheet.title, prefix, more)) for sheet in book.worksheets)
    categories = {title: category for title, category in named if category}
    contents = Contents()
    contents.ignored_sheets += [name for name in book.sheetnames if name not in categories and name != GUIDE]
    if not categories:
        found = "、".join(f"“{name}”" for name in book.sheetnames)
        raise Unreadable(f"{path.name} 里没有示例的工作表，只有 {found}", hint=f"工作表应叫 {expected_names()}")
    solved = _solved(path, [book[name] for name in categories])
    for name, category in categories.items():
        contents.rows.setdefault(category, []).extend(_rows(book[name], solved.get(name), contents))
    return contents


def _check_archive(path: Path) -> None:
    try:
        with path.open("rb") as stream:
            if stream.read(4) == _OLE:
                raise Unreadable(f"{path.name} 有密码，或是旧的 .xls 格式", hint="在 Excel 里去掉密码，另存为 .xlsx")
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MOST_UNPACKED:
                raise TooLarge(f"{path.name} 解压后超过 {_MOST_UNPACKED // MIB} MB", hint="请拆成几个文件")
            if sum(_cells(archive.read(name)) for name in archive.namelist() if "/worksheets/" in name) > _MOST_CELLS:
                raise TooLarge(f"{path.name} 的单元格太多，或合并的区域太大", hint="请删去多余的内容，或拆成几个文件")
    except PermissionError as error:
        raise Unreadable(f"{path.name} 打不开：可能正被别的程序使用", hint="关掉 Excel 里的这个文件再试") from error
    except (*_DAMAGED, OSError) as error:
        raise Unreadable(f"{path.name} 不是 Excel 工作簿，或已损坏", hint="用 Excel 打开，另存为 .xlsx") from error


def _cells(part: bytes) -> int:
    """Of one sheet, with merged ones: openpyxl creates an object for each."""
    merged = (coordinate.range_boundaries(ref.decode()) for ref in _MERGED.findall(part))
    areas = ((right - left + 1) * (bottom - top + 1) for left, top, right, bottom in merged)  # type: ignore[operator]
    return part.count(b"<c ") + sum(areas)


def _open(path: Path, *, data_only: bool) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles that openpyxl does not keep
        try:
            return openpyxl.load_workbook(path, data_only=data_only, keep_links=False)
        except _BROKEN as error:
            raise Unreadable(f"{path.name} 不是 Excel 工作簿，或已损坏", hint="用 Excel 打开，另存为 .xlsx") from error


def _solved(path: Path, sheets: list[Worksheet]) -> dict[str, Worksheet]:
    """The same sheets with the saved results of their formulas; read only if there are formulas."""
    has_formulas = any(cell.data_type == "f" for sheet in sheets for cell in sheet._cells.values())
    return {sheet.title: sheet for sheet in _open(path, data_only=True).worksheets} if has_formulas else {}


def _rows(sheet: Worksheet, solved: Worksheet | None, contents: Contents) -> Iterator[Row]:
    grid = _grid(sheet)
    at = _heading(grid)
    columns = _columns(sheet.title, *grid[at], contents) if at is not None else None
    if at is None or columns is None:
        return
    if len(grid) > MOST_ROWS:
        raise TooLarge(f"工作表“{sheet.title}”有 {len(grid)} 行，上限是 {MOST_ROWS}", hint="请拆成几个文件")
    tops = _merged(sheet)
    for number, cells in grid[at + 1 :]:
        found = {name: tops.get((number, column)) or cells.get(column) for name, column in columns.items()}
        fields = {name: _value(cell, solved) for name, cell in found.items()}
        problem = next(filter(None, (_problem(name, cell, fields[name]) for name, cell in found.items())), "")
        if problem or not is_blank(fields):
            yield Row(sheet.title, number, fields, problem)


def _grid(sheet: Worksheet) -> list[Line]:
    """The rows with a value. Not by `iter_rows`: it creates every cell down to the last formatted one."""
    rows: dict[int, dict[int, AnyCell]] = {}
    for (row, column), cell in sheet._cells.items():
        if cell.value is not None:
            rows.setdefault(row, {})[column] = cell
    return sorted(rows.items(), key=lambda line: line[0])


def _value(cell: AnyCell | None, solved: Worksheet | None) -> Any:
    if cell is None:
        return None
    if cell.data_type == "f" and solved is not None:
        return solved[cell.coordinate].value
    return cell.value


def _problem(name: str, cell: AnyCell | None, value: Any) -> str:
    if cell is None or name == NOTES:
        return ""
    if cell.data_type == "f" and value is None:
        return f"{name}（{LABELS[name]}）是公式，没有保存计算结果：用 Excel 打开并保存一次"
    is_error = cell.data_type == "e" or (cell.data_type == "f" and value in ERROR_CODES)
    return f"{name}（{LABELS[name]}）是错误值 {value}" if is_error else ""


def _heading(grid: list[Line]) -> int | None:
    """The first of the top rows that names a required field; else the first."""
    named = [at for at, (_, cells) in enumerate(grid[:HEADING_ROWS]) if _names_required(cells)]
    return next(iter(named), 0 if grid else None)


def _names_required(cells: Mapping[int, AnyCell]) -> bool:
    return any(field_of(cell.value) in REQUIRED for cell in cells.values())


def _columns(sheet: str, number: int, cells: Mapping[int, AnyCell], contents: Contents) -> dict[str, int] | None:
    """Field → column; None, with the reason in the problems, if the heading is unusable."""
    columns: dict[str, int] = {}
    for column, cell in sorted(cells.items()):
        name = field_of(cell.value)
        if name in columns:
            contents.problems.append(Row(sheet, number, {}, f"{name}（{LABELS[name]}）有两列"))
            return None
        if name:
            columns[name] = column
        elif heading := str(cell.value).strip():
            contents.ignored_columns.append((sheet, heading))
    if missing := [f"{name}（{LABELS[name]}）" for name in REQUIRED if name not in columns]:
        contents.problems.append(Row(sheet, number, {}, f"表头里没有 {'、'.join(missing)} 列"))
        return None
    return columns


def _merged(sheet: Worksheet) -> dict[tuple[int, int], AnyCell]:
    """Cells merged downwards share the value of the top one. Merged sideways they are a caption, and stay empty."""
    found: dict[tuple[int, int], AnyCell] = {}
    for area in sheet.merged_cells.ranges:
        if area.min_col == area.max_col:
            top = sheet.cell(area.min_row, area.min_col)
            found |= {(row, area.min_col): top for row in range(area.min_row + 1, area.max_row + 1)}
    return found
