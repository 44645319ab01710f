"""A batch into the rows of a build: what comes is inserted, then the state that counts it is written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from qianxun.core.types import Attributes, IndexBatch, IndexEntry, Vectors
from qianxun.index.bm25 import average_length
from qianxun.index.milvus import facts, terms
from qianxun.index.milvus.conditions import Condition, among, between, compared
from qianxun.index.milvus.server import Milvus
from qianxun.index.milvus.states import (
    ADDED,
    CHUNKS,
    CONTENT,
    ENTRIES,
    NAMED,
    OWN_ROWS,
    QUESTION,
    REMOVED,
    UNVECTORED,
    VALUES,
    WORDED,
    State,
    dense_size,
)
from qianxun.index.shared import LANES, row_sums

ROWS_AT_ONCE: Final = 500  # of an insert: some megabytes
IDS_AT_ONCE: Final = 5_000
DOCUMENTS_AT_ONCE: Final = 50  # whose rows are looked up together; of a document there may be hundreds
TERMS_OF_ROW: Final = 300_000
MOST_WRITTEN: Final = 1_000_000  # values that a writer remembers to have written

KINDS: Final = {("content", True): CONTENT, ("question", True): QUESTION, ("content", False): WORDED}


@dataclass(slots=True)
class Writer:
    """What one process that writes a build remembers between batches."""

    purge_seconds: float
    unclean: tuple[tuple[int, int], ...] | None = None  # rows that may lie beyond those of the state; None: not known
    written: set[int] = field(default_factory=set)  # hashes of values of attributes


def apply(
    writer: Writer,
    milvus: Milvus,
    name: str,
    state: State,
    batch: IndexBatch,
    entries: Sequence[IndexEntry],
    matrix: Vectors,
    frequencies: terms.Frequencies,
) -> State:
    """The state afterwards, to be saved; what was inserted counts only then."""
    state = _swept(writer, milvus, name, state)
    state = _purge(writer, milvus, name, state)
    dying = _dying(milvus, name, state, batch.removed, entries)
    state = _without(state, dying)
    chunks, names = _counted(entries, frequencies)
    state = _weighed(state, [chunk for chunk in chunks if chunk is not None])
    rows = list(_rows(state, entries, chunks, matrix))
    state = _with(state, entries, chunks)
    added = terms.holding(chunk.times for chunk in chunks if chunk is not None)
    removed = terms.holding(row["sparse"] for row in dying if row["kind"] in CHUNKS)
    counts, state = _counts(state, added, removed, names, frequencies)
    values, hashes = facts.unwritten(_owners(entries), writer.written)
    others, state = _values(state, values)
    numbered = [
        {**row, "id": state.next_row + at, "serial": state.next_serial + at}
        for at, row in enumerate([*rows, *counts, *others])
    ]
    writer.unclean = ((state.next_row, state.next_row + len(numbered)),)
    timestamp = state.timestamp
    for start in range(0, len(numbered), ROWS_AT_ONCE):
        timestamp = max(timestamp, milvus.insert(name, numbered[start : start + ROWS_AT_ONCE]))
    if len(writer.written) > MOST_WRITTEN:
        writer.written.clear()
    writer.written |= hashes
    return replace(state.with_rows(len(numbered)), watermark=batch.sequence, timestamp=timestamp)


def _counted(
    entries: Sequence[IndexEntry], frequencies: terms.Frequencies
) -> tuple[list[terms.ChunkTerms | None], dict[int, int]]:
    """The terms of each chunk (None: of a question), and the names that coordinates get by them."""
    tokens = [terms.tokenised(entry.words, entry.grams) if entry.field == "content" else None for entry in entries]
    every = dict.fromkeys(term for own in tokens if own is not None for term in own.terms())
    places, names = frequencies.placed(list(every))
    return [None if own is None else terms.counted(own, places) for own in tokens], names


def _owners(entries: Iterable[IndexEntry]) -> list[Attributes]:
    return list({id(entry.attributes): entry.attributes for entry in entries}.values())


# ── what has to go ───────────────────────────────────────────────────────────────────────────────


def _swept(writer: Writer, milvus: Milvus, name: str, state: State) -> State:
    """Deletes rows of batches that were never counted: where the next ones will be, and between epochs that have become
    one. Another writer's rows are never among them."""
    spans = writer.unclean if writer.unclean is not None else ((state.next_row, state.next_row + OWN_ROWS),)
    for start, end in spans:
        if not state.counts(start):  # it does where the answer to the saving of a state was lost
            milvus.delete(name, between("id", start, end))
    writer.unclean = ()
    if (unused := state.unused()) is not None:
        milvus.delete(name, unused)
        state = state.with_fewer_epochs()
    return state


def _purge(writer: Writer, milvus: Milvus, name: str, state: State) -> State:
    """Deletes rows that died so long ago that no reader counts them any more."""
    old = [group for group in state.dead if time.time() - group[0] >= writer.purge_seconds]
    if not old:
        return state
    rows = [row for _, group in old for row in group]
    for start in range(0, len(rows), IDS_AT_ONCE):
        milvus.delete(name, among("id", rows[start : start + IDS_AT_ONCE]))
    return replace(state, dead=tuple(group for group in state.dead if group not in old))


def _dying(
    milvus: Milvus, name: str, state: State, documents: Sequence[int], entries: Sequence[IndexEntry]
) -> list[dict[str, Any]]:
    """The entries of removed documents, and those whose key comes anew."""
    if state.next_row == 0:
        return []
    conditions: list[Condition] = [
        among("document", documents[start : start + DOCUMENTS_AT_ONCE])
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE)
    ]
    for kind, lane in LANES.items():
        keys = [entry.key for entry in entries if entry.field == kind and entry.key <= state.top_keys[lane]]
        own = among("kind", CHUNKS if lane == 0 else (QUESTION, UNVECTORED))
        conditions += [own & among("key", keys[at : at + IDS_AT_ONCE]) for at in range(0, len(keys), IDS_AT_ONCE)]
    found: dict[int, dict[str, Any]] = {}
    for condition in conditions:
        rows = milvus.query(
            name, state.of_kinds(*ENTRIES) & condition, ("id", "kind", "words", "grams", "sparse"), state.timestamp
        )
        found.update((int(row["id"]), row) for row in rows)
    return list(found.values())


def _without(state: State, dying: Sequence[Mapping[str, Any]]) -> State:
    if not dying:
        return state
    kinds = np.bincount([row["kind"] for row in dying], minlength=VALUES)
    chunks = [row for row in dying if row["kind"] in CHUNKS]
    return replace(
        state,
        dead=(*state.dead, (time.time(), tuple(sorted(int(row["id"]) for row in dying)))),
        contents=state.contents - len(chunks),
        words=state.words - sum(int(row["words"]) for row in chunks),
        grams=state.grams - sum(int(row["grams"]) for row in chunks),
        vectors=(state.vectors[0] - int(kinds[CONTENT]), state.vectors[1] - int(kinds[QUESTION])),
    )


# ── what comes ───────────────────────────────────────────────────────────────────────────────────


def _weighed(state: State, chunks: Sequence[terms.ChunkTerms]) -> State:
    """The first chunks of a build say how long its chunks are, where no earlier build did."""
    if state.averages != (0.0, 0.0) or not chunks:
        return state
    words, grams = sum(chunk.words for chunk in chunks), sum(chunk.grams for chunk in chunks)
    return replace(state, averages=(average_length(words, len(chunks)), average_length(grams, len(chunks))))


def _rows(
    state: State, entries: Sequence[IndexEntry], chunks: Sequence[terms.ChunkTerms | None], matrix: Vectors
) -> Iterator[dict[str, Any]]:
    usual = terms.usual_damping(state.averages)
    vectors = iter(zip(matrix, row_sums(matrix).tolist(), strict=True) if len(matrix) else ())
    own_facts = {id(owner): facts.facts_of(owner) for owner in _owners(entries)}
    nothing = np.zeros(dense_size(state.stamp.dimension), dtype=np.float32)
    for entry, chunk in zip(entries, chunks, strict=True):
        dense, check_sum = next(vectors) if entry.vector is not None else (nothing, 0)
        yield {
            **_blank(nothing),
            "kind": KINDS.get((entry.field, entry.vector is not None), UNVECTORED),
            "key": entry.key,
            "document": entry.document,
            "words": chunk.words if chunk else 0,
            "grams": chunk.grams if chunk else 0,
            "check_sum": check_sum,
            "facts": own_facts[id(entry.attributes)],
            "dense": dense,
            "sparse": terms.vector(chunk, usual) if chunk else dict(terms.NO_TERMS),
        }


def _blank(nothing: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(("key", "document", "words", "grams", "check_sum"), 0),
        "facts": [],
        "value": "",
        "dense": nothing,
        "sparse": dict(terms.NO_TERMS),
    }


def _with(state: State, entries: Sequence[IndexEntry], chunks: Sequence[terms.ChunkTerms | None]) -> State:
    own = [chunk for chunk in chunks if chunk is not None]
    have = [LANES[entry.field] for entry in entries if entry.vector is not None]
    tops = [max([entry.key for entry in entries if LANES[entry.field] == lane], default=-1) for lane in (0, 1)]
    return replace(
        state,
        contents=state.contents + len(own),
        words=state.words + sum(chunk.words for chunk in own),
        grams=state.grams + sum(chunk.grams for chunk in own),
        vectors=(state.vectors[0] + have.count(0), state.vectors[1] + have.count(1)),
        top_keys=(max(state.top_keys[0], tops[0]), max(state.top_keys[1], tops[1])),
    )


def _counts(
    state: State,
    added: Mapping[int, int],
    removed: Mapping[int, int],
    names: Mapping[int, int],
    frequencies: terms.Frequencies,
) -> tuple[list[dict[str, Any]], State]:
    """The rows that count terms: what this batch changed or, when a good many have come, the sum of all."""
    logged = state.logged + len(added) + len(removed)
    changes: tuple[tuple[int, Mapping[int, int]], ...] = ((NAMED, names), (ADDED, added), (REMOVED, removed))
    if logged > max(terms.SUM_AFTER, state.counted // 2):
        everything, known = frequencies.with_changes(added, removed), frequencies.names() | dict(names)
        changes = ((NAMED, {term: known[term] for term in everything if term in known}), (ADDED, everything))
        state = replace(state, first_count=state.next_count, counted=len(everything))
        logged = 0
    parts = [(kind, part) for kind, counts in changes for part in _parts(counts)]
    rows = [_count_row(state, kind, state.next_count + at, part) for at, (kind, part) in enumerate(parts)]
    return rows, replace(state, next_count=state.next_count + len(rows), logged=logged)


def _parts(counts: Mapping[int, int]) -> Iterator[dict[int, float]]:
    pairs = [(term, float(often)) for term, often in counts.items()]
    for start in range(0, len(pairs), TERMS_OF_ROW):
        yield dict(pairs[start : start + TERMS_OF_ROW])


def _count_row(state: State, kind: int, number: int, counts: Mapping[int, float]) -> dict[str, Any]:
    nothing = np.zeros(dense_size(state.stamp.dimension), dtype=np.float32)
    return {**_blank(nothing), "kind": kind, "key": number, "sparse": dict(counts)}


def _values(state: State, values: Mapping[str, Sequence[Any]]) -> tuple[list[dict[str, Any]], State]:
    nothing = np.zeros(dense_size(state.stamp.dimension), dtype=np.float32)
    rows = [
        {
            **_blank(nothing),
            "kind": VALUES,
            "key": piece.field,
            "document": state.next_values + at,
            "words": piece.left,
            "value": piece.text,
        }
        for at, piece in enumerate(facts.pieces(values))
    ]
    return rows, replace(state, next_values=state.next_values + len(rows))


def forget_counts(milvus: Milvus, name: str, before: State, after: State) -> None:
    """Deletes rows of counts that were summed up, but for those that readers of the last sum may still want."""
    if after.first_count != before.first_count:
        milvus.delete(name, among("kind", (ADDED, REMOVED, NAMED)) & compared("key", "<", before.first_count))
