"""A real HTTP server on loopback that answers as a model service would, well or badly, as its script says."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from qianxun.testing.scripted import HashEmbedding

DIMENSION = 16
Answer = Callable[["Exchange"], None]


@dataclass
class Service:
    """What the server was told to answer, in order (the last one repeats), and what it was asked."""

    answers: list[Answer]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, asked: dict[str, Any], headers: dict[str, str]) -> Answer:
        """Whose turn it is."""
        with self.lock:
            self.headers.append(headers)
            self.asked.append(asked)
            return self.answers[min(len(self.asked), len(self.answers)) - 1]


class Exchange(BaseHTTPRequestHandler):
    service: Service
    asked: dict[str, Any]  # here: another request may have come meanwhile

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.asked = json.loads(body) | {"path": self.path}
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.service.take(self.asked, headers)(self)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def send(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-length", headers.pop("content_length", str(len(body))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def rows(self) -> list[list[float]]:
        vectors = HashEmbedding(DIMENSION).embed_passages(self.asked["input"])
        return [[float(value) for value in row * 3] for row in vectors]  # not of unit length, as some services answer


def reply(rows: Any, order: list[int] | None = None) -> bytes:
    items = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    return json.dumps({"object": "list", "data": [items[place] for place in order or range(len(items))]}).encode()


def well(exchange: Exchange) -> None:
    exchange.send(reply(exchange.rows()))


def overlap(query: str, passage: str) -> float:
    """The share of the query's characters that stand in the passage: what the scripted reranker answers."""
    return sum(letter in passage for letter in query) / len(query)


def ranked_results(exchange: Exchange) -> list[dict[str, Any]]:
    """Best first, as rerank services answer."""
    asked = exchange.asked
    scores = [overlap(asked["query"], passage) for passage in asked["documents"]]
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    return [{"index": place, "relevance_score": scores[place]} for place in order]


def ranks_well(exchange: Exchange) -> None:
    exchange.send(json.dumps({"id": "r", "results": ranked_results(exchange)}).encode())


def with_results(change: Callable[[list[dict[str, Any]]], Any]) -> Answer:
    return lambda exchange: exchange.send(json.dumps({"results": change(ranked_results(exchange))}).encode())


def says(content: Any) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return body(json.dumps({"object": "chat.completion", "choices": [choice]}).encode())


def status(code: int, body: bytes = b"{}", **headers: str) -> Answer:
    return lambda exchange: exchange.send(body, code, **headers)


def with_rows(change: Callable[[list[list[float]]], Any]) -> Answer:
    return lambda exchange: exchange.send(reply(change(exchange.rows())))


def body(content: bytes) -> Answer:
    return lambda exchange: exchange.send(content)


@contextmanager
def serving(*answers: Answer) -> Iterator[Service]:
    service = Service(list(answers))
    handler = type("Scripted", (Exchange,), {"service": service})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def unheard() -> Iterator[str]:
    """The address of a port that is taken, and at which nobody listens: who comes is refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def expected(texts: list[str]) -> np.ndarray[Any, Any]:
    return HashEmbedding(DIMENSION).embed_passages(texts)
