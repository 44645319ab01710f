"""A large graph: questions after a write wait for nothing, and what was deleted is nowhere; on disk it outlives the
process, and one that is damaged there is derived again."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qianxun.engine.engine import Engine
from qianxun.graph import build as graphing
from qianxun.graph.modes import ModeRecall
from tests.graph.test_build import built, seen
from tests.indexing.opened import doc

LIBRARY = {
    "甲": "鲁迅出生于绍兴。\n《呐喊》的作者是鲁迅。",
    "乙": "蓝天科技有限公司由老舍创立，总部位于北京。\n老舍和巴金在成都见面。",
    "丙": "真实制造有限公司（简称真实）与张爱玲合作。\n张爱玲出生于上海。",
}
WRITTEN = "白云软件有限公司由巴金创立，总部位于成都。"


@pytest.fixture(autouse=True)
def _every_graph_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qianxun.bases.graph_cache.LARGE", 1)
    monkeypatch.setattr(graphing, "SETTLE_SHARE", 10.0)


async def asked(engine: Engine, kb: int, question: str, mode: Any = "local") -> ModeRecall:
    return await engine.gather(kb, question, mode=mode)


def names(found: ModeRecall) -> set[str]:
    return {entity.name for entity in found.context.entities}


def lag(found: ModeRecall) -> list[str]:
    """What is said of the graph that is behind the documents."""
    return [one.reason for one in found.degraded if one.part == "graph"]


async def _library(engine: Engine) -> int:
    kb = (await engine.create_knowledge_base("大图", model="none")).id
    await engine.add_documents(kb, [doc(name, text) for name, text in LIBRARY.items()])
    return kb


async def _settled(engine: Engine, kb: int) -> None:
    task = (await engine.base(kb)).graph.settling
    if task is not None:
        await task


def test_a_question_after_a_write_is_answered_from_the_graph_and_the_write(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = await _library(engine)
            before = await asked(engine, kb, "蓝天科技有限公司由谁创立")
            assert not lag(before)
            graph = (await engine.base(kb)).graph.latest
            await engine.add_documents(kb, [doc("丁", WRITTEN)])
            found = await asked(engine, kb, "白云软件有限公司由谁创立")
            assert (await engine.base(kb)).graph.latest is graph  # nothing was derived again
            assert found.results[0].chunk.doc_id == "丁"
            assert "graph" in found.results[0].arms
            assert lag(found)
            whole = await seen(engine, kb)  # who asks for all of it waits
            assert whole == await built(engine, {**LIBRARY, "丁": WRITTEN})
            assert not lag(await asked(engine, kb, "白云软件有限公司由谁创立"))

    asyncio.run(story())


@pytest.mark.parametrize("mode", ["local", "global"])
def test_nothing_of_a_deleted_document_is_shown(tmp_path: Path, mode: str) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = await _library(engine)
            question = "老舍创立的蓝天科技有限公司和鲁迅"
            assert names(await asked(engine, kb, question, mode)) >= {"蓝天科技有限公司", "鲁迅"}
            graph = (await engine.base(kb)).graph.latest
            await engine.delete_document(kb, "乙")
            found = await asked(engine, kb, question, mode)
            assert (await engine.base(kb)).graph.latest is graph
            assert "乙" not in {result.chunk.doc_id for result in found.results}
            assert "鲁迅" in names(found)
            assert not names(found) & {"老舍", "蓝天科技有限公司", "北京", "巴金", "成都"}
            told = repr(found.context)
            assert not [name for name in ("老舍", "蓝天", "巴金") if name in told]
            assert await seen(engine, kb) == await built(engine, {"甲": LIBRARY["甲"], "丙": LIBRARY["丙"]})

    asyncio.run(story())


def test_what_was_written_is_in_the_graph_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = await _library(engine)
            await asked(engine, kb, "鲁迅")
            await _settled(engine, kb)
            await engine.add_documents(kb, [doc("甲", "鲁迅去了厦门。"), doc("丁", WRITTEN)])
            monkeypatch.setattr(graphing, "SETTLE_SECONDS", -1.0)
            assert lag(await asked(engine, kb, "鲁迅"))
            await _settled(engine, kb)
            assert not lag(await asked(engine, kb, "鲁迅"))
            left = {**LIBRARY, "甲": "鲁迅去了厦门。", "丁": WRITTEN}
            assert await seen(engine, kb) == await built(engine, left)

    asyncio.run(story())


# ── on disk ──────────────────────────────────────────────────────────────────────────────────────


async def _kept(folder: Path) -> tuple[int, dict[str, Any]]:
    async with Engine.open(folder, background=False) as engine:
        kb = await _library(engine)
        await engine.graph(kb)
        await asked(engine, kb, "鲁迅", "global")
        await engine.admin.build_graph(kb)
        await _settled(engine, kb)
        return kb, await seen(engine, kb)


def test_the_first_question_after_opening_derives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, before = asyncio.run(_kept(tmp_path))

    def derive(*_: Any) -> None:
        raise AssertionError("the graph was derived")

    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            with monkeypatch.context() as patched:
                patched.setattr("qianxun.graph.network.knowledge_graph.derive_graph", derive)
                found = await asked(engine, kb, "《呐喊》的作者是谁")
                assert "鲁迅" in names(found)
                assert not lag(found)
                assert await seen(engine, kb) == before
            await engine.add_documents(kb, [doc("丁", WRITTEN)])  # and it can be changed
            await engine.delete_document(kb, "乙")
            left = {"甲": LIBRARY["甲"], "丙": LIBRARY["丙"], "丁": WRITTEN}
            assert await seen(engine, kb) == await built(engine, left)

    asyncio.run(story())


def test_a_damaged_graph_is_derived_again(tmp_path: Path) -> None:
    kb, before = asyncio.run(_kept(tmp_path))
    damaged = next((tmp_path / "graph").rglob("relations.source.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x07")

    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            assert await seen(engine, kb) == before

    asyncio.run(story())


def test_a_graph_of_other_records_with_the_same_numbers_is_not_used(tmp_path: Path) -> None:
    """A backup is put back, and what is written then gets the keys and counts of what was written before."""

    async def made(folder: Path, text: str) -> tuple[int, dict[str, Any]]:
        async with Engine.open(folder, background=False) as engine:
            kb = (await engine.create_knowledge_base("大图", model="none")).id
            await engine.add_documents(kb, [doc("甲", text)])
            await engine.admin.build_graph(kb)
            return kb, await seen(engine, kb)

    asyncio.run(made(tmp_path / "一", LIBRARY["甲"]))
    kb, other = asyncio.run(made(tmp_path / "二", LIBRARY["丙"]))
    meta = tmp_path / "二" / "graph" / str(kb) / "meta.json"
    own = json.loads(meta.read_bytes())
    shutil.rmtree(tmp_path / "二" / "graph")
    shutil.copytree(tmp_path / "一" / "graph", tmp_path / "二" / "graph")
    foreign = json.loads(meta.read_bytes())
    assert foreign["about"]["state"] == own["about"]["state"]
    meta.write_text(json.dumps({**foreign, "base": own["base"]}))

    async def story() -> None:
        async with Engine.open(tmp_path / "二", background=False) as engine:
            assert await seen(engine, kb) == other

    asyncio.run(story())


def test_a_deleted_base_and_deleted_names_leave_nothing_on_disk(tmp_path: Path) -> None:
    kb, _ = asyncio.run(_kept(tmp_path))

    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            await engine.delete_document(kb, "乙")
            await engine.admin.build_graph(kb)
            written = b"".join(path.read_bytes() for path in (tmp_path / "graph").rglob("*.json"))
            assert "鲁迅".encode() in written
            assert "蓝天".encode() not in written
            await engine.delete_knowledge_base(kb)
            assert not list((tmp_path / "graph").rglob("*.npy"))

    asyncio.run(story())


def test_a_purge_removes_the_graph_from_disk(tmp_path: Path) -> None:
    kb, _ = asyncio.run(_kept(tmp_path))

    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            assert list((tmp_path / "graph").rglob("*.json"))
            cache = (await engine.base(kb)).graph
            emptied = cache.forgotten()
            assert not list((tmp_path / "graph").rglob("*.json"))
            assert emptied.folder is not None
            assert cache.folder is None  # whatever still writes it writes nothing

    asyncio.run(story())
