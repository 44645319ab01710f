"""An uploaded file is durable before it is read: what a killed process leaves behind is read by the next one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qianxun.core.errors import Unreadable
from qianxun.core.ingest_types import Labels
from qianxun.core.types import Document, ParsedFile
from qianxun.engine.engine import Engine
from qianxun.indexing import inbox
from qianxun.indexing.inbox import ATTEMPTS, Inbox, Upload
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.testing.scripted import HashEmbedding
from tests.indexing.opened import found

TEXT = "住院费用的报销比例为85%。起付标准为600元。"
LABELS = Labels(user_id="u1", tags=("医保",), metadata={"年份": 2026, "地区": ("北京", "上海")})


class Reading:
    """The reading of files by whatever engine, which goes on when it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        read = ParserPool.read

        async def gated(pool: ParserPool, path: Path, tenant: str = "") -> ParsedFile:
            self.begun.set()
            await self.go.wait()
            return await read(pool, path, tenant)

        monkeypatch.setattr(ParserPool, "read", gated)


@asynccontextmanager
async def opened(folder: Path, *, background: bool = False) -> AsyncIterator[tuple[Engine, int]]:
    async with Engine.open(folder, models={"fake-64": HashEmbedding()}, background=background) as engine:
        bases = await engine.knowledge_bases()
        yield engine, bases[0].id if bases else (await engine.create_knowledge_base("医保", model="fake-64")).id


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    path = tmp_path / "upload-1"
    path.write_text(TEXT, "utf-8")
    return path


async def indexed(engine: Engine, kb: int, count: int = 1) -> list[str]:
    """The ids of the documents, once there are so many and all can be found."""
    async with asyncio.timeout(120):
        while True:
            states = await engine.documents(kb)
            if len(states) == count and all(state.status == "indexed" for state in states):
                return [state.doc_id for state in states]
            await asyncio.sleep(0.01)


def remove(upload: Path) -> None:
    upload.unlink()


def left(folder: Path) -> list[str]:
    return sorted(path.suffix for path in (folder / "inbox").iterdir())


@pytest.mark.parametrize("wait", [True, False])
def test_a_file_survives_a_process_that_is_killed_while_it_is_read(
    tmp_path: Path, upload: Path, wait: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with opened(tmp_path / "data") as (engine, kb):
            reading = Reading(monkeypatch)
            adding = asyncio.create_task(
                engine.add_file(kb, upload, name="手册.txt", labels=LABELS, wait=wait, relative_path="制度/手册.txt")
            )
            await reading.begun.wait()
            shutil.copytree(tmp_path / "data", tmp_path / "left")  # the files of a process that is killed now
            reading.go.set()
            accepted = await adding
            assert left(tmp_path / "data") == []
        async with opened(tmp_path / "left", background=True) as (engine, kb):
            assert await indexed(engine, kb) == [accepted.doc_id]
            (hit,) = (await engine.retrieve(kb, "起付标准", mode="fulltext")).results
            assert (hit.chunk.doc_name, hit.chunk.attributes.user_id, hit.chunk.attributes.tags) == (
                "手册.txt",
                "u1",
                ("医保",),
            )
            assert hit.chunk.metadata["地区"] == ("北京", "上海")
            assert hit.chunk.metadata["path"] == "制度/手册.txt"
        assert left(tmp_path / "left") == []

    asyncio.run(story())


def test_a_file_whose_caller_gives_up_is_read_all_the_same(
    tmp_path: Path, upload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with opened(tmp_path / "data", background=True) as (engine, kb):
            reading = Reading(monkeypatch)
            adding = asyncio.create_task(engine.add_file(kb, upload, name="手册.txt"))
            await reading.begun.wait()
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            remove(upload)
            reading.go.set()
            await indexed(engine, kb)
            assert await found(engine, kb, "起付标准")
        assert left(tmp_path / "data") == []

    asyncio.run(story())


def test_what_was_given_since_is_not_overwritten(tmp_path: Path, upload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with opened(tmp_path / "data") as (engine, kb):
            reading = Reading(monkeypatch)
            adding = asyncio.create_task(engine.add_file(kb, upload, name="手册.txt", doc_id="d"))
            await reading.begun.wait()
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            await engine.add_documents(kb, [Document("d", "后来的说法：起付标准为700元。")])
        assert left(tmp_path / "data") == [".file", ".json"]
        async with opened(tmp_path / "data", background=True) as (engine, kb):
            async with asyncio.timeout(60):
                while left(tmp_path / "data"):  # noqa: ASYNC110  # files have no events
                    await asyncio.sleep(0.01)
            assert (await engine.document(kb, "d")).generation == 1
            assert "700" in (await engine.chunks(kb, "d"))[0].text

    asyncio.run(story())


def test_a_file_that_is_refused_leaves_nothing_but_its_reason(tmp_path: Path) -> None:
    async def story() -> None:
        broken = tmp_path / "upload-2"
        broken.write_bytes(b"%PDF-1.7 nothing")
        async with opened(tmp_path / "data") as (engine, kb):
            with pytest.raises(Unreadable):
                await engine.add_file(kb, broken, name="坏.pdf")
            assert [state.status for state in await engine.documents(kb)] == ["failed"]
        assert left(tmp_path / "data") == []

    asyncio.run(story())


def test_a_file_that_ends_the_process_every_time_is_given_up(
    tmp_path: Path, upload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with opened(tmp_path / "data") as (engine, kb):
            reading = Reading(monkeypatch)
            adding = asyncio.create_task(engine.add_file(kb, upload, name="毒.txt"))
            await reading.begun.wait()
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
        for _ in range(ATTEMPTS):
            reading.begun.clear()
            async with opened(tmp_path / "data", background=True):
                await asyncio.wait_for(reading.begun.wait(), 60)  # and no further
        async with opened(tmp_path / "data", background=True) as (engine, kb):
            async with asyncio.timeout(60):
                while left(tmp_path / "data"):  # noqa: ASYNC110  # files have no events
                    await asyncio.sleep(0.01)
            (state,) = await engine.documents(kb)
            assert (state.status, str(ATTEMPTS) in state.reason) == ("failed", True)

    asyncio.run(story())


def test_parts_of_what_was_never_received_go_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed between the file and the record of it leaves both without a meaning."""
    own = Upload("local", 1, "甲", "甲.txt", LABELS)
    for name in ("part.file", "part.new", "whole.file"):
        (tmp_path / name).write_text(TEXT, "utf-8")
    (tmp_path / "whole.json").write_bytes(own.to_json())

    async def looked() -> list[Upload]:
        entries = Inbox(tmp_path).take_left()
        for entry in entries:
            entry.leave()
        return [entry.upload for entry in entries]

    assert asyncio.run(looked()) == [own]
    assert len(list(tmp_path.iterdir())) == 4, "another process may be receiving them"
    monkeypatch.setattr(inbox, "PART_SECONDS", -1.0)
    assert asyncio.run(looked()) == [own]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["whole.file", "whole.json"]
