"""The knowledge graph of a base in a Neo4j server, or in any that speaks its language over Bolt.

The records stay what counts: the server holds a copy, which can be thrown away and made again. Of several bases, of
several tenants or data folders too, each has its own nodes; none is ever touched in the name of another.

    (:Entity {kb, id, name, type, importance, aliases, chunks})
        -[:RELATION {kb, type, weight, chunks, chunk_ids, starts, ends}]-> (:Entity)

``chunks``, ``chunk_ids``, ``starts`` and ``ends`` of a relation are its evidence, in parallel: the characters of which
chunk say so. Values go as parameters and never into the text of a statement.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from qianxun.core.errors import BadSettings, MissingExtra, ModelUnavailable, ServiceUnavailable, Unauthorized
from qianxun.core.graph_types import Entity, GraphContext, Mirrored, Relation
from qianxun.core.unicode import sound_text
from qianxun.doors.frameworks.neo4j_rows import (
    Row,
    digest_of,
    entity_of,
    entity_row,
    folded_name,
    key_of,
    relation_of,
    relation_row,
)
from qianxun.engine.graph_mirror import Breaker, Lane, Outage, Paused

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction, ResultSummary, Session

_Rows: TypeAlias = Mapping[str, Row]
Result = TypeVar("Result")

BATCH: Final = 1_000  # nodes or relationships to a transaction
MOST_AROUND: Final = 500  # relations that one hop brings, the heaviest first
MOST_HOPS: Final = 4
CONNECT_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
SCHEMES: Final = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
ANSWER_SECONDS: Final = 60.0  # for one statement, of a thousand rows at most; the driver itself would wait for ever
AT_ONCE: Final = 16  # statements
STUCK: Final = 64  # … left without an answer, one to a pause: TCP finds a lost connection out before it comes to that
PAUSE_SECONDS: Final = 15.0  # for which a server that did not answer is left alone: no question waits for it

_SCHEMA: Final = (
    "CREATE CONSTRAINT qianxun_entity IF NOT EXISTS FOR (e:Entity) REQUIRE e.qianxun_key IS UNIQUE",
    "CREATE INDEX qianxun_entity_kb IF NOT EXISTS FOR (e:Entity) ON (e.kb)",
    "CREATE CONSTRAINT qianxun_mirror IF NOT EXISTS FOR (m:QianxunMirror) REQUIRE m.kb IS UNIQUE",
)
_STATE: Final = "MATCH (m:QianxunMirror) WHERE m.kb = $kb RETURN m.digest AS digest"
_SET_STATE: Final = (
    "MERGE (m:QianxunMirror {kb: $kb}) SET m.digest = $digest, m.entities = $entities, m.relations = $relations"
)
_DROP_STATE: Final = "MATCH (m:QianxunMirror) WHERE m.kb = $kb DELETE m"
_COUNTS: Final = (
    "MATCH (e:Entity) WHERE e.kb = $kb RETURN count(e) AS stored",
    "MATCH (e:Entity)-[r:RELATION]->() WHERE e.kb = $kb RETURN count(r) AS stored",
)
_ENTITIES: Final = "MATCH (e:Entity) WHERE e.kb = $kb RETURN e.qianxun_key AS key, e.digest AS digest"
_RELATIONS: Final = (
    "MATCH (e:Entity)-[r:RELATION]->() WHERE e.kb = $kb "
    "RETURN r.qianxun_key AS key, r.digest AS digest, e.qianxun_key AS source"
)
_PUT_ENTITIES: Final = "UNWIND $rows AS row MERGE (e:Entity {qianxun_key: row.key}) SET e += row.properties"
_PUT_RELATIONS: Final = (
    "UNWIND $rows AS row "
    "MATCH (s:Entity) WHERE s.qianxun_key = row.source "
    "MATCH (t:Entity) WHERE t.qianxun_key = row.target "
    "MERGE (s)-[r:RELATION {qianxun_key: row.key}]->(t) SET r += row.properties"
)
_DROP_ENTITIES: Final = "UNWIND $rows AS row MATCH (e:Entity) WHERE e.qianxun_key = row.key DETACH DELETE e"
_DROP_RELATIONS: Final = (
    "UNWIND $rows AS row MATCH (s:Entity)-[r:RELATION]->() "
    "WHERE s.qianxun_key = row.source AND r.qianxun_key = row.key DELETE r"
)
_NAMED: Final = "MATCH (e:Entity) WHERE e.qianxun_key IN $keys AND e.kb = $kb RETURN properties(e) AS entity"
_CALLED: Final = (
    "MATCH (e:Entity) WHERE e.kb = $kb AND any(name IN e.names WHERE name IN $names) RETURN properties(e) AS entity"
)
_AROUND: Final = (
    "MATCH (e:Entity)-[r:RELATION]-(other:Entity) WHERE e.qianxun_key IN $keys AND other.kb = $kb "
    "RETURN startNode(r).id AS source, endNode(r).id AS target, properties(r) AS relation, properties(other) AS other "
    "ORDER BY r.weight DESC, r.qianxun_key LIMIT $limit"
)


@dataclass(frozen=True, slots=True)
class _Copy:
    """What a server holds of a base, by key: digests, and of a relation where it begins."""

    digest: str  # of the graph as a whole
    nodes: Mapping[str, str]
    ties: Mapping[str, tuple[str, str]]

    @property
    def state(self) -> tuple[str, int, int]:
        return self.digest, len(self.nodes), len(self.ties)


class Neo4jAdapter:
    """Copies graphs to a server and reads neighbourhoods back. Blocking, and safe to call from several threads.

    ``kb`` is the name under which a base is known there: `graph_mirror.name_of` makes one that no other base has, in
    whatever folder. Every call raises ServiceUnavailable where the server is away, fails, or leaves a statement without
    an answer for ``answer_seconds``, Unauthorized where it refuses the password; one that comes back is used again.
    """

    def __init__(
        self,
        uri: str,
        auth: tuple[str, str] | None = None,
        *,
        database: str = "neo4j",
        batch: int = BATCH,
        pause_seconds: float = PAUSE_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._uri, self._database, self._batch, self._answer_seconds = uri, database, batch, answer_seconds
        self._driver = _driver(uri, auth)
        self._breaker = Breaker(1, pause_seconds)
        self._lane = Lane("neo4j", AT_ONCE, STUCK)
        self._writing = threading.Lock()
        self._known: dict[str, _Copy] = {}  # by base: what this adapter wrote last
        self._is_prepared = False

    def __repr__(self) -> str:
        return f"Neo4jAdapter({self._uri!r}, database={self._database!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._driver.close()

    def check(self) -> str:
        """Asks the server whether it is there, and takes us; answers what it calls itself."""
        with self._errors():
            return str(self._at_once("RETURN 1").server.agent)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def mirror(
        self,
        kb: str,
        entities: Iterable[Entity],
        relations: Iterable[Relation],
        chunk_ids: Mapping[int, str] | None = None,
    ) -> Mirrored:
        """Makes the server's copy of a base equal to this graph, and sends only what differs.

        What fails halfway is finished by the next call. ``chunk_ids`` are the public ids of the chunks by their keys.
        """
        nodes = {row["key"]: row for row in (entity_row(kb, entity) for entity in entities)}
        ties = {row["key"]: row for row in (relation_row(kb, relation, chunk_ids or {}) for relation in relations)}
        digest = digest_of(sorted(row["properties"]["digest"] for row in (*nodes.values(), *ties.values())))
        with self._writing, self._errors():
            self._prepare()
            state, known = self._state(kb), self._known.get(kb)
            if state == (digest, len(nodes), len(ties)):
                return Mirrored()
            stored = known if known is not None and known.state == state else self._read_all(kb)
            return self._bring(kb, nodes, ties, digest, stored)

    def forget(self, kb: str) -> int:
        """Removes a base from the server; answers how many entities there were."""
        with self._writing, self._errors():
            self._prepare()
            self._known.pop(kb, None)
            stored = [{"key": row["key"]} for row in self._read(_ENTITIES, kb=kb)]
            self._send(_DROP_ENTITIES, stored)
            self._write(_DROP_STATE, kb=kb)
            return len(stored)

    def _prepare(self) -> None:
        if not self._is_prepared:
            for statement in _SCHEMA:
                self._at_once(statement)
            self._is_prepared = True

    def _state(self, kb: str) -> tuple[str, int, int]:
        """Which graph the server holds of a base, "" for none or a part of one; and how much of it, counted now:
        anybody may have deleted something there."""
        digest = next((row["digest"] for row in self._read(_STATE, kb=kb)), "")
        entities, relations = (self._read(count, kb=kb)[0]["stored"] for count in _COUNTS)
        return digest, entities, relations

    def _read_all(self, kb: str) -> _Copy:
        nodes = {row["key"]: row["digest"] for row in self._read(_ENTITIES, kb=kb)}
        ties = {row["key"]: (row["digest"], row["source"]) for row in self._read(_RELATIONS, kb=kb)}
        return _Copy("", nodes, ties)

    def _bring(self, kb: str, nodes: _Rows, ties: _Rows, digest: str, stored: _Copy) -> Mirrored:
        removed_ties = [{"key": key, "source": source} for key, (_, source) in stored.ties.items() if key not in ties]
        removed = [{"key": key} for key in stored.nodes if key not in nodes]
        new = [row for key, row in nodes.items() if stored.nodes.get(key) != row["properties"]["digest"]]
        new_ties = [row for key, row in ties.items() if stored.ties.get(key, ("",))[0] != row["properties"]["digest"]]
        self._known.pop(kb, None)
        self._write(_SET_STATE, kb=kb, digest="", entities=0, relations=0)  # nobody takes it for whole until it is
        self._send(_DROP_RELATIONS, removed_ties)
        self._send(_DROP_ENTITIES, removed)
        self._send(_PUT_ENTITIES, new)
        self._send(_PUT_RELATIONS, new_ties)
        self._write(_SET_STATE, kb=kb, digest=digest, entities=len(nodes), relations=len(ties))
        self._known[kb] = _Copy(
            digest,
            {key: row["properties"]["digest"] for key, row in nodes.items()},
            {key: (row["properties"]["digest"], row["source"]) for key, row in ties.items()},
        )
        return Mirrored(len(new), len(new_ties), len(removed), len(removed_ties))

    def _send(self, statement: str, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), self._batch):
            self._write(statement, rows=rows[start : start + self._batch])

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def neighbourhood(
        self,
        kb: str,
        names: Sequence[str],
        hops: int = 1,
        *,
        allowed: Collection[int] | None = None,
        limit: int = MOST_AROUND,
    ) -> GraphContext:
        """What lies within so many relations of the entities that are called so, or have these ids.

        With ``allowed``, the keys of chunks, only relations that one of these evidences are walked, and no other
        evidence is told. The entities asked for come first, then by importance.
        """
        with self._errors():
            seeds = self._called(kb, names)
            found = dict(seeds)
            relations: dict[str, Relation] = {}
            frontier = list(seeds)
            for _ in range(min(max(hops, 0), MOST_HOPS)):
                reached: dict[str, Entity] = {}
                for row in self._read(_AROUND, kb=kb, keys=[key_of(kb, id_) for id_ in frontier], limit=limit):
                    if (relation := relation_of(row, allowed)) is not None:
                        relations[row["relation"]["qianxun_key"]] = relation
                        reached[row["other"]["id"]] = entity_of(row["other"])
                frontier = [id_ for id_ in reached if id_ not in found]
                found |= {id_: reached[id_] for id_ in frontier}
                if not frontier:
                    break
        around = sorted(
            (entity for id_, entity in found.items() if id_ not in seeds), key=lambda e: (-e.importance, e.id)
        )
        ordered = sorted(relations.values(), key=lambda r: (-r.weight, r.source, r.target, r.type))
        return GraphContext((*seeds.values(), *around), tuple(ordered))

    def _called(self, kb: str, names: Sequence[str]) -> dict[str, Entity]:
        """By id, or by any of its names; in the order of the names."""
        if not names:
            return {}
        folded = [folded_name(name) for name in names]
        names = [sound_text(name) for name in names]
        rows = self._read(_NAMED, kb=kb, keys=[key_of(kb, name) for name in names])
        by_id = {row["entity"]["id"]: row["entity"] for row in rows}
        if missing := [name for name, given in zip(folded, names, strict=True) if given not in by_id]:
            by_id |= {row["entity"]["id"]: row["entity"] for row in self._read(_CALLED, kb=kb, names=missing)}

        def place(entity: Row) -> tuple[int, str]:
            labels = {entity["id"], *entity["names"]}
            return min(at for at, name in enumerate(zip(names, folded, strict=True)) if labels & set(name)), entity[
                "id"
            ]

        return {entity["id"]: entity_of(entity) for entity in sorted(by_id.values(), key=place)}

    # ── the driver ───────────────────────────────────────────────────────────────────────────────

    def _at_once(self, statement: str) -> ResultSummary:
        """Without a transaction around it."""
        return self._within(lambda session, _: session.run(statement).consume())

    def _read(self, statement: str, **values: Any) -> list[Row]:
        return self._within(lambda session, is_left: session.execute_read(_rows, statement, values, is_left))

    def _write(self, statement: str, **values: Any) -> None:
        self._within(lambda session, is_left: session.execute_write(_rows, statement, values, is_left))

    def _within(self, work: Callable[[Session, threading.Event], Result]) -> Result:
        """In a thread that can be left behind, because the driver knows no end of waiting for an answer."""

        def working() -> Result:
            with self._driver.session(database=self._database) as session:
                return work(session, is_left)

        is_left = threading.Event()
        try:
            call = self._lane.submit(working)
        except ModelUnavailable as stuck:
            raise Outage("此前的请求还没有返回") from stuck
        try:
            done: Result = call.result(self._answer_seconds)
        except TimeoutError as late:
            if call.done():
                raise
            is_left.set()
            call.cancel()
            raise Outage(f"{self._answer_seconds:.0f} 秒没有答复") from late
        return done

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The driver's errors in our words; a server that was away a moment ago is not asked."""
        try:
            with self._breaker.attempt(), self._translated_errors():
                yield
        except Paused as paused:
            raise self._away(f"{paused.reason}（{paused.seconds:.0f} 秒后再试）") from paused
        except Outage as outage:
            raise self._away(outage.reason) from outage

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        from neo4j.exceptions import AuthError, DriverError, Neo4jError

        try:
            yield
        except AuthError as error:
            raise Unauthorized(
                f"Neo4j（{self._uri}）不接受这个用户名或密码", hint="请检查 Neo4jAdapter 的 auth=(用户名, 密码)"
            ) from error
        except (DriverError, Neo4jError, OSError) as error:
            raise Outage(" ".join(str(error).split())[:300]) from error

    def _away(self, reason: str) -> ServiceUnavailable:
        hint = "请检查服务是否启动、地址端口和数据库名是否正确"
        return ServiceUnavailable(f"Neo4j（{self._uri}）没能回答：{reason}", hint=hint)


def _driver(uri: str, auth: tuple[str, str] | None) -> Driver:
    scheme, _, place = uri.partition("://")
    if "@" in place:
        raise BadSettings("Neo4j 的地址里不要写用户名和密码", hint="请用 auth=(用户名, 密码) 给出")
    if scheme not in SCHEMES or not place:
        raise _no_address(uri)
    try:
        import neo4j
    except ImportError as missing:
        raise MissingExtra("neo4j", "neo4j") from missing
    try:
        return neo4j.GraphDatabase.driver(
            uri,
            auth=auth,
            user_agent="qianxun",
            connection_timeout=CONNECT_SECONDS,
            connection_acquisition_timeout=CONNECT_SECONDS,
            max_transaction_retry_time=RETRY_SECONDS,
            notifications_min_severity="OFF",
        )
    except (neo4j.exceptions.DriverError, ValueError) as error:
        raise _no_address(uri) from error


def _no_address(uri: str) -> BadSettings:
    return BadSettings(f"Neo4j 的地址 {uri!r} 不能用", hint="形如 bolt://127.0.0.1:7687 或 neo4j+s://主机")


def _rows(tx: ManagedTransaction, statement: str, values: Mapping[str, Any], is_left: threading.Event) -> list[Row]:
    found = [record.data() for record in tx.run(statement, dict(values))]
    if is_left.is_set():  # somebody may be writing anew already: this must not come after that
        raise Outage("答复来得太晚")
    return found
