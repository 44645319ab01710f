"""An index in a folder that another process of this machine writes to: the same files, read alone.

Before every search two small files are looked at, by their inode and time: `CURRENT`, which names the build, and the
build's `state`. Both are replaced, never changed, and switched last. When one has moved, the rows and the keyword index
are read anew; while the writer is between the keyword index and the state, the view before is used: what is being
written has not been acknowledged yet.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar

from qianxun.core.errors import BadInput, IndexUnusable
from qianxun.core.ports import Index, IndexBackend
from qianxun.core.types import (
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
from qianxun.index.embedded import codes
from qianxun.index.embedded.backend import CURRENT
from qianxun.index.embedded.extents import STATE, State, load_state, unsealed
from qianxun.index.embedded.index import KEYWORDS, EmbeddedIndex, Options, View
from qianxun.index.embedded.keywords import checksums, tantivy_index
from qianxun.index.embedded.keywords.open_indexes import OpenKeywords
from qianxun.index.embedded.store import Store
from qianxun.index.shared import Require, require_stamp, unusable

WAIT_SECONDS: Final = 10.0  # for a writer to be done with a batch, where there is no view before
LOOK_SECONDS: Final = 0.005

Seen: TypeAlias = tuple[tuple[int, int, int], ...]
Result = TypeVar("Result")


class _Moving(Exception):
    """The writer is at work on what was being read."""


class ReaderIndex(EmbeddedIndex):
    """The current index of a base, whichever that is at the moment."""

    is_writer = False

    def __init__(self, base: Path, stamp: IndexStamp, options: Options, recently_used: OpenKeywords) -> None:
        self._base, self._expected = base, stamp
        self._seen: Seen = ()  # of the files that the view was read from
        self._loaded: Seen = ()  # … that is being read
        super().__init__(*self._steady(), options, recently_used)
        self._seen = self._loaded

    async def apply(self, batch: IndexBatch) -> None:
        _refuse()

    async def watermark(self) -> int:
        return self._open_view().watermark

    # ── following the writer ─────────────────────────────────────────────────────────────────────

    def _open_view(self) -> View:
        if self._seen != _identity(self._base, self.folder):
            with self._writing:
                self._follow()
        return super()._open_view()

    def _follow(self) -> None:
        """Reads what the writer has switched to; nothing changes while that is at work."""
        try:
            folder, state = self._steady()
            self.folder, self._state = folder, state
            self._view = self._load()
        except _Moving:
            return
        self._seen = self._loaded

    def _steady(self) -> tuple[Path, State]:
        """The build and the state that are current, with a keyword index that belongs to them."""
        try:
            folder = self._base / Path(unsealed(self._base / CURRENT)).name
            self._loaded = _identity(self._base, folder)
            state = load_state(folder)
        except (IndexUnusable, OSError) as error:
            if not (self._base / CURRENT).exists():
                raise unusable("还没有建立") from error
            raise
        require_stamp(state.stamp, self._expected)
        return folder, state

    def _load(self) -> View:
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return self._loaded_view()
            except (_Moving, IndexUnusable, OSError) as error:
                if hasattr(self, "_view") and isinstance(error, _Moving):
                    raise
                if time.monotonic() > until:
                    raise unusable(f"读不到：{error}") from error
            time.sleep(LOOK_SECONDS)
            self.folder, self._state = self._steady()

    def _loaded_view(self) -> View:
        place = self.folder / KEYWORDS
        if checksums.meta_checksum(place) != self._state.keywords:
            raise _Moving
        store = Store(self.folder / self._state.folder, self._state, min(self._options.exact_limit, codes.FEW))
        rows = store.rows(store.deaths())
        opened = tantivy_index.Keywords.open(place)
        before = self._view.keywords if hasattr(self, "_view") else None
        view = opened.view(self._state.next_row, before)
        if checksums.meta_checksum(place) != self._state.keywords or _identity(self._base, self.folder) != self._loaded:
            raise _Moving
        self._keywords = opened
        return View(store, rows, view, self._state.watermark, store.deaths()[self._state.purged :])

    def _open_keywords(self) -> tantivy_index.Keywords:
        """Nothing is checked or undone here: that is the writer's."""
        if self._keywords is None or self._view.keywords is None:
            if hasattr(self, "_view"):
                del self._view  # there is none to go on with: wait for the writer
            self.folder, self._state = self._steady()
            self._view = self._load()
            self._seen = self._loaded
        self._recently_used.use(self)
        assert self._keywords is not None
        return self._keywords

    # ── files that the writer removed while they were read ───────────────────────────────────────

    def _again(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except (IndexUnusable, OSError):
            with self._writing:
                self._seen = ()
                self._follow()
        return work()

    def _nearest(
        self, vector: Vector, limit: int, where: Filter, field: VectorField, within: Population | None = None
    ) -> Ranking:
        work = super()._nearest
        return self._again(lambda: work(vector, limit, where, field, within))

    def _cosines(self, vector: Vector, keys: Keys) -> Scores:
        work = super()._cosines
        return self._again(lambda: work(vector, keys))

    def _likeness(self, within: Population | None = None) -> float:
        work = super()._likeness
        return self._again(lambda: work(within))

    def _match(
        self,
        terms: Terms,
        limit: int,
        where: Filter,
        require: Require,
        bm25: Bm25,
        within: Population | None = None,
    ) -> Ranking:
        work = super()._match
        return self._again(lambda: work(terms, limit, where, require, bm25, within))

    def _count(self, terms: Terms, within: Population | None = None) -> TermCounts:
        work = super()._count
        return self._again(lambda: work(terms, within))

    def _inventory(self) -> Inventory:
        return self._again(super()._inventory)


def _identity(base: Path, folder: Path) -> Seen:
    """Other numbers whenever one of the two files has been replaced; () while one is missing."""
    try:
        found = (os.stat(f"{base}/{CURRENT}"), os.stat(f"{folder}/{STATE}"))  # joined by pathlib: thrice the time
    except FileNotFoundError:
        return ()
    return tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in found)


class ReaderBackend:
    """The indexes under one folder, for a process that only searches."""

    def __init__(self, root: Path, options: Options) -> None:
        self._root, self._options = root, options
        self._recently_used = OpenKeywords(options.open_keywords)

    async def open(self, knowledge_base: int, stamp: IndexStamp) -> ReaderIndex:
        place = self._root / str(knowledge_base)
        return await asyncio.to_thread(ReaderIndex, place, stamp, self._options, self._recently_used)

    async def build(self, knowledge_base: int, stamp: IndexStamp) -> Index:
        _refuse()

    async def switch(self, knowledge_base: int, built: Index) -> None:
        _refuse()

    async def drop(self, knowledge_base: int) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise BadInput("这个进程只检索，索引由另一个进程写", hint="写入请交给那个进程")


def create_reader(root: Path, *, exact_limit: int = 50_000) -> IndexBackend:
    return ReaderBackend(root, Options(exact_limit))
