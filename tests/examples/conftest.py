"""A store on each database, and workbooks written for the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook
from sqlalchemy import Engine

from qianxun.examples.store import ExampleStore
from qianxun.records.database.open import connect
from tests.examples.libraries import MODEL, database_url

HEADING = ("user_input", "agent_response", "tags", "quality_grade", "notes")

Write = Callable[..., Path]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    opened = connect(database_url(request.param, tmp_path, request))
    yield opened
    opened.dispose()


@pytest.fixture
def store(engine: Engine) -> ExampleStore:
    return ExampleStore(engine, "gd2502_", MODEL)


@pytest.fixture
def workbook(tmp_path: Path) -> Write:
    """``workbook({"qa_examples": [("问", "答")]})`` writes those rows under the usual heading."""

    def write(
        sheets: Mapping[str, Sequence[Sequence[Any]]], heading: Sequence[Any] = HEADING, name: str = "库.xlsx"
    ) -> Path:
        book = Workbook()
        book.remove(book.worksheets[0])
        for title, rows in sheets.items():
            sheet = book.create_sheet(title)
            for row in (heading, *rows):
                sheet.append(list(row))
        path = tmp_path / name
        book.save(path)
        return path

    return write


def stored(store: ExampleStore, category: str = "qa_examples") -> list[Any]:
    """The rows of a category, in the order they were added."""
    with store.connection() as connection:
        table = store.tables[category]
        return list(connection.execute(table.select().order_by(table.c.id)))
