"""The columns of an index in one folder: rows, vectors, facts, deaths, codes. Knows nothing of keywords."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qianxun.core.system.durable import sync
from qianxun.core.system.gc_pause import bulk_step
from qianxun.core.types import Attributes, Everything, Filter, IndexEntry, Vectors
from qianxun.index.embedded import codes, saved_lists, vectors
from qianxun.index.embedded.extents import Extent, State, append, read, require_size
from qianxun.index.embedded.facts import FACT, REPEAT, Encoded, Facts, FactWriter, every_fact, parted, passing
from qianxun.index.embedded.keywords.population import packed_lengths, token_counts
from qianxun.index.embedded.precision import (
    HALF,
    SINGLE,
    Precision,
    StoredVectors,
    can_be_half,
    is_exact,
    narrowest,
    precision_of,
    row_sums,
    widened,
)
from qianxun.index.embedded.rows import (
    RECORD,
    ROW,
    ROWS,
    TOKEN_COUNTS,
    TOKENS,
    Arm,
    Column,
    Columns,
    Mask,
    Rows,
    fields_of,
    no_counts,
    stored_rows,
)
from qianxun.index.shared import CACHED_FILTERS, LANES, owners_of

FACTS, REPEATS, VALUES, DEATHS = "facts", "repeats", "values", "deaths"  # files
CODES, CENTERS = "codes-", "centers-"  # … and the number of rows that the centres were made from
COPIED = 4_096  # vectors at a time
ROOM_ROWS, ROOM_PART = 4_096, 8  # rows that can be added before the vectors are mapped anew: so many, or an eighth
OUTGROWN = 4  # times as many rows want centres of their own


@dataclass(frozen=True, slots=True)
class Staged:
    """Records after their extents, until the state is switched."""

    rows: NDArray[np.void]
    facts: NDArray[np.void]
    owners: int
    extents: Mapping[str, Extent]


@dataclass(frozen=True, slots=True)
class StagedCodes:
    """Codes on disk, until the state is switched; ``replaced`` names the files of the old ones."""

    coded: codes.CodedRows
    extents: Mapping[str, Extent]
    replaced: tuple[str, ...] = ()


class Store:
    """Files and the columns read from them. Only one thread writes; views belong to the readers."""

    def __init__(self, folder: Path, state: State, few: int) -> None:
        self.folder = folder
        self.dimension = state.stamp.dimension
        self._few = few
        self._extents = dict(state.extents)
        self._owners = state.owners
        self._rows = Columns(stored_rows(folder, state))
        self._facts: Columns | None = None
        self._values: tuple[Extent, bytes] = (Extent(), b"")
        self._coded: codes.CodedRows | None = None
        self._saved: codes.CodePart | None = None  # that of the lists on disk, as far as known
        self._checked = vectors.CheckedRows()
        self._is_narrowable: bool | None = None  # once it was looked at
        self._fact_writer = FactWriter()
        self._filtered: dict[tuple[str, int, int], Mask] = {}
        self._loading = threading.Lock()
        self._searched: tuple[Rows | None, vectors.VectorRows | None] = (None, None)  # made once for each state
        for name in state.extents:
            require_size(folder / name, state.extent(name))
        self._room = self._vectors = self._mapped(len(self._rows))  # rows are added in the room behind the vectors

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    @property
    def precision(self) -> Precision | None:
        """Of the vectors; None before the first."""
        return precision_of(self._extents)

    def rows(self, deaths: Column) -> Rows:
        columns = self._rows.view()
        live = np.ones(len(self._rows), dtype=bool)
        live[np.flatnonzero(np.isin(columns["row"], deaths))] = False
        return Rows(columns, live)

    def rows_after(self, before: Rows, dead: Column) -> Rows:
        """The rows now, given those before the last append and the slots that died with it."""
        live = np.ones(len(self._rows), dtype=bool)
        live[: len(before)] = before.live
        live[dead] = False
        return Rows(self._rows.view(), live)

    def deaths(self) -> Column:
        return np.frombuffer(read(self.folder / DEATHS, self._extent(DEATHS)), dtype="<i8")

    def vector_rows(self, rows: Rows) -> vectors.VectorRows:
        of, table = self._searched
        if of is not rows or table is None or table.coded is not self._coded:
            # Not as a memmap: to look one up in that takes ten times as long.
            mapped, coded = self._vectors[: len(rows)].view(np.ndarray), self._codes()
            table = vectors.VectorRows(mapped, rows.columns["check"], rows.columns["key"], coded, self._checked)
            self._searched = (rows, table)
        return table

    def allowed(self, rows: Rows, where: Filter, arm: Arm) -> Mask:
        """What an arm searches, of that which the filter lets through. To look up a million owners takes longer than
        to search by words: kept for the filters that come again."""
        base = rows.searched_by(arm)
        if isinstance(where, Everything) or len(rows) == 0:
            return base
        query = (arm, repr(where))  # not the filter itself: to a dict, 1 and True are the same
        known = rows.filtered.get(query)
        if known is None:
            known = base & self._passing(where)[rows.columns["owner"]]
            if len(rows.filtered) >= CACHED_FILTERS:
                rows.filtered.clear()
            rows.filtered[query] = known
        return known

    def _passing(self, where: Filter) -> Mask:
        """The filter over all owners, from a small cache."""
        facts = self._fact_columns().view()
        owners = self._owners  # read after the facts: no fact has an owner beyond it
        query = (repr(where), len(facts["owner"]), owners)  # not the filter itself: to a dict, 1 and True are the same
        with self._loading:
            if query in self._filtered:
                return self._filtered[query]
        passed = passing(where, Facts(values=self._heap, **facts), owners)
        with self._loading:
            if len(self._filtered) >= CACHED_FILTERS:
                self._filtered.clear()
            self._filtered[query] = passed
        return passed

    def check(self) -> None:
        """Reads every file and compares it with its checksum. Raises IndexUnusable."""
        for name, extent in self._extents.items():
            read(self.folder / name, extent)

    def _extent(self, name: str) -> Extent:
        return self._extents.get(name, Extent())

    def _mapped(self, rows: int) -> StoredVectors:
        shape, precision = (rows, self.dimension), self.precision
        if 0 in shape or precision is None:
            return np.empty(shape, dtype=np.float32)
        return np.memmap(self.folder / precision.file, dtype=precision.kind, mode="r", shape=shape)

    def _mapped_with_room(self) -> StoredVectors:
        """The vectors, mapped farther than they reach: a file mapped anew has its pages to be found again, one by one,
        which at a million rows takes 25 ms of the first search after a write. The file is long for as long as it takes
        to map it; what is beyond its end is nobody's to touch until it has grown that far."""
        rows, precision = len(self._rows), self.precision
        if not (rows and self.dimension and precision):
            return self._mapped(rows)
        path = self.folder / precision.file
        size, wider = path.stat().st_size, rows + max(ROOM_ROWS, rows // ROOM_PART)
        try:
            os.truncate(path, max(size, wider * self.dimension * precision.kind.itemsize))
            return self._mapped(wider)
        except OSError:  # a limit on files: there is room for what there is
            return self._mapped(rows)
        finally:
            os.truncate(path, size)

    def _fact_columns(self) -> Columns:
        with self._loading:
            if self._facts is None:
                stored = np.frombuffer(read(self.folder / FACTS, self._extent(FACTS)), dtype=FACT)
                repeats = np.frombuffer(read(self.folder / REPEATS, self._extent(REPEATS)), dtype=REPEAT)
                self._facts = Columns(every_fact(stored, repeats))
            return self._facts

    def _heap(self) -> bytes:
        with self._loading:
            extent = self._extent(VALUES)
            if self._values[0] != extent:
                self._values = (extent, read(self.folder / VALUES, extent))
            return self._values[1]

    def load_codes(self) -> None:
        """So that no search has to."""
        self._codes()

    def _codes(self) -> codes.CodedRows | None:
        with self._loading:
            trained = trained_on(self._extents)
            if self._coded is None and trained:
                name = f"{CODES}{trained}"
                extent, place = self._extent(name), self.folder / f"{saved_lists.LISTS}{trained}"
                stored = cache(partial(read, self.folder / name, extent))
                saved = saved_lists.load(place, extent, stored)
                since = b"" if saved is not None and saved.size == extent.size else stored()
                part = None if saved is None else saved.part
                self._coded = codes.coded(self._centers(trained), since, self._few, part)
                if self._coded.parts[0] is not part:
                    saved_lists.save(place, stored(), self._coded.parts[0])
                self._saved = self._coded.parts[0]
            return self._coded

    def save_lists(self) -> None:
        """Saves lists that were made since the codes were read: the next opening need not make them."""
        with self._loading:
            trained, coded = trained_on(self._extents), self._coded
            if not trained or coded is None or coded.parts[0] is self._saved:
                return
            stored, first = read(self.folder / f"{CODES}{trained}", self._extent(f"{CODES}{trained}")), coded.parts[0]
            own = stored[: len(stored) // coded.rows * first.rows]
            saved_lists.save(self.folder / f"{saved_lists.LISTS}{trained}", own, first)
            self._saved = first

    def _centers(self, trained: int) -> codes.Centers:
        name = f"{CENTERS}{trained}"
        return np.frombuffer(read(self.folder / name, self._extent(name)), dtype="<f4").reshape(-1, self.dimension)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    @bulk_step()
    def stage(
        self, entries: Sequence[IndexEntry], matrix: Vectors, first_row: int, dead: Column, *along: Path
    ) -> Staged:
        """Appends to the files, durably, without anyone seeing it. ``matrix`` holds the vectors there are, in order;
        what is at ``along`` is made durable in the same wait."""
        table, attributes = self._table(entries, first_row)
        uncounted = len(self._rows) - self._extent(TOKENS).size // TOKEN_COUNTS.itemsize
        stored, precision = self._stored(table["vector"] == 1, matrix)
        table["check"] = row_sums(stored) if self.dimension else 0
        number = self._extent(FACTS).size // FACT.itemsize
        facts = self._fact_writer.encode(attributes, self._extent(VALUES).size, number)
        parts = {
            ROWS: fields_of(table, ROW).tobytes(),
            TOKENS: no_counts(uncounted).tobytes() + fields_of(table, TOKEN_COUNTS).tobytes(),
            FACTS: facts.once.tobytes(),
            REPEATS: facts.repeats.tobytes(),
            VALUES: facts.heap,
            DEATHS: dead.astype("<i8").tobytes(),
        }
        if self.dimension:
            parts[precision.file] = stored.tobytes()
        extents = self._append(parts, *along)
        return Staged(table, facts.every, self._owners + len(attributes), extents)

    def holds(self, matrix: Vectors) -> bool:
        """Whether these vectors can be added as the store is."""
        return self.precision is not HALF or is_exact(matrix)

    def _stored(self, has_vector: Mask, matrix: Vectors) -> tuple[StoredVectors, Precision]:
        """A row for each entry; zeros for one without a vector."""
        precision = self.precision or narrowest(matrix)
        stored = np.zeros((len(has_vector), self.dimension), dtype=precision.kind)
        stored[has_vector] = matrix
        return stored, precision

    def accept(self, staged: Staged) -> None:
        """Makes staged records visible to views taken from now on."""
        with self._loading:
            if self._facts is not None:
                self._facts.append(staged.facts)
            self._rows.append(staged.rows)
            self._owners = staged.owners
            self._extents.update(staged.extents)
            if len(self._room) < len(self._rows):
                self._room = self._mapped_with_room()
            self._vectors = self._room[: len(self._rows)]

    @property
    def has_codes(self) -> bool:
        return trained_on(self._extents) > 0

    def uncoded(self) -> int:
        """How many rows have no code yet."""
        return len(self._rows) - self._coded_rows()

    def is_outgrown(self) -> bool:
        """Whether the rows want centres of their own: they are many more, or have as few as small bases have."""
        coded, trained = self._codes(), trained_on(self._extents)
        if coded is None:
            return False
        return len(self._rows) >= OUTGROWN * trained or (
            trained >= codes.MANY_ROWS and len(coded.centers) <= codes.LISTS
        )

    def _coded_rows(self) -> int:
        coded = self._codes()
        return coded.rows if coded else 0

    def stage_codes(self) -> StagedCodes:
        """Codes for every row that has none, durably; for all of them when the centres are missing or outgrown."""
        mapped, trained = self._vectors, trained_on(self._extents)
        every = self.rows(np.empty(0, dtype=np.int64))
        is_anew = not trained or self.is_outgrown()
        first = 0 if is_anew else self._coded_rows()
        vectors.require_sums_from(self.vector_rows(every), first, len(every))
        if is_anew:
            return self._stage_anew(trained)
        before, name = self._codes(), f"{CODES}{trained}"
        assert before is not None
        fresh = codes.encode(before.centers, mapped[first:])
        whole = codes.extended(before, fresh)
        if whole is None:
            old = read(self.folder / name, self._extent(name))
            whole = codes.coded(before.centers, old + fresh, self._few)
        return StagedCodes(whole, self._append({name: fresh}))

    def _stage_anew(self, outgrown: int) -> StagedCodes:
        mapped = self._vectors
        centers = codes.centers_of(mapped)
        fresh = codes.encode(centers, mapped)
        extents = self._append({f"{CENTERS}{len(mapped)}": centers.tobytes(), f"{CODES}{len(mapped)}": fresh})
        replaced = (f"{CENTERS}{outgrown}", f"{CODES}{outgrown}") if outgrown else ()
        return StagedCodes(codes.coded(centers, fresh, self._few), extents, replaced)

    def accept_codes(self, staged: StagedCodes) -> None:
        """Makes staged codes visible to the searches that begin from now on, and removes those they replace."""
        with self._loading:
            self._coded = staged.coded
            self._extents.update(staged.extents)
            for name in staged.replaced:
                del self._extents[name]
                (self.folder / name).unlink()
                (self.folder / name.replace(CODES, saved_lists.LISTS)).unlink(missing_ok=True)

    # ── compaction ───────────────────────────────────────────────────────────────────────────────

    def facts_of(self, owners: Column) -> Encoded:
        """The facts of these owners (ascending), renumbered from 0, with a heap that holds only their values."""
        columns = self._fact_columns().view()
        chosen = np.flatnonzero(np.isin(columns["owner"], owners))
        table = np.zeros(len(chosen), dtype=FACT)
        for name, column in columns.items():
            table[name] = column[chosen]
        table["owner"] = np.searchsorted(owners, table["owner"])
        heap = self._heap()
        starts, first, inverse = np.unique(table["start"], return_index=True, return_inverse=True)
        sizes = table["size"][first].astype(np.int64)
        values = b"".join(
            heap[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        )
        table["start"] = (np.cumsum(sizes) - sizes)[inverse]
        return Encoded(table, *parted(table, first, inverse), values)

    def narrowest(self, slots: Column) -> Precision:
        """The precision in which these rows take the least space and lose nothing. One that is damaged stays as it is,
        so that whoever looks at it sees that."""
        if self.precision is HALF or not can_be_half(self.dimension):
            return self.precision or SINGLE
        sums = self._rows.view()["check"]
        for part in _parts(slots):
            found = widened(self._vectors[part])
            if not (is_exact(found) and vectors.are_sound(found, sums[part])):
                return SINGLE
        return HALF

    def is_narrowable(self) -> bool:
        """Whether all rows could be in half precision and are not; looked at once."""
        if self._is_narrowable is None:
            every = np.arange(len(self._rows))
            self._is_narrowable = self.precision is SINGLE and self.narrowest(every) is HALF
        return self._is_narrowable

    def copy_vectors(self, slots: Column, folder: Path, precision: Precision) -> tuple[dict[str, Extent], Column]:
        """Appends the vectors of these slots to a new file, a part at a time. Returns its extent and their sums."""
        extent, sums = Extent(), [self._rows.view()["check"][:0]]
        for part in _parts(slots) if self.dimension else ():
            rows = self._vectors[part].astype(precision.kind)
            extent = append(folder / precision.file, extent, rows.tobytes())
            sums.append(self._rows.view()["check"][part] if precision is self.precision else row_sums(rows))
        return ({precision.file: extent} if extent.size else {}), np.concatenate(sums)

    def copy_codes(self, slots: Column, folder: Path) -> dict[str, Extent]:
        """Appends the codes of those of these slots that have one to a new file, and their centres to another."""
        coded, trained = self._codes(), trained_on(self._extents)
        own = slots[slots < coded.rows] if coded is not None else slots[:0]
        if coded is None or len(own) == 0:
            return {}
        name = f"{CODES}{trained}"
        records = np.frombuffer(read(self.folder / name, self._extent(name)), np.uint8).reshape(coded.rows, -1)
        parts = {name: records[own].tobytes(), f"{CENTERS}{trained}": coded.centers.tobytes()}
        return {name: append(folder / name, Extent(), data) for name, data in parts.items()}

    def _append(self, parts: Mapping[str, bytes], *along: Path) -> dict[str, Extent]:
        """Appends what there is to append, and waits for the disk."""
        written = {name: append(self.folder / name, self._extent(name), data) for name, data in parts.items() if data}
        fresh = [self.folder] if any(self._extent(name).size == 0 for name in written) else []
        sync([*(self.folder / name for name in written), *fresh, *along])
        return written

    def _table(
        self, entries: Sequence[IndexEntry], first_row: int
    ) -> tuple[NDArray[np.void], Mapping[int, Attributes]]:
        """Records for entries. Those that share one Attributes object share its facts."""
        table = np.zeros(len(entries), dtype=RECORD)
        attributes, owner_of = owners_of(entries, self._owners)
        table["row"] = np.arange(first_row, first_row + len(entries))
        table["key"] = [entry.key for entry in entries]
        table["document"] = [entry.document for entry in entries]
        table["owner"] = owner_of
        table["lane"] = [LANES[entry.field] for entry in entries]
        table["vector"] = [entry.vector is not None for entry in entries]
        table["words"], table["grams"] = token_counts(entries)
        table["lengths"] = packed_lengths(entries, table["words"], table["grams"])
        return table, attributes


def trained_on(names: Iterable[str]) -> int:
    """From how many rows the centres of the codes were made; 0 without codes."""
    return max((int(name.removeprefix(CODES)) for name in names if name.startswith(CODES)), default=0)


def compact(
    store: Store, rows: Rows, folder: Path, pending: Column, precision: Precision, *, keeps_codes: bool
) -> tuple[int, Mapping[str, Extent]]:
    """Writes what lives to a new folder, durably. Returns the number of owners and the extents there.

    Afterwards everything that a reader of the old store may need is in its memory: its folder can be removed.
    """
    folder.mkdir()
    live = np.flatnonzero(rows.live)
    table = np.zeros(len(live), dtype=RECORD)
    for name, column in rows.columns.items():
        table[name] = column[live]
    used, table["owner"] = np.unique(table["owner"], return_inverse=True)
    extents, sums = store.copy_vectors(live, folder, precision)
    if store.dimension:
        table["check"] = sums
    facts = store.facts_of(used)
    extents |= {
        name: append(folder / name, Extent(), data)
        for name, data in (
            (ROWS, fields_of(table, ROW).tobytes()), (TOKENS, fields_of(table, TOKEN_COUNTS).tobytes()),
            (FACTS, facts.once.tobytes()), (REPEATS, facts.repeats.tobytes()), (VALUES, facts.heap),
            (DEATHS, pending.tobytes()),
        )
        if data
    }  # fmt: skip
    store.load_codes()
    if keeps_codes:
        extents |= store.copy_codes(live, folder)
    sync([*(folder / name for name in extents), folder, folder.parent])
    return len(used), extents


def _parts(slots: Column) -> Iterable[Column]:
    return (slots[start : start + COPIED] for start in range(0, len(slots), COPIED))
