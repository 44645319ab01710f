"""A real OpenAI-compatible chat service on loopback, streaming and whole, whose replies are a function of the request.

    def answers(request: Request) -> str | Reply:
        if "抽取实体" in request.text:
            return '[{"name": "阿司匹林"}]'
        return Reply("阿司匹林可以退烧[1]。", cut_after=2)

    with chat_service(answers) as service:          # a plain text says the same to everybody
        model = RemoteChat(ChatEndpoint(service.url, "qwen"))
        model.complete([Message("user", "…")])      # or .stream(…): the request says which, the reply fits both
        assert service.requests[0].last == "…"

An engine or a service learns of it by the settings ``service.told`` (dotted names: the model qwen for all bases), or by
registering its ``url`` as a user's model; ``service.address`` is what the setting outbound.allow takes then.
``key="sk-…"`` makes it refuse whoever does not bring that key.

What a `Reply` can do besides speaking well: fail with a ``status``; send ``raw`` bytes instead of JSON or events; wait
``delay_seconds`` before the first byte and ``gap_seconds`` before every further piece; break off the connection
(``cut_after`` so many pieces), fall silent (``hang_after``), end properly but without saying that it is done
(``is_done=False``), say another ``finish`` than stop, and read ``pieces`` from an iterator of the test's own, which may
wait for the test. A client that goes away while a reply is under way is counted in ``service.left``; how many pieces
each request was sent is in ``service.sent``, both in the order of ``service.requests``.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

POLL_SECONDS = 0.01
PIECE = 2  # characters: names and marks are cut apart, as real services cut them


@dataclass(frozen=True)
class Request:
    """What was asked, read."""

    number: int  # from 0, in the order of arrival
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]  # names in small letters

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])

    @property
    def text(self) -> str:
        """Every message's text, one after the other."""
        return "\n".join(_text(each["content"]) for each in self.messages)

    @property
    def last(self) -> str:
        """The last message's text."""
        return _text(self.messages[-1]["content"])

    @property
    def images(self) -> list[str]:
        """The data URLs of every message's images."""
        parts = [part for each in self.messages if isinstance(each["content"], list) for part in each["content"]]
        return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream"))


@dataclass(frozen=True)
class Reply:
    text: str = ""
    pieces: Iterable[str] | None = None  # of a stream; the text in small pieces unless told otherwise
    status: int = 200
    raw: bytes | None = None
    delay_seconds: float = 0.0
    gap_seconds: float = 0.0
    cut_after: int | None = None
    hang_after: int | None = None
    is_done: bool = True
    finish: str | None = "stop"


Answers: TypeAlias = Callable[[Request], "str | Reply"]


@dataclass
class ChatService:
    answers: Answers
    key: str = ""
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)  # numbers of requests
    closing: threading.Event = field(default_factory=threading.Event)  # lets those go that hang
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> str:
        """As the operator's allowance writes it."""
        return self.url.removeprefix("http://").removesuffix("/v1")

    @property
    def told(self) -> dict[str, str]:
        """Settings by their dotted names, with which this is the language model of every base."""
        return {"chat.base_url": self.url, "chat.model": "qwen", "chat.api_key": self.key}

    def wait(self, holds: Callable[[ChatService], bool], seconds: float = 60.0) -> None:
        """Until it is so. Raises AssertionError when it never comes to that."""
        ends = time.monotonic() + seconds
        while not holds(self):
            assert time.monotonic() < ends, "it never came to that"
            time.sleep(POLL_SECONDS)

    def take(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
        with self.lock:
            self.requests.append(Request(len(self.requests), path, body, headers))
            self.sent.append(0)
            return self.requests[-1]


class _Left(Exception):
    """The client has gone."""


class _Serving(BaseHTTPRequestHandler):
    service: ChatService
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(ConnectionError):  # between two requests a client may go as it likes
            super().handle()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        if self.service.key and self.headers.get("authorization") != f"Bearer {self.service.key}":
            return self._whole(401, b'{"error": {"message": "Incorrect API key provided"}}')
        if not self.path.endswith("/chat/completions"):
            return self._whole(404, b'{"error": {"message": "no such path"}}')
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = self.service.take(self.path, json.loads(raw), headers)
        said = self.service.answers(request)
        try:
            self._answer(request, Reply(said) if isinstance(said, str) else said)
        except (_Left, ConnectionError):
            self.close_connection = True
            self.service.left.append(request.number)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def _answer(self, request: Request, reply: Reply) -> None:
        self._wait(reply.delay_seconds)
        if reply.status != 200:
            return self._whole(reply.status, reply.raw or b'{"error": {"message": "internal error"}}')
        if request.is_stream:
            return self._stream(request, reply)
        body = reply.raw if reply.raw is not None else _completion(request, reply)
        if reply.hang_after is not None:
            return self._hang()
        self._whole(200, body, cut=reply.cut_after is not None)

    def _stream(self, request: Request, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if reply.raw is not None:
            self._chunk(reply.raw)
            return self._chunk(b"")
        self._event(request, {"role": "assistant", "content": ""}, None)
        for place, piece in enumerate(_pieces(reply)):
            if self._breaks_off(reply, place):
                return
            self._wait(reply.gap_seconds if place else 0.0)
            self._event(request, {"content": piece}, None)
            self.service.sent[request.number] += 1
        if self._breaks_off(reply, self.service.sent[request.number]):
            return
        if reply.finish is not None and reply.is_done:
            self._event(request, {}, reply.finish)
        if reply.is_done:
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _breaks_off(self, reply: Reply, place: int) -> bool:
        if reply.hang_after is not None and place >= reply.hang_after:
            self._hang()
            return True
        self.close_connection = reply.cut_after is not None and place >= reply.cut_after
        return self.close_connection

    def _event(self, request: Request, delta: Mapping[str, Any], finish: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        told = {"object": "chat.completion.chunk", "model": request.body.get("model"), "choices": [choice]}
        self._chunk(b"data: " + json.dumps(told, ensure_ascii=False).encode() + b"\n\n")

    def _chunk(self, content: bytes) -> None:
        self._check()
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def _whole(self, status: int, body: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def _hang(self) -> None:
        self._wait(float("inf"))
        self.close_connection = True

    def _wait(self, seconds: float) -> None:
        """Raises _Left as soon as the client goes; ends early when the service closes."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not self.service.closing.wait(min(POLL_SECONDS, seconds)):
            self._check()

    def _check(self) -> None:
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise _Left


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def _pieces(reply: Reply) -> Iterable[str]:
    if reply.pieces is not None:
        return reply.pieces
    return [reply.text[at : at + PIECE] for at in range(0, len(reply.text), PIECE)]


def _completion(request: Request, reply: Reply) -> bytes:
    text = reply.text if reply.pieces is None else "".join(reply.pieces)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reply.finish}
    told = {"object": "chat.completion", "model": request.body.get("model"), "choices": [choice]}
    return json.dumps(told, ensure_ascii=False).encode()


@contextmanager
def chat_service(answers: Answers | str, *, key: str = "") -> Iterator[ChatService]:
    service = ChatService(answers if callable(answers) else lambda request: answers, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Serving", (_Serving,), {"service": service}))
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
