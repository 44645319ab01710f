"""What a file of examples holds, as it was read and before it is cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from qianxun.core.errors import NotFound, TooLarge, UnsupportedFile
from qianxun.examples.schema import CATEGORIES

MIB: Final = 1 << 20
MOST_BYTES: Final = 64 * MIB
MOST_ROWS: Final = 200_000

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
    """One row of a sheet, or one item of a list, under the number by which people find it again."""

    sheet: str
    number: int
    fields: Mapping[str, Any]
    problem: str = ""  # why it cannot be used, where that is known already


@dataclass(slots=True)
class Contents:
    """Rows by category, and what of the file was passed over."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    ignored_sheets: list[str] = field(default_factory=list)
    ignored_columns: list[tuple[str, str]] = field(default_factory=list)  # (sheet, column)
    problems: list[Row] = field(default_factory=list)  # of a whole sheet: what stands in its heading

    def count(self) -> int:
        return sum(map(len, self.rows.values()))


def category_of(name: str, prefix: str = "") -> str:
    """The category that a worksheet's name means, English or Chinese; "" for none."""
    plain = "".join(name.split()).casefold()
    return _NAMES.get(plain) or _NAMES.get(plain.removeprefix(prefix), "")


def check_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raises NotFound, UnsupportedFile or TooLarge before anything is read."""
    if not path.is_file():
        raise NotFound(f"没有文件 {path}", hint="检查路径；用 qianxun examples template FILE.xlsx 可得到一个模板")
    if path.name.startswith("~$"):
        raise UnsupportedFile(f"{path.name} 是 Excel 打开文件时的临时文件", hint=f"请导入 {path.name[2:]}")
    if path.suffix.lower() not in suffixes:
        raise UnsupportedFile(
            f"{path.name} 不是 {'、'.join(suffixes)} 文件", hint="在 Excel 里另存为 .xlsx，或写成 JSON"
        )
    if path.stat().st_size > MOST_BYTES:
        raise TooLarge(f"{path.name} 超过 {MOST_BYTES // MIB} MB", hint="请拆成几个文件")


def expected_names() -> str:
    return "、".join(f"{category.name}（{category.sheet}）" for category in CATEGORIES)
