"""What a base remembers of its records between questions: never more than they have now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qianxun.bases import document_names
from qianxun.bases.chunk_cache import ChunkCache, ChunkMemory
from qianxun.core.types import Attributes, Chunk, Document
from qianxun.engine.engine import Engine
from qianxun.records import chunks
from tests.indexing.opened import doc, found, opened


def test_a_chunk_is_read_once_and_never_found_when_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, looked_up = list[int](), list[int]()

    def counting(name: str, seen: list[int]) -> None:
        honest = getattr(chunks, name)

        def counted(tx: Any, knowledge_base: int, keys: Any) -> Any:
            seen.extend(keys)
            return honest(tx, knowledge_base, keys)

        monkeypatch.setattr(chunks, name, counted)

    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [doc("甲", "报销比例为八成"), doc("乙", "报销比例为九成")])
            counting("by_keys", read)
            counting("existing_keys", looked_up)
            assert (await found(engine, kb, "报销比例")).keys() == {"甲", "乙"}
            first = len(read)
            assert (await found(engine, kb, "报销的比例")).keys() == {"甲", "乙"}
            assert len(read) == first == 2
            assert not looked_up  # nothing was written in between
            with engine.records.writing() as tx:  # as a version that was replaced goes, without a new state
                tx.exec_driver_sql(
                    "DELETE FROM chunks WHERE document_key = (SELECT key FROM documents WHERE doc_id = '甲')"
                )
            assert (await found(engine, kb, "报销 比例")).keys() == {"乙"}
            assert len(looked_up) == 2
            await engine.add_documents(kb, [doc("乙", "报销比例为九成", metadata={"年": 2024})])
            (chunk,) = (await engine.retrieve(kb, "比例 报销")).results
            assert chunk.chunk.attributes.metadata == {"年": 2024}

    asyncio.run(story())


@pytest.mark.parametrize("most", [document_names.MOST_NAMES, 1], ids=["remembered", "too many"])
def test_a_question_names_the_document_that_has_the_name_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(document_names, "MOST_NAMES", most)

    async def named(engine: Engine, kb: int) -> set[str]:
        return {result.chunk.doc_id for result in (await engine.retrieve(kb, "《值班手册》里有什么")).results}

    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            books = [Document(id_, "里有什么规定", name=name) for id_, name in (("a", "茶馆手册.md"), ("b", "值班.md"))]
            await engine.add_documents(kb, books)
            assert await named(engine, kb) == {"a", "b"}  # nothing is called so
            await engine.add_documents(kb, [Document("c", "里有什么要求", name="值班手册.md")])
            assert [await named(engine, kb) for _ in range(3)] == [{"c"}] * 3  # looked up, read, from memory
            names = (await engine.base(kb)).names
            assert (names.by_letter is not None) == (most > 1)
            await engine.delete_document(kb, "c")
            assert await named(engine, kb) == {"a", "b"}

    asyncio.run(story())


def test_all_open_bases_share_one_bounded_memory_of_chunks() -> None:
    """A chunk is one of its base at one state: none is ever given out for another, and all of them together take no
    more than the memory has room for."""
    memory = ChunkMemory(most_bytes=300_000)
    caches = [ChunkCache(memory, state) for state in (1, 1, 2)]
    for number, cache in enumerate(caches):
        cache.put(7, _chunk(7, f"第 {number} 库"))
    assert [cache.get(7).text for cache in caches] == ["第 0 库", "第 1 库", "第 2 库"]
    assert caches[0].for_state(1) is caches[0]
    caches[0] = caches[0].for_state(2)
    assert caches[0].get(7) is None
    for key in range(1_000):
        caches[key % 3].put(key, _chunk(key, "长" * 500))
        caches[key % 3].folded(_chunk(key, "长" * 500))
    assert 0 < memory.chunks.size + memory.folded.size <= 300_000
    assert caches[2].get(7) is None  # displaced
    assert caches[0].get(999) is not None
    assert caches[1].emptied().get(999) is None
    assert memory.chunks.size == memory.folded.size == 0


def test_chunks_that_a_write_outdated_leave_memory_with_the_next_state() -> None:
    memory = ChunkMemory()
    first, other = ChunkCache(memory, 1), ChunkCache(memory, 1)
    for cache in (first, other):
        for key in range(10):
            cache.put(key, _chunk(key, "报销比例为八成"))
            cache.folded(_chunk(key, "报销比例为八成"))
    assert first.for_state(1) is first
    assert (len(memory.chunks), len(memory.folded)) == (20, 20)
    assert first.for_state(2).get(7) is None
    assert (len(memory.chunks), len(memory.folded)) == (10, 10)
    assert other.get(7) is not None


@pytest.mark.parametrize("outdate", [lambda cache: cache.for_state(2), ChunkCache.emptied], ids=["a write", "a purge"])
def test_a_search_under_way_leaves_nothing_of_an_outdated_state(outdate: Callable[[ChunkCache], ChunkCache]) -> None:
    """Its chunks would stay until they are displaced, those of a purged document among them."""
    memory = ChunkMemory()
    before = ChunkCache(memory, 1)
    now = outdate(before)
    before.put(7, _chunk(7, "报销比例为八成"))
    before.folded(_chunk(7, "报销比例为八成"))
    assert len(memory.chunks) == len(memory.folded) == 0
    now.put(7, _chunk(7, "报销比例为九成"))
    assert now.get(7) is not None


def _chunk(key: int, text: str) -> Chunk:
    return Chunk(
        key=key, chunk_id=str(key), doc_id="d", doc_name="d", index=0, text=text, start=0, end=len(text),
        kind="text", headings=(), page=None, generation=1, attributes=Attributes("d"),
    )  # fmt: skip
