"""Examples as JSON: ``{"qa_examples": [{"user_input": …, "agent_response": …, "tags": […], "quality_grade": …}]}``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from qianxun.core.errors import Unreadable
from qianxun.examples.files.cleaning import field_of, is_blank
from qianxun.examples.files.contents import Contents, Row, category_of, check_file, expected_names

SUFFIXES: Final = (".json",)


def read_json(path: Path, prefix: str = "") -> Contents:
    """Raises Refused (Unreadable, TooLarge, UnsupportedFile) or NotFound, saying what to do."""
    check_file(path, SUFFIXES)
    lists = _load(path)
    contents = Contents()
    for name, items in lists.items():
        category = category_of(name, prefix)
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
