"""A document is stored before anything slow begins: what a killed process leaves behind has it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import ModelUnavailable
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from tests.indexing.opened import FailingEmbedding, GatedEmbedding, doc, found, opened

TEXT = "住院费用的报销比例为85%。起付标准为600元。"
Door = Callable[[Engine, int, Path], Awaitable[Any]]
DOORS: dict[str, Door] = {
    "add_documents": lambda engine, kb, path: engine.add_documents(kb, [Document("d", TEXT)]),
    "add_file": lambda engine, kb, path: engine.add_file(kb, path, name=path.name, doc_id="d"),
    "add": lambda engine, kb, path: engine.add(kb, [path]),
}


async def entered(model: GatedEmbedding) -> None:
    async with asyncio.timeout(60):
        while not model.entered.is_set():  # noqa: ASYNC110  # set by a thread
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("door", DOORS)
def test_what_a_process_was_given_survives_it(tmp_path: Path, door: str) -> None:
    """The files of a process that is killed while its model works are those of one that is still at it."""
    path = tmp_path / "手册.txt"
    path.write_text(TEXT, "utf-8")

    async def story() -> None:
        model = GatedEmbedding("起付标准")
        async with opened(tmp_path / "data", model) as (engine, kb):
            adding = asyncio.create_task(DOORS[door](engine, kb, path))  # type: ignore[arg-type]
            await entered(model)
            shutil.copytree(tmp_path / "data", tmp_path / "left")
            model.gate.set()
            await adding
        async with opened(tmp_path / "left") as (engine, kb):
            (state,) = await engine.documents(kb)
            assert state.status == "pending"
            await engine.drain(kb)
            assert list(await found(engine, kb, "起付标准")) == [state.doc_id]

    asyncio.run(story())


def test_the_indexer_and_other_writers_leave_a_document_to_the_task_that_prepares_it(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedEmbedding("起付标准")
        async with opened(tmp_path, model) as (engine, kb):
            adding = asyncio.create_task(engine.add_documents(kb, [doc("大", TEXT)]))
            await entered(model)
            await engine.add_documents(kb, [doc("小", "异地就医须先备案。")])
            assert list(await found(engine, kb, "备案")) == ["小"]
            assert (await engine.drain(kb)).applied == 0
            again = asyncio.create_task(engine.add_documents(kb, [doc("大", TEXT)]))
            await asyncio.sleep(0.05)
            assert not again.done()  # it is unchanged, but not searchable yet
            model.gate.set()
            assert [one.outcome for one in (*await adding, *await again)] == ["created", "unchanged"]
            assert list(await found(engine, kb, "起付标准")) == ["大"]
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def test_an_answer_from_before_it_entered_the_index_is_not_given_again(tmp_path: Path) -> None:
    """A later document may enter first: the index then has the same last sequence before and after."""

    async def story() -> None:
        model = GatedEmbedding("起付标准")
        async with opened(tmp_path, model) as (engine, kb):
            adding = asyncio.create_task(engine.add_documents(kb, [doc("大", TEXT)]))
            await entered(model)
            await engine.add_documents(kb, [doc("小", "门诊费用的报销比例为60%。")])
            for _ in range(2):
                before = await engine.retrieve(kb, "报销比例", mode="fulltext")
                assert [one.chunk.doc_id for one in before.found] == ["小"]
            assert before.from_cache
            model.gate.set()
            await adding
            after = await engine.retrieve(kb, "报销比例", mode="fulltext")
            assert {one.chunk.doc_id for one in after.found} == {"大", "小"}

    asyncio.run(story())


def test_a_document_that_is_given_twice_is_stored_as_given_last(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            first, last = await engine.add_documents(kb, [doc("甲", "旧的说法。"), doc("甲", TEXT)])
            assert (first.generation, last.generation) == (1, 2)
            assert len(last.chunk_keys) == 1
            assert list(await found(engine, kb, "起付标准")) == ["甲"]
            assert await found(engine, kb, "说法") == {}
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def test_what_is_added_again_need_not_wait_for_its_retry(tmp_path: Path) -> None:
    async def story() -> None:
        model = FailingEmbedding("起付标准", ModelUnavailable("模型不在", hint="稍后再试"))
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [doc("甲", TEXT)])
            assert (await engine.document(kb, "甲")).status == "retrying"
            model.error = None
            await engine.add_documents(kb, [doc("甲", TEXT)])
            assert (await engine.document(kb, "甲")).status == "indexed"

    asyncio.run(story())


def test_where_very_many_are_under_way_the_next_waits_in_the_outbox(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            base = await engine.base(kb)
            async with asyncio.TaskGroup() as tasks:
                go = asyncio.Event()

                async def occupy() -> None:
                    async with base.in_memory.slot(base.about.tenant):
                        await go.wait()

                for _ in range(9):
                    tasks.create_task(occupy())
                await asyncio.sleep(0)
                assert not base.in_memory.is_free(base.about.tenant)
                await engine.add_documents(kb, [doc("甲", TEXT)])
                assert list(await found(engine, kb, "起付标准")) == ["甲"]
                go.set()

    asyncio.run(story())
