"""`qianxun serve --workers`: one process writes, others search in the same files."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from qianxun import Document, Engine, open_blocking
from qianxun.core.errors import BadInput, FolderInUse, IndexUnusable
from qianxun.engine.settings import Settings, load
from qianxun.testing.scripted import HashEmbedding
from tests.http.served import BASES, running
from tests.replicas.engines import DIMENSION, MODEL, found


def settings(folder: Path, **chosen: object) -> Settings:
    given = {"data": str(folder), "vectorization.model": MODEL, **chosen}
    return load(environment={}, arguments=given, folder=folder)


@asynccontextmanager
async def writer_and_reader(folder: Path, **chosen: object) -> AsyncIterator[tuple[Engine, Engine]]:
    models = {MODEL: HashEmbedding(DIMENSION, MODEL)}
    async with (
        Engine.open(settings=settings(folder, **chosen), models=models, background=False) as writer,
        Engine.open(settings=settings(folder, **chosen), models=models, reader=True) as reader,
    ):
        yield writer, reader


def test_a_reader_finds_what_was_written_and_never_what_was_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with writer_and_reader(tmp_path) as (writer, reader):
            base = (await writer.create_knowledge_base("医保")).id
            assert await found(reader, base, "住院费用") == set()
            for at in range(12):
                await writer.add_documents(base, [Document(f"{at}", f"第 {at} 条：住院费用报销比例。")])
                assert f"{at}" in await found(reader, base, f"第 {at} 条", top_k=100)
                if at % 3 == 2:
                    await writer.delete_document(base, f"{at - 1}")
                    assert f"{at - 1}" not in await found(reader, base, "住院费用", top_k=100)
            await writer.add_documents(base, [Document("0", "改过的内容。")])
            recall = await reader.retrieve(base, "改过的内容")
            assert recall.results[0].chunk.text == "改过的内容。"

    asyncio.run(story())


def test_a_reader_follows_rebuilds_settings_and_what_is_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with writer_and_reader(tmp_path) as (writer, reader):
            base = (await writer.create_knowledge_base("医保")).id
            await writer.add_documents(base, [Document("甲", "鲲鹏计划的申请条件。")])
            assert await found(reader, base, "申请条件") == {"甲"}
            await writer.admin.rebuild(base)
            assert await found(reader, base, "申请条件") == {"甲"}
            await writer.configure(base, {"dictionary": ["鲲鹏计划"], "search.top_k": 1})
            assert await found(reader, base, "鲲鹏计划") == {"甲"}
            assert (await reader.base(base)).index.stamp.analysis == (await writer.base(base)).index.stamp.analysis
            await writer.delete_knowledge_base(base)
            with pytest.raises(Exception, match="没有编号"):
                await reader.retrieve(base, "申请条件")

    asyncio.run(story())


def test_a_reader_goes_on_while_rows_are_compacted_and_codes_made(tmp_path: Path) -> None:
    """The files that it was reading are removed under it."""

    async def story() -> None:
        async with writer_and_reader(tmp_path) as (writer, reader):
            base = (await writer.create_knowledge_base("医保")).id
            opened = await writer.base(base)
            opened.index._options = opened.index._options.__class__(dead_share=0.2, dead_least=8)  # type: ignore[attr-defined]
            for at in range(6):
                batch = [Document(f"{n}", f"第 {n} 条，第 {at} 次写，住院费用。") for n in range(6)]
                await writer.add_documents(base, batch)
                for query in ("住院费用", f"第 {at} 次写"):
                    recall = await reader.retrieve(base, query, top_k=100)
                    assert recall.degraded == ()
                    assert {f"第 {at} 次写" in result.chunk.text for result in recall.results} == {True}
                    assert len(recall.results) == 6

    asyncio.run(story())


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with writer_and_reader(tmp_path) as (writer, reader):
            base = (await writer.create_knowledge_base("医保")).id
            await writer.add_documents(base, [Document("甲", "住院费用。")])
            index = (await reader.base(base)).index
            with pytest.raises(BadInput):
                await reader.backend.drop(base)
            with pytest.raises(BadInput):
                await index.apply(None)  # type: ignore[arg-type]
            with pytest.raises(IndexUnusable):
                await reader.backend.open(base + 1, index.stamp)

    asyncio.run(story())


def test_processes_share_an_address_and_one_that_is_killed_comes_back(tmp_path: Path) -> None:
    with running(tmp_path, "--workers", "2") as service:
        with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
            base = http.post(BASES, json={"name": "医保", "embedding_model": "none"}).json()["data"]["id"]
            with pytest.raises(FolderInUse, match=r"（qianxun serve --workers，始于"), open_blocking(tmp_path):
                pass

            def put(doc_id: str, text: str) -> None:
                answer = http.put(f"{BASES}/{base}/documents/{doc_id}", json={"name": doc_id, "content": text})
                assert answer.status_code in (200, 201), answer.text

            def search(query: str) -> set[str]:
                """Over a new connection each time: to whichever process gets it."""
                answer = httpx.post(f"{service.url}/v1/retrieval/{base}", json={"query": query}, timeout=60)
                assert answer.status_code == 200, answer.text
                return set(answer.json()["data"]["doc_ids"])

            for at in range(4):
                put(f"{at}", f"第 {at} 条住院费用。")
                assert f"{at}" in search(f"第 {at} 条住院费用")
            assert http.delete(f"{BASES}/{base}/documents/0").status_code == 200
            assert all("0" not in search("住院费用") for _ in range(4))
            writer, reader, left = _children(service.process.pid)
            for child in (writer, reader):
                os.kill(child, signal.SIGKILL)
            until = time.monotonic() + 120
            while time.monotonic() < until:
                try:
                    put("后来", "后来写的住院费用。")
                    break
                except (httpx.HTTPError, AssertionError):
                    time.sleep(0.1)
            assert search("住院费用") == {"1", "2", "3", "后来"}
            assert left in _children(service.process.pid)
            assert not {writer, reader} & set(_children(service.process.pid))
        code, said = service.stop(signal.SIGTERM)
    assert code == 0, said


def _children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in found]
