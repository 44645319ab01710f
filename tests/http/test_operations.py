"""Verify and rebuild in the background over HTTP: begun, followed, cancelled, and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadInput, NotFound, Overloaded
from qianxun.core.types import Document
from qianxun.doors.http.native.operations import OperationInfo
from qianxun.jobs import operations
from qianxun.jobs.operations import Advance, Operations
from tests.http.asking import Asking, asking


async def ended(at: Asking, number: int) -> dict[str, Any]:
    while True:
        data: dict[str, Any] = (await at.http.get(f"/v1/operations/{number}")).json()["data"]
        if data["status"] not in ("queued", "running"):
            OperationInfo.model_validate(data)
            return data
        await asyncio.sleep(0.01)


def test_a_base_is_verified_and_rebuilt_in_the_background(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(Document("1", "住院报销比例为百分之八十五。"))
            begun = await at.http.post(f"/v1/knowledge-bases/{base}/maintenance/verify")
            assert begun.status_code == 202, begun.text
            verified = await ended(at, begun.json()["data"]["id"])
            assert (verified["status"], verified["result"]["is_clean"]) == ("done", True)
            begun = await at.http.post(f"/v1/knowledge-bases/{base}/maintenance/rebuild")
            rebuilt = await ended(at, begun.json()["data"]["id"])
            assert (rebuilt["done"], rebuilt["total"], rebuilt["result"]) == (1, 1, {"chunks": 1})
            listed = (await at.http.get("/v1/operations")).json()["data"]["list"]
            assert [one["kind"] for one in listed] == ["rebuild", "verify"]
            again = await at.http.post(f"/v1/operations/{rebuilt['id']}/cancel")
            assert again.json()["data"]["status"] == "done"
            assert (await at.http.post(f"/v1/knowledge-bases/{base}/maintenance/polish")).status_code == 404
            assert (await at.http.get("/v1/operations/99")).status_code == 404

    asyncio.run(run())


def test_operations_are_bounded_cancelled_and_of_one_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MOST_ACTIVE", 3)

    async def forever(advance: Advance) -> Mapping[str, Any]:
        advance(2)
        await asyncio.Event().wait()
        return {}

    async def failing(_: Advance) -> Mapping[str, Any]:
        raise BadInput("不行", hint="改一改")

    async def story() -> None:
        works = Operations()
        started = [works.start("verify", "甲", 1001, 5, forever) for _ in range(3)]
        with pytest.raises(Overloaded):
            works.start("verify", "甲", 1001, 5, forever)
        await asyncio.sleep(0)
        states = [(one.status, one.done) for one in reversed(works.list("甲"))]
        assert states == [("running", 2), ("running", 2), ("queued", 0)]
        assert works.list("乙") == []
        for call in (works.get, works.cancel):
            with pytest.raises(NotFound):
                call(started[0].id, "乙")
        works.cancel(started[0].id, "甲")
        works.cancel(started[2].id, "甲")
        await asyncio.sleep(0.01)
        assert [works.get(one.id, "甲").status for one in started] == ["cancelled", "running", "cancelled"]
        failed = works.start("rebuild", "甲", 1001, 0, failing)
        await asyncio.sleep(0.01)
        assert (works.get(failed.id, "甲").status, works.get(failed.id, "甲").reason) == ("failed", "不行　改一改")
        await works.close()
        assert works.get(started[1].id, "甲").status == "cancelled"

    asyncio.run(story())


def test_one_tenant_leaves_others_room_and_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MOST_OF_A_TENANT", 2)

    async def story() -> None:
        works = Operations()

        async def long(advance: Advance) -> Mapping[str, Any]:
            for _ in range(1_000):
                async with works.turn():
                    await asyncio.sleep(0)
                advance(1)
            return {}

        async def short(_: Advance) -> Mapping[str, Any]:
            over.set()
            return {}

        over = asyncio.Event()
        runs = [works.start("evaluate", "甲", 1001, 1_000, long, takes_turns=True) for _ in range(2)]
        with pytest.raises(Overloaded):
            works.start("verify", "甲", 1001, 0, short)
        works.start("verify", "乙", 1002, 0, short)
        await over.wait()
        assert all(works.get(one.id, "甲").done < 100 for one in runs)
        await works.close()

    asyncio.run(story())
