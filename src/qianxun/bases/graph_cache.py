"""The graph of an open base in memory: the facts of its chunks as columns, the graph derived from them, and how far a
model has read the base for it. Nothing is lost with either: facts are stored in the records."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from qianxun.bases.known_terms import WriteWatch
from qianxun.core.graph_types import Alias, ChunkFacts
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Attributes, ChunkKind, Everything, Filter, Keys, Population, matches
from qianxun.records.graph import GraphChunks

if TYPE_CHECKING:
    from qianxun.graph.network.columns import FactColumns
    from qianxun.graph.network.knowledge_graph import KnowledgeGraph

State: TypeAlias = tuple[int, int]
RESTRICTED: Final = 4  # graphs under a filter
REST_SECONDS: Final = 60.0  # after an outage, before the model is called again in the background


class GraphCache(WriteWatch):
    """One for each open base. Changed under `changing` alone; the graphs that it returns never change."""

    def __init__(self) -> None:
        super().__init__()
        self.stepping = asyncio.Lock()  # one task updates it at a time
        self.changing = threading.Lock()  # taken by its thread, which goes on when the task was cancelled
        self.state: State | None = None  # of the records that it was derived from
        # Every open base has one of these, few are asked for their graph: its code is loaded for those.
        self._columns: FactColumns | None = None
        self._graph: KnowledgeGraph | None = None
        self._revisions: dict[int, int] = {}  # chunk → revision of its facts
        self._chunks: GraphChunks | None = None
        self._attributes: dict[int, Attributes] = {}  # by document, of those that a filter needed
        self._restricted: LRUCache[str, KnowledgeGraph] = LRUCache(RESTRICTED)
        self._used: float | None = None

    # ── up to date with the records ──────────────────────────────────────────────────────────────

    def changed(self, chunks: GraphChunks) -> tuple[list[int], list[int]]:
        """Given the stored chunks: those whose facts have to be read, and those that were deleted."""
        now = dict(zip(chunks.keys.tolist(), chunks.revisions.tolist(), strict=True))
        fresh = [key for key, revision in now.items() if self._revisions.get(key) != revision]
        return fresh, [key for key in self._revisions if key not in now]

    def step(
        self,
        state: State | None,
        chunks: GraphChunks,
        fresh: Sequence[ChunkFacts],
        deleted: Sequence[int],
        given: Sequence[Alias],
    ) -> None:
        """Derives the graph of ``chunks``, whose facts other than ``fresh`` are known."""
        from qianxun.graph.network.columns import FactColumns
        from qianxun.graph.network.knowledge_graph import derive_graph

        if self._columns is None:
            self._columns = FactColumns()
        self._columns.remove(deleted)
        self._columns.add(fresh)
        self._revisions = dict(zip(chunks.keys.tolist(), chunks.revisions.tolist(), strict=True))
        for facts in fresh:
            self._attributes.pop(facts.document, None)  # another version may have another owner
        self._chunks = chunks
        self._restricted.clear()
        self._graph = derive_graph(self._columns, given, self._graph)
        self.state = state

    # ── under a filter ───────────────────────────────────────────────────────────────────────────

    @property
    def whole(self) -> KnowledgeGraph:
        """As of the last step; before the first, of nothing. Never of the columns: a thread may be changing them."""
        return _empty_graph() if self._graph is None else self._graph

    def restricted(self, where: Filter, within: Population | None = None) -> KnowledgeGraph | None:
        return self._restricted.get(_name(where, within))

    def unknown_versions(self) -> dict[int, int]:
        """Document → generation, of the documents whose attributes a filter needs and that are not loaded."""
        if self._chunks is None:
            return {}
        versions = zip(self._chunks.documents.tolist(), self._chunks.generations.tolist(), strict=True)
        return {document: at for document, at in versions if document not in self._attributes}

    def restrict(
        self, where: Filter, attributes: dict[int, Attributes], within: Population | None = None
    ) -> KnowledgeGraph:
        """The graph of the chunks that pass the filter, as if there were no others; of these documents alone."""
        self._attributes |= attributes
        graph = self.whole.restricted(self._allowed(where, within))
        self._restricted.put(_name(where, within), graph)
        return graph

    def _allowed(self, where: Filter, within: Population | None) -> Keys:
        chunks = self._chunks
        if chunks is None:
            return np.empty(0, dtype=np.int64)
        own = chunks.keys if within is None else chunks.keys[np.isin(chunks.documents, within.documents)]
        if isinstance(where, Everything):
            return own
        prose = self._passing(np.unique(chunks.documents[~chunks.are_tables]), where, "text")
        tables = self._passing(np.unique(chunks.documents[chunks.are_tables]), where, "table")
        passes = np.where(chunks.are_tables, np.isin(chunks.documents, tables), np.isin(chunks.documents, prose))
        return np.intersect1d(chunks.keys[passes], own) if within is not None else chunks.keys[passes]

    def _passing(self, documents: Keys, where: Filter, kind: ChunkKind) -> Keys:
        """The documents whose chunks of this kind pass. One whose attributes have been deleted does not."""
        known = ((key, self._attributes.get(key)) for key in documents.tolist())
        allowed = [
            key
            for key, own in known
            if own is not None and matches(where, own if kind == own.kind else replace(own, kind=kind))
        ]
        return np.array(allowed, dtype=np.int64)

    # ── use ──────────────────────────────────────────────────────────────────────────────────────

    def note_use(self) -> None:
        self._used = time.monotonic()

    def is_in_use(self, seconds: float) -> bool:
        return self._used is not None and time.monotonic() - self._used < seconds


def _name(where: Filter, within: Population | None) -> str:
    """By the filter's repr, in which 1 is not true."""
    return f"{where!r}{'' if within is None else within.digest}"


@cache
def _empty_graph() -> KnowledgeGraph:
    from qianxun.graph.network.columns import FactColumns
    from qianxun.graph.network.knowledge_graph import derive_graph

    return derive_graph(FactColumns())


class GraphReader:
    """How far a model has read the chunks of one open base."""

    def __init__(self) -> None:
        self.reading = asyncio.Lock()  # one task reads the base at a time
        self.failed: dict[str, str] = {}  # digest of a chunk that the model could not read → why
        self._seen: State | None = None
        self._rests_until = 0.0
        self._owes_summaries = False
        self._summaries_after = 0.0

    def is_due(self, state: State) -> bool:
        """Whether the base has changed since the model last read all of it, and the model is not resting."""
        return state != self._seen and time.monotonic() >= self._rests_until

    def went_through(self, state: State) -> None:
        self._seen = state

    def rest(self, seconds: float = REST_SECONDS) -> None:
        self._rests_until = time.monotonic() + seconds

    def owe_summaries(self) -> None:
        """The graph may have changed since its communities were summarised."""
        self._owes_summaries = True

    def are_summaries_due(self) -> bool:
        now = time.monotonic()
        return self._owes_summaries and now >= self._summaries_after and now >= self._rests_until

    def summarise_again_after(self, seconds: float) -> None:
        self._owes_summaries = False
        self._summaries_after = time.monotonic() + seconds
