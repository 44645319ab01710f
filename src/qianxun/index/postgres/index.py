"""The index that lives in a PostgreSQL server with pgvector: vectors by HNSW, keywords by BM25 over packed postings.

Any number of processes may search and write one index: a search sees one state of all its tables, a batch is one
transaction, and batches of a base come one after another. `tables` says what is stored where,
docs/decisions/0010-postgres-index.md why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from qianxun.core.errors import BadInput, BadSettings, IndexUnusable, RetrieverUnavailable
from qianxun.core.ports import Index, IndexBackend
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import (
    BM25,
    EVERYTHING,
    NOTHING,
    Bm25,
    Everything,
    Filter,
    IndexBatch,
    IndexStamp,
    Inventory,
    Keys,
    Population,
    Ranking,
    Scores,
    TermCounts,
    Terms,
    Vector,
    VectorField,
)
from qianxun.index.postgres import facts, keywords, population, tables, writing
from qianxun.index.postgres import vectors as near
from qianxun.index.postgres.check import check
from qianxun.index.postgres.server import Server, Tx
from qianxun.index.postgres.tables import State, Tables
from qianxun.index.postgres.writing import MaintenanceLimits
from qianxun.index.shared import (
    CACHED_FILTERS,
    LANES,
    Require,
    check_filter,
    closed,
    require_model,
    require_stamp,
    require_vectors,
    unusable,
)

log = logging.getLogger(__name__)

SHARED = True  # by any number of processes
EXACT_HERE = 5_000  # to score as many takes a server about as long as to search its HNSW index among them

POPULATIONS = 64  # of one state: of 100,000 entries each takes 1 MB

DROP_TRIES, DROP_PAUSE = 5, 0.1  # seconds between them

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Options:
    """``gram_weight``: what a gram counts beside a word."""

    gram_weight: float
    upkeep: MaintenanceLimits


@dataclass(slots=True)
class StateCache:
    """What is known about one state of an index, for the searches that find it unchanged."""

    state: State
    dead: keywords.Mask | None
    allowed: dict[str, facts.AllowedOwners | None]
    likeness: float | None = None
    members: LRUCache[str, population.Members] = field(default_factory=lambda: LRUCache(POPULATIONS))


class PostgresIndex:
    """An `Index` in a server.

    ``build`` is the one it was opened with. Once that is current (``follows``), and another process puts one of the
    same stamp in its place, this follows.
    """

    is_here = False
    counts_within = True

    def __init__(self, server: Server, schema: str, state: State, options: Options, follows: bool) -> None:
        self.base = state.base
        self.build = state.build
        self.follows = follows
        self._server = server
        self._schema = schema
        self._stamp = state.stamp
        self._options = options
        self._known: StateCache | None = None
        self._closed = False
        server.hold()

    @property
    def stamp(self) -> IndexStamp:
        return self._stamp

    async def watermark(self) -> int:
        return await self._read(lambda tx, state: state.watermark)

    async def apply(self, batch: IndexBatch) -> None:
        entries = writing.in_lanes(batch.entries)
        matrix = require_vectors([entry.vector for entry in entries if entry.vector is not None], self.stamp.dimension)

        def work(tx: Tx) -> None:
            tables.lock(tx, self._schema, self.base)
            state = tables.fenced(self._state(tx, changing=True), batch.fence)
            if 0 < batch.sequence < state.watermark:
                return tables.save(tx, self._schema, state)  # another process has applied it, and more
            own = Tables(self._schema, state.build)
            state = writing.apply(tx, own, state, batch, entries, matrix)
            if tables.is_current(tx, self._schema, state):
                state = writing.maintain(tx, own, state, self._options.upkeep)
            tables.save(tx, self._schema, state)

        self._require_open()
        await self._server.write(work)

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        where: Filter = EVERYTHING,
        field: VectorField = "content",
        within: Population | None = None,
    ) -> Ranking:
        require_model(self.stamp)
        check_filter(where)
        query = require_vectors([vector], self.stamp.dimension)[0]

        def work(tx: Tx, state: State) -> Ranking:
            if state.vectors[LANES[field]] == 0:
                return NOTHING
            search = near.Search(tx, Tables(self._schema, state.build), state, field, query)
            allowed = self._allowed(tx, state, where)
            if within is not None:
                return near.nearest_within(search, limit, allowed, within.documents)
            return near.nearest(search, limit, allowed, self._options.upkeep.exact_limit)

        return await self._read(work)

    async def cosines(self, vector: Vector, keys: Keys) -> Scores:
        query = require_vectors([vector], self.stamp.dimension)[0]

        def work(tx: Tx, state: State) -> Scores:
            if self.stamp.dimension == 0 or len(keys) == 0:
                return np.full(len(keys), np.nan)
            return near.cosines(near.Search(tx, Tables(self._schema, state.build), state, "content", query), keys)

        return await self._read(work)

    async def likeness(self, within: Population | None = None) -> float:
        """Made once for each state."""

        def work(tx: Tx, state: State) -> float:
            known = self._about(tx, state)
            if within is not None:
                members = self._members(tx, state, within)
                if members.likeness is None:
                    own = Tables(self._schema, state.build)
                    members.likeness = near.likeness_within(tx, own, state, within.documents)
                return members.likeness
            if known.likeness is None:
                known.likeness = near.likeness(tx, Tables(self._schema, state.build), state)
            return known.likeness

        return await self._read(work)

    async def match(
        self,
        terms: Terms,
        limit: int,
        where: Filter = EVERYTHING,
        require: Require = "any",
        bm25: Bm25 = BM25,
        within: Population | None = None,
    ) -> Ranking:
        check_filter(where)

        def work(tx: Tx, state: State) -> Ranking:
            search = replace(self._search(tx, state), bm25=bm25)
            if within is not None:
                members, allowed = self._members(tx, state, within), self._allowed(tx, state, where)
                return population.match(search, terms, limit, require, members, allowed)
            return keywords.match(search, terms, limit, require, self._allowed(tx, state, where))

        return await self._read(work)

    async def count(self, terms: Terms, within: Population | None = None) -> TermCounts:
        def work(tx: Tx, state: State) -> TermCounts:
            if within is not None:
                return population.count(self._search(tx, state), terms, self._members(tx, state, within))
            return keywords.count(self._search(tx, state), terms)

        return await self._read(work)

    async def inventory(self) -> Inventory:
        def keys(tx: Tx, state: State, table: str, lane: int) -> Keys:
            return tx.ints(
                f"SELECT key AS value FROM {table} WHERE base = {state.base:d} AND lane = {lane:d} ORDER BY key"
            )

        def work(tx: Tx, state: State) -> Inventory:
            own = Tables(self._schema, state.build)
            vectors = {
                field: keys(tx, state, own.vectors, lane) if self.stamp.dimension else np.empty(0, dtype=np.int64)
                for field, lane in LANES.items()
            }
            return Inventory(keys(tx, state, own.entries, 0), vectors)

        return await self._read(work)

    async def check(self) -> None:
        """Reads everything and compares it with the counts of when it was written. Raises IndexUnusable."""
        await self._read(lambda tx, state: check(tx, Tables(self._schema, state.build), state))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._server.release_soon()

    # ── one state ────────────────────────────────────────────────────────────────────────────────

    async def _read(self, work: Callable[[Tx, State], Result]) -> Result:
        """``work`` on one state. Tables dropped while they are read were replaced: ``work`` runs on their successor."""
        self._require_open()
        builds: list[int] = []

        def on_state(tx: Tx) -> Result:
            state = tables.state_of(self.base, tx.opened) or self._successor(tx)
            builds.append(state.build)
            return work(tx, state)

        try:
            return await self._server.read(on_state, self._opening())
        except IndexUnusable:
            if not builds or (await self._server.read(self._state)).build == builds[-1]:
                raise
        return await self._server.read(on_state, self._opening())

    def _opening(self) -> str:
        return tables.state_statement(self._schema, self.base, self.build)

    def _require_open(self) -> None:
        if self._closed:
            raise closed()

    def _state(self, tx: Tx, *, changing: bool = False) -> State:
        """Of the build it was opened with or, where another process has switched to another one, of that."""
        state = tables.load(tx, self._schema, self.base, self.build, changing=changing)
        return state or self._successor(tx, changing=changing)

    def _successor(self, tx: Tx, *, changing: bool = False) -> State:
        state = tables.load(tx, self._schema, self.base, None, changing=changing) if self.follows else None
        if state is None:
            raise unusable("已被删除")
        require_stamp(state.stamp, self._stamp)
        self.build = state.build
        return state

    def _about(self, tx: Tx, state: State) -> StateCache:
        known = self._known
        if known is None or (known.state.build, known.state.generation) != (state.build, state.generation):
            known = StateCache(state, keywords.dead_rows(tx, Tables(self._schema, state.build), state), {})
            self._known = known
        return known

    def _search(self, tx: Tx, state: State) -> keywords.Search:
        own = Tables(self._schema, state.build)
        return keywords.Search(tx, own, state, self._about(tx, state).dead, self._options.gram_weight)

    def _members(self, tx: Tx, state: State, within: Population) -> population.Members:
        """Read once for each state and population."""
        known = self._about(tx, state).members
        found = known.get(within.digest)
        if found is None:
            found = population.members(tx, Tables(self._schema, state.build), state, within)
            known.put(within.digest, found)
        return found

    def _allowed(self, tx: Tx, state: State, where: Filter) -> facts.AllowedOwners | None:
        """The owners that pass a filter, from a small cache."""
        if isinstance(where, Everything):
            return None
        cache, key = self._about(tx, state).allowed, repr(where)  # not the filter itself: to a dict 1 and True are one
        try:
            return cache[key]
        except KeyError:
            found = facts.passing(tx, Tables(self._schema, state.build), state.base, where)
        if len(cache) >= CACHED_FILTERS:
            cache.clear()
        cache[key] = found
        return found


class PostgresBackend:
    """An `IndexBackend` in one schema of a database."""

    compares_fences = True

    def __init__(self, server: Server, schema: str, options: Options) -> None:
        self._server = server
        self._schema = schema
        self._options = options

    async def open(self, knowledge_base: int, stamp: IndexStamp) -> PostgresIndex:
        def work(tx: Tx) -> State:
            state = None
            if tables.is_prepared(tx, self._schema):
                tables.upgrade(tx, self._schema)
                state = tables.load(tx, self._schema, knowledge_base, None)
            if state is None:
                raise unusable("还没有建立")
            require_stamp(state.stamp, stamp)
            return state

        return await self._opened(work, follows=True)

    async def build(self, knowledge_base: int, stamp: IndexStamp) -> PostgresIndex:
        def work(tx: Tx) -> State:
            tables.prepare(tx, self._schema)
            return tables.create(tx, self._schema, knowledge_base, stamp)

        return await self._opened(work, follows=False)

    async def switch(self, knowledge_base: int, built: Index) -> None:
        if not isinstance(built, PostgresIndex) or built.base != knowledge_base:
            raise BadInput(f"这个索引不属于知识库 {knowledge_base}", hint="请传入同一后端 build() 的结果")

        def work(tx: Tx) -> None:
            tables.lock(tx, self._schema, knowledge_base)
            state = tables.load(tx, self._schema, knowledge_base, built.build, changing=True)
            if state is None:
                raise unusable("要切换到的索引已被删除")
            tables.require_fence(tx, self._schema, state)  # what a lapsed process has built comes too late
            own = Tables(self._schema, state.build)
            state = writing.finish(tx, own, state, self._options.upkeep)
            tables.analyze(tx, own, state.stamp.dimension)
            tables.save(tx, self._schema, state)
            tables.make_current(tx, self._schema, state)

        await self._cleared(work)
        built.follows = True

    async def drop(self, knowledge_base: int) -> None:
        def work(tx: Tx) -> None:
            if tables.is_prepared(tx, self._schema):
                tables.lock(tx, self._schema, knowledge_base)
                tables.retire(tx, self._schema, knowledge_base)

        await self._cleared(work)

    async def _cleared(self, work: Callable[[Tx], None]) -> None:
        """Work that leaves old tables, which are dropped once they are not read any more: now, or the next time."""
        self._server.hold()
        try:
            await self._server.write(work)
            for build in await self._server.read(lambda tx: tables.leftovers(tx, self._schema)):
                await self._drop(build)
        finally:
            await self._server.release_soon()

    async def _drop(self, build: int) -> None:
        for _ in range(DROP_TRIES):
            try:
                return await self._server.write(lambda tx: tables.drop(tx, self._schema, build))
            except RetrieverUnavailable as error:
                log.info("tables of build %s are still in use: %s", build, error)
            await asyncio.sleep(DROP_PAUSE)
        log.warning("tables of build %s stay until the next index is switched to or dropped", build)

    async def _opened(self, work: Callable[[Tx], State], *, follows: bool) -> PostgresIndex:
        self._server.hold()
        try:
            return PostgresIndex(self._server, self._schema, await self._server.write(work), self._options, follows)
        finally:
            await self._server.release_soon()


def create(
    url: str,
    *,
    schema: str = "qianxun_index",
    exact_limit: int = EXACT_HERE,
    gram_weight: float = 0.5,
    dead_share: float = 0.3,
    dead_least: int = 1_000,
) -> IndexBackend:
    """The backend in a database; see `Options` and `MaintenanceLimits` for what the numbers do."""
    if not url.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        raise BadSettings(
            "没有写明 PostgreSQL 的地址", hint="设置 index.url 或 records.url：postgresql://用户:密码@主机/数据库"
        )
    upkeep = MaintenanceLimits(min(exact_limit, EXACT_HERE), dead_share, dead_least)
    return PostgresBackend(Server(url), tables.check_schema(schema), Options(gram_weight, upkeep))
