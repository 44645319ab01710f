"""Checks a workbook's XML cell by cell before anything is built from it: errors name the sheet and the cell.

A library that meets a damaged cell either gives up without saying where, or reads something else in its place.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

from qianxun.core.errors import TooLarge, Unreadable

LAST_ROW: Final = 1_048_576
LAST_COLUMN: Final = 16_384
_REFERENCE: Final = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})")
_TYPES: Final = frozenset(("b", "d", "e", "inlineStr", "n", "s", "str"))
_PIECE: Final = 1 << 20
_LONGEST_FORMULA: Final = 200
_MOST_UNSOLVED: Final = 100_000
_HINT: Final = "这个文件的内容都没有收录；请在 Excel 中修正此处（或让 Excel 修复）后另存，再添加一次"
_BROKEN_PART: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)

Attributes = dict[str, str]


def check_workbook(path: Path, most_cells: int) -> dict[str, dict[tuple[int, int], str]]:
    """Formulas that were saved without their result, by sheet and (row, column).

    Raises Unreadable, naming the sheet and the cell or range, for a damaged workbook.
    """
    with zipfile.ZipFile(path) as archive:
        members = frozenset(archive.namelist())
        sheets = _sheets(archive, members)
        strings = _count(archive, members, "xl/sharedStrings.xml", "si", "共享字符串表")
        styles = _count(archive, members, "xl/styles.xml", "xf", "样式表", inside="cellXfs")
        return {name: _Sheet(name, strings, styles, most_cells).read(archive, part) for name, part in sheets}


# ── the parts ────────────────────────────────────────────────────────────────────────────────────


def _sheets(archive: zipfile.ZipFile, members: frozenset[str]) -> list[tuple[str, str]]:
    """The worksheets in order, each with its member of the archive; chart sheets and the like are left out."""
    book = next((name for name in members if name.lower() == "xl/workbook.xml"), None)
    if book is None:
        raise Unreadable("工作簿里没有 xl/workbook.xml", hint="请用 Excel 打开后另存为 .xlsx，再添加一次")
    named: list[tuple[str, str]] = []
    targets: dict[str, tuple[str, str]] = {}

    def sheet(name: str, attributes: Attributes) -> None:
        if name == "sheet":
            key = next((value for attribute, value in attributes.items() if attribute.rpartition(":")[2] == "id"), "")
            named.append((attributes.get("name", ""), key))

    def relation(name: str, attributes: Attributes) -> None:
        if name == "Relationship":
            targets[attributes.get("Id", "")] = (
                attributes.get("Target", ""),
                attributes.get("Type", "").rpartition("/")[2],
            )

    _read(archive, book, "工作簿目录", sheet)
    links = posixpath.join(posixpath.dirname(book), "_rels", posixpath.basename(book) + ".rels")
    if links in members:
        _read(archive, links, "工作簿关系表", relation)
    found = []
    for name, key in named:
        target, kind = targets.get(key, ("", ""))
        if kind in ("worksheet", ""):
            found.append((name, _part(name, target, posixpath.dirname(book), members)))
    return found


def _part(name: str, target: str, folder: str, members: frozenset[str]) -> str:
    part = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
    if not target or part not in members:
        raise Unreadable(f"工作表“{name}”的内容（{part if target else '未指明'}）不在文件里", hint=_HINT)
    return part


def _count(
    archive: zipfile.ZipFile, members: frozenset[str], part: str, tag: str, called: str, inside: str = ""
) -> int | None:
    """How many elements of that name a part holds; None where the workbook has no such part."""
    if part not in members:
        return None
    seen = 0
    within = not inside

    def start(name: str, _: Attributes) -> None:
        nonlocal seen, within
        within = within or name == inside
        seen += within and name == tag

    def end(name: str) -> None:
        nonlocal within
        within = within and name != inside

    _read(archive, part, called, start, end)
    return seen


def _read(
    archive: zipfile.ZipFile,
    part: str,
    called: str,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] = lambda _: None,
    text: Callable[[str], None] | None = None,
    where: Callable[[], str] = lambda: "",
) -> None:
    """Goes through the XML of one member. ``where`` says what was read last, for the message about broken XML."""
    reader = expat.ParserCreate()
    reader.buffer_text = True
    reader.StartElementHandler = lambda name, attributes: start(name.rpartition(":")[2], attributes)
    reader.EndElementHandler = lambda name: end(name.rpartition(":")[2])
    if text is not None:
        reader.CharacterDataHandler = text
    try:
        with archive.open(part) as stream:
            while piece := stream.read(_PIECE):
                reader.Parse(piece, False)
            reader.Parse(b"", True)
    except expat.ExpatError as failure:
        place = f"第 {failure.lineno} 行第 {failure.offset + 1} 个字符"
        raise Unreadable(f"{called}{where()}的 XML 已损坏（{part} {place}）", hint=_HINT) from failure
    except _BROKEN_PART as failure:
        raise Unreadable(f"{called}{where()}的数据已损坏（{part} 无法解压或校验不符）", hint=_HINT) from failure


# ── the cells of a sheet ─────────────────────────────────────────────────────────────────────────


class _Sheet:
    """One sheet that is being checked."""

    def __init__(self, name: str, strings: int | None, styles: int | None, most_cells: int) -> None:
        self._name = name
        self._most_cells = most_cells
        self._strings = strings or 0
        self._styles = styles
        self._rows: set[int] = set()
        self._columns: set[int] = set()
        self._row = self._column = 0
        self._at = ""
        self._type = ""
        self._collecting: list[str] | None = None
        self._value: str | None = None
        self._formula: str | None = None
        self._merged: list[tuple[int, int, int, int, str]] = []
        self._unsolved: dict[tuple[int, int], str] = {}
        self._starts = {"row": self._on_row, "c": self._on_cell, "mergeCell": self._on_merge}

    def read(self, archive: zipfile.ZipFile, part: str) -> dict[tuple[int, int], str]:
        _read(archive, part, f"工作表“{self._name}”", self._start, self._end, self._text, self._where)
        self._check_merged()
        return self._unsolved

    def _where(self) -> str:
        return f"在单元格 {self._at} 处" if self._at else ""

    def _refuse(self, what: str, at: str = "") -> NoReturn:
        raise Unreadable(f"工作表“{self._name}”的单元格 {at or self._at}：{what}", hint=_HINT)

    def _start(self, name: str, attributes: Attributes) -> None:
        if name in ("v", "f"):
            self._collecting = []
        elif handler := self._starts.get(name):
            handler(attributes)

    def _text(self, text: str) -> None:
        if self._collecting is not None:
            self._collecting.append(text)

    def _end(self, name: str) -> None:
        if name == "v":
            self._value = "".join(self._collecting or ())
            self._collecting = None
        elif name == "f":
            self._formula = "".join(self._collecting or ())
            self._collecting = None
        elif name == "c":
            self._close_cell()

    def _on_row(self, attributes: Attributes) -> None:
        given = attributes.get("r")
        if given is not None and not (given.isdigit() and 1 <= int(given) <= LAST_ROW):
            raise Unreadable(f"工作表“{self._name}”有一行的行号是“{given}”，不是 1 到 {LAST_ROW} 的整数", hint=_HINT)
        self._row = int(given) if given is not None else self._row + 1
        if self._row in self._rows:
            raise Unreadable(f"工作表“{self._name}”的第 {self._row} 行出现了两次", hint=_HINT)
        self._rows.add(self._row)
        self._columns = set()
        self._column = 0

    def _on_cell(self, attributes: Attributes) -> None:
        self._value = self._formula = None
        self._type = attributes.get("t", "n")
        given = attributes.get("r")
        if given is None:
            self._column += 1
            self._at = f"{column_letters(self._column)}{self._row}"
        else:
            self._at = given
            self._check_place(given)
        if self._column in self._columns:
            self._refuse("出现了两次")
        self._columns.add(self._column)
        style = attributes.get("s")
        if style is not None and not (style.isdigit() and (self._styles is None or int(style) < self._styles)):
            self._refuse(f"样式编号 {style} 不存在（共 {self._styles} 个）")
        if self._type not in _TYPES:
            self._refuse(f"类型“{self._type}”不是 Excel 的单元格类型")

    def _check_place(self, given: str) -> None:
        place = position(given)
        if place is None:
            self._refuse("单元格地址无效（应形如 B7，不超过 XFD1048576）")
        row, self._column = place
        if row != self._row:
            self._refuse(f"写在第 {self._row} 行里，地址与行号不符")

    def _close_cell(self) -> None:
        value = (self._value or "").strip()
        if value:
            self._check_value(value)
        elif self._formula is not None and self._type != "inlineStr" and len(self._unsolved) < _MOST_UNSOLVED:
            self._unsolved[self._row, self._column] = "=" + (self._formula.strip()[:_LONGEST_FORMULA] or "（公式）")

    def _check_value(self, value: str) -> None:
        if self._type == "s":
            if not (value.isdigit() and int(value) < self._strings):
                self._refuse(f"共享字符串编号 {value} 超出范围（共 {self._strings} 条）")
        elif self._type == "n":
            if not _is_number(value):
                self._refuse(f"“{value[:40]}”不是数")
        elif self._type == "b":
            if value not in ("0", "1", "true", "false"):
                self._refuse(f"“{value[:40]}”不是真假值（0 或 1）")
        elif self._type == "d" and not _is_day(value):
            self._refuse(f"“{value[:40]}”不是日期")

    # ── merged ranges ──

    def _on_merge(self, attributes: Attributes) -> None:
        given = attributes.get("ref", "")
        first, _, last = given.partition(":")
        top_left, bottom_right = position(first), position(last or first)
        if top_left is None or bottom_right is None:
            self._refuse_range(given, "不是有效的区域，或超出了工作表")
        (top, left), (bottom, right) = top_left, bottom_right
        if bottom < top or right < left:
            self._refuse_range(given, "首尾颠倒")
        self._merged.append((top, left, bottom, right, given))

    def _refuse_range(self, given: str, what: str) -> NoReturn:
        raise Unreadable(f"工作表“{self._name}”的合并区域 {given or '（空）'}：{what}", hint=_HINT)

    def _check_merged(self) -> None:
        """No two merged ranges share a cell, and all together cover no more than a workbook may hold."""
        owner: dict[tuple[int, int], str] = {}
        for top, left, bottom, right, given in self._merged:
            if len(owner) + (bottom - top + 1) * (right - left + 1) > self._most_cells:
                what = f"工作表“{self._name}”合并到 {given} 时超过 {self._most_cells} 个单元格"
                raise TooLarge(what, hint="请拆分工作簿")
            for row in range(top, bottom + 1):
                for column in range(left, right + 1):
                    if (other := owner.setdefault((row, column), given)) is not given:
                        self._refuse_range(given, f"与合并区域 {other} 重叠")


def position(reference: str) -> tuple[int, int] | None:
    """(row, column) from 1 of a reference such as B7; None for what is none, or lies beyond the sheet."""
    found = _REFERENCE.fullmatch(reference.replace("$", ""))
    if found is None:
        return None
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - 64
    row = int(found[2])
    return (row, column) if row <= LAST_ROW and column <= LAST_COLUMN else None


def column_letters(column: int) -> str:
    letters = ""
    while column > 0:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().lower().lstrip("+-") not in ("nan", "inf", "infinity")


def _is_day(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return re.fullmatch(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?Z?", text) is not None
    return True
