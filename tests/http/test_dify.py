"""Dify's door: what Dify sends is understood, and what it is answered is what it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.http.asking import word_of
from tests.http.dify_client import DifyClient
from tests.http.served import BASES, Served, issue, serving

QUERY = "住院报销比例是多少"
DOCUMENTS: dict[str, dict[str, Any]] = {
    "a": {"年份": 2023, "部门": "医保局", "日期": "2023-05-01", "公开": True},
    "b": {"年份": 2024, "部门": "医院", "日期": "2024-05-01", "地区": ["上海", "北京"]},
    "c": {"年份": "2024", "部门": ""},
    "d": {},
}


def run(folder: Path, story: Callable[[Served], Awaitable[None]]) -> None:
    async def told() -> None:
        async with serving(folder) as served:
            await story(served)

    asyncio.run(told())


async def settled(served: Served) -> int:
    """A base with a document of each kind."""
    base = await served.base()
    for doc_id, metadata in DOCUMENTS.items():
        about = {"doc_id": doc_id, "name": f"{doc_id}.md", "format": "markdown", "metadata": metadata}
        content = f"# 医保\n\n## 住院\n\n{doc_id}：住院报销比例为85%。"
        added = await served.http.post(f"{BASES}/{base}/documents", json={**about, "content": content})
        assert added.status_code == 201, added.text
    return base


def test_dify_registers_and_reads_what_a_retrieval_finds(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await settled(served)
        _, key = issue(served.engine, scope="read")
        dify = DifyClient(served.http, served.url, key)
        await dify.register()
        found = await dify.retrieve(str(base), QUERY, 3)
        own = await served.http.post(
            f"/v1/retrieval/{base}",
            json={"query": QUERY, "retrieval_config": {"top_k": 3}},
            headers={"authorization": f"Bearer {key}"},
        )
        chunks = own.json()["data"]["chunks"]
        assert len(found) == len(chunks) == 3
        for source, chunk in zip(found, chunks, strict=True):
            assert source["document_id"] == chunk["doc_id"]
            assert source["document_name"] == chunk["doc_name"]
            below = chunk["content"].removeprefix("医保\n\n").removeprefix("住院\n\n")
            assert (source["content"], source["score"]) == (f"医保 › 住院\n\n{below}", chunk["score"])
            about = source["doc_metadata"]
            assert (about["doc_id"], about["chunk_id"]) == (chunk["doc_id"], chunk["chunk_id"])
            assert about["headings"] == chunk["headings"] == ["医保", "住院"]
            assert {name: about[name] for name in chunk["metadata"]} == chunk["metadata"]
        assert await dify.retrieve("医保", QUERY, 3) == found

    run(tmp_path, story)


def test_a_probe_is_answered_without_records_but_not_without_the_key(tmp_path: Path) -> None:
    probes: list[dict[str, Any]] = [
        {},
        {"json": {"knowledge_id": "", "query": ""}},
        {"json": {"knowledge_id": "", "query": "", "retrieval_setting": {"top_k": 2, "score_threshold": 0.5}}},
        {"json": {}},
        {"content": b"", "headers": {"content-type": "application/json"}},
    ]

    async def story(served: Served) -> None:
        for probe in probes:
            answer = await served.http.post("/retrieval", **probe)
            assert (answer.status_code, answer.json()) == (200, {"records": []}), (probe, answer.text)
        _, key = issue(served.engine, scope="read")
        for probe in probes:
            told = {**probe.get("headers", {}), "authorization": f"Bearer {key}"}
            allowed = await served.http.post("/retrieval", **{**probe, "headers": told})
            assert (allowed.status_code, allowed.json()) == (200, {"records": []})
            refused = await served.http.post("/retrieval", **probe)
            assert (refused.status_code, refused.json()["error_code"]) == (401, 1001)

    run(tmp_path, story)


def test_what_is_wrong_is_told_in_difys_words(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        theirs = (await served.engine.of("other").create_knowledge_base("别人的", model="fake-64")).id
        key = issue(served.engine, scope="read")[1]
        dify = DifyClient(served.http, served.url, key)
        for missing in ("没有的", "99", str(theirs), "别人的", "9" * 30, "-1", "１"):
            answer = await dify.ask(missing, QUERY)
            assert (answer.status_code, answer.json()["error_code"]) == (404, 2001), (missing, answer.text)
            assert missing[:20] in answer.json()["error_msg"]
            assert await dify.retrieve(missing, QUERY) == []
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"knowledge_id": "", "query": QUERY}, "knowledge_id"),
            ({"knowledge_id": str(base), "query": " "}, "query"),
            ({"knowledge_id": str(base), "query": QUERY, "retrieval_setting": {"top_k": 0}}, "retrieval_setting.top_k"),
            (
                {"knowledge_id": str(base), "query": QUERY, "retrieval_setting": {"score_threshold": 2}},
                "retrieval_setting.score_threshold",
            ),
        ]
        for body, field in wrong:
            answer = await served.http.post("/retrieval", json=body, headers={"authorization": f"Bearer {key}"})
            told = answer.json()
            assert (answer.status_code, told["error_code"], word_of(answer)) == (422, 422, "validation"), answer.text
            assert told["fields"][0]["field"] == field
            assert told["error_msg"] == told["msg"]
        gone = await served.http.get("/retrieval", headers={"authorization": f"Bearer {key}"})
        assert (gone.status_code, gone.json()["error_code"], gone.headers["allow"]) == (405, 405, "POST")
        english = {"authorization": f"Bearer {key}", "accept-language": "en"}
        body = {"knowledge_id": "x", "query": QUERY}
        told = (await served.http.post("/retrieval", json=body, headers=english)).json()
        assert told["error_msg"].startswith("Not found: ")

    run(tmp_path, story)


def test_a_field_that_might_be_several_things_is_told_once_by_its_name(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        cases: list[tuple[dict[str, Any], str, str]] = [
            ({"knowledge_id": True}, "knowledge_id", "应为文字"),
            ({"knowledge_id": "长" * 201}, "knowledge_id", "最多 200 个字符"),
            ({"metadata_condition": {"conditions": [{"name": [], "comparison_operator": "is"}]}},
             "metadata_condition.conditions.0.name", "应为文字"),
        ]  # fmt: skip
        for body, field, reason in cases:
            answer = await served.http.post("/retrieval", json={"knowledge_id": "x", "query": QUERY, **body})
            told = answer.json()
            assert (answer.status_code, told["fields"]) == (422, [{"field": field, "reason": reason}])
            assert told["error_msg"] == f"{field}：{reason}"

    run(tmp_path, story)


def test_top_k_and_the_threshold_are_those_of_a_retrieval(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await settled(served)
        dify = DifyClient(served.http, served.url)
        every = await dify.retrieve(str(base), QUERY, 100)
        assert len(every) == len(DOCUMENTS)
        assert await dify.retrieve(str(base), QUERY, 2) == every[:2]
        assert await dify.retrieve(str(base), QUERY, None) == every
        line = every[1]["score"]
        kept = await dify.retrieve(str(base), QUERY, 100, line)
        assert kept == [each for each in every if each["score"] >= line]
        assert await dify.retrieve(str(base), QUERY, 100, 1.0) == []

    run(tmp_path, story)


CONDITIONS: list[tuple[list[tuple[Any, ...]], str]] = [
    ([("年份", "=", 2024)], "bc"),
    ([("年份", "≥", 2024)], "b"),
    ([("年份", "is not", "2023")], "bc"),
    ([("部门", "contains", "医")], "ab"),
    ([("部门", "not contains", "医院")], "ac"),
    ([("部门", "start with", "医保")], "a"),
    ([("部门", "end with", "院")], "b"),
    ([("部门", "empty", None)], "cd"),
    ([("部门", "not empty", None)], "ab"),
    ([("日期", "after", "2024-01-01")], "b"),
    ([("日期", "before", "2024-01-01")], "a"),
    ([("地区", "in", ["上海", "广州"])], "b"),
    ([("部门", "not in", "医院, 学校")], "ac"),
    ([("公开", "is", "true")], "a"),
    ([(["地区", "部门"], "contains", "海")], "b"),
    ([("年份", "<", 2024), ("日期", "after", "2024-01-01")], "ab"),
    ([("doc_id", "is", "d")], "d"),
    ([("年份", ">", None)], "abcd"),
]


def test_conditions_are_heeded(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await settled(served)
        dify = DifyClient(served.http, served.url)
        for conditions, wanted in CONDITIONS:
            written = [dict(zip(("name", "comparison_operator", "value"), each, strict=True)) for each in conditions]
            asked = {"logical_operator": "or", "conditions": written}
            sources = await dify.retrieve(str(base), QUERY, 100, metadata_condition=asked)
            assert "".join(sorted(each["document_id"] for each in sources)) == wanted, conditions

    run(tmp_path, story)


def test_conditions_that_no_filter_can_express_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": "document_name", "comparison_operator": "is", "value": "a"}, "conditions.0.name"),
        ({"name": "年份", "comparison_operator": "is", "value": ["a", "b"]}, "conditions.0.value"),
        ({"name": "年份", "comparison_operator": ">", "value": True}, "conditions.0.value"),
        ({"name": "年份", "comparison_operator": "regex", "value": "."}, "conditions.0.comparison_operator"),
        ({"name": "年份", "comparison_operator": "is", "value": {"a": 1}}, "conditions.0.value"),
        ({"name": "年份", "comparison_operator": "is", "value": "长" * 1025}, "conditions.0.value"),
        ({"name": "", "comparison_operator": "is", "value": 1}, "conditions.0.name"),
        ({"name": ["a"] * 101, "comparison_operator": "is", "value": 1}, "conditions.0.name"),
        ({"name": "a", "comparison_operator": "in", "value": ["长" * 1000] * 100}, "conditions"),
    ]

    async def story(served: Served) -> None:
        base = await served.base()
        dify = DifyClient(served.http, served.url)
        for condition, field in cases:
            answer = await dify.ask(str(base), QUERY, metadata_condition={"conditions": [condition]})
            assert answer.status_code == 422, (condition, answer.text)
            told = answer.json()["fields"][0]["field"]
            assert told.startswith(f"metadata_condition.{field}"), (condition, told)

    run(tmp_path, story)


def test_fields_that_mean_nothing_here_are_ignored_and_nulls_are_as_good_as_nothing(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await settled(served)
        body = {
            "knowledge_id": base,
            "query": QUERY,
            "retrieval_setting": {"top_k": 2, "score_threshold": None, "score_threshold_enabled": False},
            "metadata_condition": {"logical_operator": None, "conditions": None},
            "tenant": "other",
        }
        answer = await served.http.post("/retrieval", json=body)
        assert (answer.status_code, len(answer.json()["records"])) == (200, 2), answer.text

    run(tmp_path, story)
