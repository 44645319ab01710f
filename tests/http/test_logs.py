"""The log of searches over HTTP: what found nothing, what was slow, and what people thought of it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

from qianxun.core.codec.wire import read_log
from qianxun.core.types import Document
from qianxun.doors.http.native.logs import LogCounts, LogInfo, LogPage
from tests.http.asking import Asking, asking

LIBRARY = (Document("1", "住院报销比例为百分之八十五。"), Document("2", "门诊报销比例为百分之六十。"))


async def searched(at: Asking, base: int, *queries: str) -> None:
    for query in queries:
        response = await at.post(f"/v1/retrieval/{base}", {"query": query, "retrieval_mode": "fulltext"})
        assert response.status_code == 200


async def page(at: Asking, **params: Any) -> dict[str, Any]:
    response = await at.http.get("/v1/retrieval-logs", params=params)
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def queries(told: dict[str, Any]) -> list[str]:
    return [entry["query"] for entry in told["list"]]


def test_a_search_is_in_the_log_as_soon_as_it_is_answered(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            answer = (await at.post(f"/v1/retrieval/{base}", {"query": "住院报销"})).json()["data"]
            told = await page(at)
            (entry,) = told["list"]
            assert told["next"] is None
            assert (entry["knowledge_base_id"], entry["query"], entry["chunk_count"]) == (base, "住院报销", 2)
            assert entry["trace_id"] == answer["trace_id"]
            assert [each["chunk_id"] for each in entry["results"]] == [each["chunk_id"] for each in answer["chunks"]]
            assert entry["retrieval_params"]["top_k"] == 10
            assert {step["name"] for step in entry["steps"]} >= {"recall.vector", "recall.keyword", "rewrite"}
            one = await at.http.get(f"/v1/retrieval-logs/{entry['id']}")
            assert one.json()["data"] == entry
            assert read_log(entry) == await at.engine.logs.get(entry["id"])
            await searched(at, base, "门诊")
            assert queries(await page(at, trace_id=answer["trace_id"])) == ["住院报销"]
            assert queries(await page(at, trace_id="0" * 32)) == []

    asyncio.run(run())


def test_the_documentation_names_every_field(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            await searched(at, await at.base(*LIBRARY), "住院")
            told = await page(at)
            assert set(told) == set(LogPage.model_fields)
            assert set(told["list"][0]) == set(LogInfo.model_fields)
            LogPage.model_validate(told)

    asyncio.run(run())


def test_what_found_nothing_and_what_was_slow(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base, other = await at.base(*LIBRARY), await at.base(*LIBRARY, name="别的")
            await searched(at, base, "住院报销", "xyzzy", "门诊")
            await searched(at, other, "别处")
            assert queries(await page(at)) == ["别处", "门诊", "xyzzy", "住院报销"]
            zero = await page(at, zero="true", knowledge_base_id=base)
            assert queries(zero) == ["xyzzy"]
            assert (zero["list"][0]["zero"], zero["list"][0]["tier"]) == (True, None)
            assert queries(await page(at, knowledge_base_id=other)) == ["别处"]
            every = await page(at, knowledge_base_id=base)
            times = {entry["query"]: entry["time_cost_ms"] for entry in every["list"]}
            bound = sorted(times.values())[1]
            slower = {query for query, taken in times.items() if taken > bound}
            assert set(queries(await page(at, slow_ms=bound, knowledge_base_id=base))) == slower
            assert queries(await page(at, slow_ms=1e12)) == []

    asyncio.run(run())


def test_pages_follow_one_another(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            await searched(at, await at.base(*LIBRARY), "一", "二", "三", "四", "五")
            seen, params = [], {"limit": 2}
            while True:
                told = await page(at, **params)
                seen += queries(told)
                if told["next"] is None:
                    break
                params["before"] = told["next"]
            assert seen == ["五", "四", "三", "二", "一"]

    asyncio.run(run())


def test_a_page_of_long_searches_is_shorter_and_loses_none(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            for number in range(8):
                body = {"query": f"第{number}次", "doc_ids": [f"{number:03}{each:0250}" for each in range(600)]}
                assert (await at.post(f"/v1/retrieval/{base}", body)).status_code == 200
            first = await page(at, limit=100)
            assert 1 <= len(first["list"]) < 8
            assert first["next"] == first["list"][-1]["id"]
            seen, following = queries(first), first["next"]
            while following is not None:
                told = await page(at, limit=100, before=following)
                seen, following = seen + queries(told), told["next"]
            assert seen == [f"第{number}次" for number in reversed(range(8))]

    asyncio.run(run())


def test_feedback_is_kept_with_the_search(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            await searched(at, base, "住院")
            number = (await page(at))["list"][0]["id"]
            said = {"rating": "bad", "chunk_ids": [f"c_{base}_2_0"], "comment": "应当返回门诊"}
            response = await at.post(f"/v1/retrieval-logs/{number}/feedback", said)
            assert (response.status_code, response.json()["data"]["feedback"]) == (200, said)
            assert (await page(at))["list"][0]["feedback"] == said
            again = await at.post(f"/v1/retrieval-logs/{number}/feedback", {"rating": "good"})
            assert again.json()["data"]["feedback"] == {"rating": "good", "chunk_ids": [], "comment": ""}
            assert read_log(again.json()["data"]) == await at.engine.logs.get(number)

    asyncio.run(run())


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "rating"),
    ({"rating": "fine"}, "rating"),
    ({"rating": "bad", "comment": "长" * 2001}, "comment"),
    ({"rating": "bad", "chunk_ids": ["c"] * 101}, "chunk_ids"),
    ({"rating": "bad", "chunk_ids": ["c" * 301]}, "chunk_ids.0"),
    ({"rating": "bad", "stars": 1}, "stars"),
)


def test_feedback_that_cannot_be_kept_is_refused_by_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            await searched(at, await at.base(*LIBRARY), "住院")
            number = (await page(at))["list"][0]["id"]
            for said, field in REFUSED:
                response = await at.post(f"/v1/retrieval-logs/{number}/feedback", said)
                assert response.status_code == 422, said
                assert [each["field"] for each in response.json()["fields"]] == [field]
            assert (await page(at))["list"][0]["feedback"] is None

    asyncio.run(run())


WRONG: tuple[dict[str, Any], ...] = (
    {"limit": 0},
    {"limit": 101},
    {"before": 0},
    {"before": 2**63},
    {"slow_ms": -1},
    {"slow_ms": "nan"},
    {"slow_ms": "inf"},
    {"zero": "perhaps"},
    {"knowledge_base_id": ""},
    {"knowledge_base_id": "名" * 500},
)


def test_a_wrong_parameter_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            for params in WRONG:
                response = await at.http.get("/v1/retrieval-logs", params=params)
                assert response.status_code == 422, params
                assert [each["field"] for each in response.json()["fields"]] == list(params)

    asyncio.run(run())


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            for answer in (
                await at.http.get("/v1/retrieval-logs/99"),
                await at.http.get(f"/v1/retrieval-logs/{2**63 - 1}"),
                await at.post("/v1/retrieval-logs/99/feedback", {"rating": "good"}),
                await at.http.get("/v1/retrieval-logs", params={"knowledge_base_id": 4711}),
            ):
                assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
            for number in ("0", "-1", str(2**63), "x"):
                assert (await at.http.get(f"/v1/retrieval-logs/{number}")).status_code == 422

    asyncio.run(run())


def test_counts_and_exports(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            await searched(at, base, "住院报销", "xyzzy", '=HYPERLINK("http://x")', "＝１＋１")
            counted = (await at.http.get("/v1/retrieval-logs/counts", params={"stretches": 2})).json()["data"]
            LogCounts.model_validate(counted)
            assert sum(each["searches"] for each in counted["list"]) == 4
            assert sum(each["zero"] for each in counted["list"]) >= 1
            lines = (await at.http.get("/v1/retrieval-logs/export")).text.splitlines()
            assert [json.loads(line)["query"] for line in lines][2:] == ["xyzzy", "住院报销"]
            narrowed = await at.http.get(
                "/v1/retrieval-logs/export", params={"format": "csv", "knowledge_base_id": base}
            )
            assert narrowed.headers["content-disposition"].endswith('logs.csv"')
            rows = list(csv.DictReader(io.StringIO(narrowed.text.removeprefix("\ufeff"))))
            assert [row["query"] for row in rows] == ["'＝１＋１", '\'=HYPERLINK("http://x")', "xyzzy", "住院报销"]
            backwards = {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
            assert (await at.http.get("/v1/retrieval-logs/counts", params=backwards)).status_code == 422
            assert (await at.http.get("/v1/retrieval-logs", params={"since": "2026-01-02"})).status_code == 422

    asyncio.run(run())
