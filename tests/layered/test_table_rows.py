"""What is shown of a large table: the rows that say most of the question, and rows that are longer than a chunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from qianxun.core.layered_types import LayeredResult
from qianxun.core.types import Attributes, Chunk, Document
from qianxun.retrieve.layered.table_rows import row_groups
from tests.layered.base import opened

HEAD = "价目\n| 品名 | 说明 |\n"
ROWS = ("| 甲 | 便宜 |", f"| 乙 | {'耐用' * 30} |", "| 丙 | 轻便 |")
NOTES = "注：含税，不含运费"
TEXT = HEAD + "\n".join([*ROWS, NOTES])
STARTS = [TEXT.index(row) for row in ROWS]


def cut(start: int, end: int) -> Chunk:
    """A row group: what stands there, below the header."""
    text = (HEAD if start >= STARTS[0] else "") + TEXT[start:end]
    return Chunk(start, "c", "d", "d", 0, text, start, end, "table", (), None, 1, Attributes("d"))


def found(folder: Path, document: Document, query: str) -> LayeredResult:
    with opened(folder, [document]) as held:
        results = held.run(held.engine.search_tables(held.kb, query)).results
    return next(each for each in results if each.doc_id == document.id)


def test_of_many_rows_that_match_the_best_are_shown(tmp_path: Path) -> None:
    """客户 stands in every row of the groups that are found, 399 in one."""
    rows = "\n".join(f"| 客户{at} | {at} |" for at in range(400))
    sheet = Document("大表", f"# 名单\n\n| 客户 | 数 |\n| --- | --- |\n{rows}", format="markdown")
    table = found(tmp_path, sheet, "客户399的数").table
    assert table is not None
    assert 399 in table.shown
    assert list(table.shown) == sorted(table.shown)
    assert table.cells[table.shown.index(399)] == ("客户399", "399")


def test_a_row_longer_than_a_chunk_is_shown_in_part_with_its_cells_whole(tmp_path: Path) -> None:
    said = [f"员工报销差旅费用须附发票{at}。" * 150 for at in range(4)]
    rows = "".join(f"<tr><td>第{at}条</td><td>{each}</td></tr>" for at, each in enumerate(said))
    page = Document("规定", f"<table><tr><th>条款</th><th>内容</th></tr>{rows}</table>", format="html")
    result = found(tmp_path, page, "差旅费用须附发票2")
    assert result.table is not None
    assert "发票2。" in result.content
    assert "| 条款 | 内容 |" in result.content
    assert len(result.content) < len(said[2])
    assert result.table.shown == (2,)
    assert result.table.cells == (("第2条", said[2]),)


@pytest.mark.parametrize(
    ("start", "end", "content", "numbers", "is_cut"),
    [
        (0, STARTS[1], TEXT[: STARTS[1]].rstrip(), (0,), False),
        (STARTS[1], STARTS[1] + 20, HEAD + TEXT[STARTS[1] : STARTS[1] + 20], (1,), True),
        (STARTS[1] + 20, STARTS[1] + 40, HEAD + TEXT[STARTS[1] + 20 : STARTS[1] + 40], (1,), True),
        (STARTS[2], STARTS[2] + len(ROWS[2]), HEAD + ROWS[2], (2,), False),
        (STARTS[2], len(TEXT), HEAD + ROWS[2], (2,), False),
        (TEXT.index(NOTES), len(TEXT), HEAD + NOTES, (), False),
        (TEXT.index("不含"), len(TEXT), HEAD + "不含运费", (), False),
    ],
)
def test_wherever_a_table_is_cut(start: int, end: int, content: str, numbers: tuple[int, ...], is_cut: bool) -> None:
    shown = row_groups([cut(start, end)], STARTS, 2, NOTES).shown({})
    assert (shown.content, shown.numbers, shown.is_cut) == (content, numbers, is_cut)


def test_parts_of_one_row_are_joined_and_said_to_be_parts() -> None:
    middle = STARTS[1] + 20
    last = cut(STARTS[2] - 10, STARTS[2] - 1)
    shown = row_groups([last, cut(STARTS[1], middle)], STARTS, 2, NOTES).shown({})
    assert shown.numbers == (1,)
    assert shown.is_cut
    assert shown.content == f"{HEAD}{TEXT[STARTS[1] : middle]}…{TEXT[last.start : last.end]}"
