"""The rows of a file of examples before they are cleaned, and the JSON form of such a file.

``{"qa_examples": [{"user_input": …, "agent_response": …, "tags": […], "quality_grade": …}]}``
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from qianxun.core.errors import NotFound, TooLarge, Unreadable, UnsupportedFile
from qianxun.examples.files.cleaning import field_of, is_blank
from qianxun.examples.schema import CATEGORIES

MIB: Final = 1 << 20
MOST_BYTES: Final = 64 * MIB
MOST_ROWS: Final = 200_000
JSON_SUFFIXES: Final = (".json",)

_NAMES: Final = {
    **{category.name: category.name for category in CATEGORIES},
    **{category.sheet.casefold(): category.name for category in CATEGORIES},
    **{f"{category.label}示例": category.name for category in CATEGORIES},
    **{category.label: category.name for category in CATEGORIES},
    "病历记录示例": "record_examples",
    "病历记录": "record_examples",
    "健康咨询示例": "qa_examples",
    "qa": "qa_examples",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a sheet, or one item of a list, with the number by which people find it."""

    sheet: str
    number: int
    fields: Mapping[str, Any]
    problem: str = ""  # why it cannot be used, if known already


@dataclass(slots=True)
class Contents:
    """Rows by category, and what of the file was ignored."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    ignored_sheets: list[str] = field(default_factory=list)
    ignored_columns: list[tuple[str, str]] = field(default_factory=list)  # (sheet, column)
    problems: list[Row] = field(default_factory=list)  # of whole sheets

    def count(self) -> int:
        return sum(map(len, self.rows.values()))


def category_of(name: str, prefix: str = "", more: Sequence[str] = ()) -> str:
    """The category that a worksheet's name means, English or Chinese, or one of one's own; "" for none."""
    plain = "".join(name.split()).casefold()
    known = {**_NAMES, **{table: table for table in more}}
    return known.get(plain) or known.get(plain.removeprefix(prefix), "")


def check_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raises NotFound, UnsupportedFile or TooLarge before anything is read."""
    if not path.is_file():
        raise NotFound(f"没有文件 {path}", hint="检查路径；用 qianxun examples template FILE.xlsx 可得到一个模板")
    if path.name.startswith("~$"):
        raise UnsupportedFile(f"{path.name} 是 Excel 打开文件时的临时文件", hint=f"请导入 {path.name[2:]}")
    if path.suffix.lower() not in suffixes:
        raise UnsupportedFile(
            f"{path.name} 不是 {'、'.join(suffixes)} 文件",
            hint="在 Excel 里另存为 .xlsx，或写成 JSON；一行一段的对话（.jsonl）用 qianxun examples adopt",
        )
    if path.stat().st_size > MOST_BYTES:
        raise TooLarge(f"{path.name} 超过 {MOST_BYTES // MIB} MB", hint="请拆成几个文件")


def expected_names() -> str:
    return "、".join(f"{category.name}（{category.sheet}）" for category in CATEGORIES)


def read_json(path: Path, prefix: str = "", more: Sequence[str] = ()) -> Contents:
    """Raises Refused (Unreadable, TooLarge, UnsupportedFile) or NotFound, saying what to do."""
    check_file(path, JSON_SUFFIXES)
    lists = _load(path)
    contents = Contents()
    for name, items in lists.items():
        category = category_of(name, prefix, more)
        if not category:
            contents.ignored_sheets.append(name)
        elif not isinstance(items, list):
            contents.problems.append(Row(name, 0, {}, "应是一个列表"))
        else:
            rows = [_row(name, number, item, contents) for number, item in enumerate(items, 1)]
            contents.rows.setdefault(category, []).extend(
                row for row in rows if row.problem or not is_blank(row.fields)
            )
    if len(contents.ignored_sheets) == len(lists):
        found = "、".join(f"“{name}”" for name in contents.ignored_sheets) or "什么也没有"
        raise Unreadable(f"{path.name} 里没有示例的列表，只有 {found}", hint=f"各列表应叫 {expected_names()}")
    return contents


def _load(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path.name} 不是 UTF-8 编码", hint="用编辑器另存为 UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"第 {error.lineno} 行第 {error.colno} 列"
        raise Unreadable(f"{path.name} 不是合法的 JSON：{where}附近", hint="改正该处后重试") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise Unreadable(f"{path.name} 里有过大的数", hint="文字请放在引号里") from error
    except RecursionError as error:
        raise Unreadable(f"{path.name} 嵌套太深", hint='应为 {"qa_examples": [{…}]} 的形式') from error
    except OSError as error:
        raise Unreadable(f"{path.name} 打不开：{error.strerror}", hint="检查文件的权限") from error
    if not isinstance(read, dict):
        raise Unreadable(f"{path.name} 的最外层应是键值对", hint='例如 {"qa_examples": [{"user_input": "…", …}]}')
    return read


def _row(sheet: str, number: int, item: Any, contents: Contents) -> Row:
    if not isinstance(item, dict):
        return Row(sheet, number, {}, "应是键值对，有 user_input 与 agent_response")
    fields: dict[str, Any] = {}
    for key, value in item.items():
        if name := field_of(key):
            fields[name] = value
        elif (sheet, key) not in contents.ignored_columns:
            contents.ignored_columns.append((sheet, key))
    return Row(sheet, number, fields)
