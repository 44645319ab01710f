"""Nearest vectors with pgvector: scored one by one while there are few, by an HNSW index beyond.

Vectors have unit length, so their inner product is their cosine; every score comes from the vectors themselves, by one
operator, whichever way they were found. What is to be searched exactly is in a materialised table expression, which the
planner cannot turn into a search of the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from qianxun.core.types import NOTHING, Keys, Ranking, Scores, Vector, VectorField
from qianxun.index.postgres.facts import AllowedOwners
from qianxun.index.postgres.server import Tx, bigints, packed_vector
from qianxun.index.postgres.tables import State, Tables
from qianxun.index.shared import COSINE_DECIMALS, LANES, SAMPLE, mean_cosine

SLACK: Final = 4 * 10.0**-COSINE_DECIMALS  # what rounding may move
FEW: Final = 2_000  # so many allowed vectors are scored exactly even beside an index
POOLED: Final = 200  # hits that a graph is searched for, whatever the limit: a longer list starts with the shorter
DEEPEST: Final = 1_000  # beyond so many hits every vector is scored
CONNECTIONS: Final = 16  # of a vector in the graph (m)
BUILD_WIDTH: Final = 128  # ef_construction
SEARCH_WIDTH: Final = 400  # ef_search: 97 of 100 of the nearest 200 are found, 99.6 of the nearest 15
MOST_DIMENSIONS: Final = 4_000  # that pgvector indexes in half precision
GRAPH_MEMORY: Final = "256MB"  # a graph that does not fit is built slowly


@dataclass(frozen=True, slots=True)
class Search:
    """A search for one vector in one lane, in one transaction."""

    tx: Tx
    tables: Tables
    state: State
    field: VectorField
    vector: Vector

    @property
    def lane(self) -> int:
        return LANES[self.field]

    def values(self, allowed: AllowedOwners | None) -> dict[str, Any]:
        values = {"base": self.state.base, "lane": self.lane, "vector": packed_vector(self.vector)}
        return values if allowed is None else {**values, "owners": allowed.value}

    def condition(self, allowed: AllowedOwners | None) -> str:
        mine = f"base = %(base)s AND lane = {self.lane:d}"
        return mine if allowed is None else f"{mine} AND {allowed.condition()}"


def nearest(search: Search, limit: int, allowed: AllowedOwners | None, exact_limit: int) -> Ranking:
    """The nearest of the allowed entries (None: of all), ties by key."""
    number = search.state.vectors[search.lane]
    if limit <= 0 or number == 0 or (allowed is not None and allowed.is_nothing):
        return NOTHING
    use_graph = search.state.graphs[search.lane] and number > exact_limit and limit <= DEEPEST
    if not use_graph or (allowed is not None and _are_few(search, allowed)):
        return _exactly(search, limit, allowed)
    found = _by_graph(search, limit, allowed)
    return _exactly(search, limit, allowed) if found is None else found


def nearest_within(search: Search, limit: int, allowed: AllowedOwners | None, documents: Keys) -> Ranking:
    """The nearest of these documents' entries, scored one by one: a graph over all vectors finds what it finds by way
    of those that are not to be there."""
    if limit <= 0 or len(documents) == 0 or (allowed is not None and allowed.is_nothing):
        return NOTHING
    return _exactly(search, limit, allowed, documents)


def _are_few(search: Search, allowed: AllowedOwners) -> bool:
    if allowed.but_them or len(allowed.owners) > FEW:
        return False
    found = search.tx.one(
        f"SELECT count(*) FROM (SELECT FROM {search.tables.vectors} WHERE {search.condition(allowed)} "
        f"LIMIT {FEW + 1}) AS found",
        **{name: value for name, value in search.values(allowed).items() if name not in ("vector", "lane")},
    )
    assert found is not None
    return bool(found[0] <= FEW)


def _exactly(search: Search, limit: int, allowed: AllowedOwners | None, documents: Keys | None = None) -> Ranking:
    """All that can be among the best, ties and rounding included: the server's order is not yet ours."""
    own = "" if documents is None else f" AND {_within(search.tables)}"
    bound = {} if documents is None else {"documents": bigints(documents)}
    if allowed is None or allowed.but_them:
        search.tx.set({"enable_seqscan": "on"})  # all of them, as they lie
    found = search.tx.rows(
        f"""WITH scored AS MATERIALIZED (
                SELECT key, embedding <#> %(vector)s::vector AS distance FROM {search.tables.vectors}
                WHERE {search.condition(allowed)}{own}),
            cut AS (SELECT distance FROM scored ORDER BY distance OFFSET %(limit)s - 1 LIMIT 1)
            SELECT key, distance FROM scored
            WHERE distance <= COALESCE((SELECT distance FROM cut), 'infinity'::float8) + {SLACK}""",
        limit=limit,
        **search.values(allowed),
        **bound,
    )
    return _ranking(found).head(limit)


def _within(tables: Tables) -> str:
    """A condition on vectors: that their entry is of one of ``%(documents)s``."""
    return f"row IN (SELECT e.row FROM {tables.entries} e WHERE e.document = ANY(%(documents)s::bigint[]))"


def _by_graph(search: Search, limit: int, allowed: AllowedOwners | None) -> Ranking | None:
    """From the HNSW index; None where it does not find enough.

    Its scan goes on until enough entries pass the filter, or it has seen all.
    """
    pool = max(limit, POOLED)
    fetched = pool + 32
    _plan(search, min(max(SEARCH_WIDTH, 2 * fetched), 1_000))
    found = search.tx.rows(statement(search, allowed), fetched=fetched, **search.values(allowed))
    ranking = _ranking(found)
    is_all = len(ranking) == search.state.vectors[search.lane]
    if not is_all and (len(ranking) < fetched or ranking.scores[limit - 1] - ranking.scores[-1] <= SLACK):
        return None  # too few, or ties that go on beyond
    return ranking.head(limit)


def statement(search: Search, allowed: AllowedOwners | None) -> str:
    return f"""SELECT key, embedding <#> %(vector)s::vector AS distance FROM {search.tables.vectors}
               WHERE {search.condition(allowed)} ORDER BY {_measure(search.state)} LIMIT %(fetched)s"""


def _measure(state: State) -> str:
    """The graph is in half precision: half as large, and it finds the same (docs/decisions/0010-postgres-index.md)."""
    halved = f"halfvec({state.stamp.dimension:d})"
    return f"embedding::{halved} <#> %(vector)s::vector::{halved}"


def _plan(search: Search, width: int) -> None:
    chosen = {
        "hnsw.ef_search": str(width),
        "hnsw.max_scan_tuples": str(max(search.state.vectors[search.lane], 20_000)),
        "hnsw.scan_mem_multiplier": "8",
        "enable_sort": "off",
    }
    search.tx.set(chosen)


def _ranking(found: list[tuple[Any, ...]]) -> Ranking:
    keys = np.array([key for key, _ in found], dtype=np.int64)
    scores = np.round(-np.array([distance for _, distance in found], dtype=np.float64), COSINE_DECIMALS)
    return Ranking.ordered(keys, scores)


def cosines(search: Search, keys: Keys) -> Scores:
    """The scores of `nearest` for these chunks; not a number for those without a vector."""
    found = search.tx.rows(
        f"""SELECT key, embedding <#> %(vector)s::vector FROM {search.tables.vectors}
            WHERE {search.condition(None)} AND key = ANY(%(keys)s::bigint[])""",
        keys=bigints(keys),
        **search.values(None),
    )
    known = dict(zip(*map(np.ndarray.tolist, _columns(_ranking(found))), strict=True))
    return np.array([known.get(key, np.nan) for key in keys.tolist()], dtype=np.float64)


def _columns(ranking: Ranking) -> tuple[Keys, Scores]:
    return ranking.keys, ranking.scores


def likeness(tx: Tx, tables: Tables, state: State) -> float:
    """The mean cosine of chunks evenly spaced in key order, as the embedded index has it."""
    number = state.vectors[0]
    if number == 0:
        return mean_cosine(np.empty((0, 1)))
    places = np.linspace(0, number - 1, min(SAMPLE, number)).astype(np.int64)
    found = tx.rows(
        f"""SELECT vector_send(v.embedding) FROM {tables.vectors} v JOIN (
                SELECT row, row_number() OVER (ORDER BY key) - 1 AS place FROM {tables.vectors}
                WHERE base = %(base)s AND lane = 0) AS placed USING (row)
            WHERE placed.place = ANY(%(places)s::bigint[])""",
        base=state.base,
        places=bigints(places),
    )
    rows = np.frombuffer(b"".join(data[4:] for (data,) in found), dtype=">f4").reshape(-1, state.stamp.dimension)
    return mean_cosine(rows.astype(np.float64))


def likeness_within(tx: Tx, tables: Tables, state: State, documents: Keys) -> float:
    """The same among the chunks of these documents."""
    if state.vectors[0] == 0:
        return mean_cosine(np.empty((0, 1)))
    mine = f"base = %(base)s AND lane = 0 AND {_within(tables)}"
    bound = {"base": state.base, "documents": bigints(documents)}
    rows = tx.ints(f"SELECT row AS value FROM {tables.vectors} WHERE {mine} ORDER BY key", **bound)
    if len(rows) == 0:
        return mean_cosine(np.empty((0, 1)))
    chosen = rows[np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(np.int64)]
    found = tx.rows(
        f"""SELECT vector_send(embedding) FROM {tables.vectors}
            WHERE base = %(base)s AND row = ANY(%(rows)s::bigint[]) ORDER BY key""",
        base=state.base,
        rows=bigints(chosen),
    )
    matrix = np.frombuffer(b"".join(data[4:] for (data,) in found), dtype=">f4").reshape(-1, state.stamp.dimension)
    return mean_cosine(matrix.astype(np.float64))


# ── the index ────────────────────────────────────────────────────────────────────────────────────


def can_have_graph(state: State) -> bool:
    return 0 < state.stamp.dimension <= MOST_DIMENSIONS


def build_graph(tx: Tx, tables: Tables, state: State, lane: int) -> None:
    """Readers go on meanwhile; writers of this index wait."""
    column = f"(embedding::halfvec({state.stamp.dimension:d})) halfvec_ip_ops"
    tx.run(f"SET LOCAL maintenance_work_mem = '{GRAPH_MEMORY}'")
    tx.run(
        f"""CREATE INDEX {tables.graph(lane)} ON {tables.vectors} USING hnsw ({column})
            WITH (m = {CONNECTIONS}, ef_construction = {BUILD_WIDTH}) WHERE lane = {lane:d}"""
    )
    tx.run(f"ANALYZE {tables.vectors}")
