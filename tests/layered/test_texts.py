"""Layered recall of prose, over a real base: what is let in, by which layer, and what happens where one fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from qianxun.core.errors import BadQuery, ModelUnavailable, NotFound
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.types import Document, Eq
from qianxun.engine.settings import Settings, TextEngine
from tests.answer.asked import Opened
from tests.layered.base import PROSE, opened, without

QUESTION = "三级医院的住院费用报销比例是多少"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with opened(tmp_path_factory.mktemp("texts")) as held:
        yield held


def texts(held: Opened, query: str, top_k: int | None = None, **told: Any) -> LayeredRecall:
    return held.run(held.engine.search_texts(held.kb, query, top_k, **told))


def test_a_result_carries_what_the_seed_names(base: Opened) -> None:
    recall = texts(base, QUESTION, 3)
    first = recall.results[0]
    assert (first.doc_id, first.document_name, first.content) == ("住院", "住院.md", PROSE["住院"])
    assert first.doc.doc_id == "住院"
    assert 0.0 < first.score <= 1.0
    assert first.strategy in ("vector", "keyword", "expansion")
    assert first.layer in (1, 2, 3)
    assert "报销" in first.match_details["words"]
    assert first.metadata == {}
    assert first.table is None
    assert recall.wanted == 3
    assert not recall.degraded


def test_tables_are_no_prose(base: Opened) -> None:
    found = {result.doc_id for result in texts(base, "报销比例").results}
    assert "住院" in found
    assert not found & {"比例", "价目", "值班"}


def test_the_kind_is_asked_for_before_the_search(tmp_path: Any) -> None:
    """Sixty tables nearer to the question than the one passage would fill every place of a filter afterwards."""
    rows = "| 项目 | 住院费用报销比例 |\n| --- | --- |\n| 三级医院住院费用报销比例 | 85% |"
    many = [Document(f"表{at}", f"{rows}\n| 第{at}行 | {at}% |", format="markdown") for at in range(60)]
    with opened(tmp_path / "many", many) as held:
        assert texts(held, QUESTION, 2).results[0].doc_id == "住院"


def test_sorted_by_score_and_capped(base: Opened, tmp_path: Any) -> None:
    many = [Document(f"d{at:02}", f"第{at}号文件：住院费用的报销比例由参保地规定。") for at in range(45)]
    with opened(tmp_path / "many", many) as held:
        found = texts(held, "住院费用的报销比例").results
        assert len(found) == 30
        scores = [result.score for result in found]
        assert scores == sorted(scores, reverse=True)
        assert len({result.doc.key for result in found}) == 30
        assert len(texts(held, "住院费用的报销比例", 50).results) == 30
        assert len(texts(held, "住院费用的报销比例", 4).results) == 4


def test_the_same_question_gives_the_same_results(base: Opened) -> None:
    assert texts(base, QUESTION).results == texts(base, QUESTION).results


def test_a_filter_holds(base: Opened) -> None:
    assert texts(base, QUESTION, where=Eq("doc_id", "茶馆")).results == ()


def test_the_layers_say_what_they_did(base: Opened) -> None:
    recall = texts(base, QUESTION)
    assert [(run.layer, run.strategy) for run in recall.layers] == [(1, "vector"), (2, "keyword"), (3, "expansion")]
    assert sum(run.count for run in recall.layers) == len(recall.results)
    assert all(run.seconds > 0.0 for run in recall.layers if run.ran)


def test_a_short_question_is_met_by_words_alone(base: Opened) -> None:
    """Three words against a passage: cut at spaces, as the seed does it, they share nothing."""
    with without(base, "vector", "qa"):
        first = texts(base, "住院报销比例").results[0]
    assert (first.doc_id, first.strategy, first.layer) == ("住院", "keyword", 2)
    assert first.match_details["relevance"] >= 0.5


# ── what fails gives way ─────────────────────────────────────────────────────────────────────────


def test_without_vectors_keywords_answer(base: Opened) -> None:
    with without(base, "vector", "qa"):
        recall = texts(base, QUESTION)
    assert recall.results[0].doc_id == "住院"
    assert recall.results[0].strategy == "keyword"
    assert "vector" in {each.part for each in recall.degraded}
    assert recall.layers[0].failed


def test_without_keywords_vectors_answer(base: Opened) -> None:
    with without(base, "keyword"):
        recall = texts(base, PROSE["住院"])
    assert recall.results[0].doc_id == "住院"
    assert recall.results[0].strategy == "vector"
    assert "keyword" in {each.part for each in recall.degraded}
    assert recall.layers[1].failed


def test_without_related_words_what_there_is_is_returned(base: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise ModelUnavailable("词典读不出来")

    whole = texts(base, QUESTION)
    monkeypatch.setattr("qianxun.retrieve.layered.search.expanded", broken)
    recall = texts(base, QUESTION)
    assert {"住院"} <= {result.doc_id for result in recall.results} <= {result.doc_id for result in whole.results}
    assert [(each.part, each.reason) for each in recall.degraded] == [("expansion", "词典读不出来")]


def test_a_score_that_cannot_be_told_by_vector_is_told_by_words(base: Opened) -> None:
    long = "请问三级医院的住院费用报销比例是多少呢"
    assert texts(base, long).results[0].match_details["similarity"] is not None
    with without(base, "vector", "qa"):
        first = texts(base, long).results[0]
    assert first.match_details["similarity"] is None
    assert first.match_details["relevance"] > 0.0


def test_where_all_fail_the_list_is_empty_and_says_why(base: Opened) -> None:
    with without(base, "vector", "qa", "keyword"):
        recall = texts(base, QUESTION)
    assert recall.results == ()
    assert {"vector", "keyword"} <= {each.part for each in recall.degraded}
    assert "停了" in recall.degraded[0].reason


# ── related words ────────────────────────────────────────────────────────────────────────────────


def test_a_users_synonym_finds_and_is_shown(tmp_path: Any) -> None:
    with opened(tmp_path / "own", config={"synonyms": [["照明楼", "灯塔"]]}) as held:
        recall = texts(held, "照明楼几点亮起")
    found = {result.doc_id: result for result in recall.results}
    assert found["灯塔"].match_details["expansion"] == [{"word": "照明楼", "by": "灯塔", "origin": "user"}]


def test_a_shipped_synonym_finds(base: Opened) -> None:
    found = {result.doc_id: result for result in texts(base, "年假有几天").results}
    assert found["年休假"].match_details["expansion"][0]["origin"] == "shipped"


# ── settings and errors ──────────────────────────────────────────────────────────────────────────


def test_layers_can_be_turned_off(tmp_path: Any) -> None:
    only = TextEngine(similarity_threshold=1.0, use_keyword_search=False, use_expansion_search=False, max_results=5)
    told = Settings(data=str(tmp_path / "off"), text_engine=only)
    with opened(tmp_path / "off", settings=told) as held:
        recall = texts(held, QUESTION)
        assert recall.results == ()
        assert [run.ran for run in recall.layers] == [True, False, False]
        assert recall.wanted == 5
        held.run(held.engine.configure(held.kb, {"text_engine.similarity_threshold": 0.0}))
        assert texts(held, QUESTION).results


@pytest.mark.parametrize("query", ["", "  ", "问" * 3000])
def test_no_question_is_refused(base: Opened, query: str) -> None:
    with pytest.raises(BadQuery):
        texts(base, query)


def test_no_base_is_not_found(base: Opened) -> None:
    with pytest.raises(NotFound):
        base.run(base.engine.search_texts(999_999, QUESTION))


def test_what_is_deleted_is_not_found(tmp_path: Any) -> None:
    with opened(tmp_path / "gone") as held:
        assert texts(held, QUESTION).results[0].doc_id == "住院"
        held.run(held.engine.delete_document(held.kb, "住院"))
        assert "住院" not in {result.doc_id for result in texts(held, QUESTION).results}
