"""Questions over real HTTP, to a real service with a real model service behind it."""

from __future__ import annotations

import asyncio
import base64
import json
import queue
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from qianxun.core.answer_types import Citation, Source
from qianxun.core.options import QUERY_MODES
from qianxun.doors.http import event_stream
from qianxun.doors.http.native.query import AnswerInfo
from qianxun.doors.http.response_models import of
from qianxun.models.remote.breaker import Breaker
from qianxun.models.remote.chat import StreamedReply
from tests.http.cuts import cut, cutting
from tests.http.questions import ANSWER, MANUAL, QUESTION, Asking, asking, read, writing
from tests.http.served import issue, later, revoke, until
from tests.http.watched import TRACE, TRACEPARENT, logged
from tests.models.chat_service import Answers, Reply
from tests.models.clock import Clock, turned_by_hand

Telling: TypeAlias = Callable[[Callable[[Asking], Awaitable[None]]], None]
CONTRACT = {"answer", "sources", "mode", "trace_id"}


def told(
    folder: Path,
    story: Callable[[Asking], Awaitable[None]],
    answers: Answers | None = None,
    settings: Mapping[str, Any] | None = None,
) -> None:
    async def run() -> None:
        async with asking(folder, answers or writing(ANSWER), settings) as at:
            await asyncio.wait_for(story(at), 300)

    asyncio.run(run())


def sentences(data: Mapping[str, Any]) -> list[str]:
    return [data["answer"][each["start"] : each["end"]] for each in data["citations"]]


# ── whole ────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_has_marks_and_every_mark_its_source(shared_asking: Telling) -> None:
    async def story(at: Asking) -> None:
        response = await at.post()
        assert response.status_code == 200, response.text
        data = response.json()["data"]
        assert set(data) >= CONTRACT
        assert set(data) == set(AnswerInfo.model_fields)
        assert (data["form"], data["mode"], data["is_partial"]) == ("model", "mix", False)
        assert set(re.findall(r"\[\d+\]", data["answer"])) == {f"[{each['number']}]" for each in data["sources"]}
        (source,) = data["sources"]
        assert set(source) == set(of(Source).model_fields)
        assert MANUAL[source["start"] : source["end"]] == source["content"]
        assert [set(each) for each in data["citations"]] == [set(of(Citation).model_fields)] * 2
        assert ["85%" in sentences(data)[0], "70%" in sentences(data)[1]] == [True, True]
        assert data["trace_id"] == response.headers["x-trace-id"]

    shared_asking(story)


def test_every_mode_answers(shared_asking: Telling) -> None:
    async def story(at: Asking) -> None:
        for mode in (*QUERY_MODES, "auto", None):
            response = await at.post(mode=mode, top_k=3)
            assert response.status_code == 200, response.text
            data = response.json()["data"]
            assert data["answer"]
            assert data["mode"] == mode or mode in ("auto", None)
            assert "[1]" in data["answer"] or not data["sources"]

    shared_asking(story)


def test_without_a_model_the_sources_own_sentences_answer(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        data = (await at.post()).json()["data"]
        assert data["form"] == "extractive"
        assert "85%" in data["answer"]
        names = [name for name, _ in await at.events()]
        assert names[0] == "sources"
        assert names[-1] == "done"
        assert {"token", "citation"} <= set(names)
        assert at.chat.requests == []

    told(tmp_path, story, settings={"chat.base_url": "", "chat.model": "", "chat.api_key": ""})


def test_filters_and_document_ids_bound_what_may_be_used(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        await at.served.add(at.base, "通知", "职工住院费用的报销比例调整为88%。", metadata={"年份": 2025})
        for narrowed in ({"doc_ids": ["通知"]}, {"filters": {"metadata.年份": {"ge": 2025}}}):
            for mode in ("naive", "mix", "local", "global"):
                (*_, (name, data)) = await at.events(mode=mode, **narrowed)
                assert name == "done"
                assert {each["doc_id"] for each in data["sources"]} <= {"通知"}
        asked = [each.text for each in at.chat.requests]
        assert asked
        assert not any("85%" in each or "70%" in each for each in asked)
        both = await at.post(doc_ids=["手册"], filters={"doc_id": "通知"})
        assert both.json()["data"]["sources"] == []

    told(tmp_path, story, writing("职工住院费用的报销比例调整为88%[1]。"))


def test_a_conversation_and_attachments_reach_the_model(tmp_path: Path) -> None:
    table = "| 医院 | 比例 |\n| --- | --- |\n| 三级医院 | 61% |\n| 一级医院 | 92% |\n"

    async def story(at: Asking) -> None:
        asked = {"history": [{"role": "user", "content": "甲"}, {"role": "assistant", "content": "乙丙丁"}]}
        response = await at.post(**asked)
        assert response.status_code == 200, response.text
        assert any("乙丙丁" in each.text for each in at.chat.requests)
        pasted = await at.post(query="那门诊呢？", history=[{"role": "user", "content": "医保" * 16_000}])
        assert pasted.status_code == 200, pasted.text
        for data in (table, [{"医院": "三级医院", "比例": "61%"}], [["医院", "比例"], ["三级医院", "61%"]]):
            item = {"type": "table", "table_data": data, "table_caption": "各级医院"}
            response = await at.post(query="三级医院的比例是多少", multimodal_content=[item])
            assert response.status_code == 200, response.text
            told = response.json()["data"]
            assert "61%" in told["answer"]
            assert told["sources"][0]["doc_name"] == "各级医院"

    told(tmp_path, story, writing("三级医院的比例是61%[1]。"))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": " \n"}, "query"),
        ({"query": "长" * 5000}, "query"),
        ({"mode": "magic"}, "mode"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 101}, "top_k"),
        ({"stream": "yes"}, "stream"),
        ({"history": [{"role": "boss", "content": "x"}]}, "history.0.role"),
        ({"history": [{"role": "user", "content": "x"}] * 101}, "history"),
        ({"history": [{"role": "user", "content": "x" * 32_001}]}, "history.0.content"),
        ({"multimodal_content": [{"type": "image", "img_path": "/etc/passwd"}]}, "multimodal_content.0"),
        ({"multimodal_content": [{"type": "table", "table_path": "/etc/passwd"}]}, "multimodal_content.0"),
        ({"multimodal_content": [{"type": "image", "img_base64": "AA", "img_path": "x"}]}, "multimodal_content.0"),
        ({"multimodal_content": [{"type": "image"}]}, "multimodal_content.0.image"),
        ({"multimodal_content": [{"type": "sound"}]}, "multimodal_content.0"),
        ({"multimodal_content": [{}]}, "multimodal_content.0"),
        ({"multimodal_content": [{"type": "table", "table_data": 7}]}, "multimodal_content.0.table.table_data"),
        ({"multimodal_content": [{"type": "table", "table_data": [[], {}]}]}, "multimodal_content.0.table.table_data"),
        ({"multimodal_content": [{"type": "table", "table_data": "a"}] * 11}, "multimodal_content"),
        ({"filters": {"nobody": 1}}, "filters.nobody"),
        ({"surprise": 1}, "surprise"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_its_field_streamed_or_not(
    shared_asking: Telling, body: dict[str, Any], field: str
) -> None:
    async def story(at: Asking) -> None:
        for stream in (False, True):
            response = await at.post(**{"stream": stream, **body})
            word = "bad_filter" if "filters" in body else "validation"
            assert (response.status_code, response.json()["error"]) == (422, word), response.text
            assert field in [each["field"] for each in response.json()["fields"]]
            assert "passwd" not in response.text

    shared_asking(story)


def test_a_blank_question_is_refused_in_words(shared_asking: Telling) -> None:
    async def story(at: Asking) -> None:
        response = await at.post(query=" \n ")
        assert response.status_code == 422
        assert response.json()["fields"] == [{"field": "query", "reason": "不能为空，写出要找的内容"}]

    shared_asking(story)


@pytest.fixture(scope="module")
def shared_asking(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One service for all those who change nothing in it."""
    runner = asyncio.Runner()
    made = asking(tmp_path_factory.mktemp("asking"), writing(ANSWER))
    at = runner.run(made.__aenter__())
    yield lambda story: runner.run(asyncio.wait_for(story(at), 300))
    runner.run(made.__aexit__(None, None, None))
    runner.close()


def test_an_unknown_base_and_a_bad_picture_have_their_own_status_when_streamed(
    shared_asking: Telling,
) -> None:
    async def story(at: Asking) -> None:
        missing = await at.served.http.post("/v1/query/9999", json={"query": QUESTION, "stream": True})
        assert (missing.status_code, missing.json()["error"]) == (404, "not_found")
        for packed, word in (("!!!", "bad_input"), (base64.b64encode(b"%PDF-1.7 x").decode(), "unsupported_file")):
            item = {"type": "image", "img_base64": packed}
            response = await at.post(stream=True, multimodal_content=[item])
            assert response.json()["error"] == word, response.text
        item = {"type": "image", "url": "http://169.254.169.254/latest/meta-data"}
        response = await at.post(stream=True, multimodal_content=[item])
        assert response.status_code in (400, 422), response.text
        large = await at.post(multimodal_content=[{"type": "image", "img_base64": "A" * (17 << 20)}])
        assert large.status_code == 413

    shared_asking(story)


# ── as it comes ──────────────────────────────────────────────────────────────────────────────────


def test_events_come_in_order_and_say_together_what_done_says(shared_asking: Telling) -> None:
    async def story(at: Asking) -> None:
        response = await at.post(stream=True)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        assert {"no-store", "no-transform"} <= set(response.headers["cache-control"].replace(" ", "").split(","))
        events = read(response.content)
        names = [name for name, _ in events]
        assert re.fullmatch(r"sources (token |citation )+done", " ".join(names)), names
        done = events[-1][1]
        assert set(done) == set(AnswerInfo.model_fields)
        assert "".join(data["text"] for name, data in events if name == "token") == done["answer"]
        cited = [data for name, data in events if name == "citation"]
        assert [done["answer"][each["start"] : each["end"]] for each in cited] == sentences(done)
        assert [source for each in cited for source in each["sources"]] == done["sources"]
        assert [each["chunk_id"] for each in events[0][1]["sources"]] == [done["sources"][0]["chunk_id"]]
        assert {each["number"] for each in events[0][1]["sources"]} == {0}
        assert done["trace_id"] == response.headers["x-trace-id"]
        for at_place, (name, data) in enumerate(events):
            if name == "citation":  # after its sentence is complete, and its marks with it
                said = "".join(each["text"] for kind, each in events[:at_place] if kind == "token")
                assert said.endswith("".join(f"[{number}]" for number in data["numbers"]))

    shared_asking(story)


def test_words_are_out_before_the_next_are_there(tmp_path: Path) -> None:
    given: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    async def story(at: Asking) -> None:
        async with at.listening() as events:
            assert (await anext(events))[0] == "sources"
            for piece in ("职工住院费用", "的报销", "比例为"):
                given.put(piece)
                said = ""
                while said != piece:  # it is not told in one piece, but all of it before the model goes on
                    name, data = await asyncio.wait_for(anext(events), 120)
                    assert name == "token"
                    said += data["text"]
                    assert piece.startswith(said)
            given.put("85%[1]。")
            given.put(None)
            names = [name async for name, _ in events]
            assert names[-2:] == ["citation", "done"]
            assert set(names[:-2]) == {"token"}

    told(tmp_path, story, writing(lambda request: Reply(pieces=iter(given.get, None))))


def test_while_nothing_comes_a_sign_of_life_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.1)
    given: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    async def story(at: Asking) -> None:
        came = b""
        asked = {"query": QUESTION, "stream": True}
        async with at.served.http.stream("POST", at.path, json=asked) as response:
            async for piece in response.aiter_raw():
                came += piece
                if came.count(b": keep-alive\n\n") >= 3 and given.empty():
                    given.put(ANSWER)
                    given.put(None)
        assert came.startswith((b": keep-alive", b"event: sources"))
        assert read(came)[-1][0] == "done"

    told(tmp_path, story, writing(lambda request: Reply(pieces=iter(given.get, None))))


def test_a_trace_is_carried_from_the_request_to_the_last_event(shared_asking: Telling) -> None:
    async def story(at: Asking) -> None:
        headers = {"traceparent": TRACEPARENT}
        response = await at.served.http.post(at.path, json={"query": QUESTION, "stream": True}, headers=headers)
        assert response.headers["x-trace-id"] == TRACE
        assert read(response.content)[-1][1]["trace_id"] == TRACE

    shared_asking(story)


# ── cuts ─────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_cut_ends_with_an_error_and_what_there_was(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        events = await at.events()
        name, data = events[-1]
        assert (name, data["error"]) == ("error", "model_unavailable")
        assert data["msg"]
        assert data["answer"]["is_partial"]
        assert data["answer"]["trace_id"] == data["trace_id"]
        said = "".join(each["text"] for kind, each in events if kind == "token")
        assert said
        assert re.sub(r"\[\d\]", "", said) in re.sub(r"\[\d\]", "", ANSWER)

    told(tmp_path, story, writing(Reply(ANSWER, cut_after=12)))


def test_no_cut_hangs_and_none_is_told_as_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make torture` does the same five hundred times."""

    async def story(at: Asking) -> None:
        cuts = await cut(at, 24, at_once=4)
        assert not cuts.wrong, "\n".join(cuts.wrong)
        assert cuts.rounds == 24
        at.chat.answers = writing(Reply(ANSWER, is_done=False))
        cuts = await cut(at, 8)
        assert (cuts.wrong, cuts.failed > 0) == ([], True)
        # The control: with a client that takes every stream's end for the reply's, some are told as complete.
        monkeypatch.setattr(StreamedReply, "check_end", lambda reply: None)
        assert (await cut(at, 8)).wrong

    monkeypatch.setattr(Breaker, "is_open", False)  # however many break off one after the other, it is asked again
    monkeypatch.setattr(Breaker, "_open", lambda *_: None)
    told(tmp_path, story, writing(cutting(7)), {"chat.timeout_seconds": 0.5})


def test_a_model_that_falls_silent_does_not_keep_its_client_waiting_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    turned_by_hand(monkeypatch, clock)

    async def go_by() -> None:
        while True:  # a piece that was on its way puts the end off
            clock.now += 61.0
            await asyncio.sleep(0.05)

    async def story(at: Asking) -> None:
        async with at.listening() as events:
            while (await anext(events))[0] != "token":
                pass
            time = asyncio.create_task(go_by())
            *_, (name, data) = [event async for event in events]
            time.cancel()
        assert name == "error"
        assert data["answer"]["is_partial"]

    told(tmp_path, story, writing(Reply(ANSWER, hang_after=3)), {"chat.timeout_seconds": 60.0})


def test_an_answer_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        async with at.listening() as events:
            while (await anext(events))[0] != "token":
                pass
            await later(25.0)
            *_, (name, data) = [event async for event in events]
        assert (name, data["error"], data["answer"]) == ("error", "overloaded", None)
        await until(lambda: len(at.chat.left) == 1)
        asked = asyncio.create_task(at.post())
        await until(lambda: at.written() == 2)
        await later(25.0)
        whole = await asked
        assert (whole.status_code, whole.json()["error"]) == (503, "overloaded")

    told(tmp_path, story, writing(Reply(ANSWER, hang_after=3)), {"service.answer_seconds": 20.0})


def test_a_service_that_stops_tells_those_who_still_listen(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        heard: list[tuple[str, Any]] = []

        async def listen() -> None:
            async with at.listening(mode="naive") as events:
                async for event in events:
                    heard.append(event)

        listening = asyncio.create_task(listen())
        await until(lambda: any(name == "token" for name, _ in heard))
        at.served.server.stop()
        await asyncio.gather(listening, at.served.running, return_exceptions=True)
        name, data = heard[-1]
        assert (name, data["error"], data["answer"]) == ("error", "overloaded", None)
        await until(lambda: len(at.chat.left) == 1)

    told(tmp_path, story, writing(Reply(ANSWER, hang_after=5)), {"service.close_seconds": 1})


def test_what_nobody_foresaw_ends_the_stream_with_an_error_that_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(at: Asking) -> None:
        async def broken(*_: Any, **__: Any) -> Any:
            async for event in whole(at.served.engine, at.base, QUESTION):
                yield event
                raise ZeroDivisionError("the secret")

        whole = type(at.served.engine).ask_stream
        monkeypatch.setattr(type(at.served.engine), "ask_stream", broken)
        with logged() as lines:
            events = await at.events()
        assert [name for name, _ in events] == ["sources", "error"]
        assert (events[-1][1]["error"], events[-1][1]["answer"]) == ("internal", None)
        assert "secret" not in str(events)
        assert any(line["trace_id"] == events[-1][1]["trace_id"] for line in lines() if "exception" in line)

    told(tmp_path, story)


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_leaves_closes_the_models_connection(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        for turn in range(3):
            async with at.listening() as events:
                while (await anext(events))[0] != "token":
                    pass
                assert len(at.chat.left) == turn
            await until(lambda: len(at.chat.left) == turn + 1)  # noqa: B023
        await until(lambda: at.served.app.state.service.answers.running == 0)
        metrics = (await at.served.http.get("/metrics")).text
        assert 'rag_answers_total{form="other",mode="mix",outcome="left"} 3.0' in metrics
        assert (await at.served.http.get("/healthz")).status_code == 200

    told(tmp_path, story, writing(Reply(ANSWER, hang_after=8)))


def test_a_client_that_leaves_before_the_first_word_closes_it_too(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        for stream in (True, False):
            before = at.written()
            asked = asyncio.create_task(at.post(stream=stream))
            await until(lambda: at.written() > before)  # noqa: B023
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            await until(lambda: len(at.chat.left) > before)  # noqa: B023
            await until(lambda: at.served.app.state.service.answers.running == 0)
        assert 'outcome="left"} 2.0' in (await at.served.http.get("/metrics")).text

    told(tmp_path, story, writing(Reply(ANSWER, delay_seconds=200)))


def test_many_listen_at_once(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        for turn in range(2):
            async with AsyncExitStack() as held:
                listening = [await held.enter_async_context(at.listening(mode="naive")) for _ in range(12)]
                for events in listening:
                    while (await asyncio.wait_for(anext(events), 120))[0] != "token":
                        pass  # each of them hears a word while all the others are listening
                assert at.written() == 12 * (turn + 1)
            # All have left in one moment: that is no fault of the model's, and keeps nobody from asking it again.

    told(tmp_path, story, writing(Reply(ANSWER, hang_after=4)))


def test_answers_that_wait_for_a_model_keep_no_search_waiting(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        waiting = [asyncio.create_task(at.post(stream=True)) for _ in range(2)]
        await until(lambda: at.written() == 2)
        third = asyncio.create_task(at.post())
        await until(lambda: at.served.app.state.service.answers.waiting == 1)
        refused = await at.post()
        assert (refused.status_code, refused.json()["error"]) == (503, "overloaded")
        found = await at.served.http.post(f"/v1/retrieval/{at.base}", json={"query": QUESTION})
        assert found.json()["data"]["chunks"]
        at.chat.closing.set()
        await asyncio.gather(*waiting, third)

    limits = {"service.answers_at_once": 2, "service.recalls_waiting": 1, "service.recalls_at_once": 1}
    told(tmp_path, story, writing(Reply(ANSWER, delay_seconds=200)), limits)


# ── who, and what is told of it ──────────────────────────────────────────────────────────────────


def test_another_tenants_base_does_not_exist_and_a_reading_key_may_ask(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        engine = at.served.engine
        keys = {name: issue(engine, name, scope)[1] for name, scope in (("local", "read"), ("yi", "write"))}
        for stream in (False, True):
            for tenant, status in (("local", 200), ("yi", 404)):
                headers = {"authorization": f"Bearer {keys[tenant]}"}
                body = {"query": QUESTION, "stream": stream}
                response = await at.served.http.post(at.path, json=body, headers=headers)
                assert response.status_code == status, response.text
                assert ("85%" in response.text) == (tenant == "local")
            assert (await at.post(stream=stream)).status_code == 401

    told(tmp_path, story)


def test_a_key_that_is_revoked_hears_no_more_of_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "CHECK_KEY_SECONDS", 0.0)
    given: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    async def story(at: Asking) -> None:
        number, key = issue(at.served.engine, "local", "read")
        at.served.http.headers["authorization"] = f"Bearer {key}"
        async with at.listening() as events:
            assert (await anext(events))[0] == "sources"
            given.put("职工住院费用")
            assert (await anext(events))[0] == "token"
            revoke(at.served.engine, number)
            given.put("的报销比例为85%[1]。")
            given.put(None)
            rest = [event async for event in events]
        assert rest[-1][0] == "error"
        assert rest[-1][1]["error"] == "unauthorized"
        assert "85%" not in str(rest)

    told(tmp_path, story, writing(lambda request: Reply(pieces=iter(given.get, None))))


def test_the_log_and_the_metrics_tell_mode_and_form_and_no_text(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        with logged() as lines:
            await at.post(mode="naive")
            await at.events(mode="local")
            at.chat.answers = writing(Reply(ANSWER, cut_after=9))
            await at.events()
        requests = [line for line in lines() if line["logger"] == "qianxun.doors.http.requests"]
        kept = [{name: line.get(name) for name in ("mode", "form", "outcome", "status")} for line in requests]
        assert kept[:2] == [
            {"mode": "naive", "form": "model", "outcome": "done", "status": 200},
            {"mode": "local", "form": "model", "outcome": "done", "status": 200},
        ]
        assert (kept[2]["mode"], kept[2]["outcome"]) == ("mix", "failed")
        assert all(line["first_word_ms"] > 0 for line in requests[1:])
        metrics = (await at.served.http.get("/metrics")).text
        assert 'rag_answers_total{form="model",mode="naive",outcome="done"} 1.0' in metrics
        assert 'rag_answers_total{form="model",mode="local",outcome="done"} 1.0' in metrics
        assert 'rag_answer_first_word_seconds_count{mode="local"} 1.0' in metrics
        assert 'rag_answer_stage_seconds_count{stage="generate_answer"}' in metrics
        for text in ("85%", "职工住院", QUESTION, "手册"):
            assert text not in metrics
            assert text not in json.dumps(lines(), ensure_ascii=False)

    told(tmp_path, story)


def test_the_document_shows_what_it_answers(shared_asking: Telling) -> None:
    async def story(at: Asking) -> None:
        document = (await at.served.http.get("/openapi.json")).json()
        told = document["paths"]["/v1/query/{knowledge_base_id}"]["post"]
        assert set(told["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
        for example in told["requestBody"]["content"]["application/json"]["examples"].values():
            body = {**example["value"], "doc_ids": None, "filters": None}
            response = await at.served.http.post(at.path, json=body)
            assert response.status_code == 200, response.text

    shared_asking(story)


def test_a_question_is_in_the_log_of_recalls_and_can_be_judged(tmp_path: Path) -> None:
    async def story(at: Asking) -> None:
        answer = (await at.post(mode="local", top_k=4)).json()["data"]
        await at.events()
        await at.post(query="火星基地的站长是谁？", mode="naive")
        http = at.served.http
        page = (await http.get("/v1/retrieval-logs")).json()["data"]["list"]
        modes = [(each["retrieval_mode"], each["retrieval_params"]["form"]) for each in page]
        assert modes == [("ask:naive", "declined"), ("ask:mix", "model"), ("ask:local", "model")]
        assert ANSWER[:6] not in json.dumps(page, ensure_ascii=False)
        (unanswered,) = (await http.get("/v1/retrieval-logs", params={"zero": True})).json()["data"]["list"]
        assert (unanswered["zero"], unanswered["query"]) == (True, "火星基地的站长是谁？")
        (row,) = (await http.get("/v1/retrieval-logs", params={"trace_id": answer["trace_id"]})).json()["data"]["list"]
        assert row["retrieval_params"]["cited"] == [answer["sources"][0]["chunk_id"]]
        judged = await http.post(
            f"/v1/retrieval-logs/{row['id']}/feedback", json={"rating": "bad", "comment": "答非所问"}
        )
        assert judged.json()["data"] == {**row, "feedback": {"rating": "bad", "chunk_ids": [], "comment": "答非所问"}}

    declines = writing(lambda request: "无法回答" if "火星" in str(request.messages[-1]) else ANSWER)
    told(tmp_path, story, declines)
