"""Questions through a client: what it gives is what the engine behind the service gives, and it ends as that ends."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from qianxun import RAGAnythingAdapter, create_query_workflow
from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, SentenceCited, SourcesFound, Token
from qianxun.core.errors import BadInput, BadQuery, NotFound, QianxunError, Refused, ServiceUnavailable, UnsupportedFile
from qianxun.core.types import Eq
from qianxun.doors.client import Client, Timeouts
from tests.http.questions import ANSWER, QUESTION, Asking, asking, writing
from tests.http.served import until
from tests.http.watched import TRACE
from tests.models.chat_service import Answers, Reply


def told(folder: Path, story: Callable[[Asking, Client], Awaitable[None]], answers: Answers | None = None) -> None:
    async def run() -> None:
        async with asking(folder, answers or writing(ANSWER)) as at, Client(at.served.url) as client:
            await asyncio.wait_for(story(at, client), 300)

    asyncio.run(run())


def alike(answer: Answer) -> Answer:
    """Without what differs between two runs, or does not travel."""
    trace = tuple(replace(each, seconds=0.0) for each in answer.trace)
    context = replace(
        answer.context,
        entities=tuple(replace(each, aliases=(), chunks=0) for each in answer.context.entities),
        relations=tuple(replace(each, evidence=()) for each in answer.context.relations),
        communities=tuple(replace(each, entities=(), sources=()) for each in answer.context.communities),
    )
    return replace(answer, trace=trace, context=context, seconds=0.0, steps=(), trace_id="")


async def events(client: Any, base: int, **options: Any) -> list[AnswerEvent]:
    async with aclosing(client.ask_stream(base, QUESTION, **options)) as coming:
        return [event async for event in coming]


def test_an_answer_is_the_engines_own(tmp_path: Path) -> None:
    async def story(at: Asking, client: Client) -> None:
        engine = at.served.engine
        for options in ({}, {"mode": "naive", "top_k": 2}, {"mode": None}, {"where": Eq("doc_id", "没有")}):
            here, there = [await each.ask(at.base, QUESTION, **options) for each in (engine, client)]
            assert alike(there) == alike(here)
        traced = await client.ask(at.base, QUESTION, trace_id=TRACE)
        assert traced.trace_id == TRACE
        history = [("user", "门诊报多少"), {"role": "assistant", "content": "七成"}]
        answer = await client.ask(at.base, QUESTION, history=history)
        assert answer.answer
        assert any("七成" in each.text for each in at.chat.requests)

    told(tmp_path, story)


def test_an_adapter_asks_a_service_and_a_workflow_says_that_it_cannot(tmp_path: Path) -> None:
    async def story(at: Asking, client: Client) -> None:
        adapter = RAGAnythingAdapter(client)
        here, there = await at.served.engine.ask(at.base, QUESTION), await adapter.query(QUESTION)
        assert alike(there) == alike(here)
        await adapter.aclose()
        assert (await client.knowledge_base(at.base)).id == at.base  # another's client stays open
        with pytest.raises(BadInput, match=r"Client") as refused:
            create_query_workflow(client)  # type: ignore[arg-type]
        assert "RAGAnythingAdapter(client)" in refused.value.hint

    told(tmp_path, story)


def test_a_streamed_answer_is_the_engines_own_event_by_event(tmp_path: Path) -> None:
    async def story(at: Asking, client: Client) -> None:
        here, there = [await events(each, at.base) for each in (at.served.engine, client)]
        assert [type(each) for each in there] == [type(each) for each in here]
        assert there[:-1] == here[:-1]
        assert isinstance(there[-1], Done)
        assert isinstance(here[-1], Done)
        assert alike(there[-1].answer) == alike(here[-1].answer)
        assert {SourcesFound, Token, SentenceCited} <= {type(each) for each in there}

    told(tmp_path, story)


def test_a_cut_answer_fails_and_keeps_what_there_was(tmp_path: Path) -> None:
    async def story(at: Asking, client: Client) -> None:
        *_, last = await events(client, at.base)
        assert isinstance(last, Failed)
        assert last.answer.is_partial
        assert last.error == "model_unavailable"

    told(tmp_path, story, writing(Reply(ANSWER, cut_after=8)))


def test_who_stops_listening_hangs_up(tmp_path: Path) -> None:
    async def story(at: Asking, client: Client) -> None:
        async with aclosing(client.ask_stream(at.base, QUESTION)) as coming:
            async for event in coming:
                if isinstance(event, Token):
                    break
        await until(lambda: len(at.chat.left) == 1)

    told(tmp_path, story, writing(Reply(ANSWER, hang_after=6)))


def test_errors_are_the_engines(tmp_path: Path) -> None:
    async def story(at: Asking, client: Client) -> None:
        async def failing(kind: type[QianxunError], base: int, question: str, **options: Any) -> None:
            with pytest.raises(kind):
                await client.ask(base, question, **options)
            with pytest.raises(kind):
                await anext(client.ask_stream(base, question, **options))

        await failing(NotFound, 9999, QUESTION)
        await failing(BadQuery, at.base, "  ")
        await failing(BadQuery, at.base, QUESTION, top_k=0)
        await failing(BadQuery, at.base, QUESTION, mode="magic")
        await failing(BadQuery, at.base, QUESTION, history=[7])
        await failing(BadInput, at.base, QUESTION, trace_id="7")
        await failing(BadInput, at.base, QUESTION, multimodal_content=["x"])
        await failing(Refused, at.base, QUESTION, multimodal_content=[{"type": "image", "img_path": "没有.png"}])

    told(tmp_path, story)


def test_files_of_this_machine_go_along(tmp_path: Path) -> None:
    packed = io.BytesIO()
    Image.new("RGB", (60, 40), "white").save(packed, "PNG")
    (tmp_path / "白纸.png").write_bytes(packed.getvalue())
    (tmp_path / "各级医院.csv").write_text("医院,比例\n三级医院,61%\n一级医院,92%\n", encoding="utf-8")
    (tmp_path / "各级医院旧.csv").write_text("医院,比例\n三级医院,61%\n一级医院,92%\n", encoding="gbk")
    (tmp_path / "价目.xlsx").write_bytes(b"PK")

    async def story(at: Asking, client: Client) -> None:
        table = {"type": "table", "table_path": str(tmp_path / "各级医院.csv")}
        answer = await client.ask(at.base, "三级医院的比例是多少", multimodal_content=[table])
        assert "61%" in answer.answer
        assert answer.sources[0].doc_name == "各级医院"
        old = {"type": "table", "table_path": tmp_path / "各级医院旧.csv"}
        answer = await client.ask(at.base, "三级医院的比例是多少", multimodal_content=[old])
        assert "| 三级医院 | 61% |" in answer.sources[0].text
        picture = {"type": "image", "img_path": tmp_path / "白纸.png"}
        answer = await client.ask(at.base, QUESTION, multimodal_content=[picture])
        assert any(each.part == "image" for each in answer.degraded)  # it came through, and says nothing
        with pytest.raises(UnsupportedFile, match="CSV"):
            await client.ask(
                at.base, QUESTION, multimodal_content=[{"type": "table", "table_path": tmp_path / "价目.xlsx"}]
            )

    told(tmp_path / "data", story, writing("三级医院的比例是61%[1]。"))


SOURCES = b'event: sources\ndata: {"sources": []}\n\n'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        SOURCES,
        SOURCES + b'event: token\ndata: {"text": "\xe4\xbd\x8f"}\n\n',
        SOURCES + b"event: token\ndata: {}\n\n",
        SOURCES + b"event: token\ndata: <html>\n\n",
        SOURCES + b'event: done\ndata: {"answer": "x"}\n\n',
        SOURCES + b"event: error\ndata: {}\n\n",
    ],
)
def test_an_answer_that_does_not_end_is_none(body: bytes) -> None:
    async def run() -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

        async with Client("http://service", transport=httpx.MockTransport(answer)) as client:
            with pytest.raises(ServiceUnavailable):
                await events(client, 1)

    asyncio.run(run())


def test_what_is_no_such_service_is_told_apart() -> None:
    async def run() -> None:
        answers = iter(
            [
                httpx.Response(200, text="<html>"),
                httpx.Response(200, json={"code": 200, "msg": "success", "data": {}}),
                httpx.Response(502, text="bad gateway"),
                httpx.Response(503, json={"code": 503, "msg": "忙　等", "data": None, "error": "overloaded"}),
            ]
        )
        transport = httpx.MockTransport(lambda request: next(answers))
        async with Client("http://service", transport=transport) as client:
            for kind in ("service_unavailable", "service_unavailable", "service_unavailable", "overloaded"):
                with pytest.raises(QianxunError) as caught:
                    await events(client, 1)
                assert caught.value.word == kind
        async with Client("http://127.0.0.1:9", timeouts=Timeouts(connect_seconds=0.5)) as client:
            with pytest.raises(ServiceUnavailable, match="连不上"):
                await events(client, 1)

    asyncio.run(run())


def test_an_event_of_a_later_version_is_passed_over() -> None:
    async def run() -> list[AnswerEvent]:
        body = SOURCES + b'event: thought\ndata: {"x": 1}\n\nevent: token\ndata: {"text": "a"}\n\n'
        transport = httpx.MockTransport(
            lambda request: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
        )
        came: list[AnswerEvent] = []
        async with Client("http://service", transport=transport) as client:
            coming = client.ask_stream(1, QUESTION)
            came += [await anext(coming), await anext(coming)]
            with pytest.raises(ServiceUnavailable):
                await anext(coming)
        return came

    assert asyncio.run(run()) == [SourcesFound(()), Token("a")]
