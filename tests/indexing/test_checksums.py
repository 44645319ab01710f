"""What is stored says whether it is what was written: `verify` finds damage, no answer has it, a rebuild mends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import ModelUnavailable
from qianxun.core.types import Column, Document, QAPair, Table, TableSpan, Text
from qianxun.engine.engine import Engine
from qianxun.records.database.open import connect, downgrade, migrate, sqlite_url
from qianxun.testing.scripted import HashEmbedding
from tests.indexing.opened import FailingEmbedding, doc, found, opened

PAGE_TEXT = "职级 | 标准\n一线 | 500\n"
TABLE = Table(
    "差旅标准", (Column("职级", ("职级",)), Column("标准", ("标准",), "number")), (("一线", 500),), (("一线", "500"),)
)


async def fill(engine: Engine, kb: int) -> None:
    topics = [doc(topic, f"{topic}保险待遇的申领办法") for topic in ("门诊", "住院", "生育")]
    structure = Text(PAGE_TEXT, tables=(TableSpan(0, len(PAGE_TEXT), TABLE, (8,)),))
    table = Document("差旅", PAGE_TEXT, name="差旅", structure=structure, pairs=(QAPair("一线住几星", "按 500 元"),))
    await engine.add_documents(kb, [*topics, table])


DAMAGES: dict[str, str] = {
    "damaged_settings": "UPDATE knowledge_bases SET config = replace(config, 'chunk_size', 'chunk_sjze')",
    "damaged_document": "UPDATE document_versions SET content = replace(content, '门诊', '闩诊')",
    "damaged_chunk": "UPDATE chunks SET text = cast(x'ff' || '门诊保险' AS TEXT) WHERE key = 1",  # no UTF-8
    "damaged_table": "UPDATE tables SET rows = substr(rows, 2)",  # no JSON
    "damaged_question": "UPDATE qa_pairs SET answer = replace(answer, '500', '510')",
    "damaged_vector": "UPDATE chunk_vectors SET vector = cast(x'7f' || substr(vector, 2) AS BLOB)",
}


def damage(engine: Engine, statement: str) -> None:
    with engine.records.writing() as tx:
        tx.exec_driver_sql(statement)


async def findings(engine: Engine, kb: int) -> dict[str, str]:
    return {finding.kind: finding.detail for finding in (await engine.admin.verify(kb)).findings}


def test_verify_finds_what_is_not_what_was_written(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await fill(engine, kb)
            assert await findings(engine, kb) == {}
            for kind, statement in DAMAGES.items():
                damage(engine, statement)
                assert kind in await findings(engine, kb)
            assert set(DAMAGES) <= set(await findings(engine, kb))
            assert (await findings(engine, kb))["damaged_chunk"] == "门诊"

    asyncio.run(story())


def test_a_damaged_text_is_left_out_of_the_answer_which_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await fill(engine, kb)
            assert await engine.chunks(kb, "门诊")  # a search would have it, as it was compared, in memory
            damage(engine, DAMAGES["damaged_chunk"])
            recall = await engine.retrieve(kb, "门诊保险待遇的申领办法")
            assert {each.chunk.doc_id for each in recall.found} >= {"住院", "生育"}
            assert "门诊" not in {each.chunk.doc_id for each in recall.found}
            assert [part.part for part in recall.degraded] == ["records"]
            assert await engine.chunks(kb, "门诊") == []

    asyncio.run(story())


def test_a_rebuild_makes_damaged_chunks_and_vectors_anew_from_the_text(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await fill(engine, kb)
            damage(engine, DAMAGES["damaged_chunk"])
            damage(engine, DAMAGES["damaged_vector"])
            await engine.admin.rebuild(kb)
            assert await findings(engine, kb) == {}
            assert (await found(engine, kb, "门诊保险待遇"))["门诊"] == "门诊保险待遇的申领办法"
            assert (await engine.document(kb, "门诊")).generation == 1, "the next event of its stream is not overtaken"

    asyncio.run(story())


@pytest.mark.parametrize("stored", ["x'00'", "x'0000c07f'", "substr(vector, 5)", "zeroblob(256)"])
def test_a_damaged_vector_takes_no_other_with_it_where_the_model_is_away(tmp_path: Path, stored: str) -> None:
    """Of another length, not a number, without its first part, all zero."""
    away = FailingEmbedding("门诊", ModelUnavailable("模型不在"))

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await fill(engine, kb)
            damage(engine, f"UPDATE chunk_vectors SET vector = {stored} WHERE chunk_key = 1")
        async with opened(tmp_path, away) as (engine, kb):
            await engine.admin.rebuild(kb)
            assert set(await found(engine, kb, "保险待遇的申领办法", mode="vector")) >= {"住院", "生育"}
            assert "门诊" in await found(engine, kb, "门诊保险")
            assert "damaged_vector" in await findings(engine, kb)
        async with opened(tmp_path, HashEmbedding()) as (engine, kb):
            await engine.admin.rebuild(kb)
            assert await findings(engine, kb) == {}

    asyncio.run(story())


def test_a_change_of_settings_is_what_was_written(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.configure(kb, {"search.top_k": 7})
            await engine.rename(kb, "新医保")
            assert await findings(engine, kb) == {}

    asyncio.run(story())


def test_rows_of_an_earlier_program_get_their_checksums_when_the_database_is_opened(tmp_path: Path) -> None:
    names = ("knowledge_bases", "document_versions", "chunks", "chunk_vectors", "tables", "qa_pairs", "pair_vectors")

    def checksums() -> list[Any]:
        engine = connect(sqlite_url(tmp_path / "qianxun.db"))
        with engine.begin() as tx:
            found = [tx.exec_driver_sql(f"SELECT checksum FROM {name} ORDER BY rowid").all() for name in names]
        engine.dispose()
        return found

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await fill(engine, kb)
        written = checksums()
        assert all(written)
        engine = connect(sqlite_url(tmp_path / "qianxun.db"))
        downgrade(engine, "0009")
        migrate(engine)
        engine.dispose()
        assert checksums() == written
        async with opened(tmp_path) as (engine, kb):
            assert await findings(engine, kb) == {}

    asyncio.run(story())
