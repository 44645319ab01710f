"""A base as a principal sees it: its documents are those that the principal may see, and nothing tells of others.

`view_for` makes such a base of the whole one. Two parts are other than there: the records, in whose tables there is
nothing else (`records.database.restrict`), and the index, which counts among these documents alone (`PermittedIndex`).
Whatever a search keeps of a base (periods, words, weights) it keeps of these. So every step that is handed a base
answers as it would over a base that never held the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal

import numpy as np

from qianxun.bases.base import OpenBase, Serving, View, read
from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.governance.access import Principal
from qianxun.core.ports import Index
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
from qianxun.records import bases
from qianxun.records.database.restrict import permitted_in
from qianxun.records.governance import access
from qianxun.records.tenancy import BaseRecords, read_only

# What tells nothing of documents. Every other part a view has for itself, those that come to be kept as well.
SHARED: Final = (
    "about", "backend", "splitter", "analyser", "parsers", "lease", "in_memory", "committing", "lexicon", "by_meaning",
    "models", "curves", "rerank_cache", "model_threads", "arms", "indexed",
)  # fmt: skip


async def view_for(base: OpenBase, principal: Principal) -> OpenBase:
    """The base as the principal may see it now; the base itself where nobody ever gave a label.

    Made anew once the base, its index or its settings have changed. Raises RetrieverUnavailable for an index of another
    package that cannot count among some documents alone.
    """
    state = await read(base, bases.generation)
    known = base.views.get(principal)
    if known is not None and _is_current(known, base, state):
        return known
    records = replace(base.records, principal=principal)
    population = await asyncio.to_thread(_population, records)
    if population is None:
        return base
    if not getattr(base.index, "counts_within", False):
        raise RetrieverUnavailable(
            "这种索引不能只在看得到的文档里计数，给不了按权限的检索", hint="换用自带的索引，或请它的作者支持 within"
        )
    view = OpenBase(
        **{name: getattr(base, name) for name in SHARED},
        records=records,
        serving=_ViewServing(PermittedIndex(base.index, population), base.model, whole=base.serving),
        damaged=lambda _, reason: base.damaged(base, reason),
        view=View(base, principal, state, population),
    )
    base.views.put(principal, view)
    return view


def _is_current(known: OpenBase, base: OpenBase, state: int) -> bool:
    serving = known.serving
    is_of_it = isinstance(serving, _ViewServing) and serving.whole is base.serving and known.about is base.about
    return is_of_it and known.view is not None and known.view.state == state


def _population(own: BaseRecords) -> Population | None:
    with own.reading() as tx:
        if permitted_in(tx) is None:
            return None
        keys = np.array(access.document_keys(tx, own.knowledge_base), dtype=np.int64)
    return Population(keys, blake2b(keys.tobytes(), digest_size=16).hexdigest())


@dataclass
class _ViewServing(Serving):
    """An index that is not closed while a search of a view uses it: for that the whole base's is borrowed."""

    whole: Serving | None = None

    @contextmanager
    def borrow(self) -> Iterator[Serving]:
        assert self.whole is not None
        with self.whole.borrow():
            yield self


class PermittedIndex:
    """An `Index` as if it held nothing but the documents of a population. It can only be read."""

    counts_within = True

    def __init__(self, index: Index, population: Population) -> None:
        self._index = index
        self._population = population

    @property
    def stamp(self) -> IndexStamp:
        return self._index.stamp

    @property
    def is_here(self) -> bool:
        return self._index.is_here

    async def apply(self, batch: IndexBatch) -> None:
        raise read_only(Principal())

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        where: Filter = EVERYTHING,
        field: VectorField = "content",
        within: Population | None = None,
    ) -> Ranking:
        return await self._index.nearest(vector, limit, where, field, within=self._population)

    async def cosines(self, vector: Vector, keys: Keys) -> Scores:
        return await self._index.cosines(vector, keys)

    async def likeness(self, within: Population | None = None) -> float:
        return await self._index.likeness(within=self._population)

    async def match(
        self,
        terms: Terms,
        limit: int,
        where: Filter = EVERYTHING,
        require: Literal["all", "any"] = "any",
        bm25: Bm25 = BM25,
        within: Population | None = None,
    ) -> Ranking:
        return await self._index.match(terms, limit, where, require, bm25, within=self._population)

    async def count(self, terms: Terms, within: Population | None = None) -> TermCounts:
        return await self._index.count(terms, within=self._population)

    async def watermark(self) -> int:
        return await self._index.watermark()

    async def inventory(self) -> Inventory:
        raise read_only(Principal())

    async def check(self) -> None:
        raise read_only(Principal())

    async def close(self) -> None:
        """The whole base closes it."""


def whole_base(base: OpenBase) -> OpenBase:
    """The base that a view is of; itself where it is none."""
    return base if base.view is None else base.view.whole


def cache_scope(base: OpenBase) -> str:
    """Tells apart, in the keys of caches, what is seen of one base; "" where that is everything."""
    return "" if base.view is None else base.view.population.digest


def requester_of(base: OpenBase) -> str | None:
    """Who asks, for the log; None: one who sees everything, or a base in which there is nothing to hide."""
    return None if base.view is None else base.view.principal.name
