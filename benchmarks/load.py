"""Asks a service over connections that stay open, and tells how quickly it was answered.

    python -m benchmarks.load PORT PATH QUESTIONS.json COUNT

Each line ``CLIENTS SECONDS START`` on its input is one pass: so many clients, each with a connection of its own, ask
one question after another, from the START-th on, none twice in a pass, and begin none once the questions are over or,
after its first one, the time. Answers one JSON line.

Bare protocols, no HTTP library: what asks must cost little beside what answers, on the same machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

QUIET_SECONDS = 30.0  # a connection that says nothing for so long is given up


class Client(asyncio.Protocol):
    """One connection, one question at a time."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._held = b""
        self._reply: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, found, body = self._held.partition(b"\r\n\r\n")
        if not found or self._reply is None or self._reply.done():
            return
        at = head.lower().index(b"content-length:") + 15
        if len(body) >= int(head[at:].split(b"\r\n", 1)[0]):
            self._held = b""
            self._reply.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result((0, b""))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body; status 0 where the connection was lost."""
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._reply

    def close(self) -> None:
        self._transport.close()


def request(path: str, question: str) -> bytes:
    body = json.dumps({"query": question}, ensure_ascii=False).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def begun_at(told: list[T], start: int) -> list[T]:
    """All of them, from the ``start``-th on and round."""
    at = start % len(told)
    return told[at:] + told[:at]


async def load(port: int, requests: list[bytes], clients: int, seconds: float, start: int) -> dict[str, Any]:
    """One pass, to its last answer: so nothing is begun that does not count."""
    loop = asyncio.get_running_loop()
    made = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(clients)]
    turns = iter(begun_at(requests, start))
    waits: list[float] = []
    others: dict[int, int] = {}
    began = last = time.perf_counter()

    async def go_on(client: Client) -> None:
        nonlocal last
        while (request := next(turns, None)) is not None:
            asked = time.perf_counter()
            status, body = await client.ask(request)
            last = answered = time.perf_counter()
            if status == 200 and b'"degraded":[]' in body:
                waits.append(answered - asked)
            else:
                others[status] = others.get(status, 0) + 1
            if answered >= began + seconds:
                return

    await asyncio.wait_for(asyncio.gather(*map(go_on, made)), seconds + QUIET_SECONDS)
    for client in made:
        client.close()
    return {"waits": waits, "others": others, "seconds": last - began}


async def serve(port: int, requests: list[bytes]) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        clients, seconds, start = line.split()
        print(json.dumps(await load(port, requests, int(clients), float(seconds), int(start))), flush=True)


def main() -> None:
    port, path, questions = int(sys.argv[1]), sys.argv[2], json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    uvloop.run(serve(port, [request(path, question) for question in questions[: int(sys.argv[4])]]))


if __name__ == "__main__":
    main()
