"""Nothing that reads a document runs in the process that serves: it is read by a worker, under the worker's limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import TooLarge
from qianxun.core.types import ContentFormat, Document
from qianxun.engine.engine import Engine
from qianxun.indexing import read
from tests.indexing.opened import found, opened

LONG = "住院费用的报销比例为85%。" * 50
CONTENTS: dict[ContentFormat, str] = {"text": LONG, "markdown": "# 报销\n\n住院85%。", "html": "<p>住院85%。</p>"}
Door = Callable[[Engine, int, ContentFormat], Awaitable[Any]]


async def by_event(engine: Engine, kb: int, kind: ContentFormat) -> None:
    event = {"document_id": "event", "content": CONTENTS[kind], "format": kind}
    assert (await (await engine.events(kb)).handle_document_created(event)).result == "accepted"
    await engine.drain(kb)


async def by_manager(engine: Engine, kb: int, kind: ContentFormat) -> None:
    assert await (await engine.manager(kb)).index_document(Document("manager", CONTENTS[kind], format=kind)) > 0


DOORS: dict[str, Door] = {
    "add": lambda engine, kb, kind: engine.add_documents(kb, [Document("add", CONTENTS[kind], format=kind)]),
    "store": lambda engine, kb, kind: engine.add_documents(
        kb, [Document("store", CONTENTS[kind], format=kind)], wait=False
    ),
    "event": by_event,
    "manager": by_manager,
}


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("a document is read in this process")


def test_texts_are_read_by_a_worker_whichever_way_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "read_content", forbidden)

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            for kind in CONTENTS:
                for door in DOORS.values():
                    await door(engine, kb, kind)
            await engine.drain(kb)
            assert set(await found(engine, kb, "住院")) == set(DOORS)

    asyncio.run(story())


def test_a_plain_text_of_one_chunk_starts_no_worker(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [Document("a", "住院费用的报销比例为85%。")])
            assert not engine.parsers._all

    asyncio.run(story())


def test_a_text_that_a_worker_refuses_is_refused_with_its_batch(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            engine.parsers._limits = replace(engine.parsers._limits, characters=400)
            with pytest.raises(TooLarge):
                await engine.add_documents(kb, [Document("小", "短。"), Document("大", LONG)])
            event = {"document_id": "大", "content": LONG}
            assert (await (await engine.events(kb)).handle_document_created(event)).result == "rejected"
            assert not await engine.documents(kb)

    asyncio.run(story())
