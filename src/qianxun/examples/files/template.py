"""A workbook to fill in: a sheet per category with headings and a choice of grades, and instructions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from openpyxl import Workbook
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from qianxun.examples.files.cleaning import LABELS, MOST_CHARACTERS, REQUIRED, text_of
from qianxun.examples.files.excel import GUIDE
from qianxun.examples.schema import CATEGORIES, DEFAULT_GRADE, GRADES

COLUMNS: Final = tuple(LABELS)
WIDTHS: Final = {"user_input": 44, "agent_response": 76, "tags": 30, "quality_grade": 16, "notes": 26}
VALIDATED_ROWS: Final = 20_000

_HEAD: Final = PatternFill("solid", fgColor="DCE6F1")
_NEEDED: Final = PatternFill("solid", fgColor="FCE4D6")
_WRAPPED: Final = Alignment(wrap_text=True, vertical="top")


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def write_template(path: Path) -> None:
    """Overwrites an existing file."""
    write_workbook(path, _texts()["samples"])


def is_untouched_sample(category: str, fields: Mapping[str, Any]) -> bool:
    """Whether a row is a sample of the template as it was written, with its tags, grade and notes."""
    values = [text_of(fields.get(name)) for name in COLUMNS]
    return any(values == [text_of(cell) for cell in sample] for sample in _texts()["samples"].get(category, ()))


def write_workbook(path: Path, rows: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """A workbook that `import_file` takes: the guide, and the rows of each category in the order of `COLUMNS`."""
    book = Workbook()
    guide = book.worksheets[0]
    guide.title = GUIDE
    _write_guide(guide)
    for category in CATEGORIES:
        _write_sheet(book.create_sheet(category.sheet), rows.get(category.name, ()))
    book.save(path)


def _write_sheet(sheet: Worksheet, rows: Sequence[Sequence[str]]) -> None:
    sheet.append([f"{name}{'*' if name in REQUIRED else ''}（{LABELS[name]}）" for name in COLUMNS])
    for row in rows:
        sheet.append(list(row))
    for at, name in enumerate(COLUMNS):
        letter = "ABCDE"[at]
        sheet.column_dimensions[letter].width = WIDTHS[name]
        head = sheet[f"{letter}1"]
        head.font, head.fill = Font(bold=True), _NEEDED if name in REQUIRED else _HEAD
    for line in sheet.iter_rows(min_row=2):
        for cell in line:
            cell.alignment = _WRAPPED
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = f"A1:E{max(2, sheet.max_row)}"
    _choose_grades(sheet)


def _choose_grades(sheet: Worksheet) -> None:
    choice = DataValidation(
        type="list",
        formula1=f'"{",".join(GRADES)}"',
        allow_blank=True,
        showErrorMessage=True,
        errorTitle="质量等级",
        error=f"请从 {'、'.join(GRADES)} 里选一个，或留空",
        showInputMessage=True,
        promptTitle="质量等级",
        prompt=f"{'、'.join(GRADES)}；留空即{DEFAULT_GRADE}",
    )
    sheet.add_data_validation(choice)
    letter = "ABCDE"[COLUMNS.index("quality_grade")]
    choice.add(f"{letter}2:{letter}{VALIDATED_ROWS}")


def _write_guide(sheet: Worksheet) -> None:
    values = {"grades": "、".join(GRADES), "default_grade": DEFAULT_GRADE, "most_characters": MOST_CHARACTERS}
    for row in _texts()["guide"]:
        sheet.append([cell.format(**values) for cell in row])
    for letter, width in zip("ABCD", (26, 14, 70, 60), strict=True):
        sheet.column_dimensions[letter].width = width
    for row in sheet.iter_rows():
        for cell in row:
            cell.alignment = _WRAPPED
            if row[0].value in _texts()["headings"]:
                cell.font = Font(bold=True, size=14 if cell.row == 1 else 11)
    sheet.freeze_panes = "A2"
