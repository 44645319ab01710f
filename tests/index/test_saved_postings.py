"""Posting lists that were read for principals are there after the next opening, and only where they are still true."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.index.embedded.keywords import postings, saved_postings, tantivy_index
from tests.indexing.opened import opened

LIBRARY = [
    Document(f"d{number}", f"第 {number} 条：住院报销比例为百分之{number}。", access=(f"group:{number % 2}",))
    for number in range(12)
]
QUESTION = "住院报销比例"


async def found(engine: Engine, kb: int) -> list[tuple[str, float]]:
    recall = await engine.as_principal("group:1").retrieve(kb, QUESTION, mode="fulltext", top_k=20)
    assert recall.degraded == ()
    return [(hit.chunk.doc_id, hit.score) for hit in recall.results]


def saved(folder: Path) -> Path:
    (file,) = folder.glob("**/postings")
    return file


def test_lists_are_read_once_and_used_where_they_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_postings, "LEAST", 1)
    read: list[tuple[str, int]] = []
    whole = postings._read_postings

    def noted(view: tantivy_index.KeywordView, members: object, name: str, term: str, first: int) -> object:
        read.append((term, first))
        return whole(view, members, name, term, first)  # type: ignore[arg-type]

    monkeypatch.setattr(postings, "_read_postings", noted)

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            before = await found(engine, kb)
            assert [doc_id for doc_id, _ in before] != []
            assert read
        file = saved(tmp_path)
        read.clear()
        async with opened(tmp_path) as (engine, kb):
            assert await found(engine, kb) == before
            assert read == []
            await engine.add_documents(kb, [Document("new", "住院报销比例另有规定。", access=("group:1",))])
            after = await found(engine, kb)
            assert "new" in dict(after)
            assert {first for _, first in read} == {len(LIBRARY)}  # of the later rows alone
        for damage in (lambda data: data[:-9], lambda data: b"x" + data[1:], lambda data: data[:50]):
            whole_file = file.read_bytes()
            file.write_bytes(damage(whole_file))
            read.clear()
            async with opened(tmp_path) as (engine, kb):
                assert await found(engine, kb) == after
                assert read
        kept = file.read_bytes()
        async with opened(tmp_path) as (engine, kb):
            await engine.delete_document(kb, "d1")
            await engine.add_documents(kb, [Document("other", "住院报销比例。", access=("group:1",))])
            now = await found(engine, kb)
        file.write_bytes(kept)  # of an earlier state of the index
        read.clear()
        async with opened(tmp_path) as (engine, kb):
            assert await found(engine, kb) == now
            assert 0 in {first for _, first in read}

    asyncio.run(story())


def test_lists_do_not_grow_with_every_version_of_a_document(tmp_path: Path) -> None:
    versions = 60  # tantivy merges its segments, and drops what died, after eight or so

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            for version in range(versions):
                await engine.add_documents(kb, [Document("d0", f"住院报销比例，第 {version} 版。")])
                await engine.retrieve(kb, QUESTION, mode="fulltext")
            index = (await engine.base(kb)).serving.index
            assert isinstance(index, EmbeddedIndex)
            lists = index._view.keywords.postings._lists.items()
            assert 0 < max(len(found.rows) for _, found in lists) < versions // 2 + len(LIBRARY)

    asyncio.run(story())
