"""The same promise on servers: records and index on PostgreSQL, records on MySQL, the index in Milvus; and between
several processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.types import Document
from qianxun.records.database import restrict
from tests.access.oracle import QUERIES
from tests.access.test_non_interference import PRINCIPALS, compared, differing
from tests.indexing.opened import opened
from tests.servers.milvus import LightServer


def test_on_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_postgres_url: str) -> None:
    monkeypatch.setenv("QIANXUN_RECORDS_URL", migrated_postgres_url)
    monkeypatch.setenv("QIANXUN_INDEX_BACKEND", "postgres")
    whole, own = asyncio.run(compared(tmp_path, 3, 16, PRINCIPALS[1], QUERIES[:1]))
    assert differing(whole, own) == []


def test_records_on_mysql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_mysql_url: str) -> None:
    monkeypatch.setenv("QIANXUN_RECORDS_URL", migrated_mysql_url)
    whole, own = asyncio.run(compared(tmp_path, 4, 8, PRINCIPALS[1], QUERIES[:1]))
    assert differing(whole, own) == []


@pytest.mark.long
def test_a_leak_is_seen_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_mysql_url: str) -> None:
    monkeypatch.setenv("QIANXUN_RECORDS_URL", migrated_mysql_url)
    monkeypatch.setattr(restrict, "restricted", lambda statement, _: statement)
    whole, own = asyncio.run(compared(tmp_path, 4, 8, PRINCIPALS[1], QUERIES[:1]))
    assert differing(whole, own)


@pytest.mark.parametrize("size", [8, pytest.param(16, marks=pytest.mark.long)])
def test_the_index_in_milvus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, milvus: LightServer, size: int) -> None:
    """`IndexConformance` holds it to the same in every run; here the whole engine."""
    monkeypatch.setenv("QIANXUN_INDEX_BACKEND", "milvus")
    monkeypatch.setenv("QIANXUN_MILVUS_HOST", "127.0.0.1")
    monkeypatch.setenv("QIANXUN_MILVUS_PORT", str(milvus.port))
    whole, own = asyncio.run(compared(tmp_path, 7, size, PRINCIPALS[1], QUERIES[:1]))
    assert differing(whole, own) == []


def test_a_label_counts_for_the_next_request_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_postgres_url: str
) -> None:
    monkeypatch.setenv("QIANXUN_RECORDS_URL", migrated_postgres_url)
    monkeypatch.setenv("QIANXUN_INDEX_BACKEND", "postgres")

    async def story() -> None:
        async with opened(tmp_path / "one") as (one, kb), opened(tmp_path / "other") as (other, _):
            await one.add_documents(kb, [Document("a", "报销比例"), Document("b", "报销比例", access=("user:alice",))])
            bob = other.as_principal("user:bob")

            async def seen() -> set[str]:
                found = {hit.chunk.doc_id for hit in (await bob.retrieve(kb, "报销比例")).results}
                assert found == {state.doc_id for state in await bob.documents(kb)}
                return found

            assert await seen() == {"a"}
            for labels, expected in ((("user:bob",), {"a", "b"}), (("user:alice",), {"a"}), ((), {"a", "b"})):
                await one.governance.access.set(kb, ["b"], labels)
                assert await seen() == expected
            await one.governance.access.set_rule(kb, "a", ["group:财务"])
            assert await seen() == {"b"}

    asyncio.run(story())
