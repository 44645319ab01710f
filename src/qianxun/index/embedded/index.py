"""The index that lives in a folder of this machine: tantivy for keywords, rows of our own and faiss for vectors.

    <build>/state      switched last: what it does not list has not happened
           /columns-N  rows, vectors, facts (see `store`)
           /keywords   tantivy
           /applying   exists while the keyword index may be ahead of the state

The keyword index commits before the state is switched and never deletes what the state still has: rows that die in
one batch are purged from it with the next. After a crash it can therefore only have too much, and that is removed when
the index is opened. Every name is durable before what depends on it: the marker before the keyword index changes, and
the folder of that (tantivy does not sync it after it has renamed its table of contents) before the state is switched.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qianxun.core.errors import IndexUnusable
from qianxun.core.types import (
    BM25,
    EVERYTHING,
    NOTHING,
    Bm25,
    Everything,
    Filter,
    IndexBatch,
    IndexEntry,
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
    Vectors,
)
from qianxun.index.embedded import codes, vectors
from qianxun.index.embedded.extents import State, save_state
from qianxun.index.embedded.keywords import checksums, live_scores, postings, search, tantivy_index
from qianxun.index.embedded.keywords.open_indexes import OPEN_KEYWORDS, OpenKeywords
from qianxun.index.embedded.members import known_members, members_of
from qianxun.index.embedded.precision import HALF, SINGLE, Precision
from qianxun.index.embedded.rows import Column, Rows, field_keys
from qianxun.index.embedded.saved_lists import LISTS
from qianxun.index.embedded.store import CENTERS, CODES, Store, compact
from qianxun.index.shared import (
    SAMPLE,
    Require,
    check_filter,
    closed,
    latest,
    require_model,
    require_vectors,
    unusable,
)

KEYWORDS = "keywords"
APPLYING = "applying"
EXACT_WITHIN = 50_000  # rows of a population that are scored one by one
AT_ONCE = 400  # rows that are scored sooner than a thread starts
FEW_TERMS = 200  # so many are counted in less time than a thread takes to wake: 3 µs each where they are not known
PURGE_AFTER = 100  # deaths that wait, at most, for a batch that adds something: each is looked up by every search


@dataclass(frozen=True, slots=True)
class Options:
    """``exact_limit``: so many rows without codes are searched exactly. ``gram_weight``: what a gram counts beside a
    word. A store is compacted when more than ``dead_share`` of at least ``dead_least`` rows are dead. So many keyword
    indexes are open at a time (``open_keywords``)."""

    exact_limit: int = 50_000
    gram_weight: float = 0.5
    dead_share: float = 0.3
    dead_least: int = 1_000
    open_keywords: int = OPEN_KEYWORDS


@dataclass(frozen=True, slots=True)
class View:
    """What readers see: replaced as a whole by the writer."""

    store: Store
    rows: Rows
    keywords: tantivy_index.KeywordView | None  # opened, and checked, when first needed
    watermark: int  # of these very rows: a reader compares it before and after to see whether they changed
    pending: Column  # dead rows that are still in the keyword index


class EmbeddedIndex:
    """An `Index` in a folder. Any number of readers, one writer at a time."""

    is_here = True
    counts_within = True
    is_writer = True  # of the files in its folder

    def __init__(self, folder: Path, state: State, options: Options, recently_used: OpenKeywords) -> None:
        self.folder = folder
        self._options = options
        self._recently_used = recently_used
        self._state = state
        self._writing = threading.RLock()
        self._keywords: tantivy_index.Keywords | None = None
        self._closed = False
        self._view = self._load()
        if self._marker.exists():
            self._open_keywords()  # what a crash left is removed, or found to be damaged, before anyone searches
        self._alike: tuple[Rows | None, float] = (None, 0.0)
        self._questions: tuple[Rows | None, bool] = (None, False)
        self._placed: tuple[Rows | None, Keys, Column] = (None, np.empty(0, np.int64), np.empty(0, np.int64))

    @property
    def stamp(self) -> IndexStamp:
        return self._state.stamp

    @property
    def _marker(self) -> Path:
        return self.folder / APPLYING

    async def watermark(self) -> int:
        return self._view.watermark

    async def apply(self, batch: IndexBatch) -> None:
        await asyncio.to_thread(self._apply, batch)

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        where: Filter = EVERYTHING,
        field: VectorField = "content",
        within: Population | None = None,
    ) -> Ranking:
        return self._nearest(vector, limit, where, field, within)

    async def match(
        self,
        terms: Terms,
        limit: int,
        where: Filter = EVERYTHING,
        require: Require = "any",
        bm25: Bm25 = BM25,
        within: Population | None = None,
    ) -> Ranking:
        return self._match(terms, limit, where, require, bm25, within)

    async def count(self, terms: Terms, within: Population | None = None) -> TermCounts:
        searched = self._view.keywords
        if searched is not None and len(terms.words) + len(terms.grams) <= FEW_TERMS:
            members = None if within is None else known_members(self._view.rows, within)
            if within is None or (members is not None and postings.is_counted_at_once(searched, terms, members)):
                return self._count(terms, within)  # sooner done than handed to a thread
        return await asyncio.to_thread(self._count, terms, within)

    async def cosines(self, vector: Vector, keys: Keys) -> Scores:
        if len(keys) <= AT_ONCE:
            return self._cosines(vector, keys)
        return await asyncio.to_thread(self._cosines, vector, keys)

    async def likeness(self, within: Population | None = None) -> float:
        rows = self._view.rows
        members = None if within is None else known_members(rows, within)
        if self._alike[0] is rows if within is None else members is not None and members.likeness is not None:
            return self._likeness(within)  # known: nothing to do for a thread
        return await asyncio.to_thread(self._likeness, within)

    async def inventory(self) -> Inventory:
        return await asyncio.to_thread(self._inventory)

    async def check(self) -> None:
        """Reads every byte and compares it with its checksum. Raises IndexUnusable."""
        await asyncio.to_thread(self._check)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _nearest(
        self, vector: Vector, limit: int, where: Filter, field: VectorField, within: Population | None = None
    ) -> Ranking:
        require_model(self.stamp)
        check_filter(where)
        view = self._open_view()
        if field == "question" and not self._has_questions(view.rows):
            return NOTHING
        query = require_vectors([vector], self.stamp.dimension)[0]
        allowed = view.store.allowed(view.rows, where, field)
        if within is None:
            return vectors.nearest(view.store.vector_rows(view.rows), query, limit, allowed)
        # One by one: codes are made from the rows of all documents, and what they propose depends on these.
        allowed = allowed & members_of(view.rows, within).mask
        return vectors.nearest(view.store.vector_rows(view.rows), query, limit, allowed, EXACT_WITHIN)

    def _cosines(self, vector: Vector, keys: Keys) -> Scores:
        query = require_vectors([vector], self.stamp.dimension)[0]
        view = self._open_view()
        stored, slots = self._places(view.rows)
        found = np.full(len(keys), np.nan)
        if len(stored):
            has_gaps = stored[-1] - stored[0] != len(stored) - 1
            at = np.searchsorted(stored, keys) if has_gaps else np.maximum(keys - stored[0], 0)
            at = np.minimum(at, len(stored) - 1)
            known = stored[at] == keys
            found[known] = vectors.cosines(view.store.vector_rows(view.rows), query, slots[at[known]])
        return found

    def _likeness(self, within: Population | None = None) -> float:
        """Computed once for each state, from rows evenly spaced in key order: independent of history."""
        view = self._open_view()
        if within is not None:
            members = members_of(view.rows, within)
            if members.likeness is None:
                _, slots = self._places(view.rows)
                own = slots[members.mask[slots]]
                chosen = own[np.linspace(0, len(own) - 1, min(SAMPLE, len(own))).astype(np.int64)]
                members.likeness = vectors.likeness(view.store.vector_rows(view.rows), chosen)
            return members.likeness
        of, likeness = self._alike
        if of is not view.rows:
            _, slots = self._places(view.rows)
            chosen = slots[np.linspace(0, len(slots) - 1, min(SAMPLE, len(slots))).astype(np.int64)]
            likeness = vectors.likeness(view.store.vector_rows(view.rows), chosen)
            self._alike = (view.rows, likeness)
        return likeness

    def _has_questions(self, rows: Rows) -> bool:
        """Computed once for each state: most bases have none, and every search needs it."""
        of, has = self._questions
        if of is not rows:
            has = bool(rows.with_vector("question").any())
            self._questions = (rows, has)
        return has

    def _places(self, rows: Rows) -> tuple[Keys, Column]:
        """The keys of the chunks that have a vector, sorted, and their slots; made once for each state."""
        of, keys, slots = self._placed
        if of is not rows:
            slots = np.flatnonzero(rows.with_vector("content"))
            keys = rows.columns["key"][slots]
            if not bool((keys[1:] > keys[:-1]).all()):  # keys ascend where nothing was replaced
                order = np.argsort(keys, kind="stable")
                keys, slots = keys[order], slots[order]
            self._placed = (rows, keys, slots)
        return keys, slots

    def _match(
        self,
        terms: Terms,
        limit: int,
        where: Filter,
        require: Require,
        bm25: Bm25,
        within: Population | None = None,
    ) -> Ranking:
        check_filter(where)
        view, searched = self._keyword_view()
        allowed = view.store.allowed(view.rows, where, "keywords")
        rows, weight = view.rows.columns["row"], self._options.gram_weight
        if within is None:
            live = self._live(view, searched, terms)
            if live is None:
                matched = search.match(searched, terms, limit, require, weight, rows, allowed, bm25)
            else:
                matched = live_scores.match(live, terms, limit, require, weight, rows, allowed, bm25)
        else:
            members = members_of(view.rows, within)
            passing = None if isinstance(where, Everything) else allowed
            matched = postings.match_within(searched, terms, limit, require, weight, members, passing, bm25)
        keys = view.rows.columns["key"][matched.slots]
        return Ranking.ordered(keys, matched.scores, matched.ceiling).head(limit)

    def _count(self, terms: Terms, within: Population | None = None) -> TermCounts:
        view, searched = self._keyword_view()
        if within is None:
            return search.count(self._live(view, searched, terms) or searched, terms)
        return postings.count_within(searched, terms, members_of(view.rows, within))

    def _live(self, view: View, searched: tantivy_index.KeywordView, terms: Terms) -> live_scores.LiveStatistics | None:
        """The statistics of the live rows, where the keyword index has others."""
        live = live_scores.live_statistics(searched, view.rows, view.pending)
        return None if live is None or live_scores.are_counted(live, terms) else live

    def _inventory(self) -> Inventory:
        view, searched = self._keyword_view()
        rows = view.rows.columns["row"]
        found = np.isin(rows, tantivy_index.all_rows(searched)) & view.rows.in_keywords()
        return Inventory(
            keywords=np.sort(view.rows.columns["key"][found]),
            vectors={field: field_keys(view.rows, field) for field in ("content", "question")},
        )

    def _check(self) -> None:
        view = self._open_view()
        with self._writing:
            view.store.check()
            if not self._marker.exists():
                checksums.check_files(self.folder / KEYWORDS)

    def _open_view(self) -> View:
        if self._closed:
            raise closed()
        return self._view

    def release_keywords(self) -> bool:
        """Closes the keyword index until it is needed again. Returns False if it is being written to."""
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if self._view.keywords is not None and self.is_writer and not self._marker.exists():
                self._view.keywords.postings.save(self._state.keywords)
            self._keywords = None
            self._view = replace(self._view, keywords=None)  # searches that are under way have theirs
            return True
        finally:
            self._writing.release()

    def _keyword_view(self) -> tuple[View, tantivy_index.KeywordView]:
        view = self._open_view()
        if view.keywords is None:
            with self._writing:
                self._open_keywords()
                view = self._view
        self._recently_used.use(self)
        assert view.keywords is not None
        return view, view.keywords

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _load(self) -> View:
        store = Store(self.folder / self._state.folder, self._state, min(self._options.exact_limit, codes.FEW))
        rows = store.rows(store.deaths())
        self._remove_leftovers()
        if not self._marker.exists() and self._keyword_checksum() != self._state.keywords:
            raise unusable("关键词索引的目录已损坏")
        return View(store, rows, None, self._state.watermark, store.deaths()[self._state.purged :])

    def _keyword_checksum(self) -> int:
        return checksums.meta_checksum(self.folder / KEYWORDS)

    def _remove_leftovers(self) -> None:
        for folder in self.folder.glob("columns-*"):
            if folder.name != self._state.folder:
                shutil.rmtree(folder)
        columns, known = self.folder / self._state.folder, self._state.extents
        for pattern in (f"{CODES}*", f"{CENTERS}*"):
            for file in columns.glob(pattern):
                if file.name not in known:
                    file.unlink()
        for file in columns.glob(f"{LISTS}*"):
            if file.name.replace(LISTS, CODES) not in known:
                file.unlink()

    def _open_keywords(self) -> tantivy_index.Keywords:
        """Opens the keyword index, checked file by file, and removes what an unfinished batch left in it."""
        if self._keywords is None:
            checksums.check_files(self.folder / KEYWORDS, in_turns=True)
            self._keywords = tantivy_index.Keywords.open(self.folder / KEYWORDS)
        if self._marker.exists():
            self._undo_unfinished(self._keywords)
        if self._view.keywords is None:
            self._view = replace(self._view, keywords=self._keywords.view(self._state.next_row))
        self._recently_used.use(self)
        return self._keywords

    def _undo_unfinished(self, index: tantivy_index.Keywords) -> None:
        index.truncate(self._state.next_row, self._pending().tolist())
        rows = self._view.rows
        if not np.array_equal(tantivy_index.all_rows(index.view()), rows.columns["row"][rows.in_keywords()]):
            raise unusable("关键词索引与其余部分不符")
        deaths = len(self._view.store.deaths())
        # A number is left out, as everywhere after a death: tantivy has had rows that are not among ours.
        next_row, checksum = self._state.next_row + 1, self._keyword_checksum()
        state = replace(self._state, next_row=next_row, purged=deaths, keywords=checksum)
        self._commit(state, self.folder / KEYWORDS)
        self._marker.unlink()
        self._view = replace(self._view, pending=self._pending())

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _apply(self, batch: IndexBatch) -> None:
        entries = latest(batch.entries)
        matrix = require_vectors([entry.vector for entry in entries if entry.vector is not None], self.stamp.dimension)
        with self._writing:
            self._open_view()
            if self._marker.exists():
                self._open_keywords()
            if not self._view.store.holds(matrix):
                self._compact(SINGLE, keeps_codes=True)
            dead = self._view.rows.dying(batch.removed, entries)
            self._write(batch.sequence, entries, matrix, dead)
            if len(self._view.pending) >= PURGE_AFTER:
                self._write(batch.sequence, (), matrix[:0], dead[:0])
            self._encode_tail()
            self._compact_dead()

    def _write(self, sequence: int, entries: Sequence[IndexEntry], matrix: Vectors, dead: Column) -> None:
        """Files first, then keywords, then the state: from that moment the batch has happened."""
        view, state = self._view, self._state
        content = [(row, entry) for row, entry in enumerate(entries, state.next_row) if entry.field == "content"]
        pending, searched = self._pending(), view.keywords
        index = self._open_keywords() if content or len(pending) + len(dead) >= PURGE_AFTER else None
        if index is not None:
            self._marker.touch()  # from here on the keyword index may contain what the state does not
        dying = view.rows.columns["row"][dead]
        along = (self.folder,) if index is not None else ()
        staged = view.store.stage(entries, matrix, state.next_row, dying, *along)
        state = replace(
            state.with_extents(staged.extents),
            watermark=sequence,
            next_row=state.next_row + len(entries),
            owners=staged.owners,
        )
        if index is not None:
            self._write_keywords(index, content, pending)
            state = replace(state, keywords=self._keyword_checksum(), purged=state.purged + len(pending))
            self._commit(state, self.folder / KEYWORDS)
            self._marker.unlink()
            searched = index.view(state.next_row, self._view.keywords)
        else:
            self._commit(state)
        view.store.accept(staged)
        rows = view.store.rows_after(view.rows, dead)
        self._view = View(view.store, rows, searched, state.watermark, self._pending())

    def _write_keywords(
        self, index: tantivy_index.Keywords, content: Sequence[tuple[int, IndexEntry]], pending: Column
    ) -> None:
        index.write(
            [row for row, _ in content],
            [entry.words for _, entry in content],
            [entry.grams for _, entry in content],
            pending.tolist(),
        )

    def _pending(self) -> Column:
        """Dead rows that are still in the keyword index."""
        return self._view.store.deaths()[self._state.purged :]

    def _commit(self, state: State, *before: Path) -> None:
        save_state(self.folder, state, *before)
        self._state = state

    def _encode_tail(self) -> None:
        """Gives codes to rows once too many have none; rows of an earlier version that take twice the space that they
        need are written anew then, too."""
        store = self._view.store
        if not self._wants_codes(store):
            return
        staged = store.stage_codes()
        self._commit(self._state.with_extents(staged.extents).without(staged.replaced))
        store.accept_codes(staged)
        if store.is_narrowable():
            self._compact(HALF, keeps_codes=True)

    def _wants_codes(self, store: Store) -> bool:
        first = not store.has_codes
        most = self._options.exact_limit if first else min(self._options.exact_limit, vectors.UNCODED)
        return self.stamp.dimension > 0 and store.uncoded() > most

    def _compact_dead(self) -> None:
        """Without the dead, once they are too many; codes are made from those that are left."""
        view, options = self._view, self._options
        dead = len(view.rows) - int(np.count_nonzero(view.rows.live))
        if len(view.rows) < options.dead_least or dead <= options.dead_share * len(view.rows):
            return
        self._compact(view.store.narrowest(np.flatnonzero(view.rows.live)), keeps_codes=False)

    def _compact(self, precision: Precision, *, keeps_codes: bool) -> None:
        """Rewrites the store without its dead, beside the old one, and switches: until all is there that a search needs
        of the new one, the old one is searched."""
        view = self._view
        name = f"columns-{int(self._state.folder.partition('-')[2]) + 1}"
        shutil.rmtree(self.folder / name, ignore_errors=True)
        owners, extents = compact(
            view.store, view.rows, self.folder / name, self._pending(), precision, keeps_codes=keeps_codes
        )
        state = replace(self._state, folder=name, owners=owners, purged=0, extents=extents)
        store = Store(self.folder / name, state, min(self._options.exact_limit, codes.FEW))
        if self._wants_codes(store):
            staged = store.stage_codes()
            store.accept_codes(staged)
            state = state.with_extents(staged.extents).without(staged.replaced)
        store.load_codes()
        self._commit(state)
        self._view = View(store, store.rows(store.deaths()), view.keywords, view.watermark, view.pending)
        shutil.rmtree(view.store.folder)

    def _close(self) -> None:
        with self._writing:
            self._closed = True
            self.release_keywords()
            with suppress(IndexUnusable, OSError):  # what is damaged, or gone, is found by whoever opens it
                self._view.store.save_lists()
        self._recently_used.forget(self)
