"""What the service writes of a layered recall its client reads back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qianxun.core.codec.options import request_body
from qianxun.core.codec.wire import read_layered, written_layered
from qianxun.core.layered_types import MOST_CITED, Cited, CitedCell, LayeredRecall, cited_cells
from qianxun.core.options import TablesOptions
from qianxun.core.types import EVERYTHING, Eq, Table
from tests.layered.recalls import ANSWER, CITED, COLUMNS, DECLINED, TABLES, TEXTS

EMPTY = replace(TEXTS, results=(), degraded=(), generation=None)
UNASKED = replace(TABLES, answer=None, cited=(), cells_total=0, results=(replace(TABLES.results[0], table=None),))


@pytest.mark.parametrize("recall", [TEXTS, TABLES, DECLINED, EMPTY, UNASKED])
def test_what_is_written_is_read_back(recall: LayeredRecall) -> None:
    told = json.loads(json.dumps(written_layered(1001, recall)))
    assert read_layered(told) == recall


def test_of_many_cells_the_first_travel_and_how_many_there_are() -> None:
    many = tuple(CitedCell("手册#0", row, 1) for row in range(300))
    table = Table("报销比例", COLUMNS, ((None,) * 3,) * 300, tuple(("住院", f"{row}%", "") for row in range(300)))
    answer = replace(ANSWER, cells=many, rows=tuple(range(300)))
    cited = cited_cells(answer, {"手册#0": table})
    assert len(cited) == MOST_CITED
    assert cited[7] == Cited("手册#0", 7, 1, "2024年 / 报销比例", "7%")
    recall = replace(TABLES, answer=answer, cited=cited, cells_total=300)
    told = written_layered(1001, recall)["answer"]
    assert (len(told["cells"]), told["cells_total"], len(told["rows"]), told["rows_total"]) == (50, 300, 50, 300)
    read = read_layered(written_layered(1001, recall))
    assert (read.cited, read.cells_total) == (cited, 300)
    assert read.answer is not None
    assert read.answer.cells == many[:50]


def test_a_cited_header_says_its_own_name() -> None:
    table = Table("报销比例", COLUMNS, (), ())
    answer = replace(ANSWER, cells=(CitedCell("手册#0", -1, 0),))
    assert cited_cells(answer, {"手册#0": table}) == (Cited("手册#0", -1, 0, "类别", "类别"),)
    assert cited_cells(None, {}) == ()


def test_prose_has_neither_table_nor_answer_and_tables_say_where_the_answer_stands() -> None:
    prose, tables = written_layered(1001, TEXTS), written_layered(1001, TABLES)
    assert "answer" not in prose
    assert "table" not in prose["results"][0]
    assert tables["results"][0]["table"]["cells"][0] == ["住院", "85%", "1300"]
    assert [cell["text"] for cell in tables["answer"]["cells"]] == [each.text for each in CITED]
    assert tables["results"][0]["chunk"]["metadata"] == {"年份": 2024, "地区": ["北京", "上海"]}
    assert prose["results"][0]["chunk"] is None


def test_a_request_says_no_more_than_it_must() -> None:
    assert request_body(TablesOptions, "问", {"top_k": None, "where": EVERYTHING}) == {"query": "问"}
    full = request_body(TablesOptions, "问", {"top_k": 3, "where": Eq("user_id", "u1"), "answer": False})
    assert full == {"query": "问", "top_k": 3, "filters": {"user_id": "u1"}, "answer": False}
