"""Generated workbooks through the real path: file, parsing child, tables, answers. All exact, all cells cited right."""

from __future__ import annotations

import asyncio
import random
from decimal import Decimal
from pathlib import Path

import pytest

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.layered_types import TableAnswer, TableInput
from qianxun.core.types import ParsedFile, Table, TableBlock
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.pool import ParserPool
from tests.answer.workbooks import Written, make_workbook
from tests.ingest.sandboxed import parse_in_child

SEEDS = range(10)


class Book:
    """A parsed workbook beside what was written into it."""

    def __init__(self, parsed: ParsedFile, written: list[Written]) -> None:
        found = [block.table for block in parsed.blocks if isinstance(block, TableBlock)]
        self.asked = [TableInput(str(at), table, parsed.title) for at, table in enumerate(found)]
        self.written = written
        self.warnings = parsed.warnings

    def table_of(self, written: Written) -> tuple[str, Table]:
        """The one table that holds these rows."""
        held = [each for each in self.asked if each.table.columns[0].name == written.columns[0]]
        assert len(held) == 1, [[column.name for column in each.table.columns] for each in self.asked]
        return held[0].id, held[0].table

    def ask(self, question: str) -> TableAnswer:
        answer = answer_from_tables(question, self.asked)
        assert answer.sure, (question, answer)
        return answer

    def cited(self, answer: TableAnswer) -> list[str]:
        """What really stands in the cells that an answer cites."""
        return [self.asked[int(cell.table)].table.texts[cell.row][cell.column] for cell in answer.cells]


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Book]:
    folder = tmp_path_factory.mktemp("workbooks")
    written = {seed: make_workbook(folder / f"{seed}.xlsx", seed) for seed in SEEDS}

    async def parse_all() -> dict[int, Book]:
        pool = ParserPool(1, ParseLimits())
        try:
            return {seed: Book(await pool.parse(folder / f"{seed}.xlsx"), written[seed]) for seed in SEEDS}
        finally:
            await pool.aclose()

    return asyncio.run(parse_all())


def each_table(book: Book) -> list[tuple[Written, str, Table]]:
    return [(written, *book.table_of(written)) for written in book.written]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_and_header_is_there(books: dict[int, Book], seed: int) -> None:
    book = books[seed]
    assert len(book.asked) == len(book.written)
    for written, _, table in each_table(book):
        assert [column.name for column in table.columns] == written.columns, written.layout
        assert [column.kind for column in table.columns][2:] == ["date", "money", "percent", "number"] or (
            written.layout.unit in ("left", "right") and table.columns[3].kind == "number"
        ), (written.layout, table.columns)
        count = len(written.rows)
        assert len(table.rows) == count + (written.layout.total != "none"), written.layout
        for at, row in enumerate(written.rows):
            unit = "万元" if written.layout.unit == "format" else ""
            assert table.texts[at][:5] == (
                row.name, row.city, row.opened.isoformat(), f"{row.sales:,.2f}{unit}", f"{row.returned / 100:.2f}%",
            )  # fmt: skip
            assert Decimal(str(table.rows[at][3])) == row.sales
            assert table.rows[at][5] == (None if at in written.staff_unknown else row.staff)
        assert table.source == written.sheet
        if written.title:
            assert written.title in table.title, written.layout
        if written.layout.below in ("note", "apart"):
            assert "注：销售额不含税。" in table.notes
        if written.layout.hidden_column:
            assert any("列是隐藏的" in warning for warning in book.warnings)


@pytest.mark.parametrize("seed", SEEDS)
def test_lookups_show_the_cell_they_cite(books: dict[int, Book], seed: int) -> None:
    book = books[seed]
    chance = random.Random(seed)
    for written, number, table in each_table(book):
        for at in chance.sample(range(len(written.rows)), 3):
            row = written.rows[at]
            sales = book.ask(
                f"{row.name}2024年的销售额是多少" if "/" in written.columns[3] else f"{row.name}的销售额是多少"
            )
            assert sales.text == f"{table.texts[at][3].removesuffix('万元')}万元"
            assert [(cell.table, cell.row, cell.column) for cell in sales.cells] == [(number, at, 3)]
            assert book.ask(f"{row.name}在哪个城市").text == row.city
            day = book.ask(f"{row.name}的开业日期")
            assert (day.text, book.cited(day)) == (row.opened.isoformat(), [row.opened.isoformat()])


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_and_sums_are_exact(books: dict[int, Book], seed: int) -> None:
    book = books[seed]
    for written, number, _ in each_table(book):
        year = "2024年" if "/" in written.columns[3] else ""
        assert book.ask(f"一共有多少家{written.label}").values == (len(written.rows),)
        city = written.rows[0].city
        held = [at for at, row in enumerate(written.rows) if row.city == city]
        counted = book.ask(f"{city}有几家{written.label}")
        assert counted.values == (len(held),)
        assert [(cell.table, cell.row) for cell in counted.cells] == [(number, at) for at in held]
        assert book.cited(counted) == [written.rows[at].name for at in held]
        total = sum((written.rows[at].sales for at in held), Decimal(0))
        summed = book.ask(f"{city}{written.label}{year}销售额的总和是多少")
        assert Decimal(str(summed.values[0])) == total
        assert summed.text == f"{total.normalize():f}万元", written.layout
        assert [(cell.row, cell.column) for cell in summed.cells] == [(at, 3) for at in held]
        staff = book.ask(f"{city}{written.label}员工数的总和是多少")
        known = [written.rows[at].staff for at in held if at not in written.staff_unknown]
        assert staff.text == str(sum(known)), written.layout  # people, whatever unit the table states


@pytest.mark.parametrize("seed", SEEDS)
def test_extremes_and_the_first_few_are_exact(books: dict[int, Book], seed: int) -> None:
    book = books[seed]
    for written, number, _ in each_table(book):
        year = "2024年" if "/" in written.columns[3] else ""
        order = sorted(range(len(written.rows)), key=lambda at: -written.rows[at].sales)
        best = book.ask(f"{year}销售额最高的{written.label}是哪家")
        assert best.text == written.rows[order[0]].name
        assert [(cell.table, cell.row, cell.column) for cell in best.cells] == [
            (number, order[0], 0),
            (number, order[0], 3),
        ]
        assert book.ask(f"{year}销售额最低的{written.label}").text == written.rows[order[-1]].name
        top = book.ask(f"{year}销售额最高的前三名{written.label}")
        assert top.text == "、".join(written.rows[at].name for at in order[:3])
        bound = written.rows[order[len(order) // 2]].sales
        over = [row for row in written.rows if row.sales > bound]
        assert book.ask(f"{year}销售额超过{bound}万元的{written.label}有几家").values == (len(over),)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_not_there_is_declined(books: dict[int, Book], seed: int) -> None:
    book = books[seed]
    for written in book.written:
        for question in (
            f"武汉有几家{written.label}",
            f"{written.label}戊99999号的销售额",
            f"2019年销售额最高的{written.label}",
            f"利润最高的{written.label}",
            f"各城市有多少家{written.label}",  # a number for each, not how many cities
        ):
            answer = answer_from_tables(question, book.asked)
            assert not answer.sure, (question, answer, written.layout)


def test_five_thousand_rows_of_a_file(tmp_path: Path) -> None:
    (written,) = make_workbook(tmp_path / "大.xlsx", 7, rows=5_000)
    book = Book(parse_in_child(tmp_path / "大.xlsx", ParseLimits()), [written])
    number, table = book.table_of(written)
    assert len(table.rows) == 5_000 + (written.layout.total != "none")
    held = [at for at, row in enumerate(written.rows) if row.city == "上海"]
    counted = book.ask(f"上海有几家{written.label}")
    assert counted.values == (len(held),)
    assert (counted.cells[-1].table, counted.cells[-1].row) == (number, held[-1])
    year = "2024年" if "/" in written.columns[3] else ""
    summed = book.ask(f"上海{written.label}{year}销售额的总和是多少")
    assert Decimal(str(summed.values[0])) == sum((written.rows[at].sales for at in held), Decimal(0))
    last = written.rows[4_999]
    assert book.ask(f"{last.name}在哪个城市").text == last.city
