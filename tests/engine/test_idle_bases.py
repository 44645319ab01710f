"""Bases that nobody uses are closed beyond a bound; one that somebody has at hand never is."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.types import Document
from qianxun.engine import open_bases
from qianxun.engine.engine import Engine
from qianxun.testing.scripted import HashEmbedding

MODELS: dict[str, Any] = {"fake-64": HashEmbedding()}


async def filled(engine: Engine, name: str, *, is_worked_through: bool = True) -> int:
    kb = (await engine.create_knowledge_base(name, model="fake-64")).id
    await engine.add_documents(kb, [Document("d", f"{name}的报销比例为85%。")])
    if is_worked_through:
        await engine.admin.run_background_work(kb)
    return kb


async def names_found(engine: Engine, kb: int) -> list[str]:
    return [each.chunk.text for each in (await engine.retrieve(kb, "报销比例", mode="fulltext")).results]


async def are_open(engine: Engine, *kbs: int) -> bool:
    """Whether these are all that are open, once what was done with others is over to the end."""
    for _ in range(600):
        if sorted(base.id for base in engine._bases.every()) == sorted(kbs):
            return True
        gc.collect()
        await asyncio.sleep(0.01)
    return False


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_idle_bases_are_closed_and_open_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_bases, "MOST_OPEN", 2)

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODELS, background=False) as engine:
            kbs = [await filled(engine, f"第{number}库") for number in range(4)]
            assert await are_open(engine, *kbs[-2:])
            files = open_files()
            for number in range(4, 10):
                kbs.append(await filled(engine, f"第{number}库"))
                assert await are_open(engine, *kbs[-2:])
            assert open_files() <= files + 1
            for number, kb in enumerate(kbs):
                assert await names_found(engine, kb) == [f"第{number}库的报销比例为85%。"]
            assert await are_open(engine, *kbs[-2:])
            await engine.delete_knowledge_base(kbs[0])  # a closed one
            assert (await engine.admin.verify(kbs[1])).is_clean

    asyncio.run(story())


def test_a_base_that_somebody_has_at_hand_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_bases, "MOST_OPEN", 1)

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODELS, background=False) as engine:
            first = await filled(engine, "第一库")
            manager = await engine.manager(first)
            base = await engine.base(first)
            others = [await filled(engine, f"别的库{number}") for number in range(3)]
            assert await are_open(engine, first, others[-1])
            assert await engine.base(first) is base
            await manager.index_document(Document("e", "后来的报销比例为60%。"))
            assert len(await names_found(engine, first)) == 2
            await engine.admin.run_background_work(first)
            del base, manager
            await engine.base(others[0])
            assert await are_open(engine, others[0])

    asyncio.run(story())


def test_a_base_that_the_background_has_to_work_on_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_bases, "MOST_OPEN", 1)

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODELS, background=False) as engine:
            written = await filled(engine, "刚写过", is_worked_through=False)
            others = [await filled(engine, f"别的库{number}") for number in range(2)]
            assert await are_open(engine, written, others[-1])
            await engine.admin.run_background_work(written)
            await engine.base(others[0])
            await engine.base(others[1])
            assert await are_open(engine, others[1])

    asyncio.run(story())
