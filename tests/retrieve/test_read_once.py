"""What a base remembers of its records between questions: never more than they have now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qianxun.bases import base as bases
from qianxun.bases import document_names
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from tests.indexing.opened import doc, found, opened


def test_a_chunk_is_read_once_and_never_found_when_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    honest = bases.chunks.by_keys

    def counted(tx: Any, knowledge_base: int, keys: Any) -> Any:
        read.extend(keys)
        return honest(tx, knowledge_base, keys)

    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [doc("甲", "报销比例为八成"), doc("乙", "报销比例为九成")])
            monkeypatch.setattr(bases.chunks, "by_keys", counted)
            assert (await found(engine, kb, "报销比例")).keys() == {"甲", "乙"}
            first = len(read)
            assert (await found(engine, kb, "报销的比例")).keys() == {"甲", "乙"}
            assert len(read) == first == 2
            with engine.records.writing() as tx:  # as a version that was replaced goes, without a new state
                tx.exec_driver_sql("DELETE FROM chunks WHERE text LIKE '%八成'")
            assert (await found(engine, kb, "报销 比例")).keys() == {"乙"}
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
