"""The numbers are right, and no label holds what somebody wrote."""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.exc import OperationalError

from qianxun import Document, Engine
from qianxun.core.answer_types import Answer, Flag, FlagKind, Form, TraceStep
from qianxun.core.codec.labels import labels
from qianxun.core.errors import RecallFailed
from qianxun.core.layered_types import LayerRun
from qianxun.core.log_types import IndexTime, Recalled
from qianxun.core.types import Degraded, Recall, StepTime
from qianxun.doors.http.middleware.metrics import (
    ANSWER_PARTS,
    ARM_NAMES,
    FLAGS,
    FORMS,
    GRAPH_STAGES,
    PARTS,
    STAGES,
    TABLE_ANSWERS,
    AnswerTime,
    Metrics,
)
from qianxun.engine.facades import Admin
from qianxun.testing.scripted import ScriptedEmbedding
from tests.http.watched import client, real_app, small_app
from tests.layered.recalls import DECLINED, TABLES, TEXTS

QUERY = "医保报销比例是多少"
SEARCHES = "rag_search_duration_seconds_count"


def _value(metrics: Metrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(name, labels)
    assert found is not None, (name, labels)
    return found


def _answer(**more: Any) -> Recall:
    return Recall(QUERY, "hybrid", (), **more)


# ── one search at a time ─────────────────────────────────────────────────────────────────────────


def test_each_stage_is_timed_by_mode_and_unknown_ones_have_no_name_of_their_own() -> None:
    metrics = Metrics()
    steps = (StepTime("fuse", 0.2), StepTime("fuse", 0.3), StepTime("recall.graph", 4.0))
    metrics.recalled(Recalled("hybrid", 1.0, 5.0, _answer(steps=steps)))
    metrics.recalled(Recalled("fulltext", 1.0, 2.0, _answer()))
    total = "rag_search_duration_seconds_sum"
    assert _value(metrics, total, mode="hybrid", stage="total") == 5.0
    assert _value(metrics, total, mode="hybrid", stage="fuse") == 0.5
    assert _value(metrics, total, mode="hybrid", stage="other") == 4.0
    assert _value(metrics, total, mode="fulltext", stage="total") == 2.0
    assert _value(metrics, SEARCHES, mode="hybrid", stage="fuse") == 2


def test_an_answer_from_the_cache_is_a_hit_and_took_no_steps() -> None:
    metrics = Metrics()
    metrics.recalled(Recalled("hybrid", 1.0, 0.5, _answer(steps=(StepTime("fuse", 0.0),), from_cache=True)))
    metrics.recalled(Recalled("hybrid", 1.0, 0.5, _answer(steps=(StepTime("fuse", 0.1),))))
    assert (_value(metrics, "rag_cache_hits_total"), _value(metrics, "rag_cache_misses_total")) == (1, 1)
    assert _value(metrics, SEARCHES, mode="hybrid", stage="fuse") == 1
    assert _value(metrics, SEARCHES, mode="hybrid", stage="total") == 2


def test_where_nothing_is_kept_nothing_is_missed() -> None:
    metrics = Metrics(has_cache=False)
    metrics.recalled(Recalled("hybrid", 1.0, 0.5, _answer()))
    assert _value(metrics, "rag_cache_misses_total") == 0


def test_parts_that_are_missing_are_counted_once_an_answer_and_arms_among_them() -> None:
    metrics = Metrics()
    parts = ("vector", "vector", "rerank", "graph 糖尿病", "document")
    told = tuple(Degraded(part, f"原因 {at}") for at, part in enumerate(parts))
    metrics.recalled(Recalled("hybrid", 1.0, 0.5, _answer(degraded=told)))
    degraded = {part: _value(metrics, "rag_degraded_total", part=part) for part in (*PARTS, "other")}
    assert degraded == {**dict.fromkeys(PARTS, 0), "vector": 1, "rerank": 1, "document": 1, "other": 1}
    failures = {arm: _value(metrics, "rag_arm_failures_total", arm=arm) for arm in (*ARM_NAMES, "other")}
    assert failures == {"vector": 1, "keyword": 0, "qa": 0, "other": 1}


def test_a_search_whose_every_arm_failed_is_neither_empty_nor_missed() -> None:
    metrics = Metrics()
    metrics.recalled(Recalled("vector", 1.0, 0.5, None))
    assert _value(metrics, "rag_search_failures_total") == 1
    assert [_value(metrics, "rag_arm_failures_total", arm=arm) for arm in ARM_NAMES] == [1, 0, 1]
    assert [_value(metrics, f"rag_{name}_total") for name in ("zero_results", "cache_misses")] == [0, 0]


def test_index_work_is_timed_and_its_documents_counted() -> None:
    metrics = Metrics()
    metrics.indexed(IndexTime(1, 3, 0.25, 1))
    metrics.indexed(IndexTime(2, 1, 0.5, 0))
    assert _value(metrics, "rag_index_duration_seconds_sum") == 0.75
    assert _value(metrics, "rag_index_duration_seconds_count") == 2
    assert (_value(metrics, "rag_indexed_documents_total"), _value(metrics, "rag_index_failures_total")) == (4, 1)


def test_layers_are_counted_where_they_ran_and_unknown_ones_have_no_name_of_their_own() -> None:
    metrics = Metrics()
    strange = replace(TEXTS, layers=(*TEXTS.layers, LayerRun(4, "住院", True, count=1, best=0.4)), results=())
    for recall in (TEXTS, TABLES, DECLINED, strange):
        metrics.layered_recalled(recall)
    sums = "rag_layer_duration_seconds_sum"
    assert _value(metrics, sums, engine="text", layer="vector") == pytest.approx(0.024)
    assert _value(metrics, sums, engine="text", layer="total") == pytest.approx(0.04)
    assert _value(metrics, "rag_layer_duration_seconds_count", engine="table", layer="semantic") == 0  # it did not run
    assert _value(metrics, "rag_layer_results_sum", engine="table", layer="structure") == 2
    assert _value(metrics, "rag_layer_score_sum", engine="text", layer="keyword") == pytest.approx(1.1)
    assert _value(metrics, "rag_layer_score_count", engine="text", layer="expansion") == 0  # it let nothing in
    assert _value(metrics, "rag_layer_failures_total", engine="text", layer="expansion") == 2
    assert _value(metrics, "rag_layer_results_sum", engine="text", layer="other") == 1
    assert _value(metrics, "rag_degraded_total", part="expansion") == 2
    assert [_value(metrics, "rag_table_answers_total", outcome=each) for each in TABLE_ANSWERS] == [1, 1]
    assert (_value(metrics, "rag_search_results_count"), _value(metrics, "rag_zero_results_total")) == (4, 1)


def test_what_a_layered_search_may_lack_has_a_name_for_operators_and_for_people() -> None:
    """Whatever `degraded` names: the layers, candidates beyond the first, the answer from tables."""
    metrics = Metrics()
    parts = ("structure", "semantic", "expansion", "depth", "answer")
    metrics.layered_recalled(replace(TABLES, degraded=tuple(Degraded(part, "停了") for part in parts)))
    assert [_value(metrics, "rag_degraded_total", part=part) for part in (*parts, "other")] == [1, 1, 1, 1, 1, 0]
    assert set(parts) <= labels("parts").keys()


def test_answers_are_counted_by_who_made_them_and_what_was_wrong_with_them() -> None:
    metrics = Metrics()
    flags = tuple(Flag(kind, "85%", "没有出处") for kind in get_args(FlagKind))
    degraded = (*(Degraded(part, "停了") for part in ANSWER_PARTS), Degraded("vector", "与检索一起数过了"))
    trace = (TraceStep("retrieve", "rules", {}, 0.2), TraceStep("generate_answer", "model:qwen", {}, 1.5))
    answer = Answer("住院报销 85%[1]。", form="model", mode="local", flags=flags, degraded=degraded, trace=trace)
    metrics.answered(AnswerTime("mix", "done", 2.0, answer, 0.4))
    metrics.answered(AnswerTime("auto", "left", 9.0))
    assert _value(metrics, "rag_answers_total", mode="local", form="model", outcome="done") == 1
    assert _value(metrics, "rag_answers_total", mode="other", form="other", outcome="left") == 1
    assert _value(metrics, "rag_answer_duration_seconds_sum", mode="local") == 2.0
    assert _value(metrics, "rag_answer_duration_seconds_count", mode="other") == 0
    assert _value(metrics, "rag_answer_first_word_seconds_sum", mode="local") == 0.4
    assert _value(metrics, "rag_answer_stage_seconds_sum", stage="generate_answer") == 1.5
    assert [_value(metrics, "rag_answer_flags_total", kind=kind) for kind in (*FLAGS, "other")] == [1] * len(FLAGS) + [
        0
    ]
    assert [_value(metrics, "rag_degraded_total", part=part) for part in ANSWER_PARTS] == [1] * len(ANSWER_PARTS)
    assert _value(metrics, "rag_degraded_total", part="vector") == 0
    assert set(FLAGS) == set(get_args(FlagKind))
    assert set(FORMS) == set(get_args(Form))
    assert set(ANSWER_PARTS) <= labels("parts").keys()


def test_two_services_in_one_process_count_for_themselves() -> None:
    first, second = Metrics(), Metrics()
    first.recalled(Recalled("hybrid", 1.0, 0.5, _answer()))
    assert (_value(first, "rag_zero_results_total"), _value(second, "rag_zero_results_total")) == (1, 0)
    assert isinstance(first.registry, CollectorRegistry)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


def test_requests_are_counted_by_template_and_status() -> None:
    metrics = Metrics()

    async def ask() -> None:
        async with client(small_app(metrics)) as asking:
            for path in ("/well/医保", "/well/糖尿病", "/nowhere/医保", "/number?at=糖尿病", "/broken"):
                await asking.get(path)
            await asking.request("糖尿病".encode().hex(), "/well/a")

    asyncio.run(ask())
    counted = {
        (each.labels["method"], each.labels["route"], each.labels["status"]): each.value
        for family in metrics.registry.collect()
        for each in family.samples
        if each.name == "http_requests_total"
    }
    assert counted == {
        ("GET", "/well/{name}", "200"): 2,
        ("GET", "other", "404"): 1,
        ("GET", "/number", "422"): 1,
        ("GET", "/broken", "500"): 1,
        ("other", "/well/{name}", "405"): 1,
    }
    assert _value(metrics, "http_request_duration_seconds_count", route="/well/{name}") == 3
    assert _value(metrics, "http_requests_in_flight") == 0


# ── the real service ─────────────────────────────────────────────────────────────────────────────


async def _scraped(app: FastAPI, **headers: str) -> str:
    async with client(app, **headers) as asking:
        told = await asking.get("/metrics")
    assert told.status_code == 200
    return told.text


def _samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_the_engine_does_is_told(tmp_path: Path) -> None:
    async def run() -> dict[tuple[str, tuple[str, ...]], float]:
        model = ScriptedEmbedding(on="queries")
        async with real_app(tmp_path, model) as (engine, app):
            base = await engine.create_knowledge_base("医保库", model=model.name)
            await engine.add_documents(base.id, [Document("a", "医保报销比例为百分之七十。")])
            await engine.add_documents(base.id, [Document("b", "糖尿病的诊断标准。")], wait=False)
            await engine.retrieve(base.id, QUERY)
            await engine.retrieve(base.id, QUERY)
            await engine.of("local").retrieve(base.id, "zzzz", mode="fulltext")
            model.error = RuntimeError("down")
            await engine.retrieve(base.id, "住院报销")
            with pytest.raises(RecallFailed):
                await engine.retrieve(base.id, "住院报销", mode="vector")
            return _samples(await _scraped(app))

    told = asyncio.run(run())
    assert [told[SEARCHES, (mode, "total")] for mode in ("hybrid", "vector", "fulltext")] == [3, 1, 1]
    assert told[SEARCHES, ("hybrid", "recall.keyword")] == 2
    assert told[SEARCHES, ("hybrid", "recall.vector")] == 1
    assert told[SEARCHES, ("hybrid", "other")] == 0  # every step's name is a known one
    assert told["rag_cache_hits_total", ()] == 1
    assert told["rag_cache_misses_total", ()] == 3
    assert told["rag_search_results_count", ()] == 4
    assert told["rag_zero_results_total", ()] == 1
    assert told["rag_degraded_total", ("vector",)] == 1
    assert told["rag_arm_failures_total", ("vector",)] == 2
    assert told["rag_search_failures_total", ()] == 1
    assert told["rag_index_duration_seconds_count", ()] == 1
    assert told["rag_queue_depth", ()] == 1
    assert told["process_cpu_seconds_total", ()] > 0


def test_no_label_holds_what_somebody_wrote(tmp_path: Path) -> None:
    canaries = ("kumquat", "金橘", "loquat")

    async def run() -> str:
        model = ScriptedEmbedding(name="kumquat-model", on="queries")
        async with real_app(tmp_path, model) as (engine, app):
            base = await engine.create_knowledge_base("金橘 kumquat", model=model.name)
            await engine.add_documents(base.id, [Document("kumquat", "金橘 loquat", name="金橘.txt")])
            async with client(app) as asking:
                for path in (f"/v1/retrieval/{base.id}", "/v1/retrieval/金橘", "/kumquat", "/v1/kumquat?q=金橘"):
                    await asking.post(path, json={"query": "金橘 @kumquat @loquat"})
                await asking.get(f"/v1/knowledge-bases/{base.id}/documents/kumquat")
            model.error = RuntimeError("down")
            await engine.retrieve(base.id, "金橘 loquat @不存在的金橘")
            return await _scraped(app)

    told = asyncio.run(run())
    assert not [line for line in told.splitlines() if any(each in line for each in canaries)]


def test_every_stage_of_the_pipeline_has_a_name_here() -> None:
    source = Path(__file__).resolve().parents[2] / "src" / "qianxun"
    timed = {
        part.split('"')[1]
        for path in source.rglob("*.py")
        for part in path.read_text(encoding="utf-8").split(".timed(")[1:]
        if part.startswith('"')
    }
    assert {"rewrite", "fuse", "judge", "graph"} <= timed <= {*STAGES, *GRAPH_STAGES}


def test_openmetrics_is_spoken_where_it_is_asked_for(tmp_path: Path) -> None:
    async def run() -> tuple[str, str]:
        async with real_app(tmp_path, ScriptedEmbedding(on="queries")) as (_, app):
            return await _scraped(app), await _scraped(app, accept="application/openmetrics-text; version=1.0.0")

    plain, newer = asyncio.run(run())
    assert not plain.endswith("# EOF\n")
    assert newer.endswith("# EOF\n")


def test_the_other_numbers_are_told_while_the_database_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: Engine) -> int:
        raise OperationalError("select", {}, Exception("no database"))

    async def run() -> str:
        async with real_app(tmp_path, ScriptedEmbedding(on="queries")) as (_, app):
            monkeypatch.setattr(Admin, "queue_depth", away)
            return await _scraped(app)

    told = _samples(asyncio.run(run()))
    assert math.isnan(told["rag_queue_depth", ()])
    assert told["rag_zero_results_total", ()] == 0


def test_the_manual_names_every_number_and_no_other() -> None:
    manual = (Path(__file__).resolve().parents[2] / "docs" / "operations" / "observability.md").read_text("utf-8")
    table = manual.split("<!-- metrics:")[1].split("\n\n")[0]
    told = re.findall(r"`((?:rag|http)_[a-z_]+)", table)
    families = [family for family in Metrics().registry.collect() if not family.name.startswith("process_")]
    held = [f"{each.name}_total" if each.type == "counter" else each.name for each in families]
    assert sorted(told) == sorted(held)
    stages = set(re.findall(r"`([a-z.]+)`", table.split("`stage`：")[1].split("。")[0]))
    assert stages == set(STAGES)
