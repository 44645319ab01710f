"""RerankRequest in the form of Cohere and Jina: the engine's own scores, whoever's model it is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from qianxun.core.errors import ModelUnavailable
from qianxun.core.ports import never
from qianxun.core.types import Vectors
from qianxun.doors.http.rerank import DOCUMENT_LIMIT, DOCUMENTS_LIMIT, RerankRequest
from qianxun.models import RerankEndpoint
from qianxun.models.remote.rerank import RemoteRerank
from qianxun.testing.scripted import HashEmbedding
from tests.http.asking import word_of
from tests.http.served import BASES, Served, issue, serving
from tests.http.vendor import failing, vendor

QUERY = "住院报销比例是多少"
TEXTS = ["门诊报销需要发票原件。", "住院费用报销比例为85%。", "年休假五天。", "住院须办理登记。"]


class LetterEmbedding(HashEmbedding):
    """One with a vector for every letter, as `maxsim` wants it."""

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        return [self.embed_passages(list(text)) if text else np.zeros((0, 64), dtype=np.float32) for text in texts]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text))]


class ShortFirst:
    """A reranker that an operator brought."""

    name = "short-first"
    share = 1.0
    dimension = 0

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        return [1.0 / (1 + len(passage)) for passage in passages]


class Patient:
    """A reranker that reads until it is told to stop."""

    name = "patient"
    share = 1.0
    dimension = 0

    def __init__(self) -> None:
        self.has_begun, self.has_stopped = threading.Event(), threading.Event()

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        self.has_begun.set()
        while not stop():
            time.sleep(0.01)
        self.has_stopped.set()
        raise ModelUnavailable("没有做完")


def run(folder: Path, story: Callable[[Served], Awaitable[None]], **told: Any) -> None:
    async def whole() -> None:
        settings = {"vectorization.model": "fake-64", **{name.replace("__", "."): each for name, each in told.items()}}
        brought: list[Any] = [LetterEmbedding(), ShortFirst()]
        async with serving(folder, settings, *brought) as served:
            await story(served)

    asyncio.run(whole())


async def reranked(served: Served, **body: Any) -> httpx.Response:
    return await served.http.post("/v1/rerank", json={"query": QUERY, "documents": TEXTS, **body})


def test_the_scores_are_those_of_a_search_with_the_same_model(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        for number, text in enumerate(TEXTS):
            await served.add(base, f"d{number}", text)
        for model in ("maxsim", "short-first"):
            config = {"hybrid_strategy": {"type": "rerank", "rerank_model_id": model}, "top_k": 10}
            asked = {"query": QUERY, "retrieval_config": config}
            chunks = (await served.http.post(f"/v1/retrieval/{base}", json=asked)).json()["data"]["chunks"]
            searched = {chunk["content"]: chunk["rerank_score"] for chunk in chunks}
            assert len(searched) > 1
            answer = (await reranked(served, model=model)).json()
            told = {each["document"]["text"]: each["relevance_score"] for each in answer["results"]}
            assert {text: told[text] for text in searched} == searched
            scores = [each["relevance_score"] for each in answer["results"]]
            assert scores == sorted(scores, reverse=True)
            assert len(set(scores)) > 1
            assert [TEXTS[each["index"]] for each in answer["results"]] == list(told)

    run(tmp_path, story)


def test_the_answer_has_what_clients_of_cohere_and_jina_read(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        answer = await reranked(served, model="maxsim", top_n=2, return_documents=False, rank_fields=["text"], user="u")
        told = answer.json()
        assert set(told) == {"id", "model", "results", "usage", "meta"}
        assert (told["model"], told["id"]) == ("maxsim", answer.headers["x-trace-id"])
        assert len(told["results"]) == 2
        assert all(set(each) == {"index", "relevance_score"} for each in told["results"])
        assert told["results"][0]["index"] == 1
        assert told["usage"]["total_tokens"] > 20
        objects = [{"text": TEXTS[0], "id": 7}, {"标题": "住院", "比例": 85, "inner": {}}, TEXTS[0]]
        found = (await reranked(served, model="short-first", documents=objects, top_n=100)).json()["results"]
        assert [each["index"] for each in found] == [0, 2, 1]  # the same score: as they came
        assert found[0]["document"] == {"text": TEXTS[0]}
        assert found[2]["document"] == {"text": "标题: 住院\n比例: 85"}

    run(tmp_path, story)


def test_the_client_that_the_engine_itself_has_for_such_services_can_use_it(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        told = (await reranked(served, model="maxsim")).json()["results"]
        client = RemoteRerank(RerankEndpoint(f"{served.url}/v1", "maxsim"))
        scores = await asyncio.to_thread(client.score, QUERY, TEXTS)
        client.close()
        assert scores == [each["relevance_score"] for each in sorted(told, key=lambda each: int(each["index"]))]

    run(tmp_path, story)


async def registered(served: Served, key: str, url: str, **about: Any) -> int:
    told = {"config_name": "我的重排", "base_url": url, "model_name": "rank-1", "model_type": "rerank", **about}
    made = await served.http.post("/user/api/u1", json=told, headers={"authorization": f"Bearer {key}"})
    assert made.status_code == 201, made.text
    number: int = made.json()["data"]["id"]
    return number


def test_a_registered_model_is_meant_by_its_number_or_name_and_by_its_own_tenant_alone(tmp_path: Path) -> None:
    with vendor() as sold:

        async def story(served: Served) -> None:
            (_, key), (_, reading), (_, other) = (
                issue(served.engine, tenant, scope)
                for tenant, scope in (("jia", "write"), ("jia", "read"), ("yi", "write"))
            )
            number = await registered(served, key, sold.url)
            names = (number, str(number), f"user-model:{number}", "我的重排", "rank-1")
            answers = []
            for name in names:
                body = {"model": name, "query": QUERY, "documents": TEXTS}
                mine = await served.http.post("/v1/rerank", json=body, headers={"authorization": f"Bearer {reading}"})
                assert mine.status_code == 200, mine.text
                answers.append(mine.json()["results"])
                theirs = await served.http.post("/v1/rerank", json=body, headers={"authorization": f"Bearer {other}"})
                assert (theirs.status_code, word_of(theirs)) == (404, "not_found"), theirs.text
                assert "maxsim" in theirs.json()["message"]
                assert "我的重排（" not in theirs.text
            assert all(each == answers[0] for each in answers)
            assert answers[0][0]["index"] == 1
            assert sold.asked["rerank"]
            again = await registered(served, key, sold.url)
            body = {"model": "我的重排", "query": QUERY, "documents": TEXTS}
            several = await served.http.post("/v1/rerank", json=body, headers={"authorization": f"Bearer {key}"})
            assert several.status_code == 422
            assert f"{number}、{again}" in several.json()["detail"]

        run(tmp_path, story, outbound__allow=[sold.address])


def test_a_model_that_cannot_be_used_is_told_with_what_there_is(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        cases: list[tuple[Any, int, str]] = [
            ("", 422, "maxsim"),
            (None, 422, "maxsim"),
            ("没有的", 404, "short-first"),
            ("none", 404, "maxsim"),
            ("default", 404, "maxsim"),
            (999, 404, "maxsim"),
            ("fake-64", 404, "maxsim"),
            ("bge-reranker-v2-m3", 422, "models pull"),
        ]
        for model, status, hint in cases:
            answer = await reranked(served, model=model)
            told = answer.json()
            assert (answer.status_code, told["code"]) == (status, status), (model, answer.text)
            assert hint in told["message"], (model, told["message"])
            assert told["message"] == told["detail"] == told["msg"]

    run(tmp_path, story)


def test_maxsim_wants_a_model_that_can_do_it(tmp_path: Path) -> None:
    async def story() -> None:
        for model in ("fake-64", "none"):
            async with serving(tmp_path / model, {"vectorization.model": model}) as served:
                answer = await reranked(served, model="maxsim")
                assert (answer.status_code, answer.json()["fields"][0]["field"]) == (422, "model"), answer.text

    asyncio.run(story())


def test_a_service_that_fails_is_no_fault_of_the_request(tmp_path: Path) -> None:
    with vendor() as sold:

        async def story(served: Served) -> None:
            _, key = issue(served.engine)
            number = await registered(served, key, sold.url)
            sold.become("rerank", failing(400))
            body = {"model": number, "query": QUERY, "documents": TEXTS}
            answer = await served.http.post("/v1/rerank", json=body, headers={"authorization": f"Bearer {key}"})
            assert answer.status_code == 503, answer.text
            assert answer.headers["retry-after"]
            assert answer.json()["detail"]
            off = await served.http.patch(
                f"/user/api/u1/{number}", json={"status": 0}, headers={"authorization": f"Bearer {key}"}
            )
            assert off.status_code == 200
            answer = await served.http.post("/v1/rerank", json=body, headers={"authorization": f"Bearer {key}"})
            assert (answer.status_code, answer.json()["fields"][0]["field"]) == (422, "model")

        run(tmp_path, story, outbound__allow=[sold.address])


def test_an_empty_text_is_worth_nothing_however_it_is_given(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        for empty in ("", {"text": ""}, {"text": "", "title": "住院"}):
            answer = await reranked(served, model="maxsim", documents=[empty, TEXTS[1]])
            assert answer.status_code == 200, answer.text
            best, last = answer.json()["results"]
            assert (best["index"], last["index"]) == (1, 0)
            assert (last["relevance_score"], last["document"]) == (0, {"text": ""})

    run(tmp_path, story)


def test_whoever_sends_megabytes_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen of them held the event loop for seconds while they were looked through."""
    seen: list[int] = []

    def read(asked: RerankRequest) -> list[str]:
        seen.append(threading.get_ident())
        return texts(asked)

    texts = RerankRequest.texts
    monkeypatch.setattr(RerankRequest, "texts", read)

    async def story(served: Served) -> None:
        assert (await reranked(served, model="short-first")).status_code == 200
        assert len(seen) == 1
        assert threading.get_ident() not in seen  # the loop's own

    run(tmp_path, story)


def test_whoever_leaves_takes_the_models_work_along(tmp_path: Path) -> None:
    async def story() -> None:
        model = Patient()
        brought: list[Any] = [LetterEmbedding(), model]
        async with serving(tmp_path, {"vectorization.model": "fake-64"}, *brought) as served:
            asking = asyncio.create_task(reranked(served, model="patient"))
            assert await asyncio.to_thread(model.has_begun.wait, 60)
            asking.cancel()  # and with it goes its connection
            assert await asyncio.to_thread(model.has_stopped.wait, 60)

    asyncio.run(story())


def test_what_is_asked_is_bounded(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"documents": []}, "documents"),
            ({"documents": ["x"] * (DOCUMENTS_LIMIT + 1)}, "documents"),
            ({"documents": ["x" * (DOCUMENT_LIMIT + 1)]}, "documents.0"),
            ({"documents": ["x", {"text": "x" * (DOCUMENT_LIMIT + 1)}]}, "documents.1"),
            ({"documents": ["x", {}]}, "documents.1"),
            ({"documents": ["x", 1]}, "documents.1"),
            ({"top_n": 0}, "top_n"),
            ({"query": " "}, "query"),
        ]
        for body, field in wrong:
            answer = await reranked(served, model="short-first", **body)
            assert answer.status_code == 422, (field, answer.text)
            assert [each["field"] for each in answer.json()["fields"]] == [field], answer.text
        fits = await reranked(served, model="short-first", documents=["x"] * DOCUMENTS_LIMIT, top_n=3)
        assert [each["index"] for each in fits.json()["results"]] == [0, 1, 2]
        assert (await served.http.get("/v1/rerank")).json()["detail"]
        body = {"model": "short-first", "query": " ", "documents": TEXTS}
        blank = await served.http.post("/v1/rerank", json=body, headers={"accept-language": "en"})
        assert blank.json()["message"] == "Validation: query：Should say what to look for"
        assert (await served.http.get(BASES)).status_code == 200

    run(tmp_path, story)


def test_coheres_second_version_has_its_own_address_and_returns_no_texts_by_itself(tmp_path: Path) -> None:
    """The request as `cohere.ClientV2.rerank` sends it."""

    async def story(served: Served) -> None:
        body = {"model": "short-first", "query": QUERY, "documents": TEXTS, "top_n": 2, "max_tokens_per_doc": 4096}
        first, second = [(await served.http.post(f"/{version}/rerank", json=body)).json() for version in ("v1", "v2")]
        assert second["meta"]["api_version"]["version"] == "2"
        assert [result["index"] for result in second["results"]] == [2, 3]
        assert second["results"] == [
            {name: value for name, value in result.items() if name != "document"} for result in first["results"]
        ]
        asked = await served.http.post("/v2/rerank", json={**body, "return_documents": True})
        assert asked.json()["results"] == first["results"]
        refused = await served.http.post("/v2/rerank", json={**body, "model": "没有"})
        assert (refused.status_code, refused.json()["message"]) == (404, refused.json()["msg"])

    run(tmp_path, story)
