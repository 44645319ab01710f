"""The tables of an index in PostgreSQL, and the row that describes them.

    builds        one row per index: base, stamp, progress; one of a base's is current
    entries_<b>   what build <b> holds: keys, documents, lengths; and the owner of an entry's attributes
    vectors_<b>   … those with a vector (absent without a model), with an HNSW index once there are many
    owners_<b>    one row per set of attributes, and in
    facts_<b>     one per value of them: what filters test (`facts`)
    postings_<b>  for each term the entries it occurs in, packed (`postings`)
    deaths_<b>    deleted entries that still have postings

Each build has tables of its own: to switch is to change one row, to drop is to drop tables, and no graph of vectors is
shared by two bases. Every row has the base's number, the tables refuse any other, and every statement
filters by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from typing import Final

from qianxun.core.errors import BadSettings, LeaseLost, RetrieverUnavailable
from qianxun.core.types import IndexStamp
from qianxun.index.postgres.server import UPDATE_HINT, Row, Tx
from qianxun.index.shared import unusable

FORMAT: Final = 1
INLINE_DIMENSIONS: Final = 1_900  # three vectors of 512 share a page of 8 KB; longer ones lie beside the table
ABANDONED: Final = "1 day"  # a build without writes for so long was abandoned
LOCK_TIMEOUT: Final = "300ms"  # less than PostgreSQL takes to see a deadlock
PARTS: Final = ("entries", "vectors", "owners", "facts", "postings", "deaths")


@dataclass(frozen=True, slots=True)
class Segment:
    """The postings of ``entries`` that came one after another and lie among ``rows`` from ``first`` on.

    ``dead`` of them have been deleted, but not from here.
    """

    first: int
    rows: int
    entries: int
    dead: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """An index at one moment. ``words`` and ``grams`` are the lengths of its ``contents`` entries added up."""

    build: int
    base: int
    stamp: IndexStamp
    watermark: int = 0
    generation: int = 0  # counts the batches
    next_row: int = 0
    next_owner: int = 0
    contents: int = 0
    words: int = 0
    grams: int = 0
    vectors: tuple[int, int] = (0, 0)  # of content, of questions
    graphs: tuple[bool, bool] = (False, False)  # which of them have an HNSW index
    segments: tuple[Segment, ...] = ()
    fence: int = 0  # the highest that a batch had

    @property
    def dead(self) -> int:
        """How many deleted entries still have postings."""
        return sum(segment.dead for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of one build's tables, quoted by nothing but what they are made of: a checked schema and a number."""

    schema: str
    build: int

    def __getattr__(self, part: str) -> str:
        if part not in (*PARTS, "compacted"):
            raise AttributeError(part)
        return f"{self.schema}.{part}_{self.build}"

    def graph(self, lane: int) -> str:
        """The name of a lane's HNSW index; an index lies in the schema of its table."""
        return f"vectors_{self.build}_{lane}_hnsw"


def check_schema(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", name):
        raise BadSettings(f"不能用作 PostgreSQL 模式名：{name!r}", hint="只用小写字母、数字与下划线")
    return name


def lock(tx: Tx, schema: str, base: int | None) -> None:
    """Until the transaction ends no other process changes this base (None: the list of all)."""
    digest = blake2b(f"{schema}:{'' if base is None else base}".encode(), digest_size=8).digest()
    tx.run("SELECT pg_advisory_xact_lock(%(key)s)", key=int.from_bytes(digest, "little", signed=True))


def is_prepared(tx: Tx, schema: str) -> bool:
    return tx.one("SELECT to_regclass(%(name)s) IS NOT NULL", name=f"{schema}.builds") == (True,)


def upgrade(tx: Tx, schema: str) -> None:
    """What a list of builds that an earlier version made lacks."""
    query = "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(%(name)s) AND attname = 'fence'"
    if tx.one(query, name=f"{schema}.builds") is None:
        tx.run(f"ALTER TABLE {schema}.builds ADD COLUMN IF NOT EXISTS fence bigint NOT NULL DEFAULT 0")


def prepare(tx: Tx, schema: str) -> None:
    """The extension, the schema and the list of builds, where they are not there yet."""
    if is_prepared(tx, schema):
        upgrade(tx, schema)
        return
    lock(tx, schema, None)
    _require_extension(tx)
    tx.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    tx.run(
        f"""CREATE TABLE IF NOT EXISTS {schema}.builds (
            build integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            base integer NOT NULL,
            format integer NOT NULL,
            is_current boolean NOT NULL DEFAULT false,
            is_retired boolean NOT NULL DEFAULT false,
            model text NOT NULL, dimension integer NOT NULL, analysis text NOT NULL,
            watermark bigint NOT NULL DEFAULT 0,
            generation bigint NOT NULL DEFAULT 0,
            next_row integer NOT NULL DEFAULT 0,
            next_owner integer NOT NULL DEFAULT 0,
            contents integer NOT NULL DEFAULT 0,
            words bigint NOT NULL DEFAULT 0,
            grams bigint NOT NULL DEFAULT 0,
            vectors integer[] NOT NULL DEFAULT '{{0,0}}',
            graphs boolean[] NOT NULL DEFAULT '{{f,f}}',
            segments integer[] NOT NULL DEFAULT '{{}}',
            fence bigint NOT NULL DEFAULT 0,
            touched_at timestamptz NOT NULL DEFAULT clock_timestamp())"""
    )
    tx.run(f"CREATE UNIQUE INDEX IF NOT EXISTS builds_current ON {schema}.builds (base) WHERE is_current")


def _require_extension(tx: Tx) -> None:
    version_query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    if tx.one(version_query) is None:
        tx.run("CREATE EXTENSION IF NOT EXISTS vector")
    (version,) = tx.one(version_query) or ("",)
    if [int(part) for part in version.split(".")[:2]] < [0, 8]:  # the first whose scans go on behind a filter
        raise RetrieverUnavailable(f"pgvector {version} 太旧，索引要 0.8 或更新", hint=UPDATE_HINT)


COUNTS: Final = ("watermark", "generation", "next_row", "next_owner", "contents", "words", "grams", "fence")


def state_statement(schema: str, base: int, build: int | None, *, changing: bool = False) -> str:
    """Selects the state of a build of this base, or of its current one; of a retired one there is none."""
    which = "is_current" if build is None else f"build = {build:d}"
    return f"""SELECT build, format, model, dimension, analysis, vectors, graphs, segments, {", ".join(COUNTS)}
        FROM {schema}.builds WHERE base = {base:d} AND NOT is_retired AND {which} {"FOR UPDATE" if changing else ""}"""


def load(tx: Tx, schema: str, base: int, build: int | None, *, changing: bool = False) -> State | None:
    return state_of(base, tx.rows(state_statement(schema, base, build, changing=changing)))


def state_of(base: int, found: Sequence[Row]) -> State | None:
    """What `state_statement` gave."""
    if not found:
        return None
    number, form, model, dimension, analysis, vectors, graphs, segments, *counts = found[0]
    if form != FORMAT:
        raise unusable("由另一个版本的千寻写成")
    return State(
        number,
        base,
        IndexStamp(model, dimension, analysis),
        vectors=tuple(vectors),
        graphs=tuple(graphs),
        segments=tuple(Segment(*segments[at : at + 4]) for at in range(0, len(segments), 4)),
        **dict(zip(COUNTS, counts, strict=True)),
    )


def save(tx: Tx, schema: str, state: State) -> None:
    """Writes the state, as that of the next generation."""
    state = replace(state, generation=state.generation + 1)
    tx.run(
        f"""UPDATE {schema}.builds SET {", ".join(f"{name} = %({name})s" for name in COUNTS)},
            vectors = %(vectors)s::int[], graphs = %(graphs)s::boolean[], segments = %(segments)s::int[],
            touched_at = clock_timestamp() WHERE build = {state.build:d} AND base = %(base)s""",
        base=state.base,
        vectors=list(state.vectors),
        graphs=list(state.graphs),
        segments=[number for part in state.segments for number in astuple(part)],
        **{name: getattr(state, name) for name in COUNTS},
    )


def create(tx: Tx, schema: str, base: int, stamp: IndexStamp) -> State:
    """A new, empty build, which is not current."""
    found = tx.one(
        f"""INSERT INTO {schema}.builds (base, format, model, dimension, analysis)
            VALUES (%(base)s, %(format)s, %(model)s, %(dimension)s, %(analysis)s) RETURNING build""",
        base=base,
        format=FORMAT,
        model=stamp.model,
        dimension=stamp.dimension,
        analysis=stamp.analysis,
    )
    assert found is not None
    state = State(found[0], base, stamp)
    own = f"base integer NOT NULL DEFAULT {base:d} CHECK (base = {base:d})"
    for statement in _definitions(Tables(schema, state.build), own, stamp.dimension):
        tx.run(statement)
    return state


def _definitions(tables: Tables, own: str, dimension: int) -> list[str]:
    statements = [
        f"""CREATE TABLE {tables.entries} (row integer PRIMARY KEY, {own}, key bigint NOT NULL,
            document bigint NOT NULL, lane smallint NOT NULL, owner integer NOT NULL,
            words integer NOT NULL, grams integer NOT NULL, UNIQUE (lane, key))""",
        f"CREATE INDEX ON {tables.entries} (document)",
        f"CREATE INDEX ON {tables.entries} (owner)",
        f"CREATE TABLE {tables.owners} (owner integer PRIMARY KEY, {own})",
        f"""CREATE TABLE {tables.facts} (owner integer NOT NULL, {own}, field bigint NOT NULL, fact bigint NOT NULL,
            number numeric, string bytea)""",
        f"CREATE INDEX ON {tables.facts} (fact, owner)",
        f"CREATE INDEX ON {tables.facts} (field)",
        f"CREATE INDEX ON {tables.facts} (owner)",
        f"""CREATE TABLE {tables.postings} (segment integer NOT NULL, {own}, term bigint NOT NULL,
            entries integer NOT NULL, data bytea NOT NULL, PRIMARY KEY (segment, term))""",
        f"ALTER TABLE {tables.postings} ALTER data SET STORAGE external",  # numbers do not shrink, and unpacking costs
        f"CREATE TABLE {tables.deaths} (row integer PRIMARY KEY, {own})",
    ]
    if dimension:
        storage = "plain" if dimension <= INLINE_DIMENSIONS else "external"
        statements += [
            f"""CREATE TABLE {tables.vectors} (row integer PRIMARY KEY, {own}, key bigint NOT NULL,
                lane smallint NOT NULL, owner integer NOT NULL, check_sum bigint NOT NULL,
                embedding vector({dimension:d}) NOT NULL, UNIQUE (lane, key))""",
            f"ALTER TABLE {tables.vectors} ALTER embedding SET STORAGE {storage}",
            f"CREATE INDEX ON {tables.vectors} (owner)",
        ]
    return statements


def fenced(state: State, fence: int) -> State:
    """The state as one who writes with this fence finds it. Raises LeaseLost where a later one has written."""
    _compare(state.base, fence, state.fence)
    return replace(state, fence=max(fence, state.fence))


def require_fence(tx: Tx, schema: str, built: State) -> None:
    """Raises LeaseLost where the current index has seen a later one than the build that is to take its place."""
    query = f"SELECT fence FROM {schema}.builds WHERE base = %(base)s AND is_current FOR UPDATE"
    (seen,) = tx.one(query, base=built.base) or (0,)
    _compare(built.base, built.fence, seen)


def _compare(base: int, fence: int, seen: int) -> None:
    if fence and fence < seen:
        raise LeaseLost(f"知识库 {base} 的索引已由另一个进程接手", hint="它会做完；不必重试")


def is_current(tx: Tx, schema: str, state: State) -> bool:
    return tx.one(f"SELECT is_current FROM {schema}.builds WHERE build = %(build)s", build=state.build) == (True,)


def analyze(tx: Tx, tables: Tables, dimension: int) -> None:
    """Tells the planner what is in tables that were filled a moment ago."""
    for part in PARTS if dimension else [part for part in PARTS if part != "vectors"]:
        tx.run(f"ANALYZE {getattr(tables, part)}")


def make_current(tx: Tx, schema: str, state: State) -> None:
    """The one it replaces is retired. One that another process is building stays."""
    tx.run(
        f"""UPDATE {schema}.builds SET is_current = false, is_retired = true
            WHERE base = %(base)s AND is_current AND build <> {state.build:d}""",
        base=state.base,
    )
    tx.run(f"UPDATE {schema}.builds SET is_current = true WHERE build = {state.build:d}")


def retire(tx: Tx, schema: str, base: int) -> None:
    """All that there is of a base."""
    tx.run(f"UPDATE {schema}.builds SET is_current = false, is_retired = true WHERE base = %(base)s", base=base)


def leftovers(tx: Tx, schema: str) -> list[int]:
    """Retired and abandoned builds."""
    if not is_prepared(tx, schema):
        return []
    found = tx.rows(
        f"""SELECT build FROM {schema}.builds WHERE is_retired
            OR (NOT is_current AND touched_at < clock_timestamp() - interval '{ABANDONED}')"""
    )
    return [build for (build,) in found]


def drop(tx: Tx, schema: str, build: int) -> None:
    """Waits only a moment for readers of its tables: longer could deadlock with them."""
    tx.run(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    tables = Tables(schema, build)
    tx.run("DROP TABLE IF EXISTS " + ", ".join(getattr(tables, part) for part in PARTS))
    tx.run(f"DELETE FROM {schema}.builds WHERE build = %(build)s", build=build)
