"""Quotas of tenants: what is beyond them is refused with 429, and changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qianxun.core.errors import QuotaExceeded
from qianxun.core.governance.quotas import Quota
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.engine.governance.quotas import SearchQuota, set_quota
from qianxun.records import Records
from qianxun.records.database.open import sqlite_url
from qianxun.records.governance import quotas
from tests.http.asking import asking

TEXT = "住院报销比例为百分之八十五。"  # 14 characters of three bytes


def test_documents_beyond_the_quota_are_refused_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            await engine.governance.quotas.set(Quota(documents=2, bytes=100))
            await engine.add_documents(kb, [Document("1", TEXT), Document("2", TEXT)])
            with pytest.raises(QuotaExceeded, match="文档至多 2"):
                await engine.add_documents(kb, [Document("3", "短"), Document("4", "短")])
            with pytest.raises(QuotaExceeded, match="字节至多 100"):
                await engine.add_documents(kb, [Document("1", TEXT * 3)])
            assert [state.doc_id for state in await engine.documents(kb)] == ["1", "2"]
            use = await engine.governance.quotas.get()
            assert (use.used.documents, use.used.bytes, use.used.chunks) == (2, 84, 2)
            await engine.add_documents(kb, [Document("1", TEXT + "改")])  # no more of them than before
            await engine.delete_document(kb, "2")
            await engine.add_documents(kb, [Document("3", "短")])
            other = engine.of("other")
            there = (await other.create_knowledge_base("别家", model="none")).id
            await other.add_documents(there, [Document(str(number), TEXT) for number in range(5)])

    asyncio.run(story())


def test_no_document_comes_once_the_chunks_are_used_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            await engine.add_documents(kb, [Document("1", TEXT), Document("2", TEXT)])
            await engine.governance.quotas.set(Quota(chunks=1))
            with pytest.raises(QuotaExceeded, match="块至多 1"):
                await engine.add_documents(kb, [Document("3", TEXT)])

    asyncio.run(story())


def test_the_searches_of_a_minute_are_counted_for_all_processes_together(tmp_path: Path) -> None:
    records, now = Records.open(sqlite_url(tmp_path / "qianxun.db")), [600.0]
    one, two = (SearchQuota(records, tmp_path, clock=lambda: now[0]) for _ in range(2))

    async def story() -> None:
        await one.count("甲")  # has no quota: nothing is written
        assert not (tmp_path / "quotas").exists()
        with records.writing() as tx:
            quotas.put(tx, "乙", Quota(searches_per_minute=3))
        for counting in (one, two, one):
            await counting.count("乙")
        now[0] = 645.0
        with pytest.raises(QuotaExceeded) as refused:
            await two.count("乙")
        assert refused.value.retry_seconds == 16
        await two.count("甲")
        now[0] = 661.0
        await two.count("乙")  # what was refused does not count

    asyncio.run(story())


def test_a_clock_that_is_set_back_keeps_nobody_waiting_until_it_has_caught_up(tmp_path: Path) -> None:
    async def story() -> None:
        records, now = Records.open(sqlite_url(tmp_path / "qianxun.db")), [7200.0]
        counting = SearchQuota(records, tmp_path, clock=lambda: now[0])
        with records.writing() as tx:
            quotas.put(tx, "乙", Quota(searches_per_minute=1))
        await counting.count("乙")
        now[0] = 3600.0
        await counting.count("乙")
        with pytest.raises(QuotaExceeded) as refused:
            await counting.count("乙")
        assert refused.value.retry_seconds == 61
        with records.writing() as tx:  # as servers count
            assert [quotas.count_searches(tx, "乙", second, 1, 1) for second in (7200, 3600, 3600)] == [0, 0, 61]
            assert quotas.search_counts(tx, "乙") == {3600: 1}

    asyncio.run(story())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.lists(st.integers(0, 25_000), min_size=1, max_size=60))
@example(1, [500, 25_000, 25_000, 10_500, 200])  # the second is served within 61 seconds of the first
def test_no_minute_has_more_searches_than_the_quota_wherever_it_begins(limit: int, pauses: list[int]) -> None:
    """At pauses of so many milliseconds. A fixed minute let twice the quota through at its edge."""

    async def story(folder: Path) -> None:
        records, now = Records.open(sqlite_url(folder / "qianxun.db")), [600_000]
        counting = SearchQuota(records, folder, clock=lambda: now[0] / 1000)
        with records.writing() as tx:
            quotas.put(tx, "乙", Quota(searches_per_minute=limit))
        served: list[int] = []
        for pause in pauses:
            now[0] += pause
            (refused,) = await asyncio.gather(counting.count("乙"), return_exceptions=True)
            if refused is None:
                served.append(now[0])
            else:
                assert isinstance(refused, QuotaExceeded)
                counted = [at for at in served if at // 1000 > now[0] // 1000 - quotas.WINDOW]
                assert len(counted) == limit  # for no other reason
        records.close()
        for start in served:
            assert len([at for at in served if start <= at < start + 60_000]) <= limit

    with TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))


@pytest.mark.parametrize(
    ("counts", "limit", "expected"),
    [
        ({}, 1, 0),
        ({}, 0, 61),
        ({100: 2}, 2, 61),
        ({40: 1, 90: 1}, 2, 1),
        ({39: 5}, 1, 0),
        ({50: 3, 90: 3}, 2, 51),
        ({160: 5}, 1, 121),  # another process's clock is ahead
        ({161: 5}, 1, 0),  # the clock was set back
    ],
)
def test_how_long_to_wait(counts: dict[int, int], limit: int, expected: int) -> None:
    assert quotas.seconds_to_wait(counts, 100, limit) == expected


def test_the_service_says_when_to_try_again_and_counts_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(Document("1", TEXT))
            await at.http.put("/v1/quotas/local", json={"documents": 1, "searches_per_minute": 2})
            search = {"query": "报销比例", "retrieval_mode": "fulltext"}
            statuses = [(await at.post(f"/v1/retrieval/{base}", search)).status_code for _ in range(2)]
            assert statuses == [200, 200]
            refused = await at.post(f"/v1/retrieval/{base}", search)
            assert (refused.status_code, refused.json()["error"]) == (429, "quota_exceeded")
            assert 0 < int(refused.headers["retry-after"]) <= 61
            added = await at.post(f"/v1/knowledge-bases/{base}/documents", {"name": "二", "content": TEXT})
            assert (added.status_code, "retry-after" in added.headers) == (429, False)
            numbers = (await at.http.get("/metrics")).text
            assert 'rag_quota_limit{kind="documents",tenant="local"} 1.0' in numbers
            assert 'rag_quota_used{kind="documents",tenant="local"} 1.0' in numbers
            assert "rag_quota_refusals_total 1.0" in numbers
            assert 'rag_quota_limit{kind="searches_per_minute",tenant="local"} 2.0' in numbers
            assert 'rag_quota_used{kind="searches_per_minute",tenant="local"} 2.0' in numbers
            use = (await at.http.get("/v1/quota")).json()["data"]
            assert use["quota"] == {"documents": 1, "chunks": None, "bytes": None, "searches_per_minute": 2}

    asyncio.run(story())


def test_several_searches_of_one_request_count_as_several(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(Document("1", TEXT))
            await at.http.put("/v1/quotas/local", json={"searches_per_minute": 5})
            path = f"/v1/vector_stores/{base}/search"
            statuses = [
                (await at.post(path, {"query": ["报销", "比例", "住院"][:count]})).status_code for count in (3, 3, 2, 1)
            ]
            assert statuses == [200, 429, 200, 429]  # what was refused does not count
            use = (await at.http.get("/v1/quota")).json()["data"]["used"]
            assert use["searches_per_minute"] == 5

    asyncio.run(story())


def test_a_tenant_cannot_change_its_own_quota(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            set_quota(at.engine.settings, "acme", Quota(documents=5))
            set_quota(at.engine.settings, "other", Quota(documents=7))
            from qianxun.engine.admin.keys import issue_key

            _, key = issue_key(at.engine.settings, "acme", "write")
            own = {"authorization": f"Bearer {key}"}
            assert (await at.http.put("/v1/quotas/acme", json={}, headers=own)).status_code == 403
            assert (await at.http.get("/v1/quota", headers=own)).json()["data"]["quota"]["documents"] == 5
            assert 'tenant="other"' not in (await at.http.get("/metrics", headers=own)).text

    asyncio.run(story())
