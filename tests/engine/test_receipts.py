"""Deletion with a receipt: what it says was read, a purge leaves no byte, and a plain deletion does."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.filters import Eq
from qianxun.core.governance.quotas import Quota
from qianxun.core.governance.receipts import Receipt, written_receipt
from qianxun.core.log_types import Feedback
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.engine.governance.quotas import set_quota
from qianxun.engine.governance.receipts import verify_receipt
from qianxun.engine.governance.scan import passages, scan
from qianxun.records.schema import DocumentRow
from tests.indexing.opened import opened

Test = Callable[..., Coroutine[Any, Any, None]]


def on_a_loop(test: Test) -> Callable[..., None]:
    return wraps(test)(lambda *given, **named: asyncio.run(test(*given, **named)))


SECRET = "王小明住在梧桐路八十八号三单元，病历号为九零七七一二，诊断为罕见的慢性疾病。"
OTHER = "门诊费用按照统筹基金的比例报销，材料应当在三十日之内交齐。"


async def _base(engine: Engine, **more: str) -> int:
    base = await engine.create_knowledge_base("病历", model="none")
    first = Document("病历-王小明", SECRET * 3, name="王小明的病历.txt", user_id=more.get("user_id", ""))
    await engine.add_documents(base.id, [first, Document("报销须知", OTHER * 3, name="报销须知.txt")])
    return base.id


def _left(folder: Path) -> set[str]:
    found = scan(folder, passages([SECRET])).found
    return {file for files in found.values() for file in files}


@on_a_loop
async def test_a_receipt_says_what_was_read_and_is_checked_offline(tmp_path: Path) -> None:
    async with Engine.open(tmp_path) as engine:
        kb = await _base(engine)
        receipt = await engine.governance.receipts.delete(kb, ["病历-王小明"])
        assert receipt.is_complete
        stores = {one.store: one for one in receipt.removed}
        assert (stores["records.chunks"].removed, stores["records.chunks"].left) == (1, 0)
        assert (stores["index.keywords"].removed, stores["index.keywords"].left) == (1, 0)
        assert (receipt.is_purged, receipt.scan, receipt.documents) == (False, None, 1)
        assert await engine.governance.receipts.list() == [receipt]
        assert await engine.governance.receipts.get(receipt.id) == receipt
        key = await engine.governance.receipts.key()
        with pytest.raises(NotFound):
            await engine.governance.receipts.delete(kb, ["病历-王小明"])
        with pytest.raises(NotFound):
            await engine.of("other").governance.receipts.get(receipt.id)
    text = json.dumps(written_receipt(receipt))
    assert "王小明" not in text
    verdict = verify_receipt(text, key=key, names=["病历-王小明", "报销须知"])
    assert (verdict.is_signed, verdict.is_trusted, verdict.is_complete) == (True, True, True)
    assert verdict.names == {"病历-王小明": True, "报销须知": False}
    assert verify_receipt(text).is_trusted is None
    assert verify_receipt(text, key="00" * 32).is_trusted is False


@pytest.mark.parametrize("change", [{"documents": 2}, {"is_purged": True}, {"removed": ()}, {"who": "key:9"}])
@on_a_loop
async def test_a_receipt_that_was_changed_is_not_signed(tmp_path: Path, change: dict[str, object]) -> None:
    async with Engine.open(tmp_path) as engine:
        receipt = await engine.governance.receipts.delete(await _base(engine), ["病历-王小明"])
    forged: Receipt = replace(receipt, **change)  # type: ignore[arg-type]
    assert not verify_receipt(json.dumps(written_receipt(forged))).is_signed
    with pytest.raises(BadInput):
        verify_receipt("{}")


@on_a_loop
async def test_a_purge_leaves_no_byte_where_a_plain_deletion_does(tmp_path: Path) -> None:
    plain, purged = tmp_path / "plain", tmp_path / "purged"
    async with Engine.open(plain) as engine:
        kb = await _base(engine)
        assert (await engine.governance.receipts.delete(kb, ["病历-王小明"])).is_complete
        assert "qianxun.db" in {name.removesuffix("-wal") for name in _left(plain)}  # the control
    async with Engine.open(purged) as engine:
        kb = await _base(engine)
        before = {path.name for path in (purged / "index").rglob("*") if path.is_file() and path.suffix == ".idx"}
        assert _left(purged)
        receipt = await engine.governance.receipts.delete(kb, ["病历-王小明"], purge=True)
        assert receipt.is_complete
        assert receipt.scan is not None
        assert (receipt.scan.found, receipt.scan.shared) == ((), 0)
        assert receipt.scan.passages >= 3
        assert _left(purged) == set()
        after = {path.name for path in (purged / "index").rglob("*") if path.is_file() and path.suffix == ".idx"}
        assert before
        assert not before & after  # every segment was written anew
        assert (await engine.retrieve(kb, "门诊费用怎么报销")).results
        assert (await engine.admin.verify(kb)).is_clean
    assert _left(purged) == set()  # nor after it was closed


@on_a_loop
async def test_a_purge_leaves_that_and_not_what(tmp_path: Path) -> None:
    async with Engine.open(tmp_path) as engine:
        kb = await _base(engine)
        assert (await engine.retrieve(kb, "王小明 病历号")).results
        await engine.governance.receipts.delete(kb, ["病历-王小明"], purge=True)
        with engine.records.reading() as tx:
            ids = set(tx.execute(select(DocumentRow.doc_id)).scalars())
        assert "报销须知" in ids
        assert len(ids) == 2
        assert not any("王小明" in doc_id for doc_id in ids)
        (entry,) = await engine.logs.list()
        assert not any("病历-王小明" in chunk_id for chunk_id, _ in entry.results)
        assert not [one for one in await engine.governance.audit.list() if "王小明" in str(one)]
        assert (await engine.governance.audit.verify()).is_intact
        handler = await engine.events(kb)
        late = {"type": "created", "document_id": "病历-王小明", "content": SECRET, "generation": 1}
        assert (await handler.handle(late)).result == "stale"
        (again,) = await engine.add_documents(kb, [Document("病历-王小明", "另一份病历")])
        assert (again.outcome, (await engine.document(kb, "病历-王小明")).status) == ("created", "indexed")


@on_a_loop
async def test_a_purge_whose_files_cannot_be_read_has_a_receipt_that_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Engine.open(tmp_path) as engine:
        kb = await _base(engine)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
        receipt = await engine.governance.receipts.delete(kb, ["病历-王小明"], purge=True)
        assert (receipt.is_purged, receipt.is_complete, receipt.scan) == (True, False, None)
        (files,) = (one for one in receipt.removed if one.store == "files")
        assert (files.left, "没能读遍数据目录" in files.note) == (-1, True)
        assert await engine.governance.receipts.list() == [receipt]


def test_a_passage_is_found_wherever_a_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qianxun.engine.governance.scan.BLOCK", 16)
    (wanted,) = passages(["梧桐路八十八号"])
    for before in range(32):
        (tmp_path / str(before)).write_bytes(b"." * before + wanted.encode() + b"." * 20)
    (tmp_path / "none").write_bytes(wanted.encode()[:-1] * 3)
    assert scan(tmp_path, [wanted]).found == {wanted: {str(before) for before in range(32)}}


@on_a_loop
async def test_text_that_another_document_has_is_no_finding(tmp_path: Path) -> None:
    async with Engine.open(tmp_path) as engine:
        kb = await _base(engine)
        await engine.add_documents(kb, [Document("转抄", SECRET)])
        receipt = await engine.governance.receipts.delete(kb, ["病历-王小明"], purge=True)
        assert receipt.is_complete
        assert receipt.scan is not None
        assert receipt.scan.shared > 0


@on_a_loop
async def test_everything_of_a_user_goes(tmp_path: Path) -> None:
    async with Engine.open(tmp_path) as engine:
        kb = await _base(engine, user_id="u_1")
        tagged = Document("评语", "此处另有评语若干，与病历无关的一段话。", metadata={"经手": ("u_1", "u_2")})
        await engine.add_documents(kb, [tagged])
        await engine.retrieve(kb, "王小明的诊断", where=Eq("user_id", "u_1"))
        await engine.retrieve(kb, "门诊费用")
        mine, _ = sorted(await engine.logs.list(), key=lambda entry: entry.id)
        await engine.logs.rate(mine.id, Feedback("good", (), "是他的"))
        receipt = await engine.governance.receipts.purge_subject("u_1")
        assert receipt.is_complete
        assert (receipt.kind, receipt.documents) == ("subject", 2)
        assert [state.doc_id for state in await engine.documents(kb)] == ["报销须知"]
        assert [entry.query for entry in await engine.logs.list()] == ["门诊费用"]
        assert _left(tmp_path) == set()
        assert verify_receipt(json.dumps(written_receipt(receipt)), names=["u_1"]).names == {"u_1": True}


@on_a_loop
async def test_a_base_goes_with_its_bytes(tmp_path: Path) -> None:
    async with Engine.open(tmp_path) as engine:
        kb = await _base(engine)
        receipt = await engine.governance.receipts.delete_knowledge_base(kb, purge=True)
        assert receipt.is_complete
        assert (receipt.kind, receipt.documents) == ("knowledge_base", 2)
        assert _left(tmp_path) == set()


OTHER_PROCESS = """
import sqlite3, sys
tx = sqlite3.connect(sys.argv[1])
tx.execute("CREATE TABLE IF NOT EXISTS of_another (n INTEGER)")
tx.execute("INSERT INTO of_another VALUES (1)")
tx.commit()
tx.close()
"""


@pytest.mark.parametrize("after", ["a purge", "a second opening"])
def test_the_database_stays_locked_against_other_processes(tmp_path: Path, after: str) -> None:
    """SQLite's locks are the process's: to close any handle of the file gives them all up, and the next process that
    leaves takes the write-ahead log with it."""

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [Document("病历", SECRET), Document("须知", "挂号要带身份证。")])
            if after == "a purge":
                assert (await engine.governance.receipts.delete(kb, ["病历"], purge=True)).is_complete
            else:
                set_quota(engine.settings, "acme", Quota(documents=5))
                await engine.delete_document(kb, "病历")
            database = tmp_path / "qianxun.db"
            for number in range(3):
                run = [sys.executable, "-c", OTHER_PROCESS, str(database)]
                await asyncio.to_thread(subprocess.run, run, check=True, timeout=60)
                assert (tmp_path / "qianxun.db-wal").exists()
                await engine.add_documents(kb, [Document(f"新{number}", f"第 {number} 条规定。" * 50)])
        with sqlite3.connect(database) as tx:
            assert tx.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert tx.execute("SELECT COUNT(*) FROM of_another").fetchall() == [(3,)]
        async with opened(tmp_path) as (engine, kb):
            assert len(await engine.documents(kb)) == 4

    asyncio.run(story())
