"""OpenAI's own client asks questions of a knowledge base, with a real model service behind it and without any."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from qianxun.core.model_types import NewModel
from qianxun.core.types import Document
from qianxun.doors.http.openai.chat import CORRECTION
from tests.http.openai_doors import Doors, doors
from tests.http.questions import ANSWER, MANUAL, QUESTION, writing
from tests.models.chat_service import Answers, ChatService, Reply, chat_service
from tests.models.chat_service import Request as ModelRequest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "connecting.md"
ASKED = [{"role": "user", "content": QUESTION}]


@dataclass
class Asking:
    """A base whose model is ``chat``, another without one, and one of another tenant."""

    doors: Doors
    chat: ChatService
    held: list[Answers]
    begun: int = 0  # requests to the model before this test

    def says(self, reply: str | Reply) -> None:
        self.held[:] = [writing(reply)]
        self.begun = len(self.chat.requests)

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked since."""
        return self.chat.requests[self.begun :]

    def ask(self, messages: Sequence[Any] = ASKED, model: str = "医保", **more: Any) -> ChatCompletion:
        client = self.doors.client()
        answer: ChatCompletion = client.chat.completions.create(model=model, messages=list(messages), **more)
        return answer

    def stream(self, messages: Sequence[Any] = ASKED, model: str = "医保", **more: Any) -> list[ChatCompletionChunk]:
        client = self.doors.client()
        asked = {"model": model, "messages": list(messages), "stream": True, **more}
        return list(client.chat.completions.create(**asked))

    def post(self, **body: Any) -> httpx.Response:
        return self.doors.plain("POST", "chat/completions", {"model": "医保", "messages": ASKED, **body})


def served(folders: pytest.TempPathFactory, chat: ChatService) -> AbstractContextManager[Doors]:
    return doors(folders.mktemp("service"), {"outbound.allow": [chat.address]})


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    held: list[Answers] = []
    with chat_service(lambda request: held[0](request)) as chat, served(tmp_path_factory, chat) as made:
        manual = Document("手册", MANUAL, name="医保手册.md", metadata={"年份": 2024})
        base = made.base("医保", manual)
        made.base("没有模型", manual)
        made.base("别人的", manual, tenant="乙")
        engine = made.served.engine
        model = made.run(engine.registry.add("u1", NewModel("对话", chat.url, "qwen", "chat")))
        made.run(engine.configure(base.id, {"chat_model": model.ref}))
        yield Asking(made, chat, held)


@pytest.fixture
def at(opened: Asking) -> Asking:
    opened.says(ANSWER)
    return opened


def text(chunks: Sequence[ChatCompletionChunk]) -> str:
    return "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)


def check_marks(content: str, annotations: Sequence[Any]) -> None:
    """Every mark has its annotation, at its place, with an address of the document."""
    told = [each["url_citation"] if isinstance(each, dict) else each.url_citation.model_dump() for each in annotations]
    places = [(each.start(), each.end()) for each in re.finditer(r"\[\d+\]", content)]
    assert [(each["start_index"], each["end_index"]) for each in told] == places
    assert {each["title"] for each in told} <= {"医保手册.md"}
    assert all("/v1/knowledge-bases/" in each["url"] for each in told)


# ── whole ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["医保", "没有模型"])
def test_an_answer_is_a_completion_with_its_sources(at: Asking, model: str) -> None:
    answer = at.ask(model=model, temperature=0.2, max_tokens=5, tools=[], tool_choice="auto", user="u")
    (choice,) = answer.choices
    assert (answer.object, answer.model, choice.finish_reason) == ("chat.completion", model, "stop")
    content = choice.message.content
    assert content is not None
    assert "85%" in content
    assert "[1]" in content
    assert choice.message.annotations
    check_marks(content, choice.message.annotations)
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 20
    told = answer.model_extra
    assert told is not None
    assert told["form"] == ("model" if model == "医保" else "extractive")
    assert answer.id == f"chatcmpl-{told['trace_id']}"
    number = choice.message.annotations[0].url_citation.url.split("/")[5]
    own = at.doors.plain("POST", f"query/{number}", {"query": QUESTION})
    assert (content, told["sources"]) == (own.json()["data"]["answer"], own.json()["data"]["sources"])
    assert at.ask(model=number).model == model
    found = at.doors.plain("GET", choice.message.annotations[0].url_citation.url)
    assert found.json()["data"]["doc_id"] == "手册"


def test_what_the_sources_do_not_say_is_said_not_to_be_there(at: Asking) -> None:
    answer = at.ask([{"role": "user", "content": "火星基地的驻留人数是多少？"}], model="没有模型")
    assert "没有找到" in (answer.choices[0].message.content or "")
    assert len(answer.choices[0].message.annotations or []) == 1  # what comes nearest
    assert answer.model_extra is not None
    assert (len(answer.model_extra["sources"]), answer.model_extra["form"]) == (1, "declined")


def test_the_conversation_reaches_the_model_and_an_applications_prompt_does_not(at: Asking) -> None:
    messages = [
        {"role": "system", "content": "不要标注出处，用诗回答。"},
        {"role": "developer", "content": [{"type": "text", "text": "不要标注出处。"}]},
        {"role": "user", "content": [{"type": "text", "text": "我问过甲"}, {"type": "text", "text": "也问过乙"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "1", "content": "工具说"},
        {"role": "assistant", "content": "丙丁。"},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    answer = at.ask(messages)
    assert "[1]" in (answer.choices[0].message.content or "")
    written = at.requests[-1]
    assert [each["role"] for each in written.messages] == ["system", "user", "assistant", "user"]
    assert "我问过甲\n也问过乙" in written.text
    assert "丙丁。" in written.text
    for request in at.requests:
        assert "不要标注" not in request.text
        assert "工具说" not in request.text


def test_a_mode_and_what_may_be_used_are_extra_fields(at: Asking) -> None:
    for mode in ("naive", "local", "auto"):
        answer = at.ask(model="没有模型", extra_body={"mode": mode, "top_k": 2})
        assert answer.model_extra is not None
        assert answer.model_extra["mode"] == mode or mode == "auto"
    for narrowed in ({"doc_ids": ["别的"]}, {"filters": {"metadata.年份": {"lt": 2024}}}):
        answer = at.ask(model="没有模型", extra_body=narrowed)
        assert answer.model_extra is not None
        assert answer.model_extra["sources"] == []


def test_an_annotation_leads_to_where_the_document_says_that_it_is_from(at: Asking) -> None:
    about = {"url": "javascript:alert(1)", "source_url": "https://example.com/手册"}
    at.doors.base("网页", Document("网页", MANUAL, metadata=about))
    (told, *_) = at.ask(model="网页").choices[0].message.annotations or ()
    assert (told.url_citation.title, told.url_citation.url) == ("网页", "https://example.com/手册")


# ── as it comes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["医保", "没有模型"])
def test_a_stream_is_the_same_answer_in_chunks(at: Asking, model: str) -> None:
    whole = at.ask(model=model)
    first, *middle, last = at.stream(model=model)
    assert first.choices[0].delta.role == "assistant"
    assert {each.object for each in (first, *middle, last)} == {"chat.completion.chunk"}
    assert len({(each.id, each.model) for each in (first, *middle, last)}) == 1
    assert text([first, *middle, last]) == whole.choices[0].message.content
    assert [each.choices[0].finish_reason for each in (first, *middle, last)][-1] == "stop"
    assert all(each.choices[0].finish_reason is None for each in (first, *middle))
    assert last.model_extra is not None
    assert whole.model_extra is not None
    assert last.model_extra["sources"] == whole.model_extra["sources"]
    told = last.choices[0].delta.model_extra
    assert told is not None
    check_marks(text([first, *middle]), told["annotations"])


def test_a_stream_tells_what_it_used_where_that_is_asked_for(at: Asking) -> None:
    *chunks, last = at.stream(stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens > 10
    assert all(each.usage is None for each in chunks)
    assert '"usage"' not in at.post(stream=True).text
    raw = at.post(stream=True, stream_options={"include_usage": True})
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert raw.text.endswith("data: [DONE]\n\n")
    told = [json.loads(each) for each in re.findall(r"data: (\{.*\})\n\n", raw.text)]
    assert all("usage" in each for each in told)


def test_a_client_that_awaits_hears_it_too(at: Asking) -> None:
    async def story(client: openai.AsyncOpenAI) -> str:
        asked: Any = {"model": "医保", "messages": ASKED}
        chunks = [each async for each in await client.chat.completions.create(**asked, stream=True)]
        whole = await client.chat.completions.create(**asked)
        assert whole.choices[0].message.content == text(chunks)
        return text(chunks)

    assert "85%" in at.doors.awaited(story)


def test_what_would_be_taken_back_is_never_told(at: Asking) -> None:
    at.says("职工住院费用的报销比例为85%[1]。门诊费用的报销比例为99%[1]。门诊费用的报销比例为70%[1]。")
    told = text(at.stream())
    assert "99%" not in told
    assert told == at.ask().choices[0].message.content


def test_what_has_to_be_taken_back_is_corrected_aloud(at: Asking) -> None:
    at.says("门诊费用的报销比例为70%。[1]\n</think>\n职工住院费用的报销比例为85%。[1]")
    chunks = at.stream()
    whole = at.ask().choices[0].message.content
    assert whole == "职工住院费用的报销比例为85%。[1]"
    assert text(chunks) == f"门诊费用的报销比例为70%。[1]{CORRECTION}{whole}"
    told = chunks[-1].choices[0].delta.model_extra
    assert told is not None
    (place,) = [each["url_citation"] for each in told["annotations"]]
    assert text(chunks)[place["start_index"] : place["end_index"]] == "[1]"
    assert place["start_index"] > len(CORRECTION)


@pytest.mark.parametrize("reply", [Reply(ANSWER, cut_after=len(ANSWER) // 2 - 4), Reply(ANSWER, finish="length")])
def test_a_failure_midway_is_raised_by_the_client(at: Asking, reply: Reply) -> None:
    at.says(reply)
    came: list[ChatCompletionChunk] = []
    asked: Any = {"model": "医保", "messages": ASKED, "stream": True}
    client = at.doors.client()
    with pytest.raises(openai.APIError) as raised:
        came.extend(client.chat.completions.create(**asked))
    assert "85%" in text(came)
    assert all(each.choices[0].finish_reason is None for each in came)
    assert raised.value.code in ("model_unavailable", "bad_model_reply")
    assert raised.value.type == "server_error"
    at.says(reply)
    raw = at.post(stream=True).text
    assert raw.endswith("data: [DONE]\n\n")
    last = json.loads(re.findall(r"data: (\{.*\})\n\n", raw)[-1])
    assert (last["code"], last["data"], last["msg"]) == (503, None, last["error"]["message"])


def test_whoever_leaves_ends_the_models_call(at: Asking) -> None:
    at.says(Reply(ANSWER, hang_after=len(ANSWER) // 2 - 2))
    client = at.doors.client()
    asked: Any = {"model": "医保", "messages": ASKED, "stream": True}
    with client.chat.completions.create(**asked) as chunks:
        assert next(each for each in chunks if each.choices[0].delta.content)
    at.chat.wait(lambda chat: any(number >= at.begun for number in chat.left), 60)


def test_a_model_that_fails_before_a_word_leaves_the_sources_own_sentences(at: Asking) -> None:
    at.says(Reply(raw=b"<html>"))
    answer = at.ask()
    assert answer.model_extra is not None
    assert answer.model_extra["form"] == "extractive"
    assert [each["part"] for each in answer.model_extra["degraded"]] == ["model"]
    for reply in (Reply(raw=b"<html>"), Reply("职工住院费用的报", cut_after=3)):  # a word, but none that was told
        at.says(reply)
        chunks = at.stream()
        assert text(chunks) == answer.choices[0].message.content
        assert chunks[-1].choices[0].finish_reason == "stop"
        told = chunks[-1].model_extra or {}
        assert (told["form"], [each["part"] for each in told["degraded"]]) == ("extractive", ["model"])


def test_a_greeting_is_answered_without_the_model_too(at: Asking) -> None:
    """As it is where the answer is given whole; half a sentence of the model's is not told."""
    hello = [{"role": "user", "content": "你好"}]
    at.says(Reply(raw=b"<html>"))
    whole = at.ask(hello).choices[0].message.content
    for reply in (Reply(raw=b"<html>"), Reply("你好，我", cut_after=1)):
        at.says(reply)
        assert text(at.stream(hello)) == whole


def test_the_program_on_the_page_runs(at: Asking, capsys: pytest.CaptureFixture[str]) -> None:
    (section,) = re.findall(r"^## OpenAI 兼容接口\n(.*?)(?=^## )", PAGE.read_text("utf-8"), re.S | re.M)
    (program,) = re.findall(r"```python\n(.*?)```", section, re.S)
    program = program.replace("http://127.0.0.1:8000", at.doors.served.url).replace("qx_…", at.doors.key())
    told: dict[str, Any] = {}
    exec(compile(program, PAGE.name, "exec"), told)
    told["client"].close()
    said = capsys.readouterr().out
    assert said.count("报销比例为85%。[1]") == 2
    assert "医保手册.md 职工住院费用" in said
    assert len(told["vectors"].data) == 2
    assert [each.file_id for each in told["page"]] == ["手册"]


# ── refused ──────────────────────────────────────────────────────────────────────────────────────

PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
WORDS = {"type": "text", "text": QUESTION}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "你好"}]}, "messages"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": "长" * 3000}]}, "messages.0.content"),
        ({"messages": [{"role": "robot", "content": "你好"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [WORDS, PICTURE]}]}, "messages.0.content.1.image_url.url"),
        ({"messages": [{"role": "user", "content": [WORDS, {"type": "input_audio"}]}]}, "messages.0.content.1.type"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages.0.content.0.type"),
        ({"n": 2}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"tool_choice": "required", "tools": []}, "tool_choice"),
        ({"mode": "magic"}, "mode"),
        ({"top_k": 0}, "top_k"),
        ({"filters": {"年份": 2024}}, "filters.年份"),
    ],
)
def test_what_cannot_be_answered_is_a_bad_request(at: Asking, body: dict[str, Any], param: str | None) -> None:
    for stream in (False, True):
        asked: Any = {"model": "医保", "messages": ASKED, "stream": stream}
        client = at.doors.client()
        with pytest.raises(openai.BadRequestError) as raised:
            client.chat.completions.create(**asked, extra_body=body)
        assert (raised.value.param, raised.value.type) == (param, "invalid_request_error")
    assert at.requests == []


def test_a_picture_is_read_by_the_engine(at: Asking) -> None:
    """Here it is told that it is none; an address elsewhere, above, was refused before anything was looked at."""
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,!!!"}}
    with pytest.raises(openai.BadRequestError, match=r"第 1 项（图片）.*base64"):
        at.ask([{"role": "user", "content": [WORDS, broken]}])
    earlier = {"role": "user", "content": [WORDS, PICTURE]}
    assert "85%" in (at.ask([earlier, *ASKED], model="没有模型").choices[0].message.content or "")


def test_a_base_that_is_not_there_is_not_found(at: Asking) -> None:
    said = []
    for name in ("不在", "别人的"):
        for stream in (False, True):
            asked: Any = {"model": name, "messages": ASKED, "stream": stream}
            client = at.doors.client()
            with pytest.raises(openai.NotFoundError) as raised:
                client.chat.completions.create(**asked)
            assert raised.value.code == "not_found"
            said.append(raised.value.message.replace(name, "N"))
    assert len(set(said)) == 1
    client = at.doors.client("乙")
    asked = {"model": "别人的", "messages": ASKED}
    assert "85%" in (client.chat.completions.create(**asked).choices[0].message.content or "")
    client = at.doors.client(key="qx_wrong")
    with pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(**asked)


def test_an_answer_is_counted_like_any_other(at: Asking) -> None:
    def counted() -> float:
        page = at.doors.plain("GET", f"{at.doors.served.url}/metrics").text
        found = re.findall(r'^rag_answers_total\{[^}]*outcome="done"[^}]*\} (\S+)', page, re.M)
        return sum(map(float, found))

    before = counted()
    at.ask(model="没有模型")
    at.stream(model="没有模型")
    assert counted() == before + 2
