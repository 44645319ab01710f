"""What only an index in Milvus meets: a server that goes and comes, rows that are lost, a writer that was overtaken."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from qianxun.core.errors import BadInput, IndexUnusable, LeaseLost, RetrieverUnavailable
from qianxun.core.types import Attributes, Eq, IndexBatch, IndexEntry, Or, Range, Spelled, Terms
from qianxun.index.milvus import facts, states, terms
from qianxun.index.milvus.conditions import Condition, among, compared, has_any
from qianxun.index.milvus.index import MilvusBackend, MilvusIndex, create
from qianxun.index.milvus.server import Milvus, version_of
from qianxun.testing.index_material import STAMP, entry, keys_of, unit
from tests.servers.milvus import LightServer


def backend_of(uri: str, prefix: str, **options: Any) -> MilvusBackend:
    made = create(uri, prefix=prefix, **options)
    assert isinstance(made, MilvusBackend)
    return made


async def filled(backend: MilvusBackend, entries: Sequence[IndexEntry] = ()) -> MilvusIndex:
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    await index.apply(IndexBatch(1, (), tuple(entries) or tuple(entry(key, key, f"词{key} 共") for key in range(1, 6))))
    return index


async def on_server(index: MilvusIndex, work: Any) -> Any:
    return await index._server.run(work)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


# ── the server ───────────────────────────────────────────────────────────────────────────────────


def test_what_was_acknowledged_is_there_after_the_server_was_killed(milvus_server: LightServer, schema: str) -> None:
    async def story() -> None:
        index = await filled(backend_of(milvus_server.uri, schema))
        milvus_server.stop()
        with pytest.raises(RetrieverUnavailable, match="Milvus"):
            await index.match(Terms(("共",)), 10)
        with pytest.raises(RetrieverUnavailable):
            await index.apply(IndexBatch(2, (), (entry(9, 9),)))
        milvus_server.start()
        for attempt in range(50):  # until the channel has noticed
            try:
                assert keys_of(await index.match(Terms(("共",)), 10)) == [1, 2, 3, 4, 5]
                break
            except RetrieverUnavailable:
                assert attempt < 49
                await asyncio.sleep(0.1)
        await index.apply(IndexBatch(2, (1,), (entry(9, 9, "共"),)))
        assert sorted(keys_of(await index.match(Terms(("共",)), 10))) == [2, 3, 4, 5, 9]
        await index.check()
        await index.close()

    run(story())


def test_a_server_older_than_sparse_vectors_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_of("v2.3.5-lite") < (2, 5) <= version_of("v2.5.4") < version_of("2.10.0")
    old = object.__new__(Milvus)
    old.version, old.is_light = "v2.3.5", False
    with pytest.raises(RetrieverUnavailable, match=r"2\.3\.5 太旧"):
        old.require_sparse()


def test_values_are_bound_where_a_server_has_templates() -> None:
    where = among("id", (3, 4)) & ~has_any("facts", (7,)) & compared("key", "<", 9)
    text, values = where.bound()
    assert text == "((id in {v0} and not (array_contains_any(facts, {v1}))) and key < {v2})"
    assert values == {"v0": [3, 4], "v1": [7], "v2": 9}
    assert where.written() == "((id in [3, 4] and not (array_contains_any(facts, [7]))) and key < 9)"
    with pytest.raises(ValueError, match="invalid literal"):
        Condition("key == ?", ("1 or id >= 0",)).written()  # type: ignore[arg-type]


# ── rows that are lost, or not yet counted ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (among("key", (3,)) & among("kind", (states.CONTENT,)), "条目的数目"),
        (among("kind", (states.ADDED,)), "词频的记录不完整"),
    ],
)
def test_rows_that_were_lost_are_found(milvus_uri: str, schema: str, lost: Condition, reason: str) -> None:
    async def story() -> None:
        index = await filled(backend_of(milvus_uri, schema))
        await index.check()
        await on_server(index, lambda milvus: milvus.delete(index.name, lost))
        with pytest.raises(IndexUnusable, match=reason):
            await index.check()
        await index.close()

    run(story())


def test_a_batch_that_broke_off_has_not_happened(milvus_uri: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are there, the state that would count them is not; the next writer clears them away."""

    async def story() -> None:
        backend = backend_of(milvus_uri, schema, purge_seconds=0)
        index = await filled(backend)
        with monkeypatch.context() as patched:
            patched.setattr(states, "save", _break_off)
            with pytest.raises(RetrieverUnavailable):
                await index.apply(IndexBatch(2, (1, 2), tuple(entry(key, key, "共") for key in range(10, 30))))
        assert await index.watermark() == 1
        assert keys_of(await index.match(Terms(("共",)), 10)) == [1, 2, 3, 4, 5]
        await index.check()
        again = await backend.open(1, STAMP)
        await again.apply(IndexBatch(2, (1, 2), (entry(10, 10, "共"),)))
        for each in (index, again):
            assert sorted(keys_of(await each.match(Terms(("共",)), 50))) == [3, 4, 5, 10]
            await each.check()
            await each.close()

    run(story())


def test_rows_whose_state_was_saved_unnoticed_are_not_swept_away(
    milvus_uri: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the last call is lost with the connection: the writer does not know that its batch counts."""

    def save_unheard(*arguments: Any) -> None:
        save(*arguments)
        _break_off()

    async def story() -> None:
        index = await filled(backend := backend_of(milvus_uri, schema))
        with monkeypatch.context() as patched:
            patched.setattr(states, "save", save_unheard)
            with pytest.raises(RetrieverUnavailable):
                await index.apply(IndexBatch(2, (), (entry(6, 6, "共"),)))
        await index.apply(IndexBatch(3, (), (entry(7, 7, "共"),)))
        other = await backend.open(1, STAMP)
        for each in (index, other):
            assert sorted(keys_of(await each.match(Terms(("共",)), 10))) == [1, 2, 3, 4, 5, 6, 7]
            await each.check()
            await each.close()

    save = states.save
    run(story())


def _break_off(*_: object) -> None:
    raise RetrieverUnavailable("断了")


def test_rows_that_died_are_deleted_later_and_are_never_found(milvus_uri: str, schema: str) -> None:
    async def story(seconds: float, left: int) -> None:
        index = await filled(backend_of(milvus_uri, f"{schema}_{left}", purge_seconds=seconds))
        for sequence in range(2, 5):
            await index.apply(IndexBatch(sequence, (1, 2, 3), tuple(entry(10 * sequence + at, at) for at in (1, 2, 3))))
        entries = among("kind", states.ENTRIES)
        rows = await on_server(index, lambda milvus: milvus.query(index.name, entries, ("id",)))
        assert len(rows) == left
        assert (await index.inventory()).keywords.tolist() == [4, 5, 41, 42, 43]
        await index.check()
        await index.close()

    run(story(3600, 14))
    run(story(0, 8))  # those of the last batch wait for the next


# ── writers ──────────────────────────────────────────────────────────────────────────────────────


NOW = 1_795_000_000_000_000  # a fence: microseconds


def test_of_two_states_that_of_the_later_writer_counts() -> None:
    first = states.State(1, STAMP, True).taken_over(NOW).with_rows(10)
    later = replace(first, watermark=5).taken_over(NOW + 30_000_000).with_rows(2)
    lapsed = replace(first, watermark=9, generation=99).with_rows(50)
    found = states.decoded({**states.encoded(later), **states.encoded(lapsed), "other": "1"})
    assert found == later
    with pytest.raises(LeaseLost):
        later.taken_over(NOW)
    for one, other in ((NOW, NOW + 1), (NOW, NOW + 30_000_000), (1, 2)):  # rows of two writers never have one number
        before = states.State(1, STAMP, True).taken_over(one).with_rows(7)
        start, end = before.taken_over(other).epochs[-1]
        assert start == end >= before.next_row + states.OWN_ROWS
        assert end < 2**62


@pytest.mark.parametrize("moment", ["insert", "set_properties"])
def test_a_writer_that_was_overtaken_changes_nothing(
    milvus_uri: str, schema: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked at the fence, and is then paused before it writes its rows, or the state that counts them."""

    async def story() -> None:
        backend, other = backend_of(milvus_uri, schema), backend_of(milvus_uri, schema)
        lapsed = await filled(backend)
        successor = await other.open(1, STAMP)
        await lapsed.apply(IndexBatch(2, (), (entry(20, 20, "共"),), NOW))
        loop, original = asyncio.get_running_loop(), getattr(Milvus, moment)

        async def take_over() -> None:
            await successor.apply(IndexBatch(2, fence=NOW + 5))
            await successor.apply(IndexBatch(3, (1,), (entry(31, 31, "共"),), NOW + 5))

        def paused(*arguments: Any) -> Any:
            monkeypatch.setattr(Milvus, moment, original)
            asyncio.run_coroutine_threadsafe(take_over(), loop).result()
            return original(*arguments)

        monkeypatch.setattr(Milvus, moment, paused)
        with pytest.raises(LeaseLost):
            await lapsed.apply(IndexBatch(3, (1, 2, 3), tuple(entry(key, key, "共") for key in range(40, 60)), NOW))
        with pytest.raises(LeaseLost):
            await lapsed.apply(IndexBatch(4, (2,), fence=NOW))
        for each in (lapsed, successor):
            assert sorted(keys_of(await each.match(Terms(("共",)), 50))) == [2, 3, 4, 5, 20, 31]
            assert await each.watermark() == 3
            await each.check()
        await successor.apply(IndexBatch(4, (2,), fence=NOW + 9))
        assert (await successor.inventory()).keywords.tolist() == [3, 4, 5, 20, 31]
        for each in (lapsed, successor):
            await each.close()

    run(story())


def test_a_build_that_comes_too_late_is_not_switched_to(
    milvus_uri: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        backend = backend_of(milvus_uri, schema)
        index = await filled(backend)
        late = await backend.build(1, STAMP)
        await late.apply(IndexBatch(1, (), (entry(99, 99, "共"),), NOW))
        original = Milvus.set_alias

        def overtaken(milvus: Milvus, alias: str, name: str) -> None:
            """Between the look at the fence and the change somebody else has written."""
            monkeypatch.setattr(Milvus, "set_alias", original)
            found = states.load(milvus, alias)
            assert found is not None
            states.save(milvus, found[0], found[1].taken_over(NOW + 5))
            original(milvus, alias, name)

        monkeypatch.setattr(Milvus, "set_alias", overtaken)
        for _ in range(2):
            with pytest.raises(LeaseLost):
                await backend.switch(1, late)
            assert keys_of(await index.match(Terms(("共",)), 50)) == [1, 2, 3, 4, 5]
        for each in (index, late):
            await each.close()

    run(story())


def test_epochs_stay_few_and_what_broke_off_between_them_is_deleted(
    milvus_uri: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        backend = backend_of(milvus_uri, schema, purge_seconds=0)
        index = await filled(backend)
        for pass_ in range(1, 2 * states.MOST_EPOCHS):
            if pass_ % 3 == 0:  # one that dies before its state is written
                with monkeypatch.context() as patched:
                    patched.setattr(states, "save", _break_off)
                    with pytest.raises(RetrieverUnavailable):
                        await index.apply(IndexBatch(pass_ + 1, (), (entry(1000 + pass_, 7),), NOW + 10 * pass_))
                await index.close()
                index = await backend.open(1, STAMP)
            await index.apply(IndexBatch(pass_ + 1, (9,), (entry(100 + pass_, 9, "共"),), NOW + 10 * pass_ + 5))
        state = await index._read(lambda milvus, state: state)
        assert len(state.epochs) <= states.MOST_EPOCHS + 1
        assert (await index.inventory()).keywords.tolist() == [1, 2, 3, 4, 5, 100 + 2 * states.MOST_EPOCHS - 1]
        await index.check()
        await index.close()

    run(story())


def test_another_process_follows_a_switch(milvus_uri: str, schema: str) -> None:
    async def story() -> None:
        backend, other = backend_of(milvus_uri, schema), backend_of(milvus_uri, schema)
        index = await filled(backend)
        reader = await other.open(1, STAMP)
        built = await backend.build(1, STAMP)
        await built.apply(IndexBatch(7, (), (entry(70, 70, "新"),)))
        assert keys_of(await reader.match(Terms(("新",)), 5)) == []
        await backend.switch(1, built)
        assert keys_of(await reader.match(Terms(("新",)), 5)) == [70]
        assert await reader.watermark() == 7
        assert len(await on_server(reader, lambda milvus: states.builds_of(milvus, schema, 1))) == 1
        for each in (index, reader, built):
            await each.close()
        await backend.drop(1)
        with pytest.raises(IndexUnusable):
            await other.open(1, STAMP)

    run(story())


def test_a_base_that_has_outgrown_exact_search_says_so_and_its_successor_has_a_graph(
    milvus_uri: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        backend = backend_of(milvus_uri, schema, exact_limit=50)
        index = await filled(backend)
        for sequence in range(2, 5):
            await index.apply(IndexBatch(sequence, (), tuple(entry(100 * sequence + at, at) for at in range(40))))
        assert [record.levelname for record in caplog.records if "rebuild" in record.message] == ["WARNING"]
        built = await backend.build(1, STAMP)
        await built.apply(IndexBatch(4, (), tuple(entry(key, key) for key in range(1, 126))))
        await backend.switch(1, built)
        assert not (await index._read(lambda milvus, state: state)).exact
        for wanted in range(1, 126, 9):
            assert keys_of(await index.nearest(unit(wanted), 3))[0] == wanted
        for each in (index, built):
            await each.close()

    run(story())


# ── words and values ─────────────────────────────────────────────────────────────────────────────


def test_counts_of_terms_are_summed_up(milvus_uri: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "SUM_AFTER", 20)
    monkeypatch.setattr(terms, "FEW_CHANGES", 5)

    async def story() -> None:
        backend = backend_of(milvus_uri, schema, purge_seconds=0)
        index = await filled(backend)
        for sequence in range(2, 14):
            batch = IndexBatch(sequence, (sequence % 5,), (entry(sequence * 10, sequence % 5, f"共 词{sequence}"),))
            await index.apply(batch)
        rows = await on_server(
            index, lambda milvus: milvus.query(index.name, among("kind", (states.ADDED, states.REMOVED)), ("key",))
        )
        assert len(rows) < 20  # of 24
        await index.check()
        fresh = await backend.open(1, STAMP)
        asked = Terms(("共", "词13", "词2"))
        counts = await index.count(asked)
        assert counts.words == {"共": counts.entries, "词13": 1, "词2": 0}
        assert await fresh.count(asked) == counts
        assert await fresh.match(asked, 10) == await index.match(asked, 10)
        await fresh.close()
        await index.close()

    run(story())


def test_a_value_longer_than_a_text_of_milvus_is_stored_whole(milvus_uri: str, schema: str) -> None:
    long = "长" * 50_000 + "尾"
    owners = [Attributes("甲", metadata={"注": long}), Attributes("乙", metadata={"注": "短"})]

    async def story() -> None:
        index = await filled(
            backend_of(milvus_uri, schema), [entry(at, at, attributes=owner) for at, owner in enumerate(owners, 1)]
        )
        for where in (Eq("metadata.注", long), Spelled("metadata.注", ends="长尾"), Range("metadata.注", ge="长")):
            assert keys_of(await index.nearest(unit(1), 5, where)) == [1]
        where = Or((Spelled("metadata.注", contains="短"), Eq("doc_id", "甲")))
        assert sorted(keys_of(await index.nearest(unit(1), 5, where))) == [1, 2]
        await index.close()

    run(story())


def test_more_values_than_an_array_holds_are_refused() -> None:
    with pytest.raises(BadInput, match="4096"):
        facts.facts_of(Attributes("甲", tags=tuple(map(str, range(5_000)))))
