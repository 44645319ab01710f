"""Webhooks: told once what happened, signed, tried again, never where the outbound policy forbids."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.governance.webhooks import EVENTS, is_signed
from qianxun.core.log_types import Feedback
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.jobs.webhooks import deliver_due
from qianxun.records.governance import webhooks
from qianxun.records.schema import DeliveryRow


@dataclass
class Receiver:
    url: str = ""
    status: int = 200
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)

    def events(self) -> list[tuple[str, Any]]:
        bodies = [json.loads(body) for _, body in self.requests]
        return [(body["event"], body["data"].get("doc_id") or body["data"].get("query")) for body in bodies]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append((dict(self.headers), body))
            receiver.arrived.set()
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook?who=qianxun"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def opened(folder: Path, receiver: Receiver) -> Any:
    address = receiver.url.split("/")[2]
    settings = load(environment={}, arguments={"data": str(folder), "outbound.allow": [address]}, folder=folder)
    return Engine.open(settings=settings, background=False)


async def delivered(engine: Engine) -> int:
    registered = engine.registered
    return await deliver_due(engine.records, registered.sealing, registered.policy, lambda: 0.5)


def test_what_happens_is_told_once_and_signed(tmp_path: Path) -> None:
    async def story(receiver: Receiver) -> None:
        async with opened(tmp_path, receiver) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            hooks = engine.governance.webhooks
            hook, secret = await hooks.add(receiver.url, EVENTS)
            await engine.add_documents(kb, [Document("甲", "住院报销比例为百分之八十五。"), Document("乙", "门诊。")])
            await engine.retrieve(kb, "登月舱的燃料")
            await engine.delete_document(kb, "乙")
            (entry,) = await engine.logs.list()
            await engine.logs.rate(entry.id, Feedback("bad", (), "没找到"))
            assert await delivered(engine) == 5
            assert sorted(receiver.events()) == [
                ("document.deleted", "乙"),
                ("document.indexed", "乙"),
                ("document.indexed", "甲"),
                ("search.feedback", "登月舱的燃料"),
                ("search.zero_results", "登月舱的燃料"),
            ]
            for headers, body in receiver.requests:
                assert is_signed(secret, body, headers["X-Qianxun-Signature"], time.time())
                assert not is_signed(secret + "x", body, headers["X-Qianxun-Signature"], time.time())
                assert not is_signed(secret, body + b" ", headers["X-Qianxun-Signature"], time.time())
                assert not is_signed(secret, body, headers["X-Qianxun-Signature"], time.time() + 1000)
            assert await delivered(engine) == 0
            assert (await hooks.get(hook.id)).pending == 0
            assert await hooks.test(hook.id) == ""
            assert receiver.events()[-1][0] == "webhook.test"
            await hooks.remove(hook.id)
            await engine.delete_document(kb, "甲")
            assert await delivered(engine) == 0
            with pytest.raises(NotFound):
                await engine.of("other").governance.webhooks.get(hook.id)

    with receiving() as receiver:
        asyncio.run(story(receiver))


def test_what_does_not_arrive_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    async def story(receiver: Receiver) -> None:
        async with opened(tmp_path, receiver) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            hook, _ = await engine.governance.webhooks.add(receiver.url, ["document.deleted"], knowledge_base=kb)
            other = (await engine.create_knowledge_base("别的", model="none")).id
            for base in (kb, other):
                await engine.add_documents(base, [Document("甲", "住院。")])
                await engine.delete_document(base, "甲")
            receiver.status = 503
            assert await delivered(engine) == 0
            state = await engine.governance.webhooks.get(hook.id)
            assert (state.pending, state.failed, state.reason) == (1, 0, "HTTP 503")  # of the one base alone
            assert await delivered(engine) == 0
            assert len(receiver.requests) == 1  # not before its time
            waits = []
            for _ in range(webhooks.ATTEMPTS - 1):
                with engine.records.writing() as tx:
                    (row,) = tx.execute(select(DeliveryRow.__table__)).all()
                    waits.append((row.next_at - row.created_at).total_seconds())
                    tx.execute(update(DeliveryRow).values(next_at=row.created_at))
                await delivered(engine)
            assert waits[0] < 15
            assert waits == sorted(waits)
            assert 3000 < waits[-1] < 4000
            state = await engine.governance.webhooks.get(hook.id)
            assert (state.pending, state.failed) == (0, 1)
            receiver.status = 204
            assert await engine.governance.webhooks.retry(hook.id) == 1
            assert await delivered(engine) == 1
            bodies = {body for _, body in receiver.requests}
            assert len(bodies) == 1  # the same, every time

    with receiving() as receiver:
        asyncio.run(story(receiver))


def test_an_address_that_the_policy_forbids_is_refused(tmp_path: Path) -> None:
    async def story(receiver: Receiver) -> None:
        async with opened(tmp_path, receiver) as engine:
            hooks = engine.governance.webhooks
            for url in ("http://127.0.0.1:1/x", "http://169.254.169.254/", "ftp://example.com/", "http://localhost/"):
                with pytest.raises(BadInput, match=r"^url ") as refused:
                    await hooks.add(url, ["document.deleted"])
                assert "base_url" not in str(refused.value)
                assert "api_key" not in refused.value.hint
            with pytest.raises(BadInput, match="没有这样的事件"):
                await hooks.add(receiver.url, ["document.read"])
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            await engine.add_documents(kb, [Document("甲", "住院。")])
            hook, _ = await hooks.add(receiver.url, ["document.deleted"])
        async with Engine.open(tmp_path, background=False) as engine:  # allowed no more
            await engine.delete_document(kb, "甲")
            assert await delivered(engine) == 0
            reason = (await engine.governance.webhooks.get(hook.id)).reason
            assert "不允许访问" in reason
            assert "base_url" not in reason
        assert receiver.requests == []

    with receiving() as receiver:
        asyncio.run(story(receiver))


def test_the_background_delivers_by_itself(tmp_path: Path) -> None:
    async def story(receiver: Receiver) -> None:
        address = receiver.url.split("/")[2]
        settings = load(environment={}, arguments={"data": str(tmp_path), "outbound.allow": [address]}, folder=tmp_path)
        async with Engine.open(settings=settings) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            await engine.governance.webhooks.add(receiver.url, ["document.indexed"])
            await engine.add_documents(kb, [Document("甲", "住院。")])
            assert await asyncio.to_thread(receiver.arrived.wait, 30)
            assert receiver.events() == [("document.indexed", "甲")]

    with receiving() as receiver:
        asyncio.run(story(receiver))


@contextmanager
def never_answering() -> Iterator[str]:
    """The address of a receiver that takes every connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_an_address_that_never_answers_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    async def story(receiver: Receiver, silent: str) -> None:
        allowed = {"data": str(tmp_path), "outbound.allow": ["127.0.0.1"]}
        settings = load(environment={}, arguments=allowed, folder=tmp_path)
        async with Engine.open(settings=settings, background=False) as engine:
            others = {}
            for tenant, url, count in (("甲", silent, 10), ("乙", receiver.url, 1)):
                others[tenant] = own = engine.of(tenant)
                kb = (await own.create_knowledge_base("医保", model="none")).id
                for _ in range(count):
                    await own.governance.webhooks.add(url, ["document.indexed"])
                await own.add_documents(kb, [Document("一", "住院。"), Document("二", "门诊。")])
            work = asyncio.create_task(delivered(engine))
            assert await asyncio.wait_for(asyncio.to_thread(receiver.arrived.wait, 60), 60)
            began = time.monotonic()
            await asyncio.gather(*(engine.records.read(lambda tx: tx.closed) for _ in range(50)))
            assert time.monotonic() - began < 5  # the threads that everything else takes are free
            while len(receiver.requests) < 2:
                assert time.monotonic() - began < 30
                await asyncio.sleep(0.05)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    with receiving() as receiver, never_answering() as silent:
        asyncio.run(story(receiver, silent))


def test_a_trial_says_that_it_failed_also_while_others_wait(tmp_path: Path) -> None:
    async def story(receiver: Receiver) -> None:
        async with opened(tmp_path, receiver) as engine:
            hooks = engine.governance.webhooks
            hook, _ = await hooks.add(receiver.url, ["document.deleted"])
            receiver.status = 500
            trying = asyncio.create_task(hooks.test(hook.id))
            while not receiver.arrived.is_set():
                await delivered(engine)  # the background, at the same time
            assert await trying == "HTTP 500"
            assert (await hooks.get(hook.id)).pending == 0

    with receiving() as receiver:
        asyncio.run(story(receiver))


def test_what_waits_for_one_address_has_a_bound_and_leaves_others_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhooks, "MOST_WAITING", 5)
    monkeypatch.setattr(webhooks, "MOST_FAILED", 3)

    async def story(receiver: Receiver) -> None:
        receiver.status = 500
        async with opened(tmp_path, receiver) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            hooks = engine.governance.webhooks
            first, _ = await hooks.add(receiver.url, ["document.indexed"])
            await engine.add_documents(kb, [Document(f"甲{n}", "住院。") for n in range(4)])
            second, _ = await hooks.add(receiver.url, ["document.indexed"])
            await engine.add_documents(kb, [Document(f"乙{n}", "门诊。") for n in range(4)])
            assert [(await hooks.get(one.id)).pending for one in (first, second)] == [5, 4]
            assert "3 events were not queued" in caplog.text
            newest = [one.id for one in await hooks.deliveries(first.id)][:3]
            for _ in range(webhooks.ATTEMPTS):
                await engine.records.write(
                    lambda tx: tx.execute(update(DeliveryRow).values(next_at=DeliveryRow.created_at))
                )
                await delivered(engine)
            assert [(await hooks.get(one.id)).failed for one in (first, second)] == [3, 3]
            assert [one.id for one in await hooks.deliveries(first.id)] == newest

    with receiving() as receiver:
        asyncio.run(story(receiver))
