"""What is a server's own: several processes at one index, its restarts, its tenants, its damages."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from qianxun.core.errors import BadSettings, IndexUnusable, RetrieverUnavailable
from qianxun.core.types import Attributes, Eq, IndexBatch, IndexStamp, Not, Terms
from qianxun.engine.settings import load
from qianxun.engine.storage import schema_for
from qianxun.index.postgres import tables
from qianxun.index.postgres import vectors as near
from qianxun.index.postgres.index import PostgresBackend, PostgresIndex, create
from qianxun.index.postgres.server import Tx
from qianxun.index.postgres.tables import State, Tables
from qianxun.testing.index_material import STAMP, entry, keys_of, unit
from tests.servers.postgres import Server

WORDS = Terms(("医保",))


async def begun(backend: Any, base: int = 1, keys: range = range(1, 6)) -> PostgresIndex:
    index = await backend.build(base, STAMP)
    await index.apply(IndexBatch(1, (), tuple(entry(key, key) for key in keys)))
    await backend.switch(base, index)
    assert isinstance(index, PostgresIndex)
    return index


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


# ── several at once ──────────────────────────────────────────────────────────────────────────────


def test_what_one_process_writes_the_other_finds(index_url: str, schema: str) -> None:
    async def story() -> None:
        first = await begun(create(index_url, schema=schema))
        second = await create(index_url, schema=schema).open(1, STAMP)
        assert keys_of(await second.match(WORDS, 10, Not(Eq("doc_id", "文档1")))) == [2, 3, 4, 5]
        await second.apply(IndexBatch(2, (1,), (entry(9, 9),)))
        assert keys_of(await first.match(WORDS, 10, Not(Eq("doc_id", "文档2")))) == [3, 4, 5, 9]
        assert await first.watermark() == 2
        await first.close()
        await second.close()

    run(story)


def test_batches_of_many_writers_come_one_after_another(index_url: str, schema: str) -> None:
    async def story() -> None:
        first = await begun(create(index_url, schema=schema), keys=range(0))
        others = [await create(index_url, schema=schema).open(1, STAMP) for _ in range(3)]
        batches = [IndexBatch(9, (), tuple(entry(10 * at + key, at) for key in range(5))) for at in range(12)]
        await asyncio.gather(*(others[at % 3].apply(batch) for at, batch in enumerate(batches)))
        await first.check()
        expected = sorted(entry.key for batch in batches for entry in batch.entries)
        assert (await first.inventory()).keywords.tolist() == expected
        assert sorted(keys_of(await first.match(WORDS, 100))) == expected
        for index in (first, *others):
            await index.close()

    run(story)


def test_a_batch_that_was_overtaken_changes_nothing(index_url: str, schema: str) -> None:
    """Two processes read the outbox; the slower one comes with what the faster one has replaced since."""

    async def story() -> None:
        index = await begun(create(index_url, schema=schema), keys=range(0))
        await index.apply(IndexBatch(8, (), (entry(1, 10, "新"),)))
        await index.apply(IndexBatch(7, (10,), (entry(2, 10, "旧"),)))
        assert (keys_of(await index.match(Terms(("新",)), 5)), await index.watermark()) == ([1], 8)
        await index.close()

    run(story)


def test_an_open_index_follows_when_another_process_switches(index_url: str, schema: str) -> None:
    async def story() -> None:
        held = await begun(create(index_url, schema=schema))
        other = create(index_url, schema=schema)
        fresh = await begun(other, keys=range(50, 53))
        assert keys_of(await held.match(WORDS, 10)) == [50, 51, 52]
        assert sorted(keys_of(await held.nearest(unit(1), 10))) == [50, 51, 52]
        await held.apply(IndexBatch(5, (), (entry(53, 53),)))
        assert keys_of(await fresh.match(WORDS, 10)) == [50, 51, 52, 53]
        await begun_otherwise(other)
        with pytest.raises(IndexUnusable, match="另一套设置"):
            await held.watermark()
        await other.drop(1)
        with pytest.raises(IndexUnusable, match="已被删除"):
            await held.match(WORDS, 10)
        await held.close()
        await fresh.close()

    async def begun_otherwise(backend: Any) -> None:
        index = await backend.build(1, IndexStamp("另一个模型", 8, "1"))
        await backend.switch(1, index)
        await index.close()

    run(story)


def test_two_rebuilds_at_once_do_not_mix(index_url: str, schema: str) -> None:
    """Each fills its own; the last to finish is current; one that was dropped meanwhile is told so."""

    async def story() -> None:
        first, second = create(index_url, schema=schema), create(index_url, schema=schema)
        held = await begun(first)
        slow, quick = await first.build(1, STAMP), await second.build(1, STAMP)
        await quick.apply(IndexBatch(4, (), (entry(20, 20),)))
        await second.switch(1, quick)
        await slow.apply(IndexBatch(0, (), (entry(30, 30),)))
        assert (keys_of(await held.match(WORDS, 9)), await held.watermark()) == ([20], 4)
        await first.switch(1, slow)
        assert (keys_of(await held.match(WORDS, 9)), keys_of(await quick.match(WORDS, 9))) == ([30], [30])
        late = await second.build(1, STAMP)
        await first.drop(1)
        with pytest.raises(IndexUnusable, match="已被删除"):
            await late.apply(IndexBatch(5))
        with pytest.raises(IndexUnusable, match="已被删除"):
            await second.switch(1, late)
        for index in (held, slow, quick, late):
            await index.close()

    run(story)


def test_searches_go_on_while_one_index_after_another_takes_its_place(index_url: str, schema: str) -> None:
    """Five rebuilds under searches without a pause: none fails, and each finds all that any of the builds holds."""

    async def story() -> None:
        backend = create(index_url, schema=schema)
        index = await begun(backend)
        done = asyncio.Event()
        answers = 0

        async def search() -> None:
            nonlocal answers
            while not done.is_set():
                words, vectors = await asyncio.gather(index.match(WORDS, 9), index.nearest(unit(1), 9))
                assert sorted(keys_of(words)) == sorted(keys_of(vectors)) == [1, 2, 3, 4, 5]
                answers += 1

        searching = [asyncio.create_task(search()) for _ in range(3)]
        rebuilt = 0
        async with asyncio.timeout(300):
            while rebuilt < 5 or answers <= 5:
                await (await begun(create(index_url, schema=schema))).close()
                rebuilt += 1
        done.set()
        await asyncio.gather(*searching)
        await index.close()

    run(story)


def test_nothing_is_left_of_what_was_replaced_or_dropped(index_url: str, schema: str) -> None:
    async def story() -> None:
        backend = create(index_url, schema=schema)
        for _ in range(3):
            await (await begun(backend)).close()
        with connected(index_url) as connection:
            count = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
            assert connection.execute(count, [schema]).fetchone() == (1 + len(tables.PARTS),)
            await backend.drop(1)
            assert connection.execute(count, [schema]).fetchone() == (1,)

    run(story)


def test_closed_indexes_hold_no_connections(index_url: str, schema: str) -> None:
    async def story() -> None:
        backend = create(index_url, schema=schema)
        indexes = [await begun(backend), await backend.open(1, STAMP)]
        await asyncio.gather(*(index.match(WORDS, 5) for index in indexes * 4))
        for index in (*indexes, indexes[0]):
            await index.close()
        with pytest.raises(IndexUnusable, match="已经关闭"):
            await indexes[0].match(WORDS, 5)
        await backend.drop(1)

    run(story)
    with connected(index_url) as connection:
        held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
        give_up = time.monotonic() + 60  # a connection takes its time to end
        while connection.execute(held, ["qianxun index"]).fetchone() != (0,):
            assert time.monotonic() < give_up
            time.sleep(0.02)


# ── tenants ──────────────────────────────────────────────────────────────────────────────────────


def test_an_index_never_gives_the_keys_of_another_base(index_url: str, schema: str) -> None:
    """Also where the wrong tables are read: every row says whose it is, and every statement asks."""

    async def story() -> None:
        backend = create(index_url, schema=schema)
        assert isinstance(backend, PostgresBackend)
        mine, theirs = await begun(backend, 1), await begun(backend, 2, range(100, 105))
        assert keys_of(await mine.match(WORDS, 50)) == [1, 2, 3, 4, 5]
        assert sorted(keys_of(await theirs.nearest(unit(1), 50))) == [100, 101, 102, 103, 104]
        held = await mine._read(lambda tx, state: state)

        def astray(tx: Tx, state: State) -> list[int]:
            search = near.Search(tx, Tables(schema, held.build), state, "content", unit(1))
            return [
                *keys_of(near._exactly(search, 50, None)),
                *keys_of(near._by_graph(search, 50, None) or near.NOTHING),
            ]

        assert await theirs._read(astray) == []
        theirs.build = held.build  # whoever confuses the builds is given none of them: this one is another base's
        assert sorted(keys_of(await theirs.match(WORDS, 50))) == [100, 101, 102, 103, 104]
        await mine.close()
        await theirs.close()

    run(story)


def test_the_tables_of_a_base_take_no_other_bases_rows(index_url: str, schema: str) -> None:
    async def story() -> None:
        index = await begun(create(index_url, schema=schema), 7)
        own = Tables(schema, index.build)
        with connected(index_url) as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(f"INSERT INTO {own.owners} (owner, base) VALUES (99, 8)")
        await index.close()

    run(story)


def test_records_have_a_schema_of_their_own(tmp_path: Path) -> None:
    """Bases are known by their numbers, and those of two data folders, or of two databases, are the same."""
    folders = [load(environment={}, arguments={"data": str(tmp_path / name)}) for name in ("a", "b")]
    named = {schema_for(folder, database) for folder in folders for database in ("", "一", "二")}
    assert len(named) == 4  # a database is the same from whatever folder it is opened
    assert named == {tables.check_schema(name) for name in named}


# ── a server that goes and comes ─────────────────────────────────────────────────────────────────


def test_a_server_that_is_away_is_said_so_and_comes_back(postgres_server: Server) -> None:
    async def story() -> None:
        backend = create(postgres_server.url, schema="away")
        index = await begun(backend)
        await asyncio.gather(*(index.match(WORDS, 5) for _ in range(4)))
        postgres_server.stop("immediate")
        for work in (index.match(WORDS, 5), index.nearest(unit(1), 5), index.apply(IndexBatch(2, (1,)))):
            with pytest.raises(RetrieverUnavailable, match="连不上"):
                await work
        with pytest.raises(RetrieverUnavailable):
            await backend.open(1, STAMP)
        postgres_server.start()
        assert keys_of(await index.match(WORDS, 5)) == [1, 2, 3, 4, 5]
        await index.apply(IndexBatch(2, (1,)))
        postgres_server.stop("fast")
        postgres_server.start()
        answers = await asyncio.gather(*(index.match(WORDS, 5) for _ in range(4)))
        assert [keys_of(answer) for answer in answers] == [[2, 3, 4, 5]] * 4
        await index.close()

    run(story)


@pytest.mark.parametrize("url", ["", "sqlite:///a.db", "postgresql://[host/x"])
def test_an_address_that_is_none_is_a_bad_setting(url: str) -> None:
    async def story() -> None:
        await create(url).open(1, STAMP)

    with pytest.raises(BadSettings):
        run(story)


@pytest.mark.parametrize("is_writing", [False, True])
def test_a_session_that_says_nothing_at_all_is_given_up(
    is_writing: bool, index_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs, and its own time limit does not come either: neither a search nor a batch waits for it for ever."""
    monkeypatch.setattr("qianxun.records.database.postgres.GRACE_SECONDS", -0.5)
    monkeypatch.setattr("qianxun.index.postgres.server.READ_SECONDS", 1.5)

    async def story() -> None:
        index = await begun(create(index_url, schema=schema))
        session = await index._server.read(lambda tx: tx.rows("SELECT pg_backend_pid()")[0][0])
        os.kill(session, signal.SIGSTOP)
        try:
            async with asyncio.timeout(60):
                if is_writing:
                    await index.apply(IndexBatch(2, (), (entry(9, 9),)))
                assert (9 in keys_of(await index.match(WORDS, 10))) == is_writing
        finally:
            os.kill(session, signal.SIGCONT)
            await index.close()

    run(story)


def test_a_batch_may_take_longer_than_a_search(index_url: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qianxun.records.database.postgres.GRACE_SECONDS", 0.0)
    monkeypatch.setattr("qianxun.index.postgres.server.READ_SECONDS", 1.0)

    async def story() -> None:
        index = await begun(create(index_url, schema=schema))
        started: list[int] = []

        def slow(tx: Tx) -> None:
            started.append(1)
            tx.run("SELECT pg_sleep(1.2)")

        await index._server.write(slow)
        assert len(started) == 1
        await index.close()

    run(story)


# ── damage ───────────────────────────────────────────────────────────────────────────────────────

DAMAGES = {
    "a lost posting": "DELETE FROM {0.postings} WHERE ctid = (SELECT ctid FROM {0.postings} LIMIT 1)",
    "a shortened list": "UPDATE {0.postings} SET data = substr(data, 1, 2)",
    "another list": "UPDATE {0.postings} SET data = set_byte(data, 2, 77)",
    "a lost entry": "DELETE FROM {0.entries} WHERE key = 3",
    "a longer entry": "UPDATE {0.entries} SET words = words + 1 WHERE key = 3",
    "a lost vector": "DELETE FROM {0.vectors} WHERE key = 3",
    "another vector": "UPDATE {0.vectors} SET embedding = l2_normalize(embedding * embedding) WHERE key = 3",
    "a vector of somebody else": "UPDATE {0.vectors} SET key = 77 WHERE key = 3",
    "lost attributes": "DELETE FROM {0.facts} WHERE owner = 1",
    "a lost owner": "DELETE FROM {0.owners} WHERE owner = 1",
    "a forgotten death": "DELETE FROM {0.deaths}",
    "a lost table": "DROP TABLE {0.vectors}",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_by_the_check(index_url: str, schema: str, damage: str) -> None:
    async def story() -> None:
        index = await begun(create(index_url, schema=schema), keys=range(1, 9))
        await index.apply(IndexBatch(2, (8,)))
        await index.check()
        with connected(index_url) as connection:
            connection.execute(DAMAGES[damage].format(Tables(schema, index.build)))
        with pytest.raises(IndexUnusable):
            await index.check()
        for search in (index.match(WORDS, 5), index.nearest(unit(1), 5), index.apply(IndexBatch(3, (2,)))):
            with suppress(IndexUnusable):  # right, or refused: never anything else
                await search
        await index.close()

    run(story)


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────


def clustered(count: int, dimension: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(count, dimension)) + 1.2 * rng.normal(size=(40, dimension))[rng.integers(0, 40, count)]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_the_graph_finds_what_exact_search_finds_also_under_filters(
    index_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = clustered(3_000, 32)
    groups = np.arange(3_000) % 100
    owners = [Attributes(str(group), user_id=f"用户{group}", tags=("半",) * (group % 2)) for group in range(100)]

    async def story() -> None:
        backend = create(index_url, schema=schema, exact_limit=100)
        index = await backend.build(1, IndexStamp("测试模型", 32, "1"))
        entries = (entry(key, key, vector=rows[key], attributes=owners[groups[key]]) for key in range(3_000))
        await index.apply(IndexBatch(1, (), tuple(entries)))
        await backend.switch(1, index)
        assert isinstance(index, PostgresIndex)
        plan = await index._read(lambda tx, state: explained(tx, state, None))
        assert "Index Scan using " + Tables(schema, index.build).graph(0) in plan
        monkeypatch.setattr(near, "_exactly", None)  # whoever falls back on it fails
        monkeypatch.setattr(near, "FEW", 100)
        assert await found(index, None, np.ones(3_000, dtype=bool)) >= 0.98
        assert await found(index, Eq("tags", "半"), groups % 2 == 1) >= 0.98
        monkeypatch.undo()
        assert await found(index, Eq("user_id", "用户7"), groups == 7) == 1.0  # one of a hundred: scored one by one
        monkeypatch.setattr(near, "FEW", 0)  # … or by the graph, which has to look further and further
        assert await found(index, Eq("user_id", "用户7"), groups == 7) >= 0.98
        await index.close()

    def explained(tx: Tx, state: State, owners: Any) -> str:
        search = near.Search(tx, Tables(schema, state.build), state, "content", rows[5])
        near._plan(search, 400)
        plan = tx.rows("EXPLAIN " + near.statement(search, owners), fetched=50, **search.values(owners))
        return "\n".join(str(line) for (line,) in plan)

    async def found(index: PostgresIndex, where: Any, allowed: np.ndarray) -> float:
        hits = 0
        for asked in range(0, 3_000, 150):
            truth = np.argsort(np.where(allowed, -(rows @ rows[asked]), 2), kind="stable")[:15]
            near_ones = await index.nearest(rows[asked], 15, *([where] if where else []))
            hits += len(set(truth.tolist()) & set(keys_of(near_ones)))
        return hits / (15 * 20)

    run(story)


@pytest.mark.parametrize(("dimension", "has_graph"), [(2_400, True), (4_200, False)])
def test_wide_vectors_are_scored_exactly_and_the_widest_are_not_indexed(
    index_url: str, schema: str, dimension: int, has_graph: bool
) -> None:
    rows = clustered(400, dimension)

    async def story() -> None:
        backend = create(index_url, schema=schema, exact_limit=50)
        index = await backend.build(1, IndexStamp("宽", dimension, "1"))
        await index.apply(IndexBatch(1, (), tuple(entry(key, key, vector=rows[key]) for key in range(400))))
        await backend.switch(1, index)
        assert isinstance(index, PostgresIndex)
        assert (await index._read(lambda tx, state: state.graphs))[0] is has_graph
        hits = (await index.nearest(rows[7], 20)).hits
        truth = np.sort(rows @ rows[7])[::-1][:20]
        assert [hit.score for hit in hits] == pytest.approx(truth.tolist(), abs=1e-5)
        await index.check()
        await index.close()

    run(story)


def test_a_pgvector_too_old_is_said_to_be_so_and_how_it_is_updated(postgres_url: str) -> None:
    """Where the server has a newer one already, the database still has to take it over."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    with pytest.raises(RetrieverUnavailable, match=r"0\.7\.4 太旧") as refused:
        asyncio.run(create(postgres_url, schema="too_old").build(1, STAMP))
    assert "ALTER EXTENSION vector UPDATE" in refused.value.hint
