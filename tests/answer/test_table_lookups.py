"""What a question can name of a table is looked up by pairs of characters: it finds what a look at every cell does."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from qianxun.answer.tables.match import match, match_column, places
from qianxun.answer.tables.sheet import Sheet
from qianxun.core.layered_types import TableInput
from qianxun.core.types import Column, Table
from qianxun.question.table_query import runs

WORDS = st.text("年度收入合计男12a.", max_size=5)
TEXTS = st.text("年度收入合计男12a.的\0", max_size=14)
ROWS = st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=6)


def sheet_of(headers: tuple[str, str, str], rows: list[tuple[str, ...]]) -> Sheet:
    columns = tuple(Column(header, (header,)) for header in headers)
    return Sheet(TableInput("t", Table("", columns, tuple(rows), tuple(rows))))


@given(st.tuples(WORDS, WORDS, WORDS), ROWS, TEXTS)
def test_columns_that_are_not_looked_at_have_nothing_of_the_question(
    headers: tuple[str, str, str], rows: list[tuple[str, ...]], text: str
) -> None:
    sheet = sheet_of(headers, rows)
    shared = sheet.columns_sharing(text)
    assert shared == sorted(set(shared))
    for column, name in enumerate(sheet.names):
        met = match_column(name, text)
        assert column in shared or (met.mask, met.matched, met.verbatim) == (0, 0, False)


@given(ROWS, TEXTS)
def test_labels_that_are_not_looked_at_have_nothing_of_the_question(rows: list[tuple[str, ...]], text: str) -> None:
    sheet = sheet_of(("甲", "乙", "丙"), rows)
    shared = sheet.labels_sharing(text)
    for column in range(3):
        for cell in sheet.plain_cells(column):
            if len(cell) > 1 and match(cell, text).matched:
                assert cell in shared[column]


@given(ROWS, TEXTS)
def test_every_cell_in_a_question_is_found(rows: list[tuple[str, ...]], text: str) -> None:
    sheet = sheet_of(("甲", "乙", "丙"), rows)
    found = {(cell.column, cell.text) for cell in sheet.cells_in(text)}
    masks = {
        (column, cell): places(cell, text)
        for column in range(3)
        for cell in sheet.plain_cells(column)
        if len(cell) > 1 and any(map(str.isalnum, cell)) and places(cell, text)
    }
    stretches = [place for mask in masks.values() for place in runs(mask)]
    for key, mask in masks.items():
        inner = [any(a <= s and e <= b and (a, b) != (s, e) for a, b in stretches) for s, e in runs(mask)]
        assert (key in found) == (not all(inner))


@given(st.integers(0, 2**70))
def test_the_stretches_of_a_mask_are_its_bits(mask: int) -> None:
    found = runs(mask)
    assert {at for start, end in found for at in range(start, end)} == {at for at in range(71) if mask >> at & 1}
    assert all(end < start for (_, end), (start, _) in pairwise(found))
