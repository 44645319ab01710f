"""`qianxun serve`: where it listens, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection

from qianxun.core.errors import BadInput
from qianxun.core.system.gc_pause import SERVICE_THRESHOLD
from qianxun.core.types import KnowledgeBase
from qianxun.doors.cli import main
from qianxun.doors.http.listener import bound
from qianxun.doors.http.serve import serve
from qianxun.engine.settings import load
from qianxun.records import Records, bases
from qianxun.records.database.open import sqlite_url
from qianxun.records.secrets import keys
from tests.http.served import BASES, Served, running, serving, until
from tests.http.test_concurrency import GatedQueries, search


def test_it_says_where_it_listens_and_ends_cleanly_on_ctrl_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leftover = tmp_path / "uploads" / "left-by-a-kill"
    leftover.parent.mkdir()
    leftover.write_bytes(b"x")
    with running(tmp_path, preloaded=False) as service:
        assert service.url.startswith("http://127.0.0.1:")
        with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
            assert http.get("/readyz").status_code == 200
            made = http.post(BASES, json={"name": "医保", "embedding_model": "none"})
            assert made.status_code == 201, made.text
            path = f"{BASES}/{made.json()['data']['id']}/documents"
            assert http.post(path, json={"name": "a", "content": "住院费用报销比例。"}).status_code == 201
            assert main(["--data", str(tmp_path), "serve", "--port", "0"]) == 3
            assert str(service.process.pid) in capsys.readouterr().err
            key = _a_key_made_beside_it_counts_at_once(tmp_path, http)
            code, said = service.stop(signal.SIGINT)
    assert code == 0, said
    assert "已停下" in said
    assert key not in said
    assert not leftover.exists()
    for line in said.splitlines():
        assert not line.startswith("Traceback"), said
        if line.startswith("{"):
            assert json.loads(line)["level"] in ("INFO", "WARNING"), line


def _a_key_made_beside_it_counts_at_once(folder: Path, http: httpx.Client) -> str:
    with _records(folder) as records, records.writing() as tx:
        row, key = keys.create(tx, "甲", "read")
    assert http.get(BASES).status_code == 401
    assert http.get(BASES, headers={"x-api-key": key}).status_code == 200
    with _records(folder) as records, records.writing() as tx:
        keys.revoke(tx, row.id)
    assert http.get(BASES, headers={"x-api-key": key}).status_code == 401
    return key


@contextmanager
def _records(folder: Path) -> Iterator[Records]:
    records = Records.open(sqlite_url(folder / "qianxun.db"))
    try:
        yield records
    finally:
        records.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_a_key_no_other_machine_is_served(
    tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path), "serve", "--port", "0", "--host", host]) == 1
    assert "qianxun keys create" in capsys.readouterr().err
    with _records(tmp_path) as records, records.writing() as tx:
        row, _ = keys.create(tx, "local", "write")
        keys.revoke(tx, row.id)
    assert main(["--data", str(tmp_path), "serve", "--port", "0", "--host", host]) == 1


def test_with_a_key_it_listens_everywhere_and_asks_everybody_for_it(tmp_path: Path) -> None:
    with _records(tmp_path) as records, records.writing() as tx:
        row, key = keys.create(tx, "local", "write")
    with running(tmp_path, "--host", "0.0.0.0") as service:
        url = service.url.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
            assert http.get(BASES).status_code == 401
            assert http.get(BASES, headers={"authorization": f"Bearer {key}", "host": "any.example"}).status_code == 200
            with _records(tmp_path) as records, records.writing() as tx:
                keys.revoke(tx, row.id)
            assert http.get(BASES).status_code == 401
        code, said = service.stop(signal.SIGTERM)
    assert code == 0, said
    assert "已停下" in said


def test_a_port_in_use_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bound("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert main(["--data", str(tmp_path), "serve", "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"端口 {port} 已被占用" in said
    assert "--port" in said
    assert not (tmp_path / "qianxun.db").exists()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.7", "", "a" * 300])
def test_an_address_that_cannot_be_had_is_the_users_to_mend(host: str) -> None:
    with pytest.raises(BadInput), bound(host, 0):
        raise AssertionError("it was had")


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with bound("127.0.0.1", 0) as taken:
        assert taken.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on: 40 ms for every answer


# ── closing ──────────────────────────────────────────────────────────────────────────────────────


def test_told_to_stop_it_finishes_what_it_accepted_and_takes_nothing_new(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedQueries()
        settings = {"service.recalls_at_once": 1, "search.cache_entries": 0}
        async with serving(tmp_path, settings, model) as served:
            base, turns = await served.base(), served.app.state.service.recalls
            await served.add(base, "a", "住院费用报销比例为85%。")
            accepted = [asyncio.create_task(search(served, base)) for _ in range(3)]
            await until(lambda: turns.running == 1 and turns.waiting == 2)
            served.server.stop()
            await until(lambda: not _listens(served))
            await asyncio.sleep(0.5)
            assert not served.running.done()
            model.gate.set()
            answers = await asyncio.gather(*accepted)
            assert [each.status_code for each in answers] == [200, 200, 200]
            assert all(each.json()["data"]["doc_ids"] == ["a"] for each in answers)
            await served.running

    asyncio.run(asyncio.wait_for(story(), 300))


def test_what_does_not_end_is_cut_off_after_a_while(tmp_path: Path) -> None:
    async def story() -> float:
        model = GatedQueries()
        opening = threading.Timer(100.0, model.gate.set)  # the thread itself cannot be cut off
        loop = asyncio.get_running_loop()
        async with serving(tmp_path, {"service.close_seconds": 1, "service.request_seconds": 100}, model) as served:
            base = await served.base()
            await served.add(base, "a", "住院费用报销比例为85%。")
            stuck = asyncio.create_task(search(served, base))
            await until(lambda: model.asked == 1)
            opening.start()
            started = loop.time()
            served.server.stop()
            with pytest.raises(httpx.HTTPError):
                (await stuck).raise_for_status()
            took = loop.time() - started
            model.gate.set()
            opening.cancel()
        return took

    assert asyncio.run(asyncio.wait_for(story(), 300)) < 60


def _listens(served: Served) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", served.port)) == 0


def test_the_process_owns_its_uploads_alone(tmp_path: Path) -> None:
    """The folder of uploads is made for its owner."""

    async def story() -> None:
        async with serving(tmp_path) as served:
            base = await served.base()
            file = {"file": ("a.txt", "住院费用报销比例。".encode())}
            assert (await served.http.post(f"{BASES}/{base}/documents", files=file)).status_code == 201

    asyncio.run(story())
    assert os.stat(tmp_path / "uploads").st_mode & 0o077 == 0


def test_while_it_serves_the_collector_leaves_out_what_is_loaded(tmp_path: Path) -> None:
    before, while_it_serves = gc.get_freeze_count(), []

    def listening(url: str) -> None:
        while_it_serves.append((gc.get_threshold()[0], gc.get_freeze_count() > before))
        os.kill(os.getpid(), signal.SIGINT)

    chosen = {"data": str(tmp_path), "service.port": 0, "vectorization.model": "none"}
    asyncio.run(serve(load(environment={}, arguments=chosen, folder=tmp_path), listening))
    assert while_it_serves == [(SERVICE_THRESHOLD, True)]
    assert gc.get_threshold()[0] != SERVICE_THRESHOLD


def test_nobody_is_answered_before_it_is_known_which_indexes_are_to_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would call itself ready, and then unready again."""
    happened: list[str] = []
    listed = bases.across_tenants

    def slowly(tx: Connection) -> tuple[KnowledgeBase, ...]:
        time.sleep(0.3)
        happened.append("listed")
        return listed(tx)

    def listening(url: str) -> None:
        happened.append("listening")
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(bases, "across_tenants", slowly)
    chosen = {"data": str(tmp_path), "service.port": 0, "vectorization.model": "none"}
    asyncio.run(serve(load(environment={}, arguments=chosen, folder=tmp_path), listening))
    assert happened == ["listed", "listening"]
