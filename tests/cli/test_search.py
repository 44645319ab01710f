from __future__ import annotations

import shlex
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from qianxun.core.codec.labels import labels
from qianxun.core.explanation import NO_DECISIONS
from qianxun.core.types import ArmScore, Attributes, Chunk, Found
from qianxun.doors.cli.views.drawing import bar
from qianxun.doors.cli.views.explain import show_hit
from qianxun.doors.http.middleware.metrics import STAGES, TOTAL
from qianxun.retrieve.arms import STANDARD
from tests.cli.conftest import Run
from tests.shared import MODELS, needs_model


def test_json_has_the_shape_of_the_retrieval_contract(handbook: Run) -> None:
    told = handbook("search", "QH-2087", "--kb", "手册", "--top-k", "1", "--json").json
    assert {"knowledge_base_id", "doc_ids", "time_cost_ms", "trace_id", "tier", "degraded", "chunks"} <= set(told)
    assert (len(told["trace_id"]), told["queries"], told["from_cache"]) == (32, ["QH-2087"], False)
    (chunk,) = told["chunks"]
    assert {"chunk_id", "doc_id", "doc_name", "content", "score", "source", "highlights", "metadata"} <= set(chunk)
    assert (chunk["doc_name"], chunk["source"], chunk["kind"]) == ("价目.csv", "keyword", "table")
    assert [place for place in chunk["highlights"] if "QH-2087" in place]
    assert told["tier"] == chunk["tier"] == "strict"
    assert 0 < chunk["score"] <= 1


def test_every_step_of_a_search_has_a_name_for_people() -> None:
    assert set(STAGES) - {TOTAL} <= {*labels("steps"), *(f"recall.{arm.name}" for arm in STANDARD)}


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
    assert "發票" in told["chunks"][0]["highlights"][0]


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


WRONG = (
    ["发票", "--weights", "vector"],
    ["发票", "--weights", "vector=x"],
    ["发票", "--weights", "smell=1"],
    ["发票", "--weights", "vector=0,keyword=0"],
    ["发票", "--weights", "vector=nan"],
    ["发票", "--fusion", "magic"],
    ["发票", "--rerank", "没有"],
    ["发票", "--why", "没有"],
    ["发票", "--why", "c_1001_没有_0"],
)


def test_bad_queries_are_mistakes(handbook: Run) -> None:
    for wrong in (["  "], ["发票", "--top-k", "0"], ["发票", "--threshold", "2"], ["发票", "--mode", "magic"], *WRONG):
        assert handbook("search", *wrong, "--kb", "手册").code == 2


# ── explain ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("columns", ["30", "44", "80", "120"])
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_an_explanation_is_drawn_and_keeps_to_the_width(
    handbook: Run, monkeypatch: pytest.MonkeyPatch, columns: str, lang: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = handbook("--lang", lang, "search", "出差住宿发票", "--kb", "手册", "--explain").out
    assert all(cell_len(line) <= int(columns) for line in shown.splitlines())
    assert "█" in shown
    assert "{" not in shown  # no JSON for people
    assert "\x1b" not in shown


def test_an_explanation_tells_arms_sum_tier_words_and_times(handbook: Run) -> None:
    shown = handbook("search", "出差住宿发票", "--kb", "手册", "-k", "1", "--explain").out
    told = handbook("search", "出差住宿发票", "--kb", "手册", "-k", "1", "--explain", "--json").json
    (chunk,) = told["chunks"]
    figures = chunk["explain"]
    assert f"1.00×{figures['votes']['keyword']['score']:.3f} = {figures['fused']:.3f}" in shown
    assert f"BM25 {chunk['arms']['keyword']['raw']:.2f}" in shown
    assert "第 1 名" in shown
    assert "严格，命中 出差、住宿、发票" in shown
    assert chunk["chunk_id"] in shown
    assert shown.startswith("搜索 出差住宿发票\n用时 ")
    assert figures["score"] == chunk["score"] == pytest.approx(figures["fused"])


def test_a_fuzzy_result_says_what_it_lacks_to_be_strict(handbook: Run) -> None:
    shown = handbook(
        "search", "出差住宿发票的火星基地驻留补贴和月球加班工资", "--kb", "手册", "-k", "1", "--explain"
    ).out
    assert "不算严格：命中的词未过半" in "".join(shown.split())
    assert "不算严格" not in handbook("search", "出差住宿发票", "--kb", "手册", "-k", "1", "--explain").out


def test_a_high_score_of_words_is_no_strict_result_where_the_meaning_is_far() -> None:
    chunk = Chunk(1, "c_1_a_0", "a", "手册.md", 0, "住院报销。", 0, 5, "text", (), None, 1, Attributes("a"))
    found = Found(chunk, 1.0, "hybrid", {"vector": ArmScore(1, 0.65, 0.542)}, "fuzzy", ("住院",), 1.0)
    shown = StringIO()
    show_hit(Console(width=200, file=shown), found, None, NO_DECISIONS)
    assert "模糊，命中 住院（占问题的 100%）；不算严格：语义相似 0.542，未过 0.7\n" in shown.getvalue()


def test_what_was_searched_for_names_the_correction(handbook: Run) -> None:
    told = handbook("search", "年休甲", "--kb", "手册", "--explain", "--json").json
    shown = handbook("search", "年休甲", "--kb", "手册", "--explain").out
    assert told["queries"] == ["年休甲", "年休假"]
    assert "也按这样的说法：年休假" in shown
    assert handbook("search", "年休甲", "--kb", "手册", "--no-fuzzy", "--json").json["queries"] == ["年休甲"]


def test_without_explain_there_is_none(handbook: Run) -> None:
    told = handbook("search", "发票", "--kb", "手册", "--json").json
    assert "why" not in told
    assert all("explain" not in chunk for chunk in told["chunks"])


@pytest.mark.parametrize(
    ("options", "step"),
    [
        (["-k", "1"], "top_k"),
        (["--threshold", "0.9"], "threshold"),
        (["--threshold", "0.9", "-k", "1"], "threshold"),
        (["--no-fuzzy"], "tier"),
        (["--user", "张三"], "filter"),
        (["--type", "甲 乙", "--tag", "x'y", "--project", "$p"], "filter"),
        (["--mode", "fulltext", "-k", "1", "--fusion", "rrf"], "top_k"),
        (["--weights", "vector=.7,keyword=.3", "-k", "1", "--rerank", "none"], "top_k"),
        (["--doc", "别的"], "filter"),
    ],
)
def test_the_command_of_a_why_can_be_copied_and_works(handbook: Run, options: list[str], step: str) -> None:
    query = "编号 和 住宿 发票"
    every = handbook("search", query, "--kb", "手册", "--json").json["chunks"]
    missed = every[-1]["chunk_id"]
    asked = ["search", query, "--kb", "手册", *options, "--why", missed]
    why = handbook(*asked, "--json").json["why"]
    assert (why["returned"], why["step"]) == (False, step)
    shown = handbook(*asked).out
    assert why["command"] in shown
    assert "".join(why["reason"].split()) in "".join(shown.split())
    assert missed in _found(handbook, why["command"])


def _found(run: Run, command: str) -> list[Any]:
    program, *arguments = shlex.split(command)
    assert program == "qianxun"
    outcome = run(*arguments, "--json")
    assert outcome.code == 0
    return [chunk["chunk_id"] for chunk in outcome.json["chunks"]]


@pytest.mark.parametrize("query", ["-发票 和编号", "--发票", "'发票' $HOME `编号`", "@制度 编号 发票"])
def test_a_hostile_query_is_quoted(handbook: Run, query: str) -> None:
    every = handbook("search", "--kb", "手册", "--json", "--", query).json["chunks"]
    chunk_id = every[-1]["chunk_id"]
    why = handbook("search", "--kb", "手册", "--threshold", "1", "--json", "--why", chunk_id, "--", query).json["why"]
    assert why["returned"] or chunk_id in _found_as(handbook, why["command"])


def _found_as(run: Run, command: str) -> list[Any]:
    _, *arguments = shlex.split(command)
    outcome = run("search", "--json", *arguments[1:])
    return [chunk["chunk_id"] for chunk in outcome.json["chunks"]]


def test_why_a_returned_chunk_is_there(handbook: Run) -> None:
    best = handbook("search", "发票", "--kb", "手册", "--json").json["chunks"][0]["chunk_id"]
    shown = handbook("search", "发票", "--kb", "手册", "--why", best).out
    assert "✓ 已返回，第 1 条" in shown
    assert "→" not in shown.splitlines()[-1]


def test_bars_are_as_long_as_scores_are_high() -> None:
    assert bar(1.0, 8) == "████████"
    assert bar(0.5, 8) == "████    "
    assert bar(0.0, 8) == " " * 8
    assert bar(1e-9, 8).strip() == "▏"  # something is not nothing
    assert bar(7.0, 8) == bar(1.0, 8)
    assert [cell_len(bar(at / 50, 8)) for at in range(51)] == [8] * 51


@needs_model
def test_with_a_model_every_figure_of_a_hybrid_search_is_drawn(
    run: Run, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "bge-small-zh-v1.5")
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_FOLDERS", str(MODELS))
    run("kb", "create", "手册")
    run("add", files, "--kb", "手册")
    asked = ["search", "出差住一晚能报多少", "--kb", "手册", "--rerank", "maxsim", "--explain"]
    shown, told = run(*asked).out, run(*asked, "--json").json
    for chunk in told["chunks"]:
        figures = chunk["explain"]
        votes, share = figures["votes"], figures["rerank_share"]
        fused = sum(vote["weight"] * vote["score"] for vote in votes.values())
        assert fused / sum(vote["weight"] for vote in votes.values()) == pytest.approx(figures["fused"])
        assert (1 - share) * figures["fused"] + share * figures["rerank"] == pytest.approx(figures["total"])
        assert f"→ {figures['score']:.3f}" in shown
        assert f"余弦 {chunk['arms']['vector']['raw']:.3f}" in shown
    assert told["chunks"]


def test_an_arm_that_did_not_take_part_is_named_in_english(handbook: Run) -> None:
    assert "! The vector arm did not take part" in handbook("--lang", "en", "search", "住宿", "--kb", "手册").err


def test_a_search_is_filtered_by_metadata(handbook: Run, tmp_path: Path) -> None:
    for year, team in ((2023, "财务"), (2024, "财务"), (2025, "法务")):
        file = tmp_path / f"{year}.txt"
        file.write_text(f"{year} 年的琥珀计划。", "utf-8")
        assert handbook("add", file, "--kb", "手册", "--meta", f"年份={year}", "--meta", f"部门={team}").code == 0

    def found(*conditions: str) -> set[str]:
        flags = [word for condition in conditions for word in ("--where", condition)]
        chunks = handbook("search", "琥珀计划", "--kb", "手册", "--json", *flags).json["chunks"]
        return {chunk["doc_name"] for chunk in chunks}

    assert found("年份=2024") == {"2024.txt"}
    assert found("年份>=2024") == {"2024.txt", "2025.txt"}
    assert found("年份>=2024", "部门=财务") == {"2024.txt"}
    assert "2025.txt" not in found("部门!=法务")
    assert found('{"or": [{"metadata.年份": 2023}, {"metadata.部门": {"starts": "法"}}]}') == {"2023.txt", "2025.txt"}
    assert found('年份="2024"') == set()
    for wrong in ("年份>", "年份", "=2024", "{坏"):
        refused = handbook("search", "琥珀", "--kb", "手册", "--where", wrong)
        assert (refused.code, "年份>=2020" in refused.err) == (2, True)
    explained = handbook("search", "琥珀计划", "--kb", "手册", "--where", "年份>=2024", "--explain")
    assert explained.code == 0
