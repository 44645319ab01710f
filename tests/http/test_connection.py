"""What a connection may send before it is known, beside a body, and how slowly."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from qianxun.doors.http.middleware import connection, guard
from qianxun.doors.http.middleware.client_address import trust
from qianxun.doors.http.middleware.open_connections import HEALTH_ROOM, OpenConnections
from tests.http.served import BASES, Served, serving, until
from tests.http.test_concurrency import GatedQueries, search


def run(
    folder: Path, story: Callable[[Served], Awaitable[None]], told: Mapping[str, Any] | None = None, *models: Any
) -> None:
    async def whole() -> None:
        async with serving(folder, told, *models) as served:
            await story(served)

    asyncio.run(asyncio.wait_for(whole(), 300))


async def flood(served: Served, start: bytes, more: bytes, most: int) -> tuple[int, bytes]:
    """(bytes that were taken, what came back) where ``more`` is sent until the service hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(start)
    sent = 0
    try:
        while sent < most:
            writer.write(more)
            await writer.drain()
            sent += len(more)
    except ConnectionError:
        pass
    try:
        return sent, await asyncio.wait_for(reader.read(), 120)
    except (ConnectionError, TimeoutError) as error:
        return sent, type(error).__name__.encode()
    finally:
        writer.close()


CHUNKED = b"POST /v1/knowledge-bases HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED += b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET / HTTP/1.1\r\nX: ", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 2_000),
        (b"GET /", b"x" * 10_000),
        (b"", b"\r\n" * 5_000),
        (CHUNKED, b"X: y\r\n" * 2_000),
        (CHUNKED + b"X: ", b"x" * 10_000),
        (CHUNKED.replace(b"2\r\n{}\r\n0\r\n", b"2;"), b"x" * 10_000),
    ],
)
def test_a_head_or_a_trailer_without_end_is_cut_off(tmp_path: Path, start: bytes, more: bytes) -> None:
    async def story(served: Served) -> None:
        sent, back = await flood(served, start, more, 30_000_000)
        assert sent < 15_000_000  # what the kernel holds on both sides, and no more
        assert back[:12] in (b"", b"HTTP/1.1 431", b"HTTP/1.1 400", b"HTTP/1.1 422", b"ConnectionRe")
        assert (await served.http.get("/healthz")).status_code == 200

    run(tmp_path, story)


def test_a_large_head_that_ends_and_many_requests_on_one_connection_are_answered(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        for _ in range(5):
            assert (await served.http.get("/healthz", headers={"x-large": "x" * 40_000})).status_code == 200
        one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 3_000 + b"\r\n\r\n"
        last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        back = await served.raw(one * 50 + last)
        assert back.count(b"HTTP/1.1 200") == 51
        # One that is too large is refused, too, where it comes whole, in however few reads.
        refused = await served.raw(
            b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * connection.HEAD_BYTES + b"\r\n\r\n"
        )
        assert refused.startswith(b"HTTP/1.1 431")

    run(tmp_path, story)


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127."])
def test_who_does_not_say_what_he_wants_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    async def story(served: Served) -> None:
        assert (
            served.server.config.timeout_keep_alive > 60
        )  # a client or a proxy that reuses a connection closes it first
        served.server.config.timeout_keep_alive = 1
        monkeypatch.setattr(connection, "HEAD_SECONDS", 60.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await until(lambda: len(served.server.server_state.connections) == 1)  # it has a minute for its first head
        monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
        assert await served.raw(said) == b""
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", head)
        assert (head[:12], len(await reader.readexactly(int(length)))) == (b"HTTP/1.1 200", int(length))
        writer.write(said)  # on a connection that was well-behaved before
        assert await asyncio.wait_for(reader.read(), 120) == b""
        writer.close()

    run(tmp_path, story)


def test_a_body_that_stalls_is_given_up_and_a_recall_that_takes_long_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "STALLED_SECONDS", 0.3)

    async def story(served: Served) -> None:
        base = await served.base()
        for path in (BASES, f"{BASES}/{base}/documents"):
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n".encode()
            head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
            back = await served.raw(head + b'{"name": ')
            assert back.startswith(b"HTTP/1.1 408"), back
            assert b"request_timeout" in back

    run(tmp_path, story)


# ── how many there are ───────────────────────────────────────────────────────────────────────────


class Counted:
    """A connection that notes that it gave way."""

    def __init__(self, name: str, gone: list[str]) -> None:
        self.name, self._gone = name, gone

    def give_way(self) -> None:
        self._gone.append(self.name)


def test_whoever_waits_longest_of_those_who_have_the_most_gives_way() -> None:
    gone: list[str] = []
    held, last = OpenConnections(4, 3), Counted("a4", gone)
    for name, address in (("b1", "10.0.0.2"), ("a1", "10.0.0.1"), ("a2", "10.0.0.1"), ("a3", "10.0.0.1")):
        assert held.opened(Counted(name, gone), address)
    assert held.opened(last, "10.0.0.1")  # more than one address may have
    assert gone == ["a1"]
    assert held.opened(Counted("c1", gone), "10.0.0.3")  # more than there may be of all
    assert gone == ["a1", "a2"]
    held.closed(last)
    assert held.opened(Counted("d1", gone), "10.0.0.4")  # there is room
    assert len(gone) == 2


def test_where_all_are_at_work_there_is_room_for_health_checks_alone() -> None:
    gone: list[str] = []
    held, checks = OpenConnections(2, 1, trust(["10.0.0.0/24"])), HEALTH_ROOM
    proxied, others = [Counted(name, gone) for name in "ab"], [Counted("c", gone) for _ in range(checks + 1)]
    for one in proxied:
        assert held.opened(one, "10.0.0.9")  # a proxy may have them all
        held.busy(one)
    for at, one in enumerate(others):
        assert not held.opened(one, f"192.168.0.{at}")
        assert held.is_overfull == (at == checks)
        held.busy(one)
    assert gone == []


def test_the_addresses_of_one_ipv6_customer_are_one() -> None:
    held, gone = OpenConnections(9, 1), list[str]()
    for name, address in (("a", "2001:db8::1"), ("b", "2001:db8::ffff"), ("c", "2001:db8:0:1::1")):
        assert held.opened(Counted(name, gone), address)
    assert gone == ["a"]


def test_half_sent_heads_keep_nobody_out(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        half = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(30)]
        for _, writer in half:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.")
        await until(lambda: len(served.server.server_state.connections) <= 8)
        assert (await served.http.get("/healthz")).status_code == 200
        assert (await search(served, base)).status_code == 200
        for _, writer in half:
            writer.close()

    run(tmp_path, story, {"service.connections": 8, "service.connections_per_address": 8})


def test_health_is_told_though_every_connection_is_at_work(tmp_path: Path) -> None:
    model = GatedQueries()

    async def story(served: Served) -> None:
        base, turns = await served.base(), served.app.state.service.recalls
        await served.add(base, "a", "住院费用报销比例为85%。")
        at_work = [asyncio.create_task(search(served, base)) for _ in range(8)]
        await until(lambda: turns.running + turns.waiting == 8)
        ask = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
        refused, healthy = await served.raw(ask % b"/v1/knowledge-bases"), await served.raw(ask % b"/healthz")
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"retry-after" in refused
        assert healthy.startswith(b"HTTP/1.1 200")
        model.gate.set()
        assert [(await one).status_code for one in at_work] == [200] * 8

    told = {"service.connections": 8, "service.connections_per_address": 8, "search.cache_entries": 0}
    run(tmp_path, story, told, model)


# ── clients that neither send nor read ───────────────────────────────────────────────────────────

FILE = b"GET /console/static/htmx.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
UNFINISHED = b"POST /console/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\na"


def _deaf(served: Served, sent: bytes) -> socket.socket:
    """A connection that has sent this and reads nothing."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    opened.connect(("127.0.0.1", served.port))
    opened.setblocking(False)
    opened.send(sent)
    return opened


def _waits_for_client(one: Any) -> bool:
    return one.cycle is not None and (one.flow.write_paused or one.cycle.more_body or one.cycle.response_complete)


@pytest.mark.parametrize("sent", [FILE * 100, UNFINISHED], ids=["unread responses", "unfinished bodies"])
def test_clients_that_only_wait_keep_nobody_out(tmp_path: Path, sent: bytes) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        connections = served.server.server_state.connections
        served.http.headers["connection"] = "close"  # one between two requests would give way, too
        deaf = [_deaf(served, sent) for _ in range(12)]
        for _ in range(3):
            await until(lambda: len(connections) >= 8 and all(map(_waits_for_client, connections)))
            assert (await served.http.get("/healthz")).status_code == 200
            assert (await search(served, base)).status_code == 200
            deaf += [_deaf(served, sent) for _ in range(8)]
        await until(lambda: len(connections) <= 8)
        for one in deaf:
            one.close()

    run(tmp_path, story, {"service.connections": 8, "service.connections_per_address": 8})


def test_a_response_is_given_up_whose_client_does_not_read_and_not_one_that_is_read_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "STALLED_SECONDS", 1.0)
    caplog.set_level("INFO")

    async def story(served: Served) -> None:
        connections = served.server.server_state.connections
        deaf = _deaf(served, FILE * 200)
        await until(lambda: any(one.flow.write_paused for one in connections))
        await until(lambda: not connections)
        deaf.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=4096)
        writer.write(FILE * 200 + FILE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await until(lambda: any(one.flow.write_paused for one in connections))
        received = 0
        while piece := await reader.read(65_536):  # five megabytes a second at most
            received += len(piece)
            await asyncio.sleep(0.013)
        assert received > 201 * 40_000
        writer.close()

    run(tmp_path, story)
    assert "a response was given up" in caplog.text
    assert "Traceback" not in caplog.text
