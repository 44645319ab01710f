"""Layered recall over HTTP: prose alone, tables alone with what their cells answer, in the contract's form."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.layered_types import Operation, TableShown
from qianxun.core.types import Document
from qianxun.doors.http.middleware.metrics import LAYERS
from qianxun.doors.http.native.layered import (
    LayerInfo,
    TableAnswerInfo,
    TableRecalled,
    TablesResponse,
    TextRecalled,
    TextsResponse,
)
from qianxun.doors.http.response_models import of
from tests.http.asking import Asking, asking

PAGE = """# 报销比例

下表列出住院与门诊的报销比例，以当年公布的为准。

| 类别 | 报销比例 |
| --- | --- |
| 住院 | 85% |
| 门诊 | 70% |
"""
LIBRARY = (
    Document("手册", PAGE, name="手册.md", format="markdown", metadata={"年份": 2024}),
    Document("通知", "住院的报销比例另行通知。", name="通知.txt", user_id="u7"),
)
CONTRACT = {"doc_id", "document_name", "content", "score", "strategy", "layer", "match_details", "metadata"}


async def recalled(at: Asking, base: int, what: str, **body: Any) -> dict[str, Any]:
    response = await at.post(f"/v1/recall/{base}/{what}", {"query": "住院的报销比例", **body})
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def told(folder: Path, story: Any, settings: Mapping[str, Any] | None = None) -> None:
    async def run() -> None:
        async with asking(folder, settings) as at:
            await story(at, await at.base(*LIBRARY))

    asyncio.run(run())


def test_each_finds_its_own_kind(tmp_path: Path) -> None:
    async def story(at: Asking, base: int) -> None:
        prose, tables = await recalled(at, base, "texts"), await recalled(at, base, "tables")
        assert {each["doc_id"] for each in prose["results"]} == {"手册", "通知"}
        assert not any("85%" in each["content"] for each in prose["results"])
        assert [each["doc_id"] for each in tables["results"]] == ["手册"]
        assert "85%" in tables["results"][0]["content"]
        assert tables["results"][0]["metadata"]["年份"] == 2024
        assert isinstance(tables["results"][0]["match_details"], dict)
        for answer in (prose, tables):
            scores = [each["score"] for each in answer["results"]]
            assert scores == sorted(scores, reverse=True)
            assert len(answer["trace_id"]) == 32

    told(tmp_path, story)


def test_what_is_answered_is_what_is_documented(tmp_path: Path) -> None:
    async def story(at: Asking, base: int) -> None:
        prose, tables = await recalled(at, base, "texts"), await recalled(at, base, "tables")
        assert set(prose) == set(TextsResponse.model_fields)
        assert set(tables) == set(TablesResponse.model_fields)
        for result in prose["results"]:
            assert set(result) == set(TextRecalled.model_fields) > CONTRACT
        for result in tables["results"]:
            assert set(result) == set(TableRecalled.model_fields)
            assert set(result["table"]) == set(of(TableShown).model_fields)
        assert set(tables["answer"]) == set(TableAnswerInfo.model_fields)
        for answer, kind in ((prose, "text"), (tables, "table")):
            assert [each["strategy"] for each in answer["layers"]] == list(LAYERS[kind])
            assert all(set(each) == set(LayerInfo.model_fields) for each in answer["layers"])
        TextsResponse.model_validate(prose)
        TablesResponse.model_validate(tables)

    told(tmp_path, story)


def test_the_operations_are_those_of_the_answers() -> None:
    assert get_args(TableAnswerInfo.model_fields["operation"].annotation) == get_args(Operation)


def test_cells_answer_unless_they_are_not_asked(tmp_path: Path) -> None:
    async def story(at: Asking, base: int) -> None:
        answer = (await recalled(at, base, "tables"))["answer"]
        assert (answer["sure"], answer["text"], answer["operation"]) == (True, "85%", "lookup")
        assert answer["cells_total"] == len(answer["cells"]) > 0
        assert {"row": 0, "column": 1, "column_name": "报销比例", "text": "85%"}.items() <= answer["cells"][-1].items()
        assert (await recalled(at, base, "tables", answer=False))["answer"] is None

    told(tmp_path, story)


def test_top_k_and_filters_are_heeded(tmp_path: Path) -> None:
    async def story(at: Asking, base: int) -> None:
        few = await recalled(at, base, "texts", top_k=1)
        assert (len(few["results"]), few["wanted"]) == (1, 1)
        own = await recalled(at, base, "texts", filters={"user_id": "u7"})
        assert {each["doc_id"] for each in own["results"]} == {"通知"}
        assert (await recalled(at, base, "tables", filters={"user_id": "u7"}))["results"] == []

    told(tmp_path, story)


def test_more_than_the_cap_is_cut_to_it(tmp_path: Path) -> None:
    async def story(at: Asking, base: int) -> None:
        assert len((await recalled(at, base, "texts"))["results"]) == 1
        many = await recalled(at, base, "texts", top_k=100)
        assert (len(many["results"]), many["wanted"]) == (1, 1)
        await at.engine.configure(base, {"text_engine.max_results": 2})  # the base's own choice comes first
        assert len((await recalled(at, base, "texts", top_k=100))["results"]) == 2

    told(tmp_path, story, {"text_engine.max_results": 1})


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    async def story(at: Asking, base: int) -> None:
        wrong: tuple[tuple[str, dict[str, Any], str], ...] = (
            ("tables", {"query": " "}, "query"),
            ("tables", {}, "query"),
            ("tables", {"query": "问", "top_k": 0}, "top_k"),
            ("texts", {"query": "问", "top_k": 101}, "top_k"),
            ("texts", {"query": "问", "top_k": "3"}, "top_k"),
            ("texts", {"query": "问", "answer": True}, "answer"),
            ("tables", {"query": "问", "answer": "no"}, "answer"),
            ("texts", {"query": "问", "filters": {"title": "x"}}, "filters.title"),
        )
        for what, body, field in wrong:
            response = await at.post(f"/v1/recall/{base}/{what}", body)
            assert response.status_code == 422, (body, response.text)
            assert response.json()["fields"][0]["field"] == field
        assert (await at.post(f"/v1/recall/{base + 1}/texts", {"query": "问"})).status_code == 404

    told(tmp_path, story)


def test_a_recall_is_logged_counted_and_told_to_operators_without_its_query(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(at: Asking, base: int) -> None:
        with caplog.at_level(logging.INFO, "qianxun"):
            prose, tables = await recalled(at, base, "texts"), await recalled(at, base, "tables")
        newest, before = await at.engine.logs.list(knowledge_base=base)
        assert [(each.mode, each.trace_id) for each in (newest, before)] == [
            ("tables", tables["trace_id"]), ("texts", prose["trace_id"]),
        ]  # fmt: skip
        assert [chunk_id for chunk_id, _ in before.results] == [each["chunk_id"] for each in prose["results"]]
        numbers = (await at.http.get("/metrics")).text
        assert 'rag_layer_duration_seconds_count{engine="table",layer="total"} 1.0' in numbers
        assert 'rag_table_answers_total{outcome="sure"} 1.0' in numbers

    told(tmp_path, story)
    lines = [record for record in caplog.records if record.name == "qianxun.retrieve.layered.log"]
    assert [record.levelname for record in lines] == ["INFO", "INFO"]
    assert "住院" not in caplog.text


def test_where_every_layer_fails_the_answer_is_empty_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: Any, **__: Any) -> Any:
        raise RetrieverUnavailable("索引不在", hint="重建它")

    async def story(at: Asking, base: int) -> None:
        monkeypatch.setattr("qianxun.retrieve.layered.search.gather_evidence", down)
        for what, kind in (("texts", "text"), ("tables", "table")):
            answer = await recalled(at, base, what)
            assert answer["results"] == []
            assert {each["part"] for each in answer["degraded"]} == set(LAYERS[kind])
            assert all(each["ran"] and "索引不在" in each["reason"] for each in answer["layers"])
        numbers = (await at.http.get("/metrics")).text
        for kind, layers in LAYERS.items():
            for layer in layers:
                assert f'rag_layer_failures_total{{engine="{kind}",layer="{layer}"}} 1.0' in numbers
        (newest, _) = await at.engine.logs.list(knowledge_base=base)
        assert (newest.results, bool(newest.degraded)) == ((), True)

    told(tmp_path, story)
    levels = [each.levelname for each in caplog.records if each.name == "qianxun.retrieve.layered.log"]
    assert levels == ["ERROR", "ERROR"]
