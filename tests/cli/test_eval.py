"""`qianxun eval` on a small set of its own, without a model; and on a public one with the model that ships."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qianxun.engine.admin.evaluate import embedding_model, evaluation_settings, ready_base
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load as load_settings
from qianxun.evaluation.dataset import Dataset, load
from tests.cli.conftest import Run
from tests.shared import DATA, MODELS, needs_data, needs_model

TEXTS = {
    "医保": "住院费用在职职工报销 85%，退休职工报销 90%，门诊费用报销 60%。",
    "差旅": "出差住宿每晚不超过 380 元，凭发票实报实销，超出部分自理。",
    "假期": "工作满一年的员工享有七天年休假，当年未休完的可顺延到次年三月。",
    "采购": "单价超过五千元的设备须比价三家，由部门负责人与财务共同审批。",
    "考勤": "上午九点上班，迟到半小时以上按旷工半天处理，须在当日补交说明。",
}
QUESTIONS = {"q1": "住院费用报销多少", "q2": "出差住宿的标准", "q3": "年休假有几天", "q4": "迟到怎么处理"}
RIGHT = {"q1": "医保", "q2": "差旅", "q3": "假期", "q4": "考勤"}
SHAPE = ["dataset", "documents", "queries", "index_seconds", "runs", "comparison"]
RUN = ["name", "ndcg@10", "mrr@10", "recall@10", "recall@100", "hit@1", "p50_ms", "p95_ms"]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "规章"
    folder.mkdir()
    _lines(folder / "corpus.jsonl", [{"_id": name, "title": name, "text": text} for name, text in TEXTS.items()])
    _lines(folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in QUESTIONS.items()])
    rows = "".join(f"{query}\t{document}\t1\n" for query, document in RIGHT.items())
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows, "utf-8")
    return folder


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def _folders(data: Path) -> list[Path]:
    return sorted((data / "evaluation").iterdir())


def test_json_has_exactly_the_shape_of_the_contract(run: Run, rules: Path) -> None:
    told = run("eval", rules, "--modes", "fulltext,hybrid", "--json")
    assert told.code == 0
    assert list(told.json) == SHAPE
    assert [list(each) for each in told.json["runs"]] == [RUN, RUN]
    assert [each["name"] for each in told.json["runs"]] == ["fulltext", "hybrid"]
    assert (told.json["dataset"], told.json["documents"], told.json["queries"]) == ("规章", 5, 4)
    assert told.json["comparison"] is None
    assert told.json["index_seconds"] > 0
    fulltext = told.json["runs"][0]
    assert {fulltext[name] for name in RUN[1:6]} == {1.0}
    assert 0 < fulltext["p50_ms"] <= fulltext["p95_ms"]
    assert "“vector”没有参加" in told.err  # hybrid without a model is said aloud


def test_without_a_model_the_words_are_measured_and_it_is_said(run: Run, rules: Path) -> None:
    told = run("eval", rules, "--json")
    assert [each["name"] for each in told.json["runs"]] == ["fulltext"]
    assert "只评测 fulltext" in told.err
    assert "models pull" in told.err


def test_people_see_a_table(run: Run, rules: Path) -> None:
    shown = run("eval", rules, "--modes", "fulltext", "--limit", "3").out
    assert "规章：5 个文档，3 个查询（从 4 个有标注的查询中按固定种子抽取）" in shown
    for title in ("nDCG@10", "MRR@10", "召回@10", "召回@100", "首条命中", "p50 ms", "p95 ms", "建索引"):
        assert title in shown
    assert "1.000" in shown
    english = run("--lang", "en", "eval", rules, "--modes", "fulltext", "--limit", "3").out
    assert "3 queries (drawn from 4 labelled ones with a fixed seed)" in english
    assert "used again" in english


def test_the_index_is_used_again_and_stays_out_of_the_users_bases(run: Run, rules: Path, tmp_path: Path) -> None:
    first = run("eval", rules, "--modes", "fulltext", "--json").json
    again = run("eval", rules, "--modes", "fulltext", "--json").json
    assert again["index_seconds"] == first["index_seconds"]  # as measured when it was built
    assert "沿用已建好的" in run("eval", rules, "--modes", "fulltext").out
    assert len(_folders(tmp_path / "qianxun-data")) == 1
    assert run("kb", "create", "我的").code == 0
    assert "evaluation" not in run("kb", "list").out


def test_another_corpus_or_way_of_cutting_is_another_index(run: Run, rules: Path, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("chunking: {chunk_size: 20, chunk_overlap: 0}\n", "utf-8")
    data = tmp_path / "qianxun-data"
    run("eval", rules, "--modes", "fulltext")
    run("eval", rules, "--modes", "fulltext", "--config", tmp_path / "short.yaml")
    assert len(_folders(data)) == 2
    _lines(rules / "queries.jsonl", [{"_id": "q1", "text": "换一个问法"}])
    run("eval", rules, "--modes", "fulltext")
    assert len(_folders(data)) == 2
    (rules / "corpus.jsonl").write_text((rules / "corpus.jsonl").read_text("utf-8").replace("85%", "80%"), "utf-8")
    run("eval", rules, "--modes", "fulltext")
    assert len(_folders(data)) == 3


def test_a_document_cut_into_chunks_counts_once(run: Run, rules: Path, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("chunking: {chunk_size: 20, chunk_overlap: 0}\n", "utf-8")
    told = run("eval", rules, "--modes", "fulltext", "--config", tmp_path / "short.yaml", "--json").json
    assert told["runs"][0]["name"] == "fulltext"
    assert told["runs"][0]["recall@10"] == 1.0
    (folder,) = _folders(tmp_path / "qianxun-data")
    assert json.loads((folder / "built.json").read_text("utf-8"))["chunks"] > 5


def test_two_configurations_are_compared(run: Run, rules: Path, tmp_path: Path) -> None:
    whole, short = tmp_path / "whole.yaml", tmp_path / "short.yaml"
    whole.write_text("search: {top_k: 5}\n", "utf-8")
    short.write_text("chunking: {chunk_size: 12, chunk_overlap: 0}\n", "utf-8")
    told = run("eval", rules, "--modes", "fulltext", "--config", whole, "--config", short, "--json").json
    assert [each["name"] for each in told["runs"]] == ["fulltext@whole", "fulltext@short"]
    compared = told["comparison"]
    assert (compared["metric"], compared["mode"], compared["queries"]) == ("ndcg@10", "fulltext", 4)
    means = [compared["a"]["mean"], compared["b"]["mean"]]
    assert means == [each["ndcg@10"] for each in told["runs"]]
    assert compared["difference"] == pytest.approx(means[1] - means[0], abs=1e-6)
    assert 0 < compared["p_value"] <= 1
    assert compared["significant"] is False
    assert {each["query_id"] for each in compared["moved"]} <= set(QUESTIONS)
    assert len(compared["modes"]) == 1
    shown = run("eval", rules, "--modes", "fulltext", "--config", whole, "--config", short).out
    assert "差异在 p<.05 下不显著" in shown


def test_a_configuration_compared_with_itself_does_not_differ(run: Run, rules: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("search: {top_k: 5}\n", "utf-8")
    both = ["--config", tmp_path / "a.yaml"] * 2
    told = run("eval", rules, "--modes", "fulltext", *both, "--json").json
    assert [each["name"] for each in told["runs"]] == ["fulltext@a#1", "fulltext@a#2"]
    assert (told["comparison"]["p_value"], told["comparison"]["moved"]) == (1.0, [])


# ── builds that were stopped ─────────────────────────────────────────────────────────────────────


async def _half_built(dataset: Dataset) -> Path:
    """As a killed process leaves it: some documents in, the build not signed off."""
    settings = load_settings()
    own = evaluation_settings(settings, dataset, embedding_model(settings))
    async with Engine.open(settings=own, background=False) as engine:
        base = await engine.create_knowledge_base("evaluation", model="none")
        await engine.add_documents(base.id, dataset.documents[:2])
    (own.folder / "spent.json").write_text('{"seconds": 100.0}', "utf-8")
    return own.folder


def test_a_stopped_build_goes_on_and_is_never_half_used(run: Run, rules: Path) -> None:
    folder = asyncio.run(_half_built(load(rules)))
    told = run("eval", rules, "--modes", "fulltext", "--json").json
    assert told["runs"][0]["recall@10"] == 1.0
    assert 100.0 < told["index_seconds"] < 160.0  # what the stopped build took is counted
    assert not (folder / "spent.json").exists()


@pytest.mark.parametrize("damage", ["", "{}", '{"seconds": 1}', "[]"])
def test_a_damaged_sign_off_is_made_anew(run: Run, rules: Path, tmp_path: Path, damage: str) -> None:
    run("eval", rules, "--modes", "fulltext")
    (folder,) = _folders(tmp_path / "qianxun-data")
    (folder / "built.json").write_text(damage, "utf-8")
    assert run("eval", rules, "--modes", "fulltext", "--json").json["runs"][0]["recall@10"] == 1.0
    assert json.loads((folder / "built.json").read_text("utf-8"))["documents"] == 5


def test_records_that_were_lost_are_noticed(run: Run, rules: Path, tmp_path: Path) -> None:
    run("eval", rules, "--modes", "fulltext")
    (folder,) = _folders(tmp_path / "qianxun-data")
    for path in folder.glob("qianxun.db*"):
        path.unlink()
    assert run("eval", rules, "--modes", "fulltext", "--json").json["runs"][0]["recall@10"] == 1.0


def test_a_document_without_text_does_not_stop_the_build(run: Run, rules: Path) -> None:
    with (rules / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "空", "title": "", "text": " "}\n')
    told = run("eval", rules, "--modes", "fulltext", "--json")
    assert told.json["documents"] == 6
    assert "1 个文档没有文字" in told.err
    assert "沿用" in run("eval", rules, "--modes", "fulltext").out


def test_an_overlong_query_counts_as_not_found_and_is_told(run: Run, rules: Path) -> None:
    _lines(rules / "queries.jsonl", [{"_id": "q1", "text": QUESTIONS["q1"]}, {"_id": "q2", "text": "长" * 3000}])
    told = run("eval", rules, "--modes", "fulltext", "--json")
    assert told.json["runs"][0]["hit@1"] == 0.5
    assert "1 个查询被拒绝" in told.err


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────────


def test_mistakes_are_told_with_what_to_do(run: Run, rules: Path, tmp_path: Path) -> None:
    for arguments, told in (
        ([tmp_path / "无"], "不是一个目录"),
        ([tmp_path], "缺少 corpus.jsonl、queries.jsonl、qrels.tsv"),
        ([rules, "--modes", "magic"], "没有检索方式 magic"),
        ([rules, "--modes", ","], "没有检索方式"),
        ([rules, "--modes", "vector"], "没有向量模型"),
        ([rules, "--modes", "rerank"], "没有向量模型"),
        ([rules, "--limit", "0"], "--limit"),
        ([rules, rules], "一次只评测一个目录"),
        ([rules, "--config", tmp_path / "无.yaml"], "读不了设置文件"),
        ([rules, *["--config", tmp_path / "a.yaml"] * 3], "至多两个"),
        ([rules, "--calibrate"], "没有向量模型"),
        ([rules, "--calibrate", "--modes", "vector"], "只看向量检索"),
    ):
        failed = run("eval", *arguments)
        assert failed.code == 2, arguments
        assert told in failed.err
        assert "→" in failed.err


def test_a_document_that_no_record_can_hold_is_named(run: Run, rules: Path) -> None:
    _lines(rules / "corpus.jsonl", [{"_id": "医保", "text": "正\x00文"}])
    failed = run("eval", rules, "--modes", "fulltext")
    assert (failed.code, "'医保'" in failed.err) == (2, True)


# ── with the model ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def finance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 120 documents of a public set, with the queries that they answer."""
    whole, folder = DATA / "beir" / "rageval_zh_fin", tmp_path_factory.mktemp("eval") / "finance"
    folder.mkdir()
    kept = load(whole).documents[:120]
    names = {document.id for document in kept}
    _lines(folder / "corpus.jsonl", [{"_id": document.id, "text": document.content} for document in kept])
    shutil.copy(whole / "queries.jsonl", folder)
    rows = [line for line in (whole / "qrels.tsv").read_text("utf-8").splitlines() if line.split("\t")[1] in names]
    (folder / "qrels.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def indexed(finance: Path) -> Path:
    """A data folder in which they are indexed with the model: built once."""
    data = finance.parent / "data"
    own = {"data": str(data), "vectorization.model_folders": [str(MODELS)]}
    settings, dataset = load_settings(environment={}, arguments=own), load(finance)

    async def build() -> None:
        model = embedding_model(settings)
        async with Engine.open(settings=evaluation_settings(settings, dataset, model), background=False) as engine:
            _, _, was_there = await ready_base(engine, dataset, model, lambda _: None)
            assert not was_there

    asyncio.run(build())
    return data


@pytest.fixture
def with_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model; nothing may be embedded but queries."""
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "bge-small-zh-v1.5")
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_FOLDERS", str(MODELS))

    def refuse(*_: object) -> None:
        raise AssertionError("a passage was embedded again")

    monkeypatch.setattr("qianxun.models.embedding.LazyEmbedding.embed_passages", refuse)


@pytest.mark.long
@needs_data
@needs_model
@pytest.mark.usefixtures("with_model")
def test_a_public_set_is_measured_and_nothing_is_embedded_twice(run: Run, finance: Path, indexed: Path) -> None:
    arguments = ("--modes", "vector,fulltext,hybrid,rerank", "--limit", "6", "--json")
    told = run("--data", indexed, "eval", finance, *arguments)
    assert told.code == 0
    assert "没有参加" not in told.err
    vector, fulltext, hybrid, rerank = (each["ndcg@10"] for each in told.json["runs"])
    assert min(vector, fulltext) > 0.5
    assert hybrid > 0.7
    assert rerank > 0.7


@needs_data
@needs_model
@pytest.mark.usefixtures("with_model")
def test_a_calibration_brings_scores_nearer_to_the_truth(run: Run, finance: Path, indexed: Path) -> None:
    told = run("--data", indexed, "eval", finance, "--calibrate", "--limit", "40", "--json")
    found = told.json
    assert 0.5 < found["midpoint"] < 0.9
    assert found["slope"] > 0
    assert found["candidates"] >= 1000
    assert found["ece"]["after"] < found["ece"]["before"]
    assert found["held_out_ece"]["after"] < found["held_out_ece"]["before"]
    shown = run("--data", indexed, "eval", finance, "--calibrate", "--limit", "10").out
    assert "calibration_midpoint" in shown


def test_tune_compares_settings_on_questions_and_says_where_nothing_is_better(run: Run, rules: Path) -> None:
    kinds = ("北京", "上海")
    texts = {f"{kind}{name}": f"{kind}分部{text}" for name, text in TEXTS.items() for kind in kinds}
    for name, text in texts.items():
        (rules / f"{name}.txt").write_text(text, "utf-8")
    assert run("kb", "create", "规章").code == 0
    assert run("add", *(rules / f"{name}.txt" for name in texts), "--kb", "规章").code == 0
    told = run("tune", "--kb", "规章", "--json")
    assert told.code == 0
    assert (told.json["origin"], told.json["questions"], told.json["best"]) == ("made", len(texts), None)
    assert [one["name"] for one in told.json["attempts"]] == ["as_is"]  # without a model there is one way
    shown = run("tune", "--kb", "规章", "--apply")
    assert "没有哪一项显著更好" in shown.out
    assert "不拿它们试权重" in shown.err
    few = run("tune", "--kb", "规章", "--limit", "2")
    assert few.code == 2
    assert "看不出差别" in few.err
    assert "例如 --chunk-sizes" in run("tune", "--kb", "规章", "--chunk-sizes", "大").err
