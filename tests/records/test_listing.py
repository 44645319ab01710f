from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.records import listing
from qianxun.testing.scripted import HashEmbedding


def test_a_document_is_said_to_be_searchable_only_when_the_index_has_seen_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunks are of record before the index holds them: whoever asks in between is told that it is on its way."""
    seen: list[str] = []
    counted: list[dict[str, int]] = []

    async def work() -> None:
        async with Engine.open(tmp_path, models={"fake-64": HashEmbedding()}, background=False) as engine:
            base = await engine.create_knowledge_base("手册", model="fake-64")
            await engine.add_documents(base.id, [Document("a", "年休假为 7 天。")], wait=False)
            opened = await engine.base(base.id)
            apply = opened.index.apply

            async def watched(batch: Any) -> None:
                state = await engine.document(base.id, "a")
                (listed,) = await engine.documents(base.id)
                seen.extend((state.status, listed.status, str(state.chunks)))
                counted.append(await engine.statistics(base.id))
                await apply(batch)

            monkeypatch.setattr(opened.index, "apply", watched)
            await engine.drain(base.id)
            assert (await engine.document(base.id, "a")).status == "indexed"
            counted.append(await engine.statistics(base.id))
            assert (await engine.retrieve(base.id, "年休假")).found

    asyncio.run(work())
    assert seen == ["pending", "pending", "1"]
    assert counted == [{"pending": 1, "chunks": 1, "tables": 0}, {"indexed": 1, "chunks": 1, "tables": 0}]


def test_documents_are_found_by_the_first_letters_of_their_ids_and_names_through_indexes(tmp_path: Path) -> None:
    """However many there are: no statement goes through the documents of a base."""
    documents = [
        Document("a-1", "年休假为 7 天。", name="差旅办法.docx"),
        Document("差-2", "报销须附发票。", name="报销办法"),
        Document("b-3", "会议室预订。", name="会议制度"),
        Document("差-4", "已经删除。", name="差旅旧办法"),
    ]
    statements: list[tuple[str, Any]] = []

    async def work() -> list[tuple[str, str]]:
        async with Engine.open(tmp_path, background=False) as engine:
            base = await engine.create_knowledge_base("手册", model="")
            await engine.add_documents(base.id, documents)
            await engine.delete_document(base.id, "差-4")
            records = (await engine.base(base.id)).records
            with records.reading() as tx:
                event.listen(
                    tx, "before_cursor_execute", lambda _c, _u, sql, given, *_: statements.append((sql, given))
                )
                found = listing.names_beginning(tx, base.id, {"差", "ß".upper()})
                plans = [
                    row[3]
                    for sql, given in statements[:2]
                    for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given)
                ]
            assert any(
                "ix_document_versions_name (knowledge_base_id=? AND name>? AND name<?)" in plan for plan in plans
            )
            assert any("(knowledge_base_id=? AND doc_id>? AND doc_id<?)" in plan for plan in plans)
            assert not any("base_status" in plan or plan.startswith("SCAN") for plan in plans)
            return found

    assert asyncio.run(work()) == [("a-1", "差旅办法.docx"), ("差-2", "报销办法")]
