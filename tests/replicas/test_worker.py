"""`qianxun worker`, and a service that is about to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from qianxun import Document
from qianxun.core.errors import BadSettings
from qianxun.doors.http.serve import check_background
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.engine.wiring import run_alongside
from tests.http.served import BASES, serving
from tests.replicas.engines import found, replicas


def test_a_worker_indexes_what_a_replica_accepted_and_ends_when_it_is_told_to(
    tmp_path: Path, postgres_url: str
) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url, 1) as (one,):
            base = (await one.create_knowledge_base("医保", model="none")).id
            await one.add_documents(base, [Document("甲", "住院费用报销比例。")], wait=False)
            variables = {"QIANXUN_RECORDS_URL": postgres_url, "QIANXUN_INDEX_BACKEND": "postgres"}
            command = [str(Path(sys.executable).with_name("qianxun")), "--data", str(tmp_path), "worker"]
            worker = await asyncio.create_subprocess_exec(
                *command, env={**os.environ, **variables}, stdout=asyncio.subprocess.DEVNULL
            )
            try:
                async with asyncio.timeout(120):
                    while await one.admin.queue_depth():  # noqa: ASYNC110  # nobody tells
                        await asyncio.sleep(0.1)
            finally:
                worker.send_signal(signal.SIGTERM)
            assert await worker.wait() == 0
            assert (await one.document(base, "甲")).status == "indexed"
            recall = await one.retrieve(base, "住院费用")
            assert [result.chunk.doc_id for result in recall.results] == ["甲"]

    asyncio.run(story())


def test_a_worker_learns_from_what_others_have_written(tmp_path: Path, postgres_url: str) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url, 2, background=False) as (one, two):
            base = (await one.create_knowledge_base("医保")).id
            async with run_alongside(*two._works("worker")):
                await asyncio.sleep(0.5)
                await one.add_documents(base, [Document("甲", "住院费用报销比例。")])
                async with asyncio.timeout(60):
                    while not any(opened.id == base for opened in two._bases.every()):  # noqa: ASYNC110  # nobody tells
                        await asyncio.sleep(0.1)
                assert await found(two, base, "住院费用") == {"甲"}

    asyncio.run(story())


def test_a_service_that_leaves_its_work_undone_wants_somebody_who_could_do_it(tmp_path: Path) -> None:
    async def story() -> None:
        settings = load(environment={}, arguments={"data": str(tmp_path), "service.background": False})
        async with Engine.open(settings=settings, background=False) as engine:
            with pytest.raises(BadSettings, match="background"):
                check_background(engine)

    asyncio.run(story())


def test_a_service_that_drains_says_that_it_is_not_ready_and_serves_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path, {"service.drain_seconds": 600.0}) as served:
            assert (await served.http.get("/readyz")).status_code == 200
            served.server.drain()
            refused = await served.http.get("/readyz")
            assert (refused.status_code, refused.json()["error"]) == (503, "closing")
            assert (await served.http.get(BASES)).status_code == 200
            served.server.drain()  # told again: at once
            assert served.server.service.recalls.is_closed

    asyncio.run(story())
