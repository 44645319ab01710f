"""The index that lives in a Milvus server: vectors and words as dense and sparse vectors of one collection.

Any number of processes may search an index, and one at a time writes it. `states` says what is stored and when it
counts, docs/decisions/0021-milvus-index.md why.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from qianxun.core.errors import BadInput, BadSettings, IndexUnusable, LeaseLost
from qianxun.core.ports import Index, IndexBackend
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import (
    BM25,
    EVERYTHING,
    Bm25,
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
from qianxun.index.milvus import facts, keywords, population, states, terms, writing
from qianxun.index.milvus import vectors as near
from qianxun.index.milvus.check import check
from qianxun.index.milvus.conditions import Condition
from qianxun.index.milvus.server import Address, Milvus, Server
from qianxun.index.milvus.states import CHUNKS, CONTENT, ENTRIES, QUESTION, State
from qianxun.index.shared import (
    CACHED_FILTERS,
    Require,
    check_filter,
    closed,
    latest,
    require_model,
    require_stamp,
    require_vectors,
    unusable,
)

log = logging.getLogger(__name__)

SHARED = True  # by any number of processes
PURGE_SECONDS = 20.0  # for which a reader may go on with a state that another has replaced
FEW = 5_000  # vectors whose likeness is worked out anew after every batch; of more, after every fiftieth part
POPULATIONS = 64  # of one state

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Options:
    """``exact_limit``: a build of so many vectors is searched exactly. ``gram_weight``: what a gram counts beside a
    word. Rows that died are deleted after ``purge_seconds``."""

    exact_limit: int
    gram_weight: float
    purge_seconds: float


@dataclass(slots=True)
class BuildCache:
    """What is known about one build, for the searches that find it again."""

    name: str
    generation: int = -1
    frequencies: terms.Frequencies = field(default_factory=terms.Frequencies)
    values: facts.Values = field(default_factory=facts.Values)
    allowed: dict[str, Condition] = field(default_factory=dict)  # of this generation
    likeness: tuple[int, float] | None = None  # and as of which row
    members: LRUCache[str, population.Members] = field(default_factory=lambda: LRUCache(POPULATIONS))


class MilvusIndex:
    """An `Index` in a server.

    ``name`` is the collection it was opened with. Once that is current (``follows``), and another process puts one of
    the same stamp in its place, this follows.
    """

    is_here = False
    counts_within = True

    def __init__(self, server: Server, alias: str, name: str, state: State, options: Options, follows: bool) -> None:
        self.base = state.base
        self.name = name
        self.follows = follows
        self._server = server
        self._alias = alias
        self._stamp = state.stamp
        self._options = options
        self._known = BuildCache(name)
        self._guard = threading.Lock()  # of what is known
        self._writer = writing.Writer(options.purge_seconds)
        self._closed = False
        server.hold()

    @property
    def stamp(self) -> IndexStamp:
        return self._stamp

    async def watermark(self) -> int:
        return await self._read(lambda milvus, state: state.watermark)

    async def apply(self, batch: IndexBatch) -> None:
        entries = latest(batch.entries)
        matrix = require_vectors([entry.vector for entry in entries if entry.vector is not None], self.stamp.dimension)

        def work(milvus: Milvus) -> None:
            state = self._state(milvus)
            before = state.taken_over(batch.fence)
            if 0 < batch.sequence < state.watermark:  # another process has applied it, and more
                return states.save(milvus, self.name, before) if before.fence != state.fence else None
            frequencies = self._frequencies(milvus, state)
            after = writing.apply(self._writer, milvus, self.name, before, batch, entries, matrix, frequencies)
            states.save(milvus, self.name, after)
            self._writer.unclean = ()
            self._warn_of_growth(before, after)
            writing.forget_counts(milvus, self.name, before, after)

        self._require_open()
        await self._server.run(work)

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

        def work(milvus: Milvus, state: State) -> Ranking:
            allowed = self._allowed(milvus, state, where)
            if within is not None:
                own = self._members(milvus, state, within).documents
                return near.nearest_within(milvus, self.name, state, query, limit, allowed, field, own)
            return near.nearest(milvus, self.name, state, query, limit, allowed, field)

        return await self._read(work)

    async def cosines(self, vector: Vector, keys: Keys) -> Scores:
        query = require_vectors([vector], self.stamp.dimension)[0]

        def work(milvus: Milvus, state: State) -> Scores:
            if self.stamp.dimension == 0 or len(keys) == 0:
                return np.full(len(keys), np.nan)
            return near.cosines(milvus, self.name, state, query, keys)

        return await self._read(work)

    async def likeness(self, within: Population | None = None) -> float:
        """Made once for each state of a small build; of a large one, once a fiftieth of its rows has come anew."""

        def work(milvus: Milvus, state: State) -> float:
            if within is not None:
                own = self._members(milvus, state, within)
                if own.likeness is None:
                    own.likeness = near.likeness(milvus, self.name, state, own.keys)
                return own.likeness
            rows = state.next_serial
            known = self._about(state)
            if known.likeness is not None:
                since = rows - known.likeness[0]
                if since == 0 or (state.vectors[0] > FEW and since < state.vectors[0] // 50):
                    return known.likeness[1]
            known.likeness = (rows, near.likeness(milvus, self.name, state))
            return known.likeness[1]

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

        def work(milvus: Milvus, state: State) -> Ranking:
            search = self._search(milvus, state, terms, bm25)
            if within is not None:
                own, allowed = self._members(milvus, state, within), self._allowed(milvus, state, where)
                return population.match(search, terms, limit, require, own, allowed)
            return keywords.match(search, terms, limit, require, self._allowed(milvus, state, where))

        return await self._read(work)

    async def count(self, terms: Terms, within: Population | None = None) -> TermCounts:
        def work(milvus: Milvus, state: State) -> TermCounts:
            search = self._search(milvus, state, terms, BM25)
            if within is not None:
                return population.count(search, terms, self._members(milvus, state, within))
            return keywords.count(state, search.known, terms)

        return await self._read(work)

    async def inventory(self) -> Inventory:
        def work(milvus: Milvus, state: State) -> Inventory:
            found = list(near.windows(milvus, self.name, state, ENTRIES))
            kinds = np.concatenate([np.empty(0, np.int64), *(kinds for kinds, _ in found)])
            keys = np.concatenate([np.empty(0, np.int64), *(keys for _, keys in found)])
            vectors: dict[VectorField, Keys] = {
                "content": np.sort(keys[kinds == CONTENT]),
                "question": np.sort(keys[kinds == QUESTION]),
            }
            return Inventory(np.sort(keys[np.isin(kinds, CHUNKS)]), vectors)

        return await self._read(work)

    async def check(self) -> None:
        """Reads everything and compares it with the counts of when it was written. Raises IndexUnusable."""
        await self._read(lambda milvus, state: check(milvus, self.name, state))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._server.release_soon()

    # ── one state ────────────────────────────────────────────────────────────────────────────────

    async def _read(self, work: Callable[[Milvus, State], Result]) -> Result:
        """``work`` on one state; again where that took so long, or the build was replaced, that rows may be gone."""
        self._require_open()

        def once(milvus: Milvus) -> Result:
            started = time.monotonic()
            state = self._state(milvus)
            name = self.name
            try:
                found = work(milvus, state)
            except IndexUnusable:
                if self._state(milvus).generation == state.generation and self.name == name:
                    raise
                return work(milvus, self._state(milvus))
            if time.monotonic() - started < self._options.purge_seconds / 2:
                return found
            now = self._state(milvus)
            return found if now.generation == state.generation and self.name == name else work(milvus, now)

        return await self._server.run(once)

    def _warn_of_growth(self, before: State, after: State) -> None:
        """When a build that is searched exactly becomes too large for that. Its searches go on, ever slower."""
        limit = self._options.exact_limit
        if after.exact and max(before.vectors) <= limit < max(after.vectors):
            log.warning("知识库 %s 的向量超过了 %s 个，检索会渐慢：qianxun rebuild 之后改用 HNSW", self.base, limit)

    def _require_open(self) -> None:
        if self._closed:
            raise closed()

    def _state(self, milvus: Milvus) -> State:
        """Of the build it was opened with or, where another process has switched to another one, of that."""
        found = states.load(milvus, self._alias if self.follows else self.name)
        if found is None:
            raise unusable("已被删除")
        name, state = found
        if name != self.name:
            require_stamp(state.stamp, self._stamp)
            self.name, self._writer = name, writing.Writer(self._options.purge_seconds)
        return state

    def _about(self, state: State) -> BuildCache:
        with self._guard:
            if self._known.name != self.name:
                self._known = BuildCache(self.name)
            if self._known.generation != state.generation:
                self._known.generation = state.generation
                self._known.allowed = {}
                self._known.members = LRUCache(POPULATIONS)
            return self._known

    def _frequencies(self, milvus: Milvus, state: State) -> terms.Frequencies:
        known = self._about(state)
        with self._guard:
            known.frequencies = known.frequencies.follow(milvus, self.name, state)
            return known.frequencies

    def _terms(self, milvus: Milvus, state: State, wanted: Terms) -> keywords.QueryTerms:
        known = self._about(state)
        with self._guard:
            known.frequencies = known.frequencies.follow(milvus, self.name, state)
            return keywords.known(known.frequencies, wanted)

    def _search(self, milvus: Milvus, state: State, terms: Terms, bm25: Bm25) -> keywords.Search:
        known = self._terms(milvus, state, terms)
        return keywords.Search(milvus, self.name, state, known, self._options.gram_weight, bm25)

    def _members(self, milvus: Milvus, state: State, within: Population) -> population.Members:
        """Read once for each state and population."""
        known = self._about(state).members
        found = known.get(within.digest)
        if found is None:
            found = population.members(milvus, self.name, state, within)
            known.put(within.digest, found)
        return found

    def _allowed(self, milvus: Milvus, state: State, where: Filter) -> Condition:
        """What a filter asks of a row, from a small cache."""
        known, key = self._about(state), repr(where)  # not the filter itself: to a dict 1 and True are one
        with self._guard:
            cache = known.allowed
            if key not in cache:
                if len(cache) >= CACHED_FILTERS:
                    cache.clear()
                cache[key] = facts.condition(where, facts.FactsView(milvus, self.name, state, known.values))
            return cache[key]


class MilvusBackend:
    """An `IndexBackend` among the collections of a server whose names begin alike.

    It compares fences, though not in one transaction with a batch: what is written by one that was overtaken in between
    is numbered so that nobody reads it.
    """

    compares_fences = True

    def __init__(self, server: Server, prefix: str, options: Options) -> None:
        self._server = server
        self._prefix = prefix
        self._options = options

    async def open(self, knowledge_base: int, stamp: IndexStamp) -> MilvusIndex:
        def work(milvus: Milvus) -> tuple[str, State]:
            milvus.require_sparse()
            found = states.load(milvus, states.alias_of(self._prefix, knowledge_base))
            if found is None:
                raise unusable("还没有建立")
            require_stamp(found[1].stamp, stamp)
            return found

        return await self._opened(knowledge_base, work, follows=True)

    async def build(self, knowledge_base: int, stamp: IndexStamp) -> MilvusIndex:
        def work(milvus: Milvus) -> tuple[str, State]:
            milvus.require_sparse()
            name = states.new_build(self._prefix, knowledge_base)
            state = self._successor(milvus, knowledge_base, stamp)
            states.create(milvus, name, state)
            return name, state

        return await self._opened(knowledge_base, work, follows=False)

    async def switch(self, knowledge_base: int, built: Index) -> None:
        if not isinstance(built, MilvusIndex) or built.base != knowledge_base:
            raise BadInput(f"这个索引不属于知识库 {knowledge_base}", hint="请传入同一后端 build() 的结果")
        alias = states.alias_of(self._prefix, knowledge_base)

        def work(milvus: Milvus) -> None:
            found = states.load(milvus, built.name)
            if found is None:
                raise unusable("要切换到的索引已被删除")
            if found[1].contents:
                milvus.flush(built.name)
            old = self._replaced(milvus, alias, *found)
            for name in states.builds_of(milvus, self._prefix, knowledge_base):
                if name != built.name and (name == old or states.is_forgotten(milvus, name)):
                    milvus.drop(name)

        await self._run(work)
        built.follows = True

    async def drop(self, knowledge_base: int) -> None:
        def work(milvus: Milvus) -> None:
            alias = states.alias_of(self._prefix, knowledge_base)
            if milvus.describe(alias) is not None:
                milvus.drop_alias(alias)
            for name in states.builds_of(milvus, self._prefix, knowledge_base):
                milvus.drop(name)

        await self._run(work)

    def _replaced(self, milvus: Milvus, alias: str, name: str, state: State) -> str:
        """Has the alias mean this build, and gives the one that it meant. Raises LeaseLost.

        A build that was finished by one who had been overtaken is found by the fence of the other, also if that came
        between the look and the change: the alias is then put back, and nothing has been dropped.
        """
        before = milvus.describe(alias)
        if before is None:
            milvus.set_alias(alias, name)
            return ""
        _require_later(milvus, before.name, state)
        milvus.set_alias(alias, name)
        try:
            _require_later(milvus, before.name, state)
        except LeaseLost:
            milvus.set_alias(alias, before.name)
            raise
        return before.name

    def _successor(self, milvus: Milvus, base: int, stamp: IndexStamp) -> State:
        """An empty state that knows from its predecessor how many chunks there will be, and how long."""
        try:
            found = states.load(milvus, states.alias_of(self._prefix, base))
        except IndexUnusable as error:
            log.info("the index that is to be replaced cannot be read: %s", error)
            found = None
        return states.successor(base, stamp, None if found is None else found[1], self._options.exact_limit)

    async def _run(self, work: Callable[[Milvus], Result]) -> Result:
        self._server.hold()
        try:
            return await self._server.run(work)
        finally:
            await self._server.release_soon()

    async def _opened(self, base: int, work: Callable[[Milvus], tuple[str, State]], *, follows: bool) -> MilvusIndex:
        self._server.hold()
        try:
            name, state = await self._server.run(work)
            alias = states.alias_of(self._prefix, base)
            return MilvusIndex(self._server, alias, name, state, self._options, follows)
        finally:
            await self._server.release_soon()


def _require_later(milvus: Milvus, current: str, built: State) -> None:
    """Raises LeaseLost where the current build has seen a later fence than the one that is to take its place."""
    try:
        found = states.load(milvus, current)
    except IndexUnusable:
        return  # it is to be replaced because it cannot be read
    if found is not None and 0 < built.fence < found[1].fence:
        raise states.lease_lost(built.base)


def create(
    uri: str,
    *,
    user: str = "",
    password: str = "",
    prefix: str = "qianxun_index",
    exact_limit: int = 50_000,
    gram_weight: float = 0.5,
    purge_seconds: float = PURGE_SECONDS,
) -> IndexBackend:
    """The backend in a server; see `Options` for what the numbers do."""
    if not uri.startswith(("http://", "https://", "tcp://", "unix:")):
        raise BadSettings(
            f"不是 Milvus 的地址：{uri!r}", hint="设置 milvus.host 与 milvus.port，例如 localhost 与 19530"
        )
    options = Options(exact_limit, gram_weight, purge_seconds)
    return MilvusBackend(Server(Address(uri, user, password)), states.check_prefix(prefix), options)
