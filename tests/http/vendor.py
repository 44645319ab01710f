"""A vendor of models on loopback: embeddings, chat and rerank over real HTTP, in whatever mood the test puts them.

with vendor() as sold:
    sold.become("rerank", failing(500))
    ... register sold.url as a model, search ...
    assert sold.asked["rerank"]
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from qianxun.testing.scripted import HashEmbedding
from tests.models.embedding_service import overlap

DIMENSION = 32
Trade = Literal["embeddings", "chat/completions", "rerank"]
TRADES: tuple[Trade, ...] = ("embeddings", "chat/completions", "rerank")


@dataclass
class Vendor:
    """What it sells, in which mood, and what it was asked."""

    key: str = ""  # without it in a request: 401
    url: str = ""
    moods: dict[str, Mood] = field(default_factory=dict)
    asked: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {trade: [] for trade in TRADES})
    rewritings: list[str] = field(default_factory=lambda: ["住院费用的报销比例"])
    closing: threading.Event = field(default_factory=threading.Event)  # lets those go that hang

    @property
    def address(self) -> str:
        """As the operator's allowance writes it."""
        return self.url.removeprefix("http://").removesuffix("/v1")

    def become(self, trade: Trade, mood: Mood) -> None:
        self.moods[trade] = mood

    def recover(self) -> None:
        self.moods.clear()


class Counter(BaseHTTPRequestHandler):
    """Where one request is served."""

    vendor: Vendor
    protocol_version = "HTTP/1.1"
    trade = ""
    body: dict[str, Any]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        self.trade = self.path.removeprefix("/v1/").partition("?")[0]
        if self.trade not in TRADES:
            return self.answer({"error": {"message": f"no {self.path}"}}, 404)
        if self.vendor.key and self.headers.get("authorization") != f"Bearer {self.vendor.key}":
            return self.answer({"error": {"message": "Incorrect API key provided"}}, 401)
        self.body = json.loads(raw)
        self.vendor.asked[self.trade].append(self.body)
        self.vendor.moods.get(self.trade, well)(self)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def answer(self, content: Any, status: int = 200) -> None:
        self.send(json.dumps(content).encode(), status)

    def send(self, raw: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        for name, value in headers.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(raw)
        except ConnectionError:  # whoever asked has given up
            self.close_connection = True


Mood = Callable[[Counter], None]


# ── moods ────────────────────────────────────────────────────────────────────────────────────────


def well(counter: Counter) -> None:
    counter.answer(_right_answer(counter))


def slow(seconds: float) -> Mood:
    """Answers well, late; at once when the vendor closes."""

    def mood(counter: Counter) -> None:
        counter.vendor.closing.wait(seconds)
        well(counter)

    return mood


def dripping(seconds: float) -> Mood:
    """Sends headers at once and then a byte now and then: every single wait is short, the whole is not."""

    def mood(counter: Counter) -> None:
        raw = json.dumps(_right_answer(counter)).encode()
        counter.send_response(200)
        counter.send_header("content-length", str(len(raw)))
        counter.end_headers()
        ends = time.monotonic() + seconds
        try:
            while time.monotonic() < ends and not counter.vendor.closing.wait(0.05):
                counter.wfile.write(b" ")
                counter.wfile.flush()
        except ConnectionError:  # whoever asked has given up
            counter.close_connection = True

    return mood


def hanging(counter: Counter) -> None:
    """Never answers."""
    counter.vendor.closing.wait()
    counter.close_connection = True


def failing(status: int, said: str = "internal error") -> Mood:
    return lambda counter: counter.answer({"error": {"message": said}}, status)


def saying(raw: bytes) -> Mood:
    """Status 200, and this."""
    return lambda counter: counter.send(raw)


RUBBISH: tuple[bytes, ...] = (
    b"",
    b"<html>Bad gateway</html>",
    b"null",
    b"[]",
    b"{}",
    b'{"data": 3, "choices": 3, "results": 3}',
    b'{"data": [{"embedding": "x"}], "choices": [{}], "results": [{"index": "x"}]}',
    b'{"data": [{"embedding": [NaN]}], "choices": [{"message": {"content": 7}}], "results": [{"index": 0}]}',
    b"[" * 100_000,
    b"\xff\xfe\x00",
)


def of_dimension(size: int) -> Mood:
    """Vectors of another length than was promised."""
    return lambda counter: counter.answer(_embedded(counter.body["input"], size))


def refusing(counter: Counter) -> None:
    """As if the key had been revoked."""
    counter.answer({"error": {"message": "Incorrect API key provided: " + counter.headers["authorization"]}}, 401)


def gone(counter: Counter) -> None:
    """Hangs up in the middle of its answer."""
    counter.send_response(200)
    counter.send_header("content-length", "1000")
    counter.end_headers()
    counter.wfile.write(b'{"data": [')
    counter.wfile.flush()
    counter.close_connection = True


def backwards(counter: Counter) -> None:
    """A reranker that thinks best what shares least with the query."""
    scores = [1.0 - overlap(counter.body["query"], each) for each in counter.body["documents"]]
    counter.answer(_ranked(scores))


# ── right answers ────────────────────────────────────────────────────────────────────────────────


def _right_answer(counter: Counter) -> dict[str, Any]:
    body = counter.body
    if counter.trade == "embeddings":
        return _embedded(body["input"], DIMENSION)
    if counter.trade == "rerank":
        return _ranked([overlap(body["query"], each) for each in body["documents"]])
    said = json.dumps(counter.vendor.rewritings, ensure_ascii=False)
    choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
    return {"object": "chat.completion", "choices": [choice]}


def _embedded(texts: str | Sequence[str], size: int) -> dict[str, Any]:
    rows = HashEmbedding(size).embed_passages([texts] if isinstance(texts, str) else texts)
    items = [{"object": "embedding", "index": at, "embedding": row.tolist()} for at, row in enumerate(rows)]
    return {"object": "list", "data": items}


def _ranked(scores: Sequence[float]) -> dict[str, Any]:
    """Best first, as rerank services answer."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    return {"results": [{"index": place, "relevance_score": scores[place]} for place in order]}


@contextmanager
def vendor(key: str = "") -> Iterator[Vendor]:
    sold = Vendor(key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Serving", (Counter,), {"vendor": sold}))
    server.daemon_threads = True
    sold.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield sold
    finally:
        sold.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
