"""Document 000, 8.2: the workbook is a form to fill in; nothing of the form itself becomes an example."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pytest
from sqlalchemy import create_engine

from qianxun import import_from_excel
from qianxun.examples.files.template import write_template
from qianxun.records.database.open import sqlite_url
from tests.examples.libraries import MODEL

TABLES = ("qa_examples", "record_examples", "query_examples", "greeting_examples")


@pytest.fixture
def excel_path(tmp_path: Path) -> Path:
    path = tmp_path / "提示词案例库.xlsx"
    write_template(path)
    return path


def imported(excel_path: Path) -> dict[str, object]:
    engine = create_engine(sqlite_url(excel_path.parent / "library.db"))
    try:
        with engine.connect() as db_conn:
            return import_from_excel(excel_path, db_conn, model=MODEL)
    finally:
        engine.dispose()


def test_an_untouched_template_adds_nothing(excel_path: Path) -> None:
    stats = imported(excel_path)
    assert (stats["stored"], stats["added"], stats["samples"], stats["rejected"]) == (True, 0, 4, [])
    assert stats["tables"] == {name: {"rows": 0, "added": 0, "updated": 0, "unchanged": 0} for name in TABLES}


def test_rows_that_people_wrote_beside_the_samples_come_in(excel_path: Path) -> None:
    book = openpyxl.load_workbook(excel_path)
    book["QA示例"].append(["高血压能喝酒吗", "最好不喝。", "饮食", "优秀", ""])
    book.save(excel_path)
    stats = imported(excel_path)
    assert (stats["added"], stats["samples"]) == (1, 4)


@pytest.mark.parametrize(("cell", "value"), [("A2", "降压药能和西柚一起吃吗？"), ("D2", "良好"), ("E2", "李医生审过")])
def test_a_sample_that_was_changed_is_an_example(excel_path: Path, cell: str, value: str) -> None:
    book = openpyxl.load_workbook(excel_path)
    book["QA示例"][cell] = value
    book.save(excel_path)
    stats = imported(excel_path)
    assert (stats["added"], stats["samples"]) == (1, 3)
