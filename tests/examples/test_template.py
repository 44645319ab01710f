"""The workbook to fill in: what people see in it, and that its own rows are no examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest

from qianxun.examples.files.cleaning import LABELS, field_of
from qianxun.examples.files.excel import GUIDE
from qianxun.examples.files.template import COLUMNS, write_template, write_workbook
from qianxun.examples.importing import import_file
from qianxun.examples.schema import CATEGORIES, GRADES
from qianxun.examples.store import ExampleStore


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("template") / "模板.xlsx"
    write_template(path)
    return openpyxl.load_workbook(path)


def test_the_guide_comes_first_then_a_sheet_per_category(book: Any) -> None:
    assert book.sheetnames == [GUIDE, "QA示例", "记录示例", "查询示例", "问候示例"]


def test_the_guide_tells_of_every_sheet_column_and_grade(book: Any) -> None:
    told = "\n".join(str(cell.value) for row in book[GUIDE].iter_rows() for cell in row if cell.value)
    for category in CATEGORIES:
        assert category.sheet in told
        assert category.name in told
    for name, label in LABELS.items():
        assert f"{name}（{label}）" in told
    assert all(grade in told for grade in GRADES)
    assert "--skip-bad" in told


@pytest.mark.parametrize("category", CATEGORIES, ids=lambda category: category.name)
def test_headings_are_those_the_import_knows_and_stay_in_sight(book: Any, category: Any) -> None:
    sheet = book[category.sheet]
    assert [field_of(cell.value) for cell in sheet[1]] == list(COLUMNS)
    assert "*" in sheet["A1"].value
    assert "*" in sheet["B1"].value
    assert "*" not in sheet["C1"].value
    assert sheet.freeze_panes == "A2"
    assert sheet.column_dimensions["B"].width > 40


@pytest.mark.parametrize("category", CATEGORIES, ids=lambda category: category.name)
def test_grades_are_chosen_from_a_list(book: Any, category: Any) -> None:
    (choice,) = book[category.sheet].data_validations.dataValidation
    assert (choice.type, choice.formula1) == ("list", '"优秀,良好,一般"')
    assert choice.allow_blank
    assert choice.showErrorMessage
    assert "D2" in choice.sqref
    assert "D10001" in choice.sqref
    assert "C2" not in choice.sqref


def test_the_template_is_an_empty_form_as_it_is(store: ExampleStore, tmp_path: Path) -> None:
    write_template(tmp_path / "模板.xlsx")
    report = import_file(tmp_path / "模板.xlsx", store)
    assert (report.rejected, report.ignored_sheets, report.ignored_columns) == ((), (), ())
    assert report.rows == dict.fromkeys((category.name for category in CATEGORIES), 0)
    assert (report.stored, report.total("added"), report.samples) == (True, 0, 4)


def test_a_workbook_without_rows_is_an_empty_form(store: ExampleStore, tmp_path: Path) -> None:
    write_workbook(tmp_path / "空.xlsx", {})
    report = import_file(tmp_path / "空.xlsx", store)
    assert (report.stored, report.total("added"), sum(report.rows.values())) == (True, 0, 0)
