"""A table's names against a question."""

from __future__ import annotations

import pytest

from qianxun.core.types import Column
from qianxun.question.question import read
from qianxun.question.table_query import TableSearchQuery
from qianxun.retrieve.layered.table_fit import (
    HEADERS,
    TITLE,
    TYPE,
    compared_tables,
    keyword_match,
    names_fit,
    names_of,
    structure,
    title_fit,
)
from qianxun.text.chinese import analyse_query

PRICES = (Column("品名", ("品名",)), Column("单价（元）", ("单价（元）",), "money", "元"), Column("库存", ("库存",)))
ROWS = "办公用品价目表\n| 品名 | 单价（元） | 库存 |\n| A4 复印纸 | 22.5 | 120 |\n| 中性笔 | 2 | 900 |"


def asked(text: str) -> TableSearchQuery:
    return read(text).for_table_search(dict.fromkeys(analyse_query(text).words, 1.0))


def test_a_question_in_the_tables_own_words_fits_best() -> None:
    names = names_of("办公用品价目表", PRICES, ROWS)
    near = structure(asked("中性笔的库存"), names).score
    far = structure(asked("住院报销比例"), names).score
    assert near > 0.3 > far == 0.0


def test_cells_of_the_rows_count_as_names() -> None:
    with_rows = structure(asked("中性笔库存"), names_of("", PRICES, ROWS)).headers
    without = structure(asked("中性笔库存"), names_of("", PRICES, "")).headers
    assert with_rows is not None
    assert without is not None
    assert with_rows > without


def test_the_parts_are_weighed_over_what_the_table_has() -> None:
    question = asked("办公用品价目表里中性笔的库存")
    whole = structure(question, names_of("办公用品价目表", PRICES, ROWS))
    assert whole.title is not None
    assert whole.headers is not None
    kind = [] if whole.type is None else [(TYPE, whole.type)]
    parts = [(TITLE, whole.title), (HEADERS, whole.headers), *kind]
    assert whole.score == pytest.approx(sum(w * s for w, s in parts) / sum(w for w, _ in parts))
    untitled = structure(question, names_of("", PRICES, ROWS))
    assert untitled.title is None
    if untitled.type is None:
        assert untitled.score == untitled.headers


def test_a_type_counts_only_where_the_question_speaks_of_one() -> None:
    names = names_of("办公用品价目表", PRICES, ROWS)
    assert names.type == "price_list"
    assert structure(asked("中性笔多少钱"), names).type == 1.0
    assert structure(asked("中性笔的库存"), names).type is None


def test_a_number_is_not_found_inside_another() -> None:
    assert names_fit(asked("2012年"), ["12"]) == 0.0


def test_the_share_of_characters_and_of_words() -> None:
    question = asked("库存数量")
    assert names_fit(question, ["库存"]) == pytest.approx(0.5 * 2 / 4 + 0.5 * 1 / len(question.words))


def test_a_title_fits_by_what_both_say_of_each_other() -> None:
    """铁路 and 旅客 are four of the six characters of the title, and four of the six telling ones of the question."""
    question = asked("铁路旅客人数")
    assert title_fit(question, "铁路运输旅客") == pytest.approx(4 / 6)
    assert title_fit(question, "") == title_fit(question, "门诊报销比例") == 0.0
    assert title_fit(asked("门诊报销比例"), "门诊报销比例") == 1.0


def test_keywords_are_looked_for_in_title_headers_and_content() -> None:
    names = names_of("办公用品价目表", PRICES, ROWS)
    assert keyword_match(["库存"], names) == pytest.approx(0.3 + 0.3)
    assert keyword_match(["价目表"], names) == pytest.approx(0.4 + 0.3)
    assert keyword_match(["中性笔"], names) == pytest.approx(0.3)
    assert keyword_match([], names) == 0.0
    untitled = names_of("", PRICES, "| 品名 |\n| 中性笔 |")
    assert keyword_match(["库存"], untitled) == pytest.approx(0.3 / 0.6)


def test_twice_as_many_tables_are_compared_as_may_be_shown() -> None:
    assert [compared_tables(most) for most in (1, 15, 20, 30, 100)] == [30, 30, 40, 60, 60]
