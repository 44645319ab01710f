from __future__ import annotations

from tests.cli.conftest import Run


def test_json_has_the_shape_of_the_retrieval_contract(handbook: Run) -> None:
    told = handbook("search", "QH-2087", "--kb", "手册", "--top-k", "1", "--json").json
    assert {"knowledge_base_id", "doc_ids", "time_cost_ms", "degraded", "chunks"} <= set(told)
    (chunk,) = told["chunks"]
    assert {"chunk_id", "doc_id", "doc_name", "content", "score", "source", "highlights", "metadata"} <= set(chunk)
    assert (chunk["doc_name"], chunk["source"], chunk["kind"]) == ("价目.csv", "keyword", "table")
    assert "QH-2087" in chunk["highlights"]
    assert 0 < chunk["score"] <= 1


def test_people_see_rank_score_place_and_the_row_that_matches(handbook: Run) -> None:
    shown = handbook("search", "QH-2087", "--kb", "手册", "--top-k", "1").out
    assert shown.splitlines()[0].split()[0] == "1"
    assert "词语" in shown
    assert "价目.csv" in shown
    assert "升降书桌" in shown
    assert "复印纸" not in shown


def test_the_heading_path_stands_in_the_title_only(handbook: Run) -> None:
    shown = handbook("search", "出差住宿", "--kb", "手册", "--top-k", "1").out
    assert "制度.md › 差旅" in shown
    assert shown.count("差旅") == 1


def test_traditional_and_simplified_meet(handbook: Run) -> None:
    told = handbook("search", "发票", "--kb", "手册", "--json").json
    assert told["chunks"][0]["highlights"] == ["發票"]


def test_a_document_id_narrows_the_search(handbook: Run) -> None:
    everything = handbook("search", "编号 假期", "--kb", "手册", "--json").json["chunks"]
    chosen = everything[0]["doc_id"]
    narrowed = handbook("search", "编号 假期", "--kb", "手册", "--doc", chosen, "--json").json
    assert {chunk["doc_id"] for chunk in narrowed["chunks"]} == {chosen} != {chunk["doc_id"] for chunk in everything}
    assert narrowed["doc_ids"] == [chosen]


def test_nothing_found_gives_advice_and_is_no_error(handbook: Run) -> None:
    empty = handbook("search", "量子纠缠", "--kb", "手册", "--threshold", "0.9")
    assert empty.code == 0
    assert "没有找到" in empty.out
    assert "--threshold" in empty.out


def test_a_base_without_a_model_cannot_be_searched_by_vector(handbook: Run) -> None:
    failed = handbook("search", "发票", "--kb", "手册", "--mode", "vector", "--json")
    assert (failed.code, failed.json["error"]) == (1, "recall_failed")


def test_bad_queries_are_mistakes(handbook: Run) -> None:
    for wrong in (["  "], ["发票", "--top-k", "0"], ["发票", "--threshold", "2"], ["发票", "--mode", "magic"]):
        assert handbook("search", *wrong, "--kb", "手册").code == 2
