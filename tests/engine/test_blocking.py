"""The engine for code that does not await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadInput, FolderInUse, NotFound
from qianxun.core.types import Document
from qianxun.engine.blocking import BlockingEngine, open_blocking
from qianxun.engine.engine import Engine

TEXT = "住院费用的报销比例为百分之八十。门诊费用的报销比例为百分之五十。"


def test_every_method_of_the_engine_without_await(tmp_path: Path) -> None:
    with open_blocking(tmp_path, background=False) as rag:
        kb = rag.create_knowledge_base("医保")
        rag.add_documents(kb.id, [Document("手册", TEXT, name="手册")])
        found = rag.retrieve(kb.id, "住院报销比例").found
        assert found[0].chunk.text == TEXT
        assert rag.settings.folder == tmp_path
        with pytest.raises(NotFound):
            rag.knowledge_base("没有的库")
        assert rag.of("other").knowledge_bases() == ()
        with pytest.raises(AttributeError):
            rag.no_such_method  # noqa: B018
    with open_blocking(tmp_path, background=False) as rag:  # the folder was let go
        assert [each.name for each in rag.knowledge_bases()] == ["医保"]


def test_what_the_engine_gives_to_work_with_needs_no_await_either(tmp_path: Path) -> None:
    """A call that gave a coroutine did nothing: a delete was never carried out."""
    with open_blocking(tmp_path, background=False) as rag:
        kb = rag.create_knowledge_base("长篇", model="none").id
        told = {
            "document_id": "第一章",
            "content": TEXT,
            "user_id": "u1",
            "project_id": "p1",
            "content_type": "chapter",
        }
        events, search = rag.events(kb), rag.hybrid_search(kb, fusion="weighted")
        assert events.handle_document_created(told).result == "accepted"
        rag.drain(kb)
        assert [one.document_id for one in search.search("住院", "u1", "p1")] == ["第一章"]
        assert search.fusion == "weighted"
        assert rag.graph_keeper(kb).status().chunks == 1
        assert events.handle_document_deleted(told).result == "accepted"
        assert search.search("住院", "u1", "p1") == []
        assert rag.manager(kb).index_document(Document("第二章", TEXT)) == 1
        assert rag.of("other").knowledge_bases() == ()
        with pytest.raises(NotFound):
            rag.of("other").events(kb)
        with pytest.raises(AttributeError):
            events.no_such_method  # noqa: B018


def test_a_folder_in_use_is_told_to_the_caller(tmp_path: Path) -> None:
    with open_blocking(tmp_path, background=False), pytest.raises(FolderInUse), open_blocking(tmp_path):
        pytest.fail("two engines own one folder")


def test_an_error_in_the_block_lets_the_folder_go(tmp_path: Path) -> None:
    with pytest.raises(KeyError), open_blocking(tmp_path, background=False):
        raise KeyError("of the caller")
    with open_blocking(tmp_path, background=False) as rag:
        assert rag.knowledge_bases() == ()


def test_whoever_is_interrupted_while_it_opens_holds_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Future.result
    interrupts = iter([KeyboardInterrupt()])

    def interrupted(self: Future[Any], timeout: float | None = None) -> Any:
        if threading.current_thread() is threading.main_thread() and (error := next(interrupts, None)):
            raise error
        return waiting(self, timeout)

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt), open_blocking(tmp_path, background=False):
        pytest.fail("it was interrupted")
    with open_blocking(tmp_path, background=False) as rag:
        assert rag.knowledge_bases() == ()


def test_threads_share_one_engine(tmp_path: Path) -> None:
    with open_blocking(tmp_path, background=False) as rag:
        kb = rag.create_knowledge_base("医保")
        rag.add_documents(kb.id, [Document(f"d{at}", TEXT, name=f"手册{at}") for at in range(4)])
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(len(rag.retrieve(kb.id, "报销", top_k=3).found)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4


def test_from_its_own_loop_a_blocking_call_is_refused_and_names_what_to_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            rag = BlockingEngine(engine, asyncio.get_running_loop())
            with pytest.raises(BadInput, match="aretrieve"):
                rag.run(engine.knowledge_bases(), instead="aretrieve")
            with pytest.raises(BadInput, match="事件循环"):
                rag.knowledge_bases()
            assert await rag.join(engine.knowledge_bases()) == ()
            assert await asyncio.to_thread(rag.knowledge_bases) == ()  # from another thread it may

    asyncio.run(main())


def test_another_loop_may_await_it(tmp_path: Path) -> None:
    with open_blocking(tmp_path, background=False) as rag:
        assert asyncio.run(rag.join(rag.engine.knowledge_bases())) == ()


def test_after_the_block_there_is_no_engine(tmp_path: Path) -> None:
    with open_blocking(tmp_path, background=False) as rag:
        pass
    with pytest.raises(BadInput, match="已关闭"):
        rag.knowledge_bases()


def test_a_call_under_way_ends_with_the_block(tmp_path: Path) -> None:
    begun = threading.Event()
    told: list[BaseException] = []

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait(rag: BlockingEngine) -> None:
        try:
            rag.run(endless())
        except BadInput as error:
            told.append(error)

    with open_blocking(tmp_path, background=False) as rag:
        thread = threading.Thread(target=wait, args=(rag,))
        thread.start()
        assert begun.wait(60)
    thread.join(60)
    assert [type(each) for each in told] == [BadInput]


def test_calls_while_the_engine_closes_end_one_way_or_the_other(tmp_path: Path) -> None:
    told: list[object] = []

    def ask(rag: BlockingEngine) -> None:
        while True:
            try:
                told.append(rag.of("other").knowledge_bases())
            except BadInput as error:
                told.append(error)
                return

    with open_blocking(tmp_path, background=False) as rag:
        threads = [threading.Thread(target=ask, args=(rag,), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(told) < 20:
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)  # nobody waits for ever
    assert sum(isinstance(each, BadInput) for each in told) == 4


class Stream:
    """A stream that counts how often it was closed, in the task that opened it."""

    def __init__(self) -> None:
        self.tasks: set[object] = set()
        self.closed = threading.Event()

    async def items(self, failing: bool = False) -> AsyncIterator[int]:
        self.tasks.add(asyncio.current_task())
        try:
            for item in range(3):
                yield item
                self.tasks.add(asyncio.current_task())
                await asyncio.sleep(0)
            if failing:
                raise NotFound("没有了")
        finally:
            self.tasks.add(asyncio.current_task())
            self.closed.set()


def test_a_stream_is_an_iterator_read_by_one_task(tmp_path: Path) -> None:
    stream = Stream()
    with open_blocking(tmp_path, background=False) as rag:
        assert list(rag.iterate(stream.items())) == [0, 1, 2]
    assert len(stream.tasks) == 1


def test_a_stream_that_fails_says_so_after_what_came(tmp_path: Path) -> None:
    stream = Stream()
    with open_blocking(tmp_path, background=False) as rag:
        items = rag.iterate(stream.items(failing=True))
        assert [next(items), next(items), next(items)] == [0, 1, 2]
        with pytest.raises(NotFound):
            next(items)


def test_whoever_stops_reading_closes_the_stream(tmp_path: Path) -> None:
    stopped = threading.Event()

    async def endless() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with open_blocking(tmp_path, background=False) as rag:
        items = rag.iterate(endless())
        assert next(items) == 1
        items.close()
        assert stopped.wait(60)
