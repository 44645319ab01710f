"""The graph in a Neo4j-compatible server: a real one, over the official driver."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadSettings, MissingExtra, ServiceUnavailable, Unauthorized
from qianxun.core.graph_types import Entity, Evidence, Relation
from qianxun.core.types import EVERYTHING, Document, Eq, Filter
from qianxun.core.unicode import sound_text
from qianxun.doors.frameworks.neo4j import Mirrored, Neo4jAdapter
from qianxun.engine.engine import Engine
from qianxun.engine.graph_mirror import MirroredSurroundings, mirror, name_of
from qianxun.graph.modes import ModeRecall
from qianxun.graph.network.knowledge_graph import entity_id
from tests.indexing.opened import doc
from tests.integration.bolt_proxy import Wire
from tests.servers.bolt import BoltServer, bolt_server, unavailable

pytestmark = [
    pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "there is one"),
    pytest.mark.skipif(find_spec("neo4j") is None, reason="no driver for Neo4j"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[BoltServer]:
    with bolt_server() as started:
        yield started


@pytest.fixture
def adapter(server: BoltServer) -> Iterator[Neo4jAdapter]:
    with Neo4jAdapter(server.uri, server.auth, batch=3) as opened:
        yield opened


@pytest.fixture(scope="module")
def driver(server: BoltServer) -> Iterator[Any]:
    import neo4j  # a third of a second, which every process that collects tests would take

    with neo4j.GraphDatabase.driver(server.uri, auth=server.auth) as opened:
        yield opened


def held(driver: Any, kb: str) -> tuple[dict[str, str], set[tuple[str, str, str]]]:
    """What a stranger to this code finds of a base: names by id, and (source, type, target)."""
    nodes = driver.execute_query("MATCH (e:Entity {kb: $kb}) RETURN e.id AS id, e.name AS name", kb=kb).records
    ties = driver.execute_query(
        "MATCH (s:Entity)-[r:RELATION]->(t:Entity) WHERE r.kb = $kb RETURN s.id AS s, r.type AS y, t.id AS t", kb=kb
    ).records
    assert len(ties) == len({tuple(row) for row in ties})
    return {row["id"]: row["name"] for row in nodes}, {(row["s"], row["y"], row["t"]) for row in ties}


def entity(name: str, importance: float = 0.5, aliases: tuple[str, ...] = ()) -> Entity:
    return Entity(entity_id(name), name, "DISEASE", aliases, 1, importance)


def relation(source: str, type_: str, target: str, *chunks: int, weight: float = 1.0) -> Relation:
    evidence = tuple(Evidence(chunk, chunk, chunk + 5) for chunk in chunks)
    return Relation(entity_id(source), entity_id(target), type_, weight, evidence)


CHAIN = [
    entity(name, importance) for name, importance in (("糖尿病", 1.0), ("胰岛素", 0.6), ("胰腺", 0.3), ("腹部", 0.1))
]
TIES = [
    relation("胰岛素", "TREATS", "糖尿病", 1, 2),
    relation("胰腺", "分泌", "胰岛素", 3),
    relation("胰腺", "位于", "腹部", 4),
]


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def test_what_is_mirrored_is_there_with_direction_and_evidence(adapter: Neo4jAdapter, driver: Any) -> None:
    assert adapter.mirror("base a", CHAIN, TIES, {1: "c_1_d_0"}) == Mirrored(entities=4, relations=3)
    names, ties = held(driver, "base a")
    assert names == {each.id: each.name for each in CHAIN}
    assert ties == {(each.source, each.type, each.target) for each in TIES}
    said = driver.execute_query("MATCH (s)-[r:RELATION {kb: 'base a', type: 'TREATS'}]->(t) RETURN s.name, r, t.name")
    source, tie, target = said.records[0]
    assert (source, target) == ("胰岛素", "糖尿病")
    assert (tie["chunks"], tie["chunk_ids"], tie["starts"], tie["ends"]) == ([1, 2], ["c_1_d_0", ""], [1, 2], [6, 7])


def test_the_same_graph_again_sends_nothing_and_another_only_what_differs(server: BoltServer, driver: Any) -> None:
    many = [entity(f"病{at}") for at in range(300)]
    with Wire(server.port) as wire, Neo4jAdapter(wire.uri, server.auth) as adapter:
        adapter.mirror("diff", [*CHAIN, *many], TIES)
        whole, wire.passed = wire.passed, 0
        assert adapter.mirror("diff", [*CHAIN, *many], TIES).is_unchanged
        assert wire.passed < whole / 20
        wire.passed = 0
        changed = [entity("糖尿病", 0.9), *CHAIN[1:3], entity("肝脏"), *many]
        ties = [TIES[0], relation("胰腺", "分泌", "胰岛素", 3, 9), relation("肝脏", "位于", "胰腺", 7)]
        assert adapter.mirror("diff", changed, ties) == Mirrored(2, 2, 1, 1)
        assert wire.passed < whole / 10
    names, kept = held(driver, "diff")
    assert names == {each.id: each.name for each in changed}
    assert kept == {(each.source, each.type, each.target) for each in ties}


def test_whatever_was_there_before_the_server_holds_the_last_graph(adapter: Neo4jAdapter, driver: Any) -> None:
    chance = random.Random(7)
    for _ in range(8):
        names = chance.sample("甲乙丙丁戊己庚辛", chance.randint(0, 8))
        ends = [(a, b) for a in names for b in names if chance.random() < 0.25]
        ties = [relation(a, chance.choice("爱恨"), b, chance.randint(1, 3)) for a, b in ends]
        adapter.mirror("random", [entity(name, chance.random()) for name in names], ties)
        assert held(driver, "random") == (
            {entity_id(name): name for name in names},
            {(each.source, each.type, each.target) for each in ties},
        )


def test_what_somebody_deleted_there_is_mended(adapter: Neo4jAdapter, driver: Any) -> None:
    adapter.mirror("mended", CHAIN, TIES)
    driver.execute_query("MATCH (e:Entity {kb: 'mended', name: '胰岛素'}) DETACH DELETE e")
    assert adapter.mirror("mended", CHAIN, TIES) == Mirrored(entities=1, relations=2)
    assert adapter.mirror("mended", CHAIN, TIES).is_unchanged


def test_bases_beside_each_other_and_strangers_are_not_touched(adapter: Neo4jAdapter, driver: Any) -> None:
    driver.execute_query("CREATE (:Entity {name: '别人的'})-[:RELATION {kind: 'x'}]->(:Entity {name: '也是'})")
    adapter.mirror("one", CHAIN, TIES)
    adapter.mirror("one more", CHAIN[:2], TIES[:1])
    adapter.mirror("one", CHAIN[:1], [])
    assert adapter.forget("one") == 1
    assert held(driver, "one") == ({}, set())
    assert adapter.mirror("one more", CHAIN[:2], TIES[:1]).is_unchanged
    others = driver.execute_query("MATCH (a)-[r:RELATION {kind: 'x'}]->(b) RETURN a.name, b.name").records
    assert [tuple(row) for row in others] == [("别人的", "也是")]


@pytest.mark.parametrize(
    "name", ["'}) DETACH DELETE n //", "`x`", '"; MATCH (n) DELETE n', "\ud800半", "🩺", "名" * 9_000]
)
def test_a_hostile_name_is_a_name(adapter: Neo4jAdapter, driver: Any, name: str) -> None:
    adapter.mirror("hostile", [entity(name), entity("乙")], [relation(name, name, "乙", 1)])
    names, ties = held(driver, "hostile")
    sound = sound_text(name)
    assert names[entity_id(name)] == sound
    assert ties == {(entity_id(name), sound, entity_id("乙"))}
    assert len(adapter.neighbourhood("hostile", [name]).entities) == 2


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_a_neighbourhood_is_as_wide_as_asked(adapter: Neo4jAdapter) -> None:
    adapter.mirror("near", CHAIN, TIES)
    for hops, names in enumerate((["糖尿病"], ["糖尿病", "胰岛素"], ["糖尿病", "胰岛素", "胰腺"])):
        found = adapter.neighbourhood("near", ["糖尿病"], hops)
        assert [each.name for each in found.entities] == names
        assert set(found.relations) == set(TIES[:hops])
    assert adapter.neighbourhood("near", ["糖尿病"], 99).entities == tuple(CHAIN)


def test_entities_are_found_by_id_name_and_alias_of_their_own_base_alone(adapter: Neo4jAdapter) -> None:
    who = entity("世界卫生组织", aliases=("WHO",))
    adapter.mirror("called", [who, entity("日内瓦")], [relation("世界卫生组织", "位于", "日内瓦", 1)])
    adapter.mirror("other", [entity("世界卫生组织", aliases=("ＷＨＯ",))], [])
    for name in (who.id, "世界卫生组织", "who", "ＷＨＯ"):
        assert adapter.neighbourhood("called", [name], 0).entities == (who,)
    assert [each.name for each in adapter.neighbourhood("called", ["日内瓦", "who"], 0).entities] == [
        "日内瓦",
        who.name,
    ]
    assert adapter.neighbourhood("called", ["没有"]).entities == ()
    assert adapter.neighbourhood("called", []).entities == ()


def test_no_way_leads_through_a_forbidden_chunk(adapter: Neo4jAdapter) -> None:
    adapter.mirror("forbidden", CHAIN, TIES)
    found = adapter.neighbourhood("forbidden", ["糖尿病"], 3, allowed={2, 4})
    assert found.relations == (relation("胰岛素", "TREATS", "糖尿病", 2),)
    assert [each.name for each in found.entities] == ["糖尿病", "胰岛素"]


# ── a server that does not help ──────────────────────────────────────────────────────────────────


def test_a_wrong_password_is_said_without_saying_it(server: BoltServer) -> None:
    with Neo4jAdapter(server.uri, ("root", "geheim-123")) as adapter:
        with pytest.raises(Unauthorized, match="用户名或密码") as refused:
            adapter.mirror("x", CHAIN, TIES)
        assert "geheim" not in str(refused.value) + repr(adapter)
        with pytest.raises(Unauthorized):  # asked again: to be refused is no outage
            adapter.check()


@pytest.mark.parametrize("uri", ["http://127.0.0.1", "127.0.0.1:7687", "bolt://", "bolt://root:geheim@127.0.0.1"])
def test_an_address_that_cannot_be_one_is_refused_at_once(uri: str) -> None:
    with pytest.raises(BadSettings) as refused:
        Neo4jAdapter(uri)
    assert "geheim" not in str(refused.value)


def test_a_server_that_comes_back_is_used_again(server: BoltServer) -> None:
    with Wire(server.port) as wire, Neo4jAdapter(wire.uri, server.auth, pause_seconds=600) as adapter:
        assert "ArcadeDB" in adapter.check()
        adapter.mirror("wire", CHAIN, TIES)
        wire.cut()
        with pytest.raises(ServiceUnavailable, match="没能回答"):
            adapter.neighbourhood("wire", ["糖尿病"])
        wire.mend()
        with pytest.raises(ServiceUnavailable, match="秒后再试"):
            adapter.neighbourhood("wire", ["糖尿病"])  # it was not asked
        adapter._breaker._clock = lambda: time.monotonic() + 601
        assert len(adapter.neighbourhood("wire", ["糖尿病"]).entities) == 2
        assert adapter.mirror("wire", CHAIN, TIES).is_unchanged


def test_a_server_that_hangs_is_waited_for_so_long_and_not_longer(server: BoltServer, driver: Any) -> None:
    with (
        Wire(server.port) as wire,
        Neo4jAdapter(wire.uri, server.auth, pause_seconds=0.05, answer_seconds=60.0) as adapter,
    ):
        adapter.mirror("held", CHAIN, TIES)
        adapter._answer_seconds = 0.2  # to prepare a server that has only just started takes longer
        wire.hold()
        with pytest.raises(ServiceUnavailable, match="没有答复") as told:
            adapter.mirror("held", CHAIN[:2], TIES[:1])
        assert "请检查" in told.value.hint
        adapter._answer_seconds = 60.0
        wire.mend()
        time.sleep(0.1)
        adapter.mirror("held", CHAIN[:2], TIES[:1])  # what was left behind does not come in its way
        assert len(held(driver, "held")[0]) == 2


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neo4j", None)
    with pytest.raises(MissingExtra, match=r"qianxun\[neo4j\]"):
        Neo4jAdapter("bolt://127.0.0.1")


def test_a_server_ends_with_its_user_however_that_ends() -> None:
    code = (
        "import sys, time\nfrom tests.servers.bolt import bolt_server\n"
        "with bolt_server() as s:\n    print(s.port, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        port = int(user.stdout.readline())
        os.kill(user.pid, signal.SIGKILL)
    give_up = time.monotonic() + 60
    while (listening := _listens(port)) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not listening


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


# ── with an engine ───────────────────────────────────────────────────────────────────────────────

MEDICINE = [
    doc("糖尿病", "胰岛素治疗糖尿病。糖尿病的症状是多饮、多尿。胰岛素由胰腺分泌。", user_id="甲"),
    doc("胰腺", "胰腺位于腹部。胰腺分泌胰岛素，胰岛素治疗糖尿病。", user_id="甲"),
    doc("秘密", "《秘方》治疗糖尿病。《秘方》由华佗创立，华佗出生于亳州。", user_id="乙"),
    doc("天气", "今天多云，北京的气温是二十度。", user_id="甲"),
]
QUESTION = "胰岛素治疗什么"


async def base_with(engine: Engine, documents: Sequence[Document], name: str = "医学") -> int:
    kb = await engine.create_knowledge_base(name, model="none")
    await engine.add_documents(kb.id, documents)
    return kb.id


def told(found: ModeRecall) -> list[str]:
    """What is said of the graph; a base without a model says so too."""
    return [each.reason for each in found.degraded if each.part != "vector"]


async def local(engine: Engine, kb: int, near: MirroredSurroundings | None, where: Filter = EVERYTHING) -> ModeRecall:
    return await engine.gather(kb, QUESTION, mode="local", top_k=3, where=where, surroundings=near)


def test_the_graph_of_a_base_is_mirrored_and_follows_its_documents(
    tmp_path: Path, adapter: Neo4jAdapter, driver: Any
) -> None:
    async def run() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb, other = await base_with(engine, MEDICINE), await base_with(engine, MEDICINE[:1], "另一个")
            without = await base_with(engine.of("somebody"), [MEDICINE[0], MEDICINE[1], MEDICINE[3]])
            for tenant, base in ((engine, kb), (engine, other), (engine.of("somebody"), without)):
                assert not (await mirror(tenant, base, adapter)).is_unchanged
            name = await name_of(await engine.base(kb))
            names, _ = held(driver, name)
            assert {"糖尿病", "胰岛素", "华佗"} <= set(names.values())
            texts = {
                each.key: each.text
                for id_ in ("糖尿病", "胰腺", "秘密", "天气")
                for each in await engine.chunks(kb, id_)
            }
            for entity_, tie, target in driver.execute_query(
                "MATCH (s)-[r:RELATION]->(t) WHERE r.kb = $kb RETURN s.name, r, t.name", kb=name
            ).records:
                assert tie["chunk_ids"][0].startswith(f"c_{kb}_")
                said = texts[tie["chunks"][0]][tie["starts"][0] : tie["ends"][0]]
                assert entity_ in said or target in said  # a document's name may be what its text speaks of
            await engine.delete_document(kb, "秘密")
            assert (await mirror(engine, kb, adapter)).entities_removed
            assert (await mirror(engine, kb, adapter)).is_unchanged
            assert held(driver, name) == held(driver, await name_of(await engine.of("somebody").base(without)))
            assert (await mirror(engine, other, adapter)).is_unchanged

    asyncio.run(run())


def test_local_search_takes_its_neighbourhood_from_the_server(tmp_path: Path, adapter: Neo4jAdapter) -> None:
    async def run() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = await base_with(engine, MEDICINE)
            near = MirroredSurroundings(adapter)
            plain, found = await local(engine, kb, None), await local(engine, kb, near)
            assert told(found) == []
            assert any(step.name == "graph.surroundings" for step in found.steps)
            assert [each.chunk.doc_id for each in found.found] == [each.chunk.doc_id for each in plain.found]
            assert found.context.entities
            await engine.add_documents(kb, [doc("新书", "《降糖手册》介绍胰岛素。《降糖手册》的作者是张仲景。")])
            plain, later = await local(engine, kb, None), await local(engine, kb, near)
            assert [each.chunk.doc_id for each in later.found] == [each.chunk.doc_id for each in plain.found]
            assert "降糖手册" in {each.name for each in later.context.entities}

    asyncio.run(run())


def test_what_the_server_still_holds_of_forbidden_and_deleted_documents_never_comes_back(
    tmp_path: Path, adapter: Neo4jAdapter
) -> None:
    class Stale:
        """A server that nobody brings into step any more."""

        def mirror(self, *_: Any) -> Mirrored:
            return Mirrored()

        def neighbourhood(self, *given: Any, **named: Any) -> Any:
            return adapter.neighbourhood(*given, **named)

    async def run() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = await base_with(engine, MEDICINE)
            await mirror(engine, kb, adapter)
            near = MirroredSurroundings(Stale())
            for where in (Eq("user_id", "甲"), EVERYTHING):
                found = await local(engine, kb, near, where)
                assert told(found) == []
                secret = {"秘密"} if where is EVERYTHING else set()
                assert {each.chunk.doc_id for each in found.found} == {"糖尿病", "胰腺"} | secret
                assert ("华佗" in {each.name for each in found.context.entities}) == (where is EVERYTHING)
            await engine.delete_document(kb, "秘密")
            found = await local(engine, kb, near)
            assert {each.chunk.doc_id for each in found.found} == {"糖尿病", "胰腺"}
            assert not {"华佗", "亳州", "秘方"} & {each.name for each in found.context.entities}

    asyncio.run(run())


def test_a_server_that_is_away_is_told_and_the_base_answers_by_itself(tmp_path: Path, server: BoltServer) -> None:
    async def run(wire: Wire, adapter: Neo4jAdapter) -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = await base_with(engine, MEDICINE)
            near, plain = MirroredSurroundings(adapter), await local(engine, kb, None)
            wire.cut()
            away = await local(engine, kb, near)
            assert ["已改用自带的图谱" in reason for reason in told(away)] == [True]
            assert away.found == plain.found
            wire.mend()
            await asyncio.sleep(0.1)
            assert told(await local(engine, kb, near)) == []

    with Wire(server.port) as wire, Neo4jAdapter(wire.uri, server.auth, pause_seconds=0.05) as adapter:
        asyncio.run(run(wire, adapter))


def test_a_question_does_not_wait_for_a_server_that_hangs(tmp_path: Path) -> None:
    is_over = threading.Event()

    class Hanging:
        def mirror(self, *_: Any) -> Mirrored:
            is_over.wait(60)
            return Mirrored()

        def neighbourhood(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("nobody asks before it is in step")

    async def run() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = await base_with(engine, MEDICINE)
            found = await local(engine, kb, MirroredSurroundings(Hanging(), seconds=0.1))
            is_over.set()
            assert ["没有答复" in reason for reason in told(found)] == [True]
            assert len(found.found) == 3

    asyncio.run(run())
