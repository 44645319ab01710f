"""How layered recalls are drawn: what does not fit is left out and counted, what an answer cites never is."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console

from qianxun.core.layered_types import Cited, LayeredRecall, TableShown
from qianxun.core.types import Column
from qianxun.doors.cli.views.layered import CITED as ROWS_TOLD
from qianxun.doors.cli.views.layered import show
from tests.layered.recalls import ANSWER, DECLINED, TABLES, TEXTS


def drawn(recall: LayeredRecall, width: int = 80, *, explain: bool = False) -> str:
    page = io.StringIO()
    show(Console(file=page, width=width, highlight=False), recall, explain=explain)
    return page.getvalue()


def with_table(table: TableShown, *cited: Cited) -> LayeredRecall:
    result = replace(TABLES.results[0], table=table)
    return replace(TABLES, results=(result,), cited=cited, cells_total=len(cited))


def wide(columns: int, rows: int = 2) -> TableShown:
    assert TABLES.results[0].table is not None
    return replace(
        TABLES.results[0].table,
        columns=tuple(Column(f"第{at}列名", (f"第{at}列名",)) for at in range(columns)),
        cells=tuple(tuple(f"格{row}之{at}" for at in range(columns)) for row in range(rows)),
        shown=tuple(range(rows)),
        rows=rows,
        notes="",
    )


def test_no_line_is_wider_than_the_terminal_and_left_out_columns_are_counted() -> None:
    for width in (40, 80, 120):
        page = drawn(with_table(wide(30)), width, explain=True)
        assert all(cell_len(line) <= width for line in page.splitlines()), page
        assert "第0列名" in page
        assert "列没有画出" in page
    assert "没有画出" not in drawn(with_table(wide(3)))


def test_a_column_that_is_cited_is_always_drawn() -> None:
    page = drawn(with_table(wide(30), Cited("手册#0", 1, 29, "第29列名", "格1之29")))
    assert page.count("第29列名") == 2  # where it is cited, and above its cells
    assert page.count("格1之29") == 2


def test_a_column_that_the_question_speaks_of_comes_before_others() -> None:
    recall = replace(with_table(wide(30)), query="第25列名")
    assert "格0之25" in drawn(recall)


def test_long_cells_are_cut_and_long_tables_say_how_many_rows_more() -> None:
    table = replace(wide(3, 30), rows=5000, cells=(("甲" * 100, "乙\n丙"), *(("丁", "戊"),) * 29))
    page = drawn(with_table(table))
    assert "甲" * 13 + "…" in page
    assert "乙 丙" in page
    assert "另有 4999 行" in page


def test_of_a_long_table_the_rows_are_drawn_that_the_question_or_its_answer_is_about() -> None:
    cells = tuple((f"甲{row}", "住院" if row in (17, 23) else "其他") for row in range(30))
    table = replace(wide(2, 30), cells=cells)
    page = drawn(with_table(table, Cited("手册#0", 29, 0, "第0列名", "甲29")))
    assert [row for row in range(30) if f" 甲{row} " in page] == [0, 17, 23, 29]  # 0: the answer of the sample names it
    assert "另有 26 行" in page
    vague = replace(table, cells=tuple((f"商品{row}", "住院") for row in range(30)))
    page = drawn(replace(with_table(vague), query="商品17的单价", answer=None))
    assert [row for row in range(30) if f" 商品{row} " in page] == [17]  # what every row says tells nothing


def test_what_each_layer_saw_is_drawn_and_words_within_words_are_not_told_twice() -> None:
    details = {
        "words": ["办公", "用品", "办公用品"],
        "coverage": 0.74,
        "similarity": None,
        "keyword": 0.17,
        "structure": {"score": 0.2, "title": 0.37, "headers": 0.0, "type": None},
        "expansion": [{"word": "发票", "by": "票据", "origin": "shipped"}],
        "later": {"a": [0.5, "b"]},
    }
    page = drawn(replace(TABLES, results=(replace(TABLES.results[0], match_details=details),)), explain=True)
    for line in (
        "命中 办公用品（占问题的 74%）",
        "标题 0.37，列名 0.00",
        "扩展 发票 → 票据（自带词库）",
        "later a 0.50、b",
    ):
        assert line in page
    assert "语义 " not in page.split("各层")[0]
    drawn(replace(TABLES, results=(replace(TABLES.results[0], match_details={}),)), explain=True)


def test_what_an_author_wrote_is_no_markup() -> None:
    assert "[bold]900" in drawn(TABLES)


def test_nothing_that_was_written_gives_orders_to_the_terminal() -> None:
    order = "\x1b[31m\x9b2J\x07\n"
    column = Column(f"名{order}", (), unit=order)
    table = TableShown("手册#0", f"题{order}", order, (column,), 1, (0,), order, f"注{order}", ((f"格{order}",),))
    recall = with_table(table, Cited("手册#0", 0, 0, f"名{order}", f"格{order}"))
    sure = replace(ANSWER, text=f"答{order}", reading=f"读{order}")
    for answer in (sure, replace(sure, sure=False, reason=f"因{order}")):
        page = drawn(replace(recall, answer=answer), explain=True)
        assert not set(page) & set("\x1b\x9b\x07"), page


def test_of_many_cited_rows_the_first_are_told_and_how_many_cells_there_are() -> None:
    cited = tuple(Cited("手册#0", row, 0, "类别", f"第{row}类") for row in range(50))
    page = drawn(replace(TABLES, cited=cited, cells_total=300))
    assert page.count("依据") == ROWS_TOLD
    assert "共引用 300 格" in page


def test_a_header_that_is_cited_is_told_as_one() -> None:
    page = drawn(replace(TABLES, cited=(Cited("手册#0", -1, 0, "类别", "类别"),), cells_total=1))
    assert "《报销比例》表头  类别\n" in page


def test_a_declined_answer_says_why_and_an_empty_recall_nothing() -> None:
    assert drawn(DECLINED).startswith("? 不直接回答：问题里的“退休”在表中找不到")
    assert "› 1 " in drawn(DECLINED)  # the rows that come closest
    assert "› 5 " in drawn(DECLINED)
    assert "›" not in drawn(TABLES)
    assert drawn(replace(DECLINED, results=())) == ""


def test_each_layer_says_whether_it_ran_and_how_it_went() -> None:
    page = drawn(TEXTS, explain=True)
    assert "1 向量    ✓ 收进 1 个，最高 0.80  12 毫秒" in page
    assert "3 扩展    ✗ 词库读不了" in page
    assert "2 语义    没有运行：已凑够目标的 80%" in drawn(TABLES, explain=True)
