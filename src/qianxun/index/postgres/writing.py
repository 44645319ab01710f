"""A batch into the tables, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import IndexBatch, IndexEntry, Vectors
from qianxun.index.postgres import facts, postings
from qianxun.index.postgres.server import Tx, bigints
from qianxun.index.postgres.tables import Segment, State, Tables
from qianxun.index.postgres.vectors import build_graph, can_have_graph
from qianxun.index.shared import LANES, latest, owners_of, row_sums, unusable

LAST_ROW: Final = 2**31 - 1
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MaintenanceLimits:
    """``exact_limit``: so many vectors of a lane are searched without an HNSW index. A segment is written anew when
    more than ``dead_share`` of it, and at least ``dead_least`` entries, are dead."""

    exact_limit: int
    dead_share: float
    dead_least: int

    def is_stale(self, segment: Segment) -> bool:
        return segment.dead >= self.dead_least and segment.dead > self.dead_share * segment.entries


def in_lanes(entries: Iterable[IndexEntry]) -> list[IndexEntry]:
    """Chunks first, questions after them: the postings need the rows of chunks to be consecutive."""
    return sorted(latest(entries), key=lambda entry: LANES[entry.field])


def apply(
    tx: Tx, tables: Tables, state: State, batch: IndexBatch, entries: Sequence[IndexEntry], matrix: Vectors
) -> State:
    """Removes, then adds; the state afterwards. ``matrix`` holds the vectors there are, in the order of entries."""
    state = _remove(tx, tables, state, batch.removed, entries)
    state = _add(tx, tables, state, entries, matrix) if entries else state
    return replace(state, watermark=batch.sequence)


def maintain(tx: Tx, tables: Tables, state: State, upkeep: MaintenanceLimits) -> State:
    """Puts segments together, takes the dead out of them, and gives many vectors an index."""
    segments = postings.merge(tx, tables, state.segments)
    segments = postings.purge(tx, tables, segments, upkeep.is_stale)
    return with_graphs(tx, tables, replace(state, segments=segments), upkeep.exact_limit)


def finish(tx: Tx, tables: Tables, state: State, upkeep: MaintenanceLimits) -> State:
    """What `maintain` leaves undone in a build that is not searched yet: all at once, in a fraction of the time."""
    segments = postings.compact(tx, tables, state.segments)
    return with_graphs(tx, tables, replace(state, segments=segments), upkeep.exact_limit)


def with_graphs(tx: Tx, tables: Tables, state: State, exact_limit: int) -> State:
    graphs = list(state.graphs)
    for lane, number in enumerate(state.vectors):
        if number > exact_limit and not graphs[lane] and can_have_graph(state):
            build_graph(tx, tables, state, lane)
            graphs[lane] = True
    return replace(state, graphs=(graphs[0], graphs[1]))


# ── removing ─────────────────────────────────────────────────────────────────────────────────────


def _remove(tx: Tx, tables: Tables, state: State, documents: Sequence[int], entries: Sequence[IndexEntry]) -> State:
    """Entries of removed documents, and those whose key comes anew."""
    conditions, values = ["document = ANY(%(documents)s::bigint[])"], {"documents": bigints(documents)}
    for kind, lane in LANES.items():
        conditions.append(f"(lane = {lane:d} AND key = ANY(%(lane_{lane:d})s::bigint[]))")
        values[f"lane_{lane:d}"] = bigints([entry.key for entry in entries if entry.field == kind])
    removed = _columns(
        tx.rows(
            f"""DELETE FROM {tables.entries} WHERE base = %(base)s AND ({" OR ".join(conditions)})
                RETURNING row, lane, owner, words, grams""",
            base=state.base,
            **values,
        )
    )
    if len(removed["row"]) == 0:
        return state
    content = removed["lane"] == 0
    state = _without_vectors(tx, tables, state, removed["row"])
    died = np.sort(removed["row"][content])
    tx.run(f"INSERT INTO {tables.deaths} (row) SELECT unnest(%(rows)s::bigint[])", rows=bigints(died))
    facts.remove(tx, tables, np.unique(removed["owner"]))
    return replace(
        state,
        contents=state.contents - len(died),
        words=state.words - int(removed["words"][content].sum()),
        grams=state.grams - int(removed["grams"][content].sum()),
        segments=postings.with_deaths(state.segments, died),
    )


def _columns(found: Sequence[tuple[Any, ...]]) -> Mapping[str, Numbers]:
    table = np.array(found, dtype=np.int64).reshape(-1, 5)
    return dict(zip(("row", "lane", "owner", "words", "grams"), table.T, strict=True))


def _without_vectors(tx: Tx, tables: Tables, state: State, rows: Numbers) -> State:
    if state.stamp.dimension == 0:
        return state
    lanes = tx.ints(
        f"DELETE FROM {tables.vectors} WHERE row = ANY(%(rows)s::bigint[]) RETURNING lane AS value", rows=bigints(rows)
    )
    content, questions = np.bincount(lanes, minlength=2).tolist()
    return replace(state, vectors=(state.vectors[0] - content, state.vectors[1] - questions))


# ── adding ───────────────────────────────────────────────────────────────────────────────────────


def _add(tx: Tx, tables: Tables, state: State, entries: Sequence[IndexEntry], matrix: Vectors) -> State:
    owners, owner_of = owners_of(entries, state.next_owner)
    facts.add(tx, tables, owners)
    chunks = [entry for entry in entries if entry.field == "content"]
    added = postings.add(
        tx, tables, state.next_row, [entry.words for entry in chunks], [entry.grams for entry in chunks]
    )
    rows = np.arange(state.next_row, state.next_row + len(entries))
    table = np.zeros(len(entries), dtype=ENTRY)
    for name, values in _fields(entries, rows, owner_of).items():
        table[name] = values
    table["words"][: len(chunks)], table["grams"][: len(chunks)] = added.words, added.grams
    tx.copy_in(tables.entries, "row, key, document, lane, owner, words, grams", _framed(table))
    state = _add_vectors(tx, tables, state, entries, table, matrix)
    return replace(
        state,
        next_row=_checked(state.next_row + len(entries)),
        next_owner=state.next_owner + len(owners),
        contents=state.contents + len(chunks),
        words=state.words + int(added.words.sum()),
        grams=state.grams + int(added.grams.sum()),
        segments=(*state.segments, *added.segments),
    )


def _checked(row: int) -> int:
    if row > LAST_ROW:
        raise unusable("行号用尽")  # two thousand million entries came and went
    return row


def _fields(entries: Sequence[IndexEntry], rows: Numbers, owner_of: Sequence[int]) -> dict[str, Any]:
    return {
        "row": rows,
        "key": [entry.key for entry in entries],
        "document": [entry.document for entry in entries],
        "lane": [LANES[entry.field] for entry in entries],
        "owner": owner_of,
    }


def _add_vectors(
    tx: Tx, tables: Tables, state: State, entries: Sequence[IndexEntry], added: NDArray[np.void], matrix: Vectors
) -> State:
    if len(matrix) == 0:
        return state
    own = added[[entry.vector is not None for entry in entries]]
    table = np.zeros(len(own), dtype=vector_record(state.stamp.dimension))
    for name in ("row", "key", "lane", "owner"):
        table[name] = own[name]
    table["check_sum"] = row_sums(matrix)
    table["dimension"], table["embedding"] = state.stamp.dimension, matrix
    tx.copy_in(tables.vectors, "row, key, lane, owner, check_sum, embedding", _framed(table))
    content, questions = np.bincount(own["lane"], minlength=2).tolist()
    return replace(state, vectors=(state.vectors[0] + content, state.vectors[1] + questions))


# ── rows of a binary COPY: the number of fields, and before each field its size ──────────────────


def _record(*fields: tuple[str, str]) -> np.dtype[np.void]:
    parts: list[Any] = [("fields", ">i2")]
    for name, kind in fields:
        parts += [(f"size_{name}", ">i4"), (name, kind)]
    return np.dtype(parts)


ENTRY: Final = _record(
    ("row", ">i4"), ("key", ">i8"), ("document", ">i8"), ("lane", ">i2"), ("owner", ">i4"), ("words", ">i4"),
    ("grams", ">i4"),
)  # fmt: skip


def vector_record(dimension: int) -> np.dtype[np.void]:
    plain = _record(("row", ">i4"), ("key", ">i8"), ("lane", ">i2"), ("owner", ">i4"), ("check_sum", ">i8"))
    vector = [("size_embedding", ">i4"), ("dimension", ">i2"), ("spare", ">i2"), ("embedding", ">f4", (dimension,))]
    return np.dtype([*((name, plain.fields[name][0]) for name in plain.names or ()), *vector])  # type: ignore[index]


def _framed(table: NDArray[np.void]) -> bytes:
    names = table.dtype.names or ()
    for name in names:
        if name == "size_embedding":
            table[name] = 4 + 4 * table.dtype["embedding"].shape[0]
        elif name.startswith("size_"):
            table[name] = table.dtype[name.removeprefix("size_")].itemsize
    table["fields"] = sum(name.startswith("size_") for name in names)
    return table.tobytes()
