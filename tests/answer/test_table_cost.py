"""A question that speaks of every row costs by their number, not by its square."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.layered_types import TableInput
from qianxun.core.types import Column, Table
from tests.linear import is_linear

COLUMNS = (Column("name", ("name",)), Column("type", ("type",)), Column("有效期", ("有效期",), "date"))


def licences(rows: int) -> TableInput:
    """Half of them named in one way, a tenth in another, the rest not at all."""
    texts = tuple(
        (f"浙{row:06d}", "许可证" if row % 2 else "燃气许可证" if row % 5 == 0 else "证", f"202{row % 10}/6/26")
        for row in range(rows)
    )
    return TableInput("许可证#0", Table("许可证", COLUMNS, texts, texts))


@pytest.mark.parametrize("question", ["许可证的有效期", "燃气许可证和许可证的有效期", "许可证有哪些"])
def test_rows_that_are_named_alike_are_chosen_in_linear_time(question: str) -> None:
    def work(rows: int) -> Callable[[], object]:
        table = licences(rows)
        return lambda: answer_from_tables(question, [table])

    assert is_linear(work, 1_500)
