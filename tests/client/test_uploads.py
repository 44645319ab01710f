"""Files on their way into the real service: what is taken, passed over, refused; never a whole file in memory."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import Forbidden, ModelUnavailable, NotFound, Unauthorized, Unreadable, UnsupportedFile
from qianxun.core.ingest_types import Labels, Report, Step
from qianxun.doors.client import Client, Timeouts
from qianxun.doors.client.connection import Connection, Request, Upload
from qianxun.doors.client.uploads import _opened as uploads_opened
from qianxun.ingest.sources import document_id
from qianxun.testing.scripted import ScriptedEmbedding
from tests.http.served import MODEL, issue, serving
from tests.ingest.hostile import archive

LABELS = Labels("u1", "p1", "manual", ("甲", "乙,丙"), {"年份": 2026, "公开": True, "地区": ("北京", "上海")})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "文件"
    (folder / "子目录").mkdir(parents=True)
    (folder / "制度.md").write_text("# 制度\n\n## 差旅\n\n出差住宿每晚不超过 380 元。\n", "utf-8")
    (folder / '价"目 表;a=b.csv').write_text("编号,品名,单价\nQH-2087,升降书桌,2199\n", "utf-8")
    (folder / "子目录" / "假期.txt").write_text("年休假为 7 天。", "gb18030")
    (folder / "坏.pdf").write_bytes(b"not a pdf")
    (folder / "空.txt").write_bytes(b"")
    archive(folder).rename(folder / "包.zip")
    (folder / ".隐藏").write_text("x")
    return folder


def counted(report: Report) -> tuple[int, int, int]:
    return report.added, report.unchanged, report.chunks


def test_what_the_parser_warns_of_is_told_through_a_service_too(tmp_path: Path) -> None:
    file = tmp_path / "库存.xls"
    file.write_text("物料,数量\n螺丝,12\n", "utf-8")

    async def work() -> None:
        async with serving(tmp_path / "data") as served, Client(served.url) as client:
            here = await served.engine.create_knowledge_base("本地", model=MODEL)
            there = await client.create_knowledge_base("远程", model=MODEL)
            local = await served.engine.add(here.id, [file])
            assert local.warnings == ("库存.xls：扩展名是 .xls，内容是文本表格，已按 CSV 解析",)
            assert (await client.add(there.id, [file])).warnings == local.warnings
            accepted = await client.add_file(there.id, file, name="再一次.xls")
            assert accepted.warnings == ("扩展名是 .xls，内容是文本表格，已按 CSV 解析",)

    asyncio.run(work())


def test_a_folder_is_taken_in_as_an_engine_takes_it_in(tmp_path: Path, files: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path / "data") as served, Client(served.url) as client:
            engine = served.engine
            here = await engine.create_knowledge_base("本地", model=MODEL)
            there = await client.create_knowledge_base("远程", model=MODEL)
            local = await engine.add(here.id, [files], labels=LABELS)
            steps: list[Step] = []
            report = await client.add(there.id, [files], labels=LABELS, watch=steps.append)
            assert counted(report) == counted(local) == (3, 0, 3)
            assert {(each.path, each.reason) for each in report.refused} == {
                (each.path, each.reason) for each in local.refused
            }
            assert {each.path.name for each in report.refused} == {"坏.pdf", "空.txt", "包.zip"}
            assert report.warnings == local.warnings != ()
            for mine, theirs in zip(await engine.documents(here.id), await client.documents(there.id), strict=True):
                assert (mine.doc_id, mine.name, mine.user_id) == (theirs.doc_id, theirs.name, theirs.user_id)
                assert (mine.status, mine.reason, mine.source) == (theirs.status, theirs.reason, theirs.source)
                for chunk, other in zip(
                    await engine.chunks(here.id, mine.doc_id), await client.chunks(there.id, mine.doc_id), strict=True
                ):
                    assert (chunk.text, chunk.attributes) == (other.text, other.attributes)
            assert (await client.statistics(there.id))["failed"] == 3
            kinds = [step.kind for step in steps]
            assert (kinds.count("parsed"), kinds.count("added"), kinds.count("refused")) == (6, 3, 3)

            again = await client.add(there.id, [files], labels=LABELS)
            assert counted(again) == (0, 3, 0)
            assert len(again.refused) == 3
            through_the_engine = await engine.add(there.id, [files], labels=LABELS)
            assert counted(through_the_engine) == (0, 3, 0)
            assert counted(await client.add(there.id, [files / "制度.md"])) == (0, 1, 0)  # what was given stays
            relabelled = await client.add(there.id, [files / "制度.md"], labels=Labels(tags=("新的",)))
            assert (*counted(relabelled), relabelled.updated) == (1, 0, 1, 1)

    asyncio.run(work())


def test_paths_that_are_not_there_or_cannot_be_read_are_refused(tmp_path: Path, files: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path / "data") as served, Client(served.url) as client:
            base = await client.create_knowledge_base("手册", model="none")
            bad_name = files / os.fsdecode(b"\xff\xfe.txt")
            bad_name.write_text("名字不是文字", "utf-8")
            report = await client.add(base.id, [files / "没有.txt", bad_name, files / "制度.md"])
            assert counted(report)[0] == 1
            assert len(report.refused) == 2

    asyncio.run(work())


def test_one_file_is_added_or_refused(tmp_path: Path, files: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path / "data") as served, Client(served.url) as client:
            base = (await client.create_knowledge_base("手册", model="none")).id
            taken = await client.add_file(base, files / "制度.md", name="我的制度.md", doc_id="制度/1")
            assert (taken.doc_id, taken.outcome, len(taken.chunk_keys)) == ("制度/1", "created", 1)
            assert (await client.document(base, "制度/1")).name == "我的制度.md"
            unnamed = await client.add_file(base, files / "制度.md", name="制度.md", wait=False)
            assert unnamed.doc_id
            with pytest.raises(Unreadable):
                await client.add_file(base, files / "坏.pdf", name="坏.pdf")
            with pytest.raises(UnsupportedFile):
                await client.add_file(base, files / "包.zip", name="包.zip")
            with pytest.raises(Unreadable):
                await client.add_file(base, files / "没有.md", name="没有.md")
            with pytest.raises(NotFound):
                await client.add_file(9999, files / "制度.md", name="制度.md")

    asyncio.run(work())


def test_a_file_over_the_limit_costs_only_itself(tmp_path: Path) -> None:
    async def work() -> None:
        folder = tmp_path / "大小"
        folder.mkdir()
        (folder / "大.txt").write_bytes("很多字。".encode() * 400_000)
        (folder / "小.txt").write_text("年休假为 7 天。", "utf-8")
        async with serving(tmp_path / "data", {"parsing.file_megabytes": 1}) as served, Client(served.url) as client:
            base = await client.create_knowledge_base("手册", model="none")
            report = await client.add(base.id, [folder])
            assert counted(report) == (1, 0, 1)
            (refusal,) = report.refused
            assert refusal.path.name == "大.txt"
            assert "MB" in refusal.reason

    asyncio.run(work())


def test_what_waits_for_its_model_is_told_and_does_not_hold_up_the_rest(tmp_path: Path, files: Path) -> None:
    async def work() -> None:
        async with (
            serving(
                tmp_path / "data", None, ScriptedEmbedding(error=ModelUnavailable("模型连不上"), on="passages")
            ) as served,
            Client(served.url) as client,
        ):
            base = await client.create_knowledge_base("手册", model=MODEL)
            steps: list[Step] = []
            report = await client.add(base.id, [files / "制度.md", files / "子目录"], watch=steps.append)
            assert (report.added, report.chunks, report.waiting) == (2, 0, 2)
            (told,) = [step for step in steps if step.kind == "waiting"]
            assert "模型连不上" in told.reason

    asyncio.run(work())


def test_an_unchanged_file_that_is_still_on_its_way_is_waited_for(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier add was interrupted: the file is stored, but its index has still to see it."""

    async def work() -> None:
        async with serving(tmp_path / "data") as served, Client(served.url) as client:
            base = (await client.create_knowledge_base("手册", model=MODEL)).id
            opened = await served.engine.base(base)
            apply, may_go_on = opened.index.apply, asyncio.Event()

            async def held_up(batch: Any) -> None:
                await may_go_on.wait()
                await apply(batch)

            monkeypatch.setattr(opened.index, "apply", held_up)
            name = document_id(files / "制度.md")
            await client.add_file(base, files / "制度.md", name="制度.md", doc_id=name, wait=False)
            adding = asyncio.create_task(client.add(base, [files / "制度.md"]))
            done, _ = await asyncio.wait([adding], timeout=0.5)
            assert not done
            may_go_on.set()
            assert counted(await adding) == (0, 1, 0)
            assert (await client.retrieve(base, "出差住宿")).found

    asyncio.run(work())


def test_keys_open_what_they_may(tmp_path: Path, files: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path / "data") as served:
            _, writing = issue(served.engine)
            _, reading = issue(served.engine, scope="read")
            async with Client(served.url, key=writing) as client:
                base = (await client.create_knowledge_base("手册", model="none")).id
                assert counted(await client.add(base, [files / "制度.md"])) == (1, 0, 1)
            async with Client(served.url, key=reading) as client:
                assert (await client.retrieve(base, "住宿")).found
                assert (await client.explain(base, "住宿")).sums
                with pytest.raises(Forbidden):
                    await client.add(base, [files])
                with pytest.raises(Forbidden):
                    await client.delete_knowledge_base(base)
            for key in ("", "qx_" + "0" * 43):
                async with Client(served.url, key=key) as client:
                    with pytest.raises(Unauthorized):
                        await client.add(base, [files])

    asyncio.run(work())


# ── piece by piece ───────────────────────────────────────────────────────────────────────────────


class Zeros(io.RawIOBase):
    """A large file that is nowhere; remembers the largest piece that was asked for."""

    def __init__(self, size: int) -> None:
        self.size, self.at, self.largest = size, 0, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = (0, self.at, self.size)[whence] + offset
        return self.at

    def fileno(self) -> int:
        raise io.UnsupportedOperation

    def read(self, size: int = -1) -> bytes:  # type: ignore[override]
        wanted = self.size if size < 0 else size
        self.largest = max(self.largest, wanted)
        piece = min(wanted, self.size - self.at)
        self.at += piece
        return bytes(piece)

    def readinto(self, buffer: Any) -> int:
        raise AssertionError("read piece by piece")


def test_a_file_is_read_piece_by_piece() -> None:
    size = 32 * 1024 * 1024
    arrived = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while arrived < length:
            arrived += len(await reader.read(1 << 20))
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n{"code":200,"data":"x"}')
        await writer.drain()
        writer.close()

    async def work() -> int:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        zeros = Zeros(size)
        opened: Any = zeros
        connection = Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "", Timeouts())
        async with server:
            request = Request("PUT", "x", upload=Upload("零.txt", lambda: opened), fields={"name": "零.txt"})
            assert await connection.ask(request) == "x"
            await connection.close()
        return zeros.largest

    assert asyncio.run(work()) <= 1 << 20
    assert arrived > size


@pytest.mark.parametrize("length", [10, 2_000_000])
def test_a_file_that_changes_on_its_way_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Its length was promised before it was read."""
    path = tmp_path / "变.txt"

    def opened_and_changed(at: Path) -> Any:
        opened = uploads_opened(at)
        os.truncate(at, length)
        return opened

    async def work() -> None:
        async with serving(tmp_path / "data") as served, Client(served.url) as client:
            base = await client.create_knowledge_base("手册", model="none")
            path.write_bytes(b"x" * 1_000_000)
            monkeypatch.setattr("qianxun.doors.client.uploads._opened", opened_and_changed)
            (refusal,) = (await client.add(base.id, [path])).refused
            assert "上传时变了" in refusal.reason
            assert await client.documents(base.id) == []

    asyncio.run(work())
