"""Nothing is lost with an index: missing, damaged, foreign or old, it is made anew from the records."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from qianxun.bases.base import OpenBase
from qianxun.core.errors import ModelUnavailable, RecallFailed
from qianxun.core.ingest_types import Verdict
from qianxun.core.types import Attributes, IndexBatch, IndexEntry
from qianxun.engine.admin.doctor import examine
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.indexing import maintenance as upkeep
from qianxun.jobs import repair
from qianxun.records import bases, chunks, outbox
from qianxun.records.schema import KnowledgeBaseRow, VectorRow
from qianxun.testing.scripted import HashEmbedding
from tests.indexing.opened import FailingEmbedding, GatedEmbedding, doc, found, opened
from tests.sampling import share

TOPICS = ("门诊", "住院", "生育", "工伤", "失业", "养老")
SMALL, LARGE = HashEmbedding(32), HashEmbedding(64)


async def fill(folder: Path) -> None:
    async with opened(folder) as (engine, kb):
        await engine.add_documents(kb, [doc(topic, f"{topic}保险待遇的申领办法") for topic in TOPICS])


async def require_everything(engine: Engine, kb: int) -> None:
    for mode in ("fulltext", "vector", "hybrid"):
        for topic in TOPICS:
            assert topic in await found(engine, kb, f"{topic}保险待遇的申领办法", mode=mode)
    verdict = await engine.admin.verify(kb)
    assert verdict.is_clean, verdict
    assert (verdict.documents, verdict.chunks) == (len(TOPICS), len(TOPICS))


# ── on opening ───────────────────────────────────────────────────────────────────────────────────


def test_a_missing_index_is_made_anew(tmp_path: Path) -> None:
    async def story() -> None:
        await fill(tmp_path)
        shutil.rmtree(tmp_path / "index")
        async with opened(tmp_path) as (engine, kb):
            await require_everything(engine, kb)

    asyncio.run(story())


def index_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "index").rglob("*") if path.is_file() and path.stat().st_size)


def flip_a_bit(path: Path) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0b100
    path.write_bytes(damaged)


def test_a_flipped_bit_in_any_file_of_the_index_costs_nothing_but_a_rebuild(tmp_path: Path) -> None:
    """Found on opening, or by the first search or verification that reads it; never answered from."""

    async def story() -> None:
        await fill(tmp_path / "sound")
        names = [path.relative_to(tmp_path / "sound") for path in index_files(tmp_path / "sound")]
        assert len(names) > 8
        for number, name in enumerate(names):
            folder = tmp_path / f"damaged-{number}"
            shutil.copytree(tmp_path / "sound", folder)
            flip_a_bit(folder / name)
            async with opened(folder) as (engine, kb):
                for topic in TOPICS:
                    query = f"{topic}保险待遇的申领办法"
                    recall = await engine.retrieve(kb, query)
                    assert recall.found[0].chunk.doc_id == topic, name
                if not (await engine.admin.verify(kb)).is_clean:
                    await engine.admin.rebuild(kb)
                await require_everything(engine, kb)

    asyncio.run(story())


@pytest.mark.parametrize("write", ["add", "event", "delete"])
def test_damage_that_opening_does_not_see_is_mended_by_the_next_write(tmp_path: Path, write: str) -> None:
    async def story() -> None:
        await fill(tmp_path)
        for path in index_files(tmp_path):
            if path.suffix == ".fast":
                flip_a_bit(path)
        async with opened(tmp_path) as (engine, kb):
            if write == "add":
                await engine.add_documents(kb, [doc("新增", "长期护理保险待遇的申领办法")])
            elif write == "event":
                handler = await engine.events(kb)
                await handler.handle_document_created({"document_id": "新增", "content": "长期护理保险"})
                await engine.drain(kb)
            else:
                await engine.add_documents(kb, [doc("新增", "长期护理保险")], wait=False)
                await engine.delete_document(kb, "工伤")
                await engine.drain(kb)
            assert "新增" in await found(engine, kb, "长期护理")
            assert ("工伤" in await found(engine, kb, "工伤保险")) == (write != "delete")
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def damage_keywords(folder: Path) -> None:
    for path in index_files(folder):
        if path.suffix == ".term":
            flip_a_bit(path)


def test_damage_that_a_search_finds_is_mended_without_a_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says so until it is done: the base counts as unusable, the answer as degraded."""

    async def story() -> None:
        await fill(tmp_path)
        damage_keywords(tmp_path)
        async with opened(tmp_path) as (engine, kb):
            with pytest.raises(RecallFailed):
                await engine.retrieve(kb, "门诊保险", mode="fulltext")
            assert list(engine.unusable_bases()) == [kb]
            (task,) = engine._bases.repairs._tasks.values()
            assert (await engine.retrieve(kb, "门诊保险")).degraded
            assert list(engine._bases.repairs._tasks.values()) == [task], "one at a time"
            await task
            assert engine.unusable_bases() == {}
            await require_everything(engine, kb)
        assert "is damaged and is rebuilt" in caplog.text
        assert "has been rebuilt" in caplog.text

    asyncio.run(story())


def test_a_repair_that_fails_is_tried_again_later_and_not_at_every_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    async def failing(base: OpenBase, model: object) -> int:
        tried.append(base.id)
        raise OSError(28, "no space left on device")

    async def story() -> None:
        await fill(tmp_path)
        damage_keywords(tmp_path)
        async with opened(tmp_path) as (engine, kb):
            with monkeypatch.context() as patch:
                patch.setattr(repair, "rebuild_unless", failing)
                for _ in range(3):
                    assert (await engine.retrieve(kb, "门诊保险")).degraded
                    await asyncio.sleep(0.01)
            assert tried == [kb]
            assert list(engine.unusable_bases()) == [kb]
            monkeypatch.setattr(repair, "AGAIN_SECONDS", 0.0)
            engine._bases.repairs._next.clear()
            assert (await engine.retrieve(kb, "门诊保险")).degraded
        async with opened(tmp_path) as (engine, kb):  # an engine without background finishes it before it closes
            await require_everything(engine, kb)

    asyncio.run(story())


def test_a_doctor_reads_the_whole_index_before_it_calls_it_sound(tmp_path: Path) -> None:
    def index() -> str:
        (base,) = examine(load(arguments={"data": str(tmp_path)})).bases
        return base.index

    asyncio.run(fill(tmp_path))
    assert index() == "ready"
    marker = next(tmp_path.rglob("keywords")).parent / "applying"
    marker.touch()
    assert index() == "unfinished"
    marker.unlink()
    damage_keywords(tmp_path)
    assert index() == "unusable"


def test_an_index_of_another_text_analysis_is_made_anew(tmp_path: Path) -> None:
    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path) as (engine, kb):
            before = (await engine.base(kb)).index.stamp
            with engine.records.writing() as tx:
                config = tx.execute(select(KnowledgeBaseRow.config)).scalar_one()
                bases.change_config(tx, kb, {**config, "dictionary": ["保险待遇的"]}, tenant="local")
        async with opened(tmp_path) as (engine, kb):
            assert (await engine.base(kb)).index.stamp.analysis != before.analysis
            await require_everything(engine, kb)

    asyncio.run(story())


def test_an_index_of_another_model_than_the_records_name_is_made_anew(tmp_path: Path) -> None:
    """As a kill between the switch of the index and the change of the records leaves it."""

    async def story() -> None:
        await fill(tmp_path)
        shutil.copy(tmp_path / "qianxun.db", tmp_path / "before.db")
        async with opened(tmp_path, SMALL, LARGE) as (engine, kb):
            await engine.admin.rebuild(kb, model="fake-32")
        shutil.move(tmp_path / "before.db", tmp_path / "qianxun.db")
        async with opened(tmp_path, SMALL, LARGE) as (engine, kb):
            assert (await engine.base(kb)).index.stamp.model == "fake-64"
            await require_everything(engine, kb)

    asyncio.run(story())


def test_a_model_of_another_dimension_under_the_same_name_is_said_aloud_and_mended_by_a_rebuild(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path, HashEmbedding(32, name="fake-64")) as (engine, kb):
            recall = await engine.retrieve(kb, "住院保险待遇")
            assert "维度" in recall.degraded[0].reason
            assert recall.found[0].chunk.doc_id == "住院"
            await engine.admin.rebuild(kb, model="fake-64")
            assert (await engine.base(kb)).index.stamp.dimension == 32
            await require_everything(engine, kb)

    asyncio.run(story())


@pytest.mark.parametrize(("model", "is_copy"), [("none", False), ("fake-64", False), ("fake-64", True)])
def test_an_index_of_other_records_does_not_mislead(model: str, is_copy: bool, tmp_path: Path) -> None:
    """As long as these, with the same keys: a library restored into the folder of another, or of one that both began
    with and that went on otherwise there."""

    async def story() -> None:
        if is_copy:
            await fill(tmp_path / "甲")
            shutil.copytree(tmp_path / "甲", tmp_path / "乙")
        for name, text in (("甲", "起付标准一千元"), ("乙", "挂号费二十元")):
            async with opened(tmp_path / name, model=model) as (engine, kb):
                await engine.add_documents(kb, [doc(name, text)])
        shutil.copy(tmp_path / "乙" / "qianxun.db", tmp_path / "甲" / "qianxun.db")
        async with opened(tmp_path / "甲") as (engine, kb):
            assert list(await found(engine, kb, "挂号费", mode="fulltext")) == ["乙"]
            assert not await found(engine, kb, "起付标准", mode="fulltext")

    asyncio.run(story())


@pytest.mark.parametrize("restored", ["index", "qianxun.db"])
def test_an_old_copy_of_the_index_or_of_the_records_does_not_mislead(tmp_path: Path, restored: str) -> None:
    async def story() -> None:
        await fill(tmp_path)
        (shutil.copytree if restored == "index" else shutil.copy)(tmp_path / restored, tmp_path / "copy")
        async with opened(tmp_path) as (engine, kb):
            await engine.delete_document(kb, "工伤")
            await engine.add_documents(kb, [doc("新增", "长期护理保险待遇的申领办法"), doc("住院", "住院起付标准")])
        if restored == "index":
            shutil.rmtree(tmp_path / restored)
        shutil.move(tmp_path / "copy", tmp_path / restored)
        async with opened(tmp_path) as (engine, kb):
            assert ("工伤" in await found(engine, kb, "工伤")) == (restored == "qianxun.db")
            assert ("新增" in await found(engine, kb, "长期护理")) == (restored == "index")
            assert (await found(engine, kb, "住院"))["住院"].startswith(
                "住院起付" if restored == "index" else "住院保险"
            )
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


# ── rebuild ──────────────────────────────────────────────────────────────────────────────────────


def test_searches_go_on_without_an_error_while_the_index_is_rebuilt(tmp_path: Path) -> None:
    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path, SMALL, LARGE) as (engine, kb):
            done = asyncio.Event()
            counts = [0, 0, 0]

            async def search(who: int) -> None:
                while not done.is_set():
                    recall = await engine.retrieve(kb, "住院保险待遇的申领办法")
                    assert recall.found[0].chunk.doc_id == "住院"
                    assert recall.degraded == ()
                    assert len(recall.found) == len(TOPICS)
                    counts[who] += 1

            searching = [asyncio.create_task(search(who)) for who in range(3)]
            async with asyncio.timeout(300):
                for model in (None, "fake-32", None, "fake-64"):
                    await engine.admin.rebuild(kb, model=model)
                while min(counts) <= 4 and not any(task.done() for task in searching):
                    await engine.admin.rebuild(kb)
            done.set()
            await asyncio.gather(*searching)

    asyncio.run(story())


@pytest.mark.parametrize(("page", "at_once", "batches"), [(2, 4, [4, len(TOPICS) - 4]), (1000, 10_000, [len(TOPICS)])])
def test_a_rebuild_enters_several_pages_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int, at_once: int, batches: list[int]
) -> None:
    """Every batch leaves a segment in the keyword index, which every search has to visit."""
    monkeypatch.setattr("qianxun.indexing.maintenance.REBUILD_PAGE", page)
    monkeypatch.setattr("qianxun.indexing.maintenance.REBUILD_ENTRIES", at_once)
    applied: list[int] = []
    apply = EmbeddedIndex._apply

    def watched(self: EmbeddedIndex, batch: IndexBatch) -> None:
        applied.append(len(batch.entries))
        apply(self, batch)

    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path) as (engine, kb):
            monkeypatch.setattr(EmbeddedIndex, "_apply", watched)
            told: list[int] = []
            assert await engine.admin.rebuild(kb, watch=told.append) == len(TOPICS)
            assert sum(told) == len(TOPICS)
            assert [size for size in applied if size] == batches
            await require_everything(engine, kb)

    asyncio.run(story())


async def vector_lengths(engine: Engine) -> set[int]:
    with engine.records.reading() as tx:
        return {len(vector) // 4 for vector in tx.execute(select(VectorRow.vector)).scalars()}


def test_a_change_of_model_leaves_no_vector_of_the_old_one(tmp_path: Path) -> None:
    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path, SMALL, LARGE) as (engine, kb):
            await engine.admin.rebuild(kb, model="fake-32")
            assert await vector_lengths(engine) == {32}
            assert (await engine.knowledge_base(kb)).embedding_model == "fake-32"
            await require_everything(engine, kb)
        async with opened(tmp_path, SMALL, LARGE) as (engine, kb):
            await require_everything(engine, kb)
            await engine.admin.rebuild(kb, model="none")
            assert await vector_lengths(engine) == set()
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def test_documents_written_during_a_change_of_model_end_under_the_new_one(tmp_path: Path) -> None:
    """One was embedded by the old model before the change and stored after it."""

    async def story() -> None:
        await fill(tmp_path)
        slow = GatedEmbedding("迟到")
        async with opened(tmp_path, SMALL, slow) as (engine, kb):
            late = asyncio.create_task(engine.add_documents(kb, [doc("迟到", "迟到的补充保险待遇")]))
            await asyncio.to_thread(slow.entered.wait, 60)
            await engine.admin.rebuild(kb, model="fake-32")
            slow.gate.set()
            await late
            assert (await found(engine, kb, "迟到的补充保险待遇", mode="vector"))["迟到"]
            verdict = await engine.admin.verify(kb)
            assert verdict.is_clean, verdict
            assert {hit.key for hit in (await nearest(engine, kb)).hits} >= set(range(1, len(TOPICS) + 2))

    async def nearest(engine: Engine, kb: int):  # type: ignore[no-untyped-def]
        index = (await engine.base(kb)).index
        return await index.nearest(SMALL.embed_query("保险待遇"), 100)

    asyncio.run(story())


def test_a_rebuild_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        await fill(tmp_path)
        failing = FailingEmbedding("", ModelUnavailable("模型服务连不上"))
        failing._name, failing._dimension = "fake-48", 48
        async with opened(tmp_path, LARGE, failing) as (engine, kb):
            with pytest.raises(ModelUnavailable):
                await engine.admin.rebuild(kb, model="fake-48")
            await require_everything(engine, kb)
        async with opened(tmp_path) as (engine, kb):
            await require_everything(engine, kb)

    asyncio.run(story())


def test_deletes_during_a_rebuild_are_not_undone_by_it(tmp_path: Path) -> None:
    async def story() -> None:
        await fill(tmp_path)
        slow = GatedEmbedding("住院")
        slow._name, slow._dimension = "fake-48", 48
        async with opened(tmp_path, LARGE, slow) as (engine, kb):
            rebuilding = asyncio.create_task(engine.admin.rebuild(kb, model="fake-48"))
            await asyncio.to_thread(slow.entered.wait, 60)
            handler = await engine.events(kb)
            await handler.handle_document_deleted({"document_id": "工伤"})
            slow.gate.set()
            await rebuilding
            assert "工伤" not in await found(engine, kb, "保险待遇")
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


# ── verify ───────────────────────────────────────────────────────────────────────────────────────


async def lose_an_entry(engine: Engine, kb: int) -> None:
    index = (await engine.base(kb)).index
    await index.apply(IndexBatch(sequence=await index.watermark(), removed=(3,)))


async def add_a_stranger(engine: Engine, kb: int) -> None:
    index = (await engine.base(kb)).index
    entry = IndexEntry(999, 999, "保险", "保 险", np.full(64, 0.125, np.float32), Attributes("陌生"))
    await index.apply(IndexBatch(sequence=await index.watermark(), entries=(entry,)))


async def orphan_a_chunk(engine: Engine, kb: int) -> None:
    with engine.records.writing() as tx:
        tx.exec_driver_sql("UPDATE chunks SET generation = 99 WHERE key = 2")


async def lose_a_vector(engine: Engine, kb: int) -> None:
    with engine.records.writing() as tx:
        tx.exec_driver_sql("DELETE FROM chunk_vectors WHERE chunk_key = 2")


async def hold_another_text(engine: Engine, kb: int) -> None:
    index = (await engine.base(kb)).index
    entry = IndexEntry(3, 3, "保险", "保 险", np.full(64, 0.125, np.float32), Attributes("陌生"))
    await index.apply(IndexBatch(sequence=await index.watermark(), removed=(3,)))
    await index.apply(IndexBatch(sequence=await index.watermark(), entries=(entry,)))


async def damage_vectors(engine: Engine, kb: int) -> None:
    folder = Path(engine.settings.folder)
    flip_a_bit(next(path for path in index_files(folder) if path.name == "vectors"))


@pytest.mark.parametrize(
    ("harm", "kind", "count"),
    [
        (lose_an_entry, "missing_in_index", 1),
        (add_a_stranger, "not_in_records", 1),
        (hold_another_text, "other_vector", 1),
        (orphan_a_chunk, "orphan_chunk", 1),
        (lose_a_vector, "chunk_without_vector", 1),
        (damage_vectors, "corrupt", 1),
    ],
)
def test_verify_sees_what_is_wrong(
    tmp_path: Path, harm: Callable[[Engine, int], Awaitable[None]], kind: str, count: int
) -> None:
    async def story() -> Verdict:
        await fill(tmp_path)
        async with opened(tmp_path) as (engine, kb):
            assert (await engine.admin.verify(kb)).is_clean
            await harm(engine, kb)
            verdict = await engine.admin.verify(kb)
            if kind != "orphan_chunk":  # that one is wrong in the records: no rebuild mends it
                await engine.admin.rebuild(kb)
                assert (await engine.admin.verify(kb)).is_clean
            return verdict

    verdict = asyncio.run(story())
    assert count in {each.count for each in verdict.findings if each.kind == kind}, json.dumps(str(verdict))


def test_verify_raises_no_false_alarm_under_writes(tmp_path: Path) -> None:
    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path, background=True) as (engine, kb):

            async def write() -> None:
                for number in range(share(15, 7)):
                    await engine.add_documents(kb, [doc("住院", f"住院规定第{number}版")], wait=number % 2 == 0)
                    await engine.delete_document(kb, TOPICS[number % 6])

            writing = asyncio.create_task(write())
            seen: set[str] = set()
            while not writing.done():
                seen |= {finding.kind for finding in (await engine.admin.verify(kb)).findings}
            await writing
            assert seen <= {"waiting"}
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def test_verify_reads_the_facts_of_what_came_while_it_read_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that never pauses: chunks enter the index after each reading, and before the look that would miss
    their facts."""
    read, came = upkeep.extract_missing_facts, iter(range(100))

    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path) as (engine, kb):

            async def read_and_write(base: OpenBase) -> int:
                number = await read(base)
                if not base.indexing.locked():
                    await engine.add_documents(kb, [doc(f"新{next(came)}", "新参保人的登记办法")])
                return number

            monkeypatch.setattr(upkeep, "extract_missing_facts", read_and_write)
            verdict = await engine.admin.verify(kb)
            assert verdict.is_clean, verdict
            assert verdict.documents > len(TOPICS)

    asyncio.run(story())


# ── between index and records ────────────────────────────────────────────────────────────────────


def test_what_the_index_took_but_nobody_acknowledged_is_settled_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def die(*_: object) -> None:
        raise Killed

    async def story() -> None:
        await fill(tmp_path)
        async with opened(tmp_path) as (engine, kb):
            with monkeypatch.context() as dying:
                dying.setattr(outbox, "acknowledge", die)
                with pytest.raises(Killed):
                    await engine.add_documents(kb, [doc("住院", "住院起付标准")])
        async with opened(tmp_path) as (engine, kb):
            await engine.base(kb)
            with engine.records.reading() as tx:
                assert outbox.depth(tx, kb) == 0
                assert len(chunks.orphans(tx, kb)) == 0
            assert await found(engine, kb, "住院") == {"住院": "住院起付标准"}
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


@pytest.mark.parametrize("background", [True, False])
def test_verify_does_not_wait_for_a_model_that_hangs(
    tmp_path: Path, background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CATCH_UP_SECONDS", 0.2)

    async def story() -> None:
        model = GatedEmbedding("卡住")
        async with opened(tmp_path, model, background=background) as (engine, kb):
            await engine.add_documents(kb, [doc("d", "卡住的文档。")], wait=False)
            if background:
                assert await asyncio.to_thread(model.entered.wait, 60)
            try:
                verdict = await asyncio.wait_for(engine.admin.verify(kb), 60)
                assert [finding.kind for finding in verdict.findings] == ["waiting"]
            finally:
                model.gate.set()
            monkeypatch.setattr(upkeep, "CATCH_UP_SECONDS", 60.0)
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())
