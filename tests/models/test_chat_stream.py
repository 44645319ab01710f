from __future__ import annotations

import json
import queue
import socket
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain, count, repeat
from typing import Any

import pytest

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable, QianxunError
from qianxun.core.ports import StreamingChatModel
from qianxun.core.types import Message
from qianxun.models import ChatEndpoint
from qianxun.models.remote import chat as chat_module
from qianxun.models.remote.chat import RemoteChat
from tests.models.chat_service import Answers, ChatService, Reply, Request, chat_service
from tests.models.clock import Clock, turned_by_hand

KEY = "sk-stream-0123456789"
ASKED = [Message("system", "按资料回答"), Message("user", "住院报销多少？")]
TEXT = "住院费用报销 85%[1]。超过 3 万元的部分报销 90%[2]。"
PICTURE = "data:image/png;base64,iVBORw0KGgo="


@contextmanager
def remote(answers: Answers | Reply | str, key: str = "", **changes: Any) -> Iterator[tuple[RemoteChat, ChatService]]:
    scripted = (lambda request: answers) if isinstance(answers, Reply) else answers
    with chat_service(scripted, key=key) as service:
        endpoint = replace(ChatEndpoint(service.url, "qwen", api_key=KEY, timeout_seconds=60.0), **changes)
        with closing(RemoteChat(endpoint, sleep=lambda wait: None)) as model:
            yield model, service


def read(model: StreamingChatModel) -> tuple[str, QianxunError | None]:
    """What came, and what it ended with."""
    told: list[str] = []
    try:
        for piece in model.stream(ASKED):
            assert piece
            told.append(piece)
    except (ModelUnavailable, BadModelReply) as error:
        return "".join(told), error
    return "".join(told), None


def event(content: Any, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


# ── a reply as it comes ──────────────────────────────────────────────────────────────────────────


def test_a_streamed_reply_is_the_whole_one_in_pieces() -> None:
    with remote(TEXT, key=KEY) as (model, service):
        port: StreamingChatModel = model
        pieces = list(port.stream(ASKED))
        assert "".join(pieces) == TEXT == port.complete(ASKED)
        assert len(pieces) > 10
        streamed, whole = service.requests
        assert (streamed.is_stream, whole.is_stream) == (True, False)
        assert {**streamed.body, "stream": False} == whole.body
        assert streamed.headers["authorization"] == f"Bearer {KEY}"


def test_pieces_are_handed_on_before_the_next_one_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qianxun.models.remote.chat.LINGER_SECONDS", 60.0)  # nobody hangs up on a busy machine
    given: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with remote(Reply(pieces=iter(given.get, None))) as (model, service):
        given.put("第一")
        told = model.stream(ASKED)
        assert next(told) == "第一"
        service.wait(lambda each: each.sent == [1])  # it counts a piece once that is on its way
        given.put("第二")
        assert next(told) == "第二"
        given.put(None)
        assert list(told) == []
    assert service.left == []


def test_a_connection_that_was_read_to_its_end_serves_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qianxun.models.remote.chat.LINGER_SECONDS", 60.0)  # nobody hangs up on a busy machine
    with remote(TEXT) as (model, _):
        for _ in range(3):
            assert read(model) == (TEXT, None)
        assert len(model._service._pool.connections) == 1


def test_what_a_model_says_to_itself_is_not_told() -> None:
    with remote(f"<think>85 还是 90？</think>\n{TEXT}") as (model, _):
        assert read(model) == (TEXT, None)
        assert model.complete(ASKED) == TEXT


def test_a_service_that_knows_no_streams_is_heard_all_the_same() -> None:
    whole = json.dumps({"choices": [{"message": {"content": TEXT}}]}, indent=1).encode()
    with remote(Reply(raw=whole)) as (model, _):
        assert read(model) == (TEXT, None)
    with remote(Reply(raw=b'{"error": "loading"}')) as (model, _):
        told, error = read(model)
        assert (told, type(error)) == ("", ModelUnavailable)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (event("好", "stop"), "好"),  # no [DONE]
        (event("好") + b"data: [DONE]\n\n", "好"),  # no finish_reason
        (b": OPENROUTER PROCESSING\n\n" + event("好") + b"data:[DONE]\n\n", "好"),
        (b'data: {"choices": [], "prompt_filter_results": []}\n\n' + event("好", "stop"), "好"),
        (event("好", "stop") + b'data: {"choices": [], "usage": {"total_tokens": 9}}\n\ndata: [DONE]\n\n', "好"),
        (event(None) + event("") + event("好") + event(None, "stop"), "好"),
        (event("好").replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n", "好"),
        (b'data: {"choices": [{"delta": {"reasoning_content": "\xe5\x97\xaf"}}]}\n\n' + event("好", "stop"), "好"),
        (event("好") + b"data: [DONE]\n\ndata: rubbish after the end\n\n", "好"),
        (event("a\ud800b", "stop"), "a\ufffd\ufffd\ufffdb"),
    ],
)
def test_the_dialects_of_services_are_understood(raw: bytes, text: str) -> None:
    with remote(Reply(raw=raw)) as (model, _):
        assert read(model) == (text, None)


def test_a_finished_reply_does_not_wait_for_a_stream_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qianxun.models.remote.chat.LINGER_SECONDS", 0.1)
    with remote(Reply(TEXT, hang_after=99)) as (model, service):
        service.answers = lambda request: Reply(pieces=_then_hang(service, TEXT))
        told, error = read(model)  # without finish_reason it is no finished reply
        assert (told, type(error)) == (TEXT, ModelUnavailable)
    finished = event(TEXT, "stop")
    with _raw_server(finished) as url, closing(RemoteChat(ChatEndpoint(url, "qwen", timeout_seconds=120.0))) as model:
        started = time.monotonic()
        assert read(model) == (TEXT, None)
        assert time.monotonic() - started < 100


def _then_hang(service: ChatService, text: str) -> Iterator[str]:
    yield text
    service.closing.wait(0.3)
    raise ConnectionAbortedError  # the server's own end of it


@contextmanager
def _raw_server(said: bytes) -> Iterator[str]:
    """Answers once with this body, which never ends."""
    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.recv(1 << 16)
                line.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + said)
                gone.wait(120)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            gone.set()
            thread.join()


# ── cuts ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("places", [1, 2, 7])
def test_a_reply_that_breaks_off_is_partial(places: int) -> None:
    with remote(Reply(TEXT, cut_after=places)) as (model, service):
        told, error = read(model)
        assert TEXT.startswith(told)
        assert len(told) == 2 * places
        assert isinstance(error, ModelUnavailable)
        assert "断" in str(error)
        assert len(service.requests) == 1  # what was told cannot be taken back by asking again


def test_no_reply_that_was_cut_is_taken_for_a_whole_one() -> None:
    """Each at another place and of another kind; `make torture` sends five hundred through the service's door."""
    places = count()

    def cutting(request: Request) -> Reply:
        at = next(places)
        if at % 3 == 0:
            return Reply(TEXT, cut_after=1 + at % 15)
        if at % 3 == 1:
            return Reply(TEXT, is_done=False)  # properly ended, but never said to be done
        return Reply(TEXT, finish="length")

    with remote(cutting, outages=1000) as (model, service):
        ends = [read(model) for _ in range(60)]
    assert all(isinstance(error, ModelUnavailable | BadModelReply) for _, error in ends)
    assert all(TEXT.startswith(told) and told for told, _ in ends)
    assert len(service.requests) == 60


def test_before_anything_has_come_it_is_asked_again() -> None:
    def stumbling(request: Request) -> Reply:
        return [Reply(status=500), Reply(raw=b"", delay_seconds=0.0, status=503), Reply(TEXT)][request.number]

    with remote(stumbling) as (model, service):
        assert read(model) == (TEXT, None)
        assert len(service.requests) == 3
    with remote(Reply(status=500), attempts=2) as (model, service):
        told, error = read(model)
        assert (told, isinstance(error, ModelUnavailable)) == ("", True)
        assert "试了 2 次" in str(error)


def test_an_error_in_the_midst_is_told_without_the_key() -> None:
    said = json.dumps({"error": {"message": f"{KEY} has no money", "code": 402}}).encode()
    with remote(Reply(raw=event("住院") + b"data: " + said + b"\n\n")) as (model, _):
        told: list[str] = []
        with pytest.raises(ModelUnavailable, match="has no money") as caught:
            told.extend(model.stream(ASKED))
        shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"data: <html>\n\n",
        b"data: null\n\n",
        b"data: []\n\n",
        b"data: {}\n\n",
        b'data: {"choices": 3}\n\n',
        b'data: {"choices": {"a": 1}}\n\n',
        b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": [{"text": "x"}]}}]}\n\n',
        b'data: {"choices": ["x"]}\n\n',
        b"data: " + b"[" * 200_000 + b"\n\n",
        b"data: " + b"x" * (1 << 21),
        b"data: [DONE]\n\n",  # done, with nothing said
        event("  \n", "stop"),
        event("半句", "length"),
        event("半句", "content_filter"),
    ],
)
def test_a_bad_reply_is_refused(raw: bytes) -> None:
    with remote(Reply(raw=raw)) as (model, service):
        _, error = read(model)
        assert isinstance(error, BadModelReply)
        assert len(service.requests) == 1


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("length", BadModelReply),
        ("content_filter", BadModelReply),
        ("sensitive", BadModelReply),
        ("network_error", ModelUnavailable),
        ("insufficient_system_resource", ModelUnavailable),
    ],
)
def test_a_reply_may_end_for_other_reasons_than_that_all_is_said(
    finish: str, kind: type[Exception], is_whole: bool
) -> None:
    whole = json.dumps({"choices": [{"message": {"content": "半句"}, "finish_reason": finish}]}).encode()
    with remote(Reply(raw=whole if is_whole else event("半句", finish) + b"data: [DONE]\n\n")) as (model, _):
        told, error = read(model)
        if is_whole:
            with pytest.raises(kind, match="没有写完"):
                model.complete([Message("user", "你好")])
    assert told == "半句"
    assert isinstance(error, kind)
    assert "没有写完" in str(error)


@pytest.mark.parametrize("said_again", ["高血压患者应当限制饮酒。[1]", "\n", "想一想，" * 40])
@pytest.mark.parametrize("opens", ["", "<think>"])
def test_a_reply_that_goes_round_in_circles_is_left(said_again: str, opens: str) -> None:
    pieces = chain([f"{opens}先说一句。"], repeat(said_again))
    with remote(Reply(pieces=pieces)) as (model, service):
        told, error = read(model)
        service.wait(lambda served: bool(served.left))  # its call has ended
    assert isinstance(error, BadModelReply)
    assert "一再重复" in str(error)
    assert len(told) < 2000


def test_a_long_reply_that_only_resembles_itself_is_heard_to_its_end() -> None:
    rows = "".join(f"| 第 {at} 项 | 每日一次 | 5mg |\n" for at in range(200)) + "-" * 900
    with remote(Reply(rows)) as (model, _):
        assert read(model) == (rows, None)


def test_a_reply_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_module, "LARGEST_REPLY", 1000)
    with remote(Reply(pieces=("长" * 100 for _ in count()))) as (model, service):
        told, error = read(model)
        assert len(told) == 1000
        assert isinstance(error, BadModelReply)
        service.wait(lambda served: bool(served.left))
    monkeypatch.setattr(chat_module, "LARGEST_STREAM", 5000)
    with remote(Reply(pieces=(" " for _ in count()))) as (model, service):
        assert isinstance(read(model)[1], BadModelReply)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


class Pace(Clock):
    """Turned on by the service, by ``step`` after each piece that was heard."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step
        self.heard = threading.Semaphore(0)

    def pieces(self, told: Iterable[str]) -> Iterator[str]:
        for piece in told:
            yield piece
            assert self.heard.acquire(timeout=60), "nobody heard it"
            self.now += self.step

    def read(self, model: StreamingChatModel) -> tuple[str, QianxunError | None]:
        """As `read`; the client looks at its clock now and then while it waits, as one who may be told to stop."""
        told = ""
        try:
            for piece in model.stream(ASKED, lambda: False):
                told += piece
                self.heard.release()
        except (ModelUnavailable, BadModelReply) as error:
            return told, error
        finally:
            self.heard.release(9)  # nobody is waited for any more
        return told, None


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> Pace:
    """Two thirds of the patience go by with each piece."""
    clock = Pace(40.0)
    turned_by_hand(monkeypatch, clock)
    return clock


def test_slowness_does_not_end_it(pace: Pace) -> None:
    with remote(Reply(pieces=pace.pieces("一二三四五六")), attempts=1) as (model, _):
        assert pace.read(model) == ("一二三四五六", None)
    assert pace.now == 1240.0


def test_silence_ends_it(pace: Pace) -> None:
    def silent() -> Iterator[str]:
        yield from pace.pieces(["住院", "费用"])
        pace.now += 61.0
        yield "is never sent"

    with remote(Reply(pieces=silent(), hang_after=2)) as (model, service):
        told, error = pace.read(model)
        assert (told, isinstance(error, ModelUnavailable)) == ("住院费用", True)
        service.wait(lambda served: bool(served.left))


def test_who_has_waited_for_the_first_word_in_vain_does_not_wait_again(pace: Pace) -> None:
    def late(request: Request) -> Reply:
        pace.now += 61.0
        return Reply(TEXT, delay_seconds=600)

    with remote(late, attempts=4) as (model, service):
        assert isinstance(pace.read(model)[1], ModelUnavailable)
        assert len(service.requests) == 1


def test_the_whole_of_it_has_an_end_too(pace: Pace) -> None:
    with remote(Reply(pieces=pace.pieces("滴" for _ in count())), stream_seconds=100.0) as (model, service):
        told, error = pace.read(model)
        assert 3 <= len(told) <= 4
        assert isinstance(error, ModelUnavailable)
        service.wait(lambda served: bool(served.left))


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────


def test_who_closes_the_iterator_closes_the_connection() -> None:
    with remote(Reply(TEXT, hang_after=1)) as (model, service):
        told = model.stream(ASKED)
        assert next(told) == TEXT[:2]
        assert service.left == []
        told.close()  # type: ignore[attr-defined]
        service.wait(lambda served: served.left == [0])
        assert model._service._pool.connections == []


def test_who_says_stop_is_not_kept_waiting_and_says_nothing_about_the_service() -> None:
    with remote(Reply(TEXT, hang_after=1), outages=1) as (model, service):
        for turn in range(3):
            stopped = threading.Event()
            told = model.stream(ASKED, stopped.is_set)
            assert next(told) == TEXT[:2]
            threading.Timer(0.05, stopped.set).start()
            with pytest.raises(ModelUnavailable):
                next(told)
            service.wait(lambda served, turn=turn: turn in served.left)  # type: ignore[misc]
        with pytest.raises(ModelUnavailable):
            next(model.stream(ASKED, lambda: True))
        assert len(service.requests) == 3  # who has left already asks nothing


def test_a_stream_that_nobody_reads_asks_nothing() -> None:
    with remote(TEXT) as (model, service):
        model.stream(ASKED)
        assert service.requests == []
        with pytest.raises(BadInput):
            model.stream([])


# ── the breaker ──────────────────────────────────────────────────────────────────────────────────


def test_a_service_that_always_breaks_off_is_left_alone() -> None:
    with remote(Reply(TEXT, cut_after=1), outages=3, pause_seconds=600) as (model, service):
        errors = [read(model)[1] for _ in range(5)]
        assert len(service.requests) == 3
        assert ["暂停访问" in str(error) for error in errors] == [False, False, False, True, True]


def test_a_probe_that_has_begun_to_answer_lets_others_in() -> None:
    given: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def answers(request: Request) -> Reply | str:
        if request.number == 0:
            return Reply(status=500)
        return Reply(pieces=iter(given.get, None)) if request.number == 1 else TEXT

    with remote(answers, outages=1, attempts=1, pause_seconds=0.01) as (model, _):
        assert read(model)[1] is not None
        time.sleep(0.05)
        given.put("在")
        probe = model.stream(ASKED)
        assert next(probe) == "在"
        assert read(model) == (TEXT, None)
        given.put(None)
        assert list(probe) == []


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────


def test_pictures_travel_with_their_message() -> None:
    with remote(lambda request: f"看到 {len(request.images)} 张") as (model, service):
        asked = [Message("system", "看图"), Message("user", "这是什么？", images=(PICTURE, PICTURE))]
        assert model.complete(asked) == "看到 2 张" == "".join(model.stream(asked))
        assert service.requests[0].messages[1]["content"] == [
            {"type": "text", "text": "这是什么？"},
            {"type": "image_url", "image_url": {"url": PICTURE}},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
        assert (service.requests[0].last, service.requests[0].images) == ("这是什么？", [PICTURE] * 2)
        for bad in ("http://169.254.169.254/a.png", "file:///etc/passwd", "data:text/html,x", ""):
            with pytest.raises(BadInput, match="data:image"):
                model.complete([Message("user", "看", images=(bad,))])
    assert len(service.requests) == 2


def test_a_service_that_shows_the_key_it_was_sent_does_not_show_it_to_readers() -> None:
    with remote(f"您的密钥是 {KEY}，报销 85%[1]。") as (model, _):
        assert read(model) == ("您的密钥是 ***，报销 85%[1]。", None)
        assert model.complete(ASKED) == "您的密钥是 ***，报销 85%[1]。"
