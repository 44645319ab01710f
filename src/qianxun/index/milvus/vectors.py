"""Vectors by inner product: exactly while a build is small, by HNSW beyond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import NOTHING, Keys, Ranking, Scores, Vector, VectorField
from qianxun.index.milvus.conditions import Condition, among, between
from qianxun.index.milvus.server import MOST_HITS, Milvus, SearchHits
from qianxun.index.milvus.states import CONTENT, QUESTION, State
from qianxun.index.shared import COSINE_DECIMALS, LANES, SAMPLE, mean_cosine

SLACK: Final = 2e-6  # what the order of adding can change
SEARCH_WIDTH: Final = 400  # ef
WINDOW: Final = 10_000  # rows whose keys are read at once
KEYS_AT_ONCE: Final = 500

KINDS: Final = (CONTENT, QUESTION)


def nearest(
    milvus: Milvus, name: str, state: State, vector: Vector, limit: int, where: Condition, field: VectorField
) -> Ranking:
    """The nearest of the entries that pass, ties by key."""
    lane = LANES[field]
    if limit <= 0 or state.vectors[lane] == 0:
        return NOTHING
    fetch = min(limit + 16, MOST_HITS)
    while True:
        found = _search(milvus, name, state, vector, fetch, where & state.of_kinds(KINDS[lane]))
        ranking = _ranking(found)
        if len(found) < fetch or fetch >= MOST_HITS:
            return ranking.head(limit)
        if len(ranking) >= limit and ranking.scores[limit - 1] - ranking.scores[-1] > SLACK:
            return ranking.head(limit)
        fetch = min(fetch * 4, MOST_HITS)  # ties that go on beyond


def nearest_within(
    milvus: Milvus,
    name: str,
    state: State,
    vector: Vector,
    limit: int,
    where: Condition,
    field: VectorField,
    documents: Sequence[Sequence[int]],
) -> Ranking:
    """The nearest of the entries of these documents, as many of them at a time as a condition names."""
    found = [
        nearest(milvus, name, state, vector, limit, where & among("document", group), field) for group in documents
    ]
    if not found:
        return NOTHING
    keys, scores = (np.concatenate([getattr(own, part) for own in found]) for part in ("keys", "scores"))
    return Ranking.ordered(keys, scores).head(limit)


def cosines(milvus: Milvus, name: str, state: State, vector: Vector, keys: Keys) -> Scores:
    """The scores of `nearest` for these chunks; not a number for those without a vector."""
    known: dict[int, float] = {}
    wanted = np.unique(keys).tolist()
    for start in range(0, len(wanted), KEYS_AT_ONCE):
        part = wanted[start : start + KEYS_AT_ONCE]
        where = state.of_kinds(CONTENT) & among("key", part)
        ranking = _ranking(_search(milvus, name, state, vector, len(part), where))
        known.update(zip(ranking.keys.tolist(), ranking.scores.tolist(), strict=True))
    return np.array([known.get(key, np.nan) for key in keys.tolist()], dtype=np.float64)


def _search(milvus: Milvus, name: str, state: State, vector: Vector, limit: int, where: Condition) -> SearchHits:
    params = {} if state.exact else {"ef": max(SEARCH_WIDTH, 2 * limit)}
    return milvus.search(name, "dense", vector, limit, where, ("key",), params=params, since=state.timestamp)


def _ranking(found: SearchHits) -> Ranking:
    keys, once = np.unique(found.columns["key"], return_index=True)
    return Ranking.ordered(keys, np.round(found.scores[once], COSINE_DECIMALS))


def likeness(milvus: Milvus, name: str, state: State, within: Keys | None = None) -> float:
    """The mean cosine of chunks evenly spaced in key order, as the embedded index has it; of these alone."""
    if state.vectors[0] == 0:
        return mean_cosine(np.empty((0, 1)))
    keys = np.sort(np.concatenate([own[kinds == CONTENT] for kinds, own in windows(milvus, name, state, (CONTENT,))]))
    if within is not None:
        keys = keys[np.isin(keys, within)]
        if len(keys) == 0:
            return mean_cosine(np.empty((0, 1)))
    chosen = keys[np.linspace(0, len(keys) - 1, min(SAMPLE, len(keys))).astype(np.int64)].tolist()
    found: dict[int, list[float]] = {}
    for start in range(0, len(chosen), KEYS_AT_ONCE):
        where = state.of_kinds(CONTENT) & among("key", chosen[start : start + KEYS_AT_ONCE])
        rows = milvus.query(name, where, ("key", "dense"), state.timestamp)
        found.update((int(row["key"]), row["dense"]) for row in rows)
    vectors = np.array([found[key] for key in chosen], dtype=np.float32)[:, : state.stamp.dimension]
    return mean_cosine(vectors.astype(np.float64))


def windows(
    milvus: Milvus, name: str, state: State, kinds: tuple[int, ...]
) -> Iterator[tuple[NDArray[np.int64], Keys]]:
    """The kinds and the keys of all rows of these kinds, some thousand at a time."""
    for start, end in spans(state, WINDOW):
        rows = milvus.query(
            name, state.of_kinds(*kinds) & between("serial", start, end), ("id", "kind", "key"), state.timestamp
        )
        table = {int(row["id"]): (int(row["kind"]), int(row["key"])) for row in rows}
        columns = np.array(list(table.values()), dtype=np.int64).reshape(-1, 2)
        yield columns[:, 0], columns[:, 1]


def spans(state: State, width: int) -> Iterator[tuple[int, int]]:
    """Of serial numbers."""
    for first in range(0, state.next_serial, width):
        yield first, min(first + width, state.next_serial)
