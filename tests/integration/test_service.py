"""The service with its records on a server: at work, without its database, and with it again."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.http.served import BASES, Served, serving
from tests.integration.emptied import end_sessions
from tests.servers import mysql, postgres


async def ask(service: Served, base: int, query: str) -> tuple[int, Any]:
    answer = await service.http.post(f"/v1/retrieval/{base}", json={"query": query})
    return answer.status_code, answer.json()


def found(answer: tuple[int, Any]) -> list[str]:
    status, told = answer
    assert status == 200, told
    return [chunk["doc_id"] for chunk in told["data"]["chunks"]]


@pytest.mark.parametrize("server", ["postgres", "mysql"])
def test_documents_are_written_found_changed_and_deleted(
    tmp_path: Path, request: pytest.FixtureRequest, server: str
) -> None:
    url = request.getfixturevalue(f"migrated_{server}_url")

    async def work() -> None:
        async with serving(tmp_path, {"records.url": url}) as service:
            base = await service.base()
            for number in range(5):
                added = await service.add(base, f"d{number}", f"第 {number} 条：住院费用报销比例。")
                assert added.status_code in (200, 201), added.text
            assert set(found(await ask(service, base, "住院费用报销比例"))) == {f"d{n}" for n in range(5)}
            assert (await service.http.delete(f"{BASES}/{base}/documents/d3")).status_code == 200
            assert "d3" not in found(await ask(service, base, "住院费用报销比例"))
            await service.add(base, "d4", "年休假为 7 天。")
            assert found(await ask(service, base, "年休假"))[0] == "d4"
            listed = (await service.http.get(f"{BASES}/{base}/documents")).json()["data"]
            assert len(listed["documents"] if isinstance(listed, dict) else listed) == 4
            assert (await service.http.delete(f"{BASES}/{base}")).status_code == 200
            assert (await ask(service, base, "年休假"))[0] == 404
        assert not (tmp_path / "qianxun.db").exists()

    asyncio.run(work())


@pytest.mark.parametrize("kind", [postgres, pytest.param(mysql, marks=pytest.mark.long)], ids=["postgres", "mysql"])
def test_a_service_without_its_database_says_so_and_comes_back_with_it(
    tmp_path: Path, request: pytest.FixtureRequest, kind: ModuleType
) -> None:
    server = request.getfixturevalue(f"{kind.__name__.rpartition('.')[2]}_server")
    crash = server.crash if kind is mysql else partial(server.stop, "immediate")

    async def work() -> None:
        url = kind.create_database(server)
        async with serving(tmp_path, {"records.url": url}) as service:
            base = await service.base()
            await service.add(base, "d", "住院费用报销比例。")
            assert found(await ask(service, base, "住院")) == ["d"]
            await asyncio.to_thread(crash)
            await _says_so(service, base)
            await asyncio.to_thread(server.start)
            assert found(await ask(service, base, "住院费用")) == ["d"]
            assert (await service.http.get("/readyz")).status_code == 200
            assert (await service.add(base, "e", "门诊费用报销比例。")).status_code in (200, 201)
            assert set(found(await ask(service, base, "费用报销比例"))) == {"d", "e"}

    asyncio.run(work())


async def _says_so(service: Served, base: int) -> None:
    started = time.monotonic()
    for status, told in (
        await ask(service, base, "住院费用"),
        await _answer(service.http.put(f"{BASES}/{base}/documents/x", json={"name": "x", "content": "新的"})),
        await _answer(service.http.get(BASES)),
        await _answer(service.http.get("/readyz")),
    ):
        assert (status, told["error"]) == (503, "records_unavailable"), told
        assert "数据库" in told["msg"]
    assert (await service.http.get("/healthz")).status_code == 200
    assert time.monotonic() - started < 60


async def _answer(request: Any) -> tuple[int, Any]:
    answer = await request
    return answer.status_code, answer.json()


def test_connections_that_die_under_searches_and_writes_lose_nothing(
    tmp_path: Path, migrated_postgres_url: str
) -> None:
    """Every write that was acknowledged is found; every other answer is the right one or a plain 503."""

    async def work() -> None:
        async with serving(tmp_path, {"records.url": migrated_postgres_url}) as service:
            base = await service.base()
            acknowledged: set[str] = set()
            statuses: list[int] = []
            is_over = asyncio.Event()

            async def write(worker: int) -> None:
                for number in range(10):
                    doc_id = f"w{worker}-{number}"
                    answer = await service.add(base, doc_id, f"{doc_id} 住院费用报销比例。")
                    statuses.append(answer.status_code)
                    if answer.status_code in (200, 201):
                        acknowledged.add(doc_id)

            async def search() -> None:
                while not is_over.is_set():
                    statuses.append((await ask(service, base, "住院费用"))[0])

            async def kill() -> None:
                known = 0
                while not is_over.is_set():
                    await asyncio.sleep(0.05)
                    if len(acknowledged) > known:  # however slow the machine is, some come through between two
                        known = len(acknowledged)
                        await asyncio.to_thread(end_sessions, migrated_postgres_url)

            beside = [asyncio.create_task(each()) for each in (search, kill)]
            await asyncio.gather(write(0), write(1))
            is_over.set()
            await asyncio.gather(*beside)
            assert set(statuses) <= {200, 201, 503}, statuses
            assert acknowledged
            await service.engine.drain(base)
            listed = {state.doc_id: state.status for state in await service.engine.documents(base)}
            assert {doc_id: listed.get(doc_id) for doc_id in acknowledged} == dict.fromkeys(acknowledged, "indexed")
            assert (await service.engine.admin.verify(base)).is_clean

    asyncio.run(work())
