"""Pictures and tables that come with a question.

`attached_image` takes a path, base64 or a data URL; nothing is fetched, and the pixels are decoded by a worker of
`sandbox` only. `table_of_rows` takes rows as lists, mappings or columns.
"""

from __future__ import annotations

import binascii
import json
import math
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from qianxun.core.documents import Table
from qianxun.core.errors import BadInput, Refused, TooLarge, Unreadable, UnsupportedFile
from qianxun.core.limits import IMAGE_BYTES_LIMIT, MIB
from qianxun.ingest.tables.cells import is_missing, number, percent
from qianxun.ingest.tables.grid import EMPTY, Cell, Grid, clean, place
from qianxun.ingest.tables.read_table import read_table

PLACES: Final = ("img_path", "img_base64", "url")
_DATA_URL: Final = re.compile(r"data:([\w.+/-]*)((?:;[^;,]*)*),", re.ASCII | re.IGNORECASE)
_ELSEWHERE: Final = re.compile(r"\s*[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s+")
_WRITTEN: Final = IMAGE_BYTES_LIMIT * 3 // 2  # characters of base64, line breaks and all
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"\xff\xd8\xff", ".jpg"),
    (b"GIF87a", ".gif"),
    (b"GIF89a", ".gif"),
    (b"BM", ".bmp"),
)
_SVG: Final = re.compile(
    rb"\s*+(?:<\?xml.{0,500}?)?(?:<!--(?:(?!-->).){0,500}-->|\s|<!DOCTYPE[^>]{0,300}>)*+<svg\b", re.S | re.I
)
_OTHERS: Final = (
    (_SVG, "SVG"),
    (re.compile(rb"II\*\x00|MM\x00\*"), "TIFF"),
    (re.compile(rb".{4}ftyp(?:heic|heix|mif1|msf1|heim)", re.S), "HEIC"),
    (re.compile(rb".{4}ftypavi[fs]", re.S), "AVIF"),
    (re.compile(rb"\x00\x00\x01\x00"), "ICO"),
    (re.compile(rb"8BPS"), "PSD"),
    (re.compile(rb"%PDF-"), "PDF"),
)
_KINDS: Final = "PNG、JPEG、WebP、BMP 或 GIF"


@dataclass(frozen=True, slots=True)
class AttachedImage:
    """The bytes of a picture; ``suffix`` is by their content, whatever its name."""

    data: bytes
    suffix: str
    name: str = ""  # of its file, where it has one


def attached_image(item: Mapping[str, Any]) -> AttachedImage:
    """The picture of an item. Blocking. Raises Refused or BadInput with a hint."""
    given = [place for place in PLACES if item.get(place)]
    if len(given) != 1:
        what = "给了不止一个" if given else "没有给出"
        raise BadInput(f"图片的内容{what}", hint="请只给 img_path、img_base64、url（data: 地址）中的一个")
    (place,) = given
    value = item[place]
    if isinstance(value, bytes) and place == "img_base64":
        value = value.decode("ascii", "replace")
    if not isinstance(value, str | os.PathLike):
        raise BadInput(f"{place} 应是一段文字", hint="路径、base64 或 data: 地址")
    if place == "img_path":
        path = Path(value)
        _refuse_elsewhere(os.fspath(value))
        return _checked(read_bounded(path, IMAGE_BYTES_LIMIT, "图片"), path.name)
    return _checked(_decoded(str(value), place))


def _refuse_elsewhere(text: str) -> None:
    if _ELSEWHERE.match(text):
        raise Refused("不会去下载图片", hint="请先把图片存下来，写成 img_base64 给出；在本机提问也可用 img_path")


def read_bounded(path: Path, most: int, what: str) -> bytes:
    """The bytes of a regular file, at most so many of them."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise Unreadable(f"{what}的路径是一个文件夹", hint="请给出文件夹里的一个文件")
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(f"{what}的路径不是普通文件", hint="请给出一个普通文件")
        if found.st_size > most:
            raise _too_large(most, what)
        with path.open("rb") as opened:
            data = opened.read(most + 1)
    except FileNotFoundError as failure:
        raise Unreadable(f"{what}文件不存在：{path.name}", hint="请检查路径") from failure
    except (OSError, ValueError) as failure:  # a name may be too long, or hold a zero
        raise Unreadable(f"读不了{what}文件（{type(failure).__name__}）", hint="请检查路径与权限") from failure
    if len(data) > most:
        raise _too_large(most, what)
    return data


def _too_large(most: int, what: str) -> TooLarge:
    return TooLarge(f"{what}超过 {most // MIB} MB", hint=f"请缩小或压缩{what}后再试")


def _decoded(text: str, place: str) -> bytes:
    if len(text) > _WRITTEN:
        raise _too_large(IMAGE_BYTES_LIMIT, "图片")
    if text[:5].lower().lstrip() == "data:" or place == "url":
        text = _after_head(text.lstrip(), place)
    packed = _SPACE.sub("", text).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        data = binascii.a2b_base64(packed + "=" * (-len(packed) % 4), strict_mode=True)
    except (binascii.Error, ValueError) as failure:
        raise BadInput(f"{place} 不是有效的 base64", hint="请把图片文件的字节整个编码为 base64") from failure
    if len(data) > IMAGE_BYTES_LIMIT:
        raise _too_large(IMAGE_BYTES_LIMIT, "图片")
    return data


def _after_head(text: str, place: str) -> str:
    head = _DATA_URL.match(text[:300])
    if head is None:
        _refuse_elsewhere(text[:300])
        raise BadInput(f"{place} 不是 data: 地址", hint="形如 data:image/png;base64,……；别的地址不会去取")
    if ";base64" not in head[2].lower():
        raise BadInput("data: 地址不是 base64 的", hint="形如 data:image/png;base64,……")
    return text[head.end() :]


def _checked(data: bytes, name: str = "") -> AttachedImage:
    if not data:
        raise Unreadable("图片是空的", hint="请检查图片是否写完")
    for magic, suffix in _MAGIC:
        if data.startswith(magic):
            return AttachedImage(data, suffix, name)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return AttachedImage(data, ".webp", name)
    known = next((kind for pattern, kind in _OTHERS if pattern.match(data[:2_000])), "")
    if known:
        raise UnsupportedFile(f"不支持 {known} 图片", hint=f"请导出为 {_KINDS} 再试")
    raise UnsupportedFile("这不是图片，或是不支持的图片格式", hint=f"请给出 {_KINDS} 图片")


# ── tables ────────────────────────────────────────────────────────────────────────────────────────

MOST_CELLS: Final = 1_000_000
MOST_COLUMNS: Final = 1_000
LONGEST_CELL: Final = 20_000
_FORMS: Final = "Markdown、CSV 文字、字典的列表、或列表的列表（第一行是列名）"


def table_of_rows(data: Any) -> Table:
    """The table in rows that a caller passes: mappings, lists, or columns by their names.

    Rows need not be equally long. Raises BadInput, TooLarge or Unreadable with a hint.
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
    if _is_list(value) and all(not _is_list(item) and not isinstance(item, Mapping) for item in value):
        return "、".join(filter(None, map(shown, value)))
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError, TypeError) as failure:
        raise BadInput("单元格里嵌套的数据无法表示", hint="请把每个单元格写成文字或数字") from failure
