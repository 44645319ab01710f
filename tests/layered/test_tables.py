"""Layered recall of tables, over a real base: found by structure and meaning, answered by the cell."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.errors import BadQuery, ModelUnavailable
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.types import Document, Eq
from qianxun.engine.settings import Settings, TableEngine
from tests.answer.asked import Opened
from tests.layered.base import opened, without

QUESTION = "三级医院住院的报销比例"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with opened(tmp_path_factory.mktemp("tables")) as held:
        yield held


def tables(held: Opened, query: str, top_k: int | None = None, **told: Any) -> LayeredRecall:
    return held.run(held.engine.search_tables(held.kb, query, top_k, **told))


def test_a_table_is_found_by_its_structure(base: Opened) -> None:
    recall = tables(base, QUESTION)
    first = recall.results[0]
    assert (first.doc_id, first.document_name) == ("比例", "比例.md")
    assert first.table is not None
    assert first.table.title == "住院报销比例"
    assert [column.name for column in first.table.columns] == ["医院等级", "起付线（元）", "报销比例"]
    assert first.table.id == "比例#0"
    assert first.table.rows == 3
    assert first.table.shown == (0, 1, 2)
    assert first.table.cells[2] == ("三级", "600", "85%")
    assert first.match_details["structure"]["title"] > 0.5
    assert "| 三级 | 600 | 85% |" in first.content
    assert not recall.degraded


def test_prose_is_no_table(base: Opened) -> None:
    assert {result.doc_id for result in tables(base, "住院费用报销比例").results} <= {"比例", "价目", "值班"}


def test_the_answer_is_computed_and_cites_its_cells(base: Opened) -> None:
    recall = tables(base, "三级医院的报销比例")
    assert recall.answer is not None
    assert recall.answer.sure
    assert recall.answer.text == "85%"
    assert [(each.table, each.row, each.name, each.text) for each in recall.cited] == [("比例#0", 2, "报销比例", "85%")]
    assert recall.cells_total == 1


def test_what_is_not_sure_is_not_answered_but_shown(base: Opened) -> None:
    recall = tables(base, "2019年三级医院的报销比例")
    assert recall.answer is not None
    assert not recall.answer.sure
    assert recall.answer.reason
    assert recall.results[0].doc_id == "比例"


def test_no_answer_is_sought_where_none_is_wanted(base: Opened) -> None:
    assert tables(base, QUESTION, answer=False).answer is None


def test_an_answer_that_cannot_be_worked_out_takes_nothing_away(base: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RecursionError("太深")

    monkeypatch.setattr("qianxun.retrieve.layered.tables.answer_from_tables", broken)
    recall = tables(base, QUESTION)
    assert recall.results[0].doc_id == "比例"
    assert recall.answer is None
    assert [each.part for each in recall.degraded] == ["answer"]


def test_an_answer_that_takes_too_long_is_given_up_aloud(base: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    late = partial(answer_from_tables, stop=lambda: True)
    monkeypatch.setattr("qianxun.retrieve.layered.tables.answer_from_tables", lambda *given, **_: late(*given))
    recall = tables(base, QUESTION)
    assert recall.results[0].doc_id == "比例"
    assert recall.answer is None
    assert [(each.part, each.reason[:11]) for each in recall.degraded] == [("answer", "10 秒内没有读完这些")]


def test_a_large_table_is_one_result_with_the_rows_that_match(tmp_path: Any) -> None:
    rows = "\n".join(f"| 客户{at:04} | 第{at % 7}大区 | {at * 10} |" for at in range(600))
    big = Document(
        "大表", f"# 客户销售\n\n| 客户 | 大区 | 金额（元） |\n| --- | --- | --- |\n{rows}", format="markdown"
    )
    with opened(tmp_path / "big", [big]) as held:
        assert held.run(held.engine.statistics(held.kb))["chunks"] > 20
        found = tables(held, "客户0345的金额").results
        (table,) = [result.table for result in found if result.doc_id == "大表"]
        first = next(result for result in found if result.doc_id == "大表")
    assert table is not None
    assert table.rows == 600
    assert 345 in table.shown
    assert len(table.shown) < 100
    assert (
        first.content.startswith("客户销售\n| 客户 | 大区 | 金额（元） |")
        or "| 客户 | 大区 | 金额（元） |" in first.content
    )
    assert "| 客户0345 | 第2大区 | 3450 |" in first.content
    assert table.cells[table.shown.index(345)] == ("客户0345", "第2大区", "3450")


def test_a_large_table_tells_the_likeness_it_was_let_in_by(tmp_path: Any) -> None:
    """That of its nearest chunk, which need not be the one with the most words."""
    rows = "\n".join(f"| 客户{at} | {'门诊' if at % 3 else '住院'}{at} | {at * 7} |" for at in range(600))
    big = Document("大表", f"| 客户 | 类 | 数 |\n| --- | --- | --- |\n{rows}", format="markdown")
    with opened(tmp_path / "near", [big]) as held:
        recalls = [tables(held, query) for query in ("客户12 门诊", "客户17 119 住院")]
    let = [result for recall in recalls for result in recall.results if result.strategy == "semantic"]
    assert let
    assert all(result.match_details["similarity"] >= TableEngine().semantic_threshold for result in let)


def test_a_large_table_does_not_hide_the_others(tmp_path: Any) -> None:
    """Its row groups alone would fill every place that is looked at first."""
    rows = "\n".join(f"| 三级医院住院报销比例第{at}条 | {at % 100}% |" for at in range(4000))
    big = Document("大表", f"| 住院报销比例条目 | 报销比例 |\n| --- | --- |\n{rows}", format="markdown")
    with opened(tmp_path / "flood", [big]) as held:
        assert held.run(held.engine.statistics(held.kb))["chunks"] > 200
        found = [result.doc_id for result in tables(held, QUESTION, answer=False).results]
    assert found.count("大表") == 1
    assert "比例" in found


def test_capped_sorted_and_the_same_each_time(tmp_path: Any) -> None:
    many = [
        Document(
            f"t{at:02}",
            f"# 第{at}年住院报销比例\n\n| 等级 | 报销比例 |\n| --- | --- |\n| 三级 | {at}% |",
            format="markdown",
        )
        for at in range(25)
    ]
    with opened(tmp_path / "many", many) as held:
        recall = tables(held, "住院报销比例")
        assert len(recall.results) == 15
        scores = [result.score for result in recall.results]
        assert scores == sorted(scores, reverse=True)
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert recall.results == tables(held, "住院报销比例").results
        assert len(tables(held, "住院报销比例", 2).results) == 2


def test_a_filter_holds(base: Opened) -> None:
    assert {each.doc_id for each in tables(base, QUESTION, where=Eq("doc_id", "值班")).results} <= {"值班"}


# ── what fails gives way ─────────────────────────────────────────────────────────────────────────


def test_without_structure_meaning_and_keywords_answer(base: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("坏的表头")

    monkeypatch.setattr("qianxun.retrieve.layered.table_fit.structure", broken)
    recall = tables(base, "医院等级、起付线与报销比例")
    assert recall.results[0].doc_id == "比例"
    assert recall.results[0].strategy in ("semantic", "keyword")
    assert recall.layers[0].failed
    assert "structure" in {each.part for each in recall.degraded}


def test_without_vectors_structure_and_keywords_answer(base: Opened) -> None:
    with without(base, "vector", "qa"):
        recall = tables(base, QUESTION)
    assert recall.results[0].doc_id == "比例"
    assert {"vector", "semantic"} <= {each.part for each in recall.degraded}


def test_without_keywords_meaning_answers(base: Opened) -> None:
    with without(base, "keyword"):
        recall = tables(base, QUESTION)
    assert recall.results[0].doc_id == "比例"
    assert "keyword" in {each.part for each in recall.degraded}


def test_without_related_words_what_there_is_is_returned(base: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise ModelUnavailable("词典读不出来")

    monkeypatch.setattr("qianxun.retrieve.layered.search.expanded", broken)
    recall = tables(base, QUESTION)
    assert recall.results[0].doc_id == "比例"
    assert [each.part for each in recall.degraded] == ["expansion"]


def test_where_all_fail_the_list_is_empty_and_says_why(base: Opened) -> None:
    with without(base, "vector", "qa", "keyword"):
        recall = tables(base, QUESTION)
    assert recall.results == ()
    assert {"structure", "semantic", "keyword"} <= {each.part for each in recall.degraded}


# ── settings and errors ──────────────────────────────────────────────────────────────────────────


def test_layers_can_be_turned_off(tmp_path: Any) -> None:
    only = TableEngine(
        similarity_threshold=1.0, use_semantic_search=False, use_keyword_search=False, use_expansion_search=False
    )
    with opened(tmp_path / "off", settings=Settings(data=str(tmp_path / "off"), table_engine=only)) as held:
        recall = tables(held, QUESTION)
    assert recall.results == ()
    assert [run.ran for run in recall.layers] == [True, False, False, False]


def test_no_question_is_refused(base: Opened) -> None:
    with pytest.raises(BadQuery):
        tables(base, " ")


def test_a_base_without_a_model_still_finds_tables(tmp_path: Any) -> None:
    with opened(tmp_path / "words", model="none") as held:
        recall = tables(held, QUESTION)
    assert recall.results[0].doc_id == "比例"
    assert recall.answer is not None
