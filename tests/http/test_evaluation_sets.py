"""Evaluation sets over HTTP and by the client: a question saved with one call, a run to its end, two compared."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.evaluation_types import Case, Relevant
from qianxun.core.governance.quotas import Quota
from qianxun.core.types import Document
from qianxun.doors.client import Client
from qianxun.doors.http.native import evaluation_sets as routes
from qianxun.engine.admin import evaluation_sets
from tests.http.asking import Asking, asking

LIBRARY = (Document("1", "住院报销比例为百分之八十五。"), Document("2", "门诊报销比例为百分之六十。"))


async def ended(at: Asking, run: int) -> dict[str, Any]:
    while True:
        data: dict[str, Any] = (await at.http.get(f"/v1/evaluation-runs/{run}")).json()["data"]
        if data["status"] != "running":
            return data
        await asyncio.sleep(0.01)


def test_a_question_is_saved_measured_and_compared(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            body = {"question": "住院能报多少", "chunk_ids": [f"c_{base}_1_0"], "expected": "85%"}
            saved = await at.post(f"/v1/knowledge-bases/{base}/evaluation-cases", body)
            assert saved.status_code == 201, saved.text
            routes.SavedInfo.model_validate(saved.json()["data"])
            own = saved.json()["data"]["set"]
            assert (own["name"], own["cases"]) == ("常用问题", 1)
            more = {"cases": [{"question": "门诊", "relevant": [{"doc_id": "2"}]}]}
            assert (await at.post(f"/v1/evaluation-sets/{own['id']}/cases", more)).status_code == 201
            page = (await at.http.get(f"/v1/evaluation-sets/{own['id']}/cases", params={"limit": 1})).json()["data"]
            routes.CasePage.model_validate(page)
            assert (page["list"][0]["question"], page["next"]) == ("住院能报多少", page["list"][0]["id"])
            begun = await at.post(f"/v1/evaluation-sets/{own['id']}/runs", {"mode": "fulltext", "name": "词语"})
            assert begun.status_code == 202, begun.text
            first = await ended(at, begun.json()["data"]["id"])
            assert (first["status"], first["done"], first["metrics"]["recall@100"]) == ("done", 2, 1.0)
            rrf = {"mode": "hybrid", "choices": {"fusion": "rrf"}}
            second = await ended(at, (await at.post(f"/v1/evaluation-sets/{own['id']}/runs", rrf)).json()["data"]["id"])
            results = (await at.http.get(f"/v1/evaluation-runs/{first['id']}/results")).json()["data"]
            routes.ResultList.model_validate(results)
            assert {one["question"] for one in results["list"]} == {"住院能报多少", "门诊"}
            both = f"/v1/evaluation-runs/{first['id']}/compare/{second['id']}"
            compared = (await at.http.get(both)).json()["data"]
            routes.ComparisonInfo.model_validate(compared)
            assert len(compared["cases"]) == 2
            listed = (await at.http.get(f"/v1/evaluation-sets/{own['id']}/runs")).json()["data"]["list"]
            assert [one["id"] for one in listed] == [second["id"], first["id"]]

    asyncio.run(run())


def test_a_rated_search_is_saved_by_its_number(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            await at.post(f"/v1/retrieval/{base}", {"query": "住院报销"})
            (entry,) = (await at.http.get("/v1/retrieval-logs")).json()["data"]["list"]
            refused = await at.post(f"/v1/knowledge-bases/{base}/evaluation-cases", {"log_id": entry["id"]})
            assert refused.status_code == 400
            await at.post(f"/v1/retrieval-logs/{entry['id']}/feedback", {"rating": "good"})
            saved = await at.post(f"/v1/knowledge-bases/{base}/evaluation-cases", {"log_id": entry["id"]})
            assert saved.json()["data"]["case"]["origin"] == "feedback"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"question": " ", "doc_ids": ["1"]}, 422),
        ({"question": "问"}, 400),
        ({"question": "问", "doc_ids": ["无"]}, 404),
        ({"question": "问", "chunk_ids": ["c_9_1_0"]}, 404),
        ({"question": "问", "doc_ids": ["1"], "more": 1}, 422),
        ({"log_id": 99}, 404),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path: Path, body: dict[str, Any], status: int) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            refused = await at.post(f"/v1/knowledge-bases/{base}/evaluation-cases", body)
            assert refused.status_code == status, refused.text
            found = (await at.http.get(f"/v1/knowledge-bases/{base}/evaluation-sets")).json()["data"]["list"]
            assert found == []

    asyncio.run(run())


def test_the_client_does_what_the_engine_does(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            transport = httpx.ASGITransport(at.app)
            async with Client("http://127.0.0.1:8000", transport=transport) as client:
                own, case = await client.evaluation.save_case(base, "住院能报多少", chunk_ids=[f"c_{base}_1_0"])
                assert (own.cases, case.relevant) == (1, (Relevant("1", LIBRARY[0].content),))
                new = [Case("门诊", (Relevant("2"),))]
                assert [one.question for one in await client.evaluation.add_cases(own.id, new)] == ["门诊"]
                assert [one.question for one in await client.evaluation.cases(own.id)] == ["住院能报多少", "门诊"]
                first = await client.evaluation.measure(own.id, "fulltext")
                second = await client.evaluation.measure(own.id, "hybrid", choices={"fusion": "rrf"})
                assert (first.status, first.done, second.choices) == ("done", 2, {"fusion": "rrf"})
                assert len(await client.evaluation.results(first.id)) == 2
                compared = await client.evaluation.compare(first.id, second.id)
                assert (compared.before, len(compared.cases)) == (first.id, 2)
                assert [one.id for one in await client.evaluation.runs(own.id)] == [second.id, first.id]
                assert await client.evaluation.sets(base) == [await client.evaluation.get(own.id)]
                await client.evaluation.remove_case(own.id, case.id)
                await client.evaluation.remove_run(first.id)
                with pytest.raises(NotFound):
                    await client.evaluation.run(first.id)
                with pytest.raises(BadInput):
                    await client.evaluation.start(own.id, "hybrid", choices={"top_k": 3})
                await client.evaluation.remove(own.id)
                assert await client.evaluation.sets(base) == []

    asyncio.run(run())


def test_the_questions_of_a_run_count_in_the_quota_of_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_sets, "REPORT_SECONDS", 0.01)

    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            cases = [{"question": f"住院{number}", "relevant": [{"doc_id": "1"}]} for number in range(5)]
            made = (await at.post(f"/v1/knowledge-bases/{base}/evaluation-sets", {"name": "题"})).json()["data"]["id"]
            assert (await at.post(f"/v1/evaluation-sets/{made}/cases", {"cases": cases})).status_code == 201
            await at.engine.governance.quotas.set(Quota(searches_per_minute=3))
            begun = await at.post(f"/v1/evaluation-sets/{made}/runs", {"mode": "fulltext"})
            number = begun.json()["data"]["id"]
            assert (await until(at, number, done=2))["status"] == "running"  # a third was counted for the beginning
            assert (await at.post(f"/v1/retrieval/{base}", {"query": "住院"})).status_code == 429
            assert (await at.post(f"/v1/evaluation-sets/{made}/runs", {"mode": "fulltext"})).status_code == 429
            await at.http.post(f"/v1/evaluation-runs/{number}/cancel")
            assert (await until(at, number, status="cancelled"))["done"] == 2

    asyncio.run(run())


async def until(at: Asking, run: int, **expected: Any) -> dict[str, Any]:
    while True:
        data: dict[str, Any] = (await at.http.get(f"/v1/evaluation-runs/{run}")).json()["data"]
        if expected.items() <= data.items():
            return data
        await asyncio.sleep(0.01)
