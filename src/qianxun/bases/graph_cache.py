"""What an open base has at hand of its graph: the facts of its chunks as columns, and the graph derived from them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from qianxun.core.cache import LRUCache
from qianxun.core.graph_types import Alias, ChunkFacts
from qianxun.core.types import Attributes, ChunkKind, Filter, Keys, matches
from qianxun.records.graph import GraphChunks

if TYPE_CHECKING:
    from qianxun.graph.network.columns import FactColumns
    from qianxun.graph.network.knowledge_graph import KnowledgeGraph

State: TypeAlias = tuple[int, int]
RESTRICTED: Final = 4  # graphs under a filter that are kept, those used last


class HeldGraph:
    """One for each open base, and never shared. Changed under `changing` alone; what it gives out never changes."""

    def __init__(self) -> None:
        self.stepping = asyncio.Lock()  # one brings it up to date at a time
        self.changing = threading.Lock()  # held by whoever does: a thread goes on when its caller has left
        self.state: State | None = None  # of the records that it was derived from
        # Every base that is opened holds one of these, few are asked for their graph: its code is loaded for those.
        self._columns: FactColumns | None = None
        self._graph: KnowledgeGraph | None = None
        self._revisions: dict[int, int] = {}  # chunk → with which revision its facts came
        self._held: GraphChunks | None = None
        self._attributes: dict[int, Attributes] = {}  # by document, of those that a filter has asked about
        self._restricted: LRUCache[str, KnowledgeGraph] = LRUCache(RESTRICTED)  # by the filter as written
        self._written: float | None = None
        self._used: float | None = None

    # ── in step with the records ─────────────────────────────────────────────────────────────────

    def changed(self, held: GraphChunks) -> tuple[list[int], list[int]]:
        """The chunks whose facts are to be read, and those that are gone, given what is of record now."""
        now = dict(zip(held.keys.tolist(), held.revisions.tolist(), strict=True))
        fresh = [key for key, revision in now.items() if self._revisions.get(key) != revision]
        return fresh, [key for key in self._revisions if key not in now]

    def step(
        self,
        state: State | None,
        held: GraphChunks,
        fresh: Sequence[ChunkFacts],
        gone: Sequence[int],
        given: Sequence[Alias],
    ) -> None:
        """The graph of ``held``, whose facts other than ``fresh`` are known."""
        from qianxun.graph.network.columns import FactColumns
        from qianxun.graph.network.knowledge_graph import derive_graph

        if self._columns is None:
            self._columns = FactColumns()
        self._columns.remove(gone)
        self._columns.add(fresh)
        self._revisions = dict(zip(held.keys.tolist(), held.revisions.tolist(), strict=True))
        for each in fresh:
            self._attributes.pop(each.document, None)  # another version may be another's
        self._held = held
        self._restricted.clear()
        self._graph = derive_graph(self._columns, given, self._graph)
        self.state = state

    # ── as a filter lets it be seen ──────────────────────────────────────────────────────────────

    @property
    def whole(self) -> KnowledgeGraph:
        """As of the last step; before the first, of nothing. Never of the columns: a thread may be changing them."""
        return _of_nothing() if self._graph is None else self._graph

    def kept(self, where: Filter) -> KnowledgeGraph | None:
        return self._restricted.get(repr(where))

    def unknown_versions(self) -> dict[int, int]:
        """Document → generation, of those whose attributes a filter has to know and that are not at hand."""
        if self._held is None:
            return {}
        versions = zip(self._held.documents.tolist(), self._held.generations.tolist(), strict=True)
        return {document: at for document, at in versions if document not in self._attributes}

    def restrict(self, where: Filter, told: dict[int, Attributes]) -> KnowledgeGraph:
        """The graph that the chunks which pass the filter would give alone."""
        self._attributes |= told
        graph = self.whole.restricted(self._allowed(where))
        self._restricted.put(repr(where), graph)
        return graph

    def _allowed(self, where: Filter) -> Keys:
        held = self._held
        if held is None:
            return np.empty(0, dtype=np.int64)
        prose = self._letting(np.unique(held.documents[~held.are_tables]), where, "text")
        tables = self._letting(np.unique(held.documents[held.are_tables]), where, "table")
        return held.keys[np.where(held.are_tables, np.isin(held.documents, tables), np.isin(held.documents, prose))]

    def _letting(self, documents: Keys, where: Filter, kind: ChunkKind) -> Keys:
        """The documents whose chunks of this kind pass. One whose attributes are not of record any more does not."""
        known = ((key, self._attributes.get(key)) for key in documents.tolist())
        allowed = [
            key
            for key, each in known
            if each is not None and matches(where, each if kind == each.kind else replace(each, kind=kind))
        ]
        return np.array(allowed, dtype=np.int64)

    # ── when to read ─────────────────────────────────────────────────────────────────────────────

    def note_write(self) -> None:
        """The index changed: there may be chunks without facts."""
        self._written = time.monotonic()

    def is_due(self, quiet_seconds: float) -> bool:
        """Whether something was written and nothing for so long since."""
        return self._written is not None and time.monotonic() - self._written >= quiet_seconds

    def note_use(self) -> None:
        """Somebody asked for the graph."""
        self._used = time.monotonic()

    def is_in_use(self, seconds: float) -> bool:
        return self._used is not None and time.monotonic() - self._used < seconds

    def begin(self) -> None:
        """What is written from now on is to be read another time."""
        self._written = None


@cache
def _of_nothing() -> KnowledgeGraph:
    from qianxun.graph.network.columns import FactColumns
    from qianxun.graph.network.knowledge_graph import derive_graph

    return derive_graph(FactColumns())
