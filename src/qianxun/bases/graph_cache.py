"""The graph of an open base in memory: the facts of its chunks as columns, the graph derived from them, and how far a
model has read the base for it. Nothing is lost with either: facts are stored in the records."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from qianxun.bases.known_terms import WriteWatch
from qianxun.core.graph_types import Alias, ChunkFacts
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Attributes, ChunkKind, Everything, Filter, Keys, Population, matches
from qianxun.records.graph import GraphChunks

if TYPE_CHECKING:
    from qianxun.graph.network.columns import FactColumns
    from qianxun.graph.network.knowledge_graph import KnowledgeGraph

State: TypeAlias = tuple[int, int]  # of the records: documents, and facts and aliases
RESTRICTED: Final = 4  # graphs under a filter
REST_SECONDS: Final = 60.0  # after an outage, before the model is called again in the background
LARGE: Final = 20_000  # chunks, from which on a graph takes seconds to derive
MOST_RECENT: Final = 2_000  # chunks written since, that questions look through beside such a graph


@dataclass(frozen=True, slots=True, eq=False)
class RecentWrites:
    """What was written since a large graph was derived: questions see it before the graph is derived again."""

    state: State
    added: KnowledgeGraph  # of the chunks that came since, by themselves
    removed: Keys  # chunks of the graph that have been deleted since
    began: float  # by the monotonic clock
    is_whole: bool = True  # False: more came than are looked through

    def __len__(self) -> int:
        return len(self.added.chunks) + len(self.removed)


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """Every served chunk up to a key has facts by one reader, as of a revision of the facts."""

    key: int
    origin: str
    revision: int

    def is_from(self, origin: str, revision: int) -> bool:
        return (self.origin, self.revision) == (origin, revision)


class GraphCache(WriteWatch):
    """One for each open base. Changed under `changing` alone; the graphs that it returns never change."""

    def __init__(self, folder: Path | None = None, identity: str = "") -> None:
        super().__init__()
        self.folder = folder  # where a large graph is kept; None: nowhere
        self.identity = identity  # of the base
        self.was_read = folder is None  # whether it was looked for there
        self.recent: RecentWrites | None = None
        self.floor = -1  # every served chunk up to this key is in the graph
        self.read_up_to: ReadUpTo | None = None
        self.count = 0  # of the chunks up to there, when that was last looked at
        self.given: tuple[Alias, ...] = ()
        self.keeping = threading.Lock()  # taken while it is written to disk
        self.settling: asyncio.Task[None] | None = None  # that derives the graph again
        self._recent_facts: dict[int, ChunkFacts] = {}
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
        floor: int = -1,
        count: int = 0,
    ) -> None:
        """Derives the graph of ``chunks``, whose facts other than ``fresh`` are known. Every chunk that is served and
        has a key up to ``floor`` is among them; ``count`` chunks have such keys, served or not."""
        from qianxun.graph.network.columns import FactColumns
        from qianxun.graph.network.knowledge_graph import derive_graph
        from qianxun.graph.network.snapshot import columns_of

        if self._columns is None:
            self._columns = FactColumns() if self._graph is None else columns_of(self._graph)
        self._columns.remove(deleted)
        self._columns.add(fresh)
        self._revisions = dict(zip(chunks.keys.tolist(), chunks.revisions.tolist(), strict=True))
        for facts in fresh:
            self._attributes.pop(facts.document, None)  # another version may have another owner
        self._chunks = chunks
        self._restricted.clear()
        self._graph = derive_graph(self._columns, given, self._graph)
        self.state, self.floor, self.count, self.given = state, floor, count, tuple(given)
        self.recent, self._recent_facts = None, {}

    # ── a large graph ────────────────────────────────────────────────────────────────────────────

    @property
    def is_large(self) -> bool:
        return self._graph is not None and len(self._graph.chunks) >= LARGE

    @property
    def followed(self) -> State | None:
        """The state of the records that questions see: of the graph, with what was written since."""
        return self.state if self.recent is None else self.recent.state

    def known_recent(self) -> frozenset[int]:
        return frozenset(self._recent_facts)

    def follow(self, state: State, fresh: Sequence[ChunkFacts], current: Keys, removed: Keys) -> None:
        """Takes up what was written since: ``current`` are the keys of the chunks that came, whose facts other than
        ``fresh`` are known; too many of them are left to the next derivation."""
        from qianxun.graph.network.knowledge_graph import graph_from_facts

        is_whole = len(current) <= MOST_RECENT
        known = self._recent_facts | {facts.chunk: facts for facts in fresh}
        self._recent_facts = {key: known[key] for key in current.tolist() if key in known} if is_whole else {}
        began = time.monotonic() if self.recent is None else self.recent.began
        added = graph_from_facts(self._recent_facts.values(), self.given)
        self.recent = RecentWrites(state, added, removed, began, is_whole)

    def forgotten(self) -> GraphCache:
        """An empty one in its place; nothing is left of this one in memory or on disk."""
        with self.keeping:
            folder, self.folder = self.folder, None
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        return GraphCache(folder, self.identity)

    def snapshot_parts(self) -> tuple[dict[str, Any], dict[str, Keys]]:
        """What a graph on disk is kept with, beside itself."""
        chunks = self._chunks
        assert chunks is not None
        assert self.state is not None
        about = {"state": list(self.state), "floor": self.floor, "count": self.count}
        return about, {name: getattr(chunks, name) for name in GraphChunks._fields}

    def restore(self, graph: KnowledgeGraph, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Begins with a graph that was kept on disk."""
        chunks = GraphChunks(**{name: np.asarray(arrays[name]) for name in GraphChunks._fields})
        self._graph, self._chunks, self.given = graph, chunks, graph.given
        self._revisions = dict(zip(chunks.keys.tolist(), chunks.revisions.tolist(), strict=True))
        documents, facts = about["state"]
        self.state, self.floor, self.count = (documents, facts), about["floor"], about["count"]

    # ── under a filter ───────────────────────────────────────────────────────────────────────────

    @property
    def latest(self) -> KnowledgeGraph:
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
        graph = self.latest.restricted(self._allowed(where, within))
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

    def pause(self, seconds: float = REST_SECONDS) -> None:
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
