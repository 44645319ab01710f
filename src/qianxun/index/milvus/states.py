"""What is stored where, and the state that says which of it counts.

A build is a collection; the alias of a base means its current one. A row is one of eight kinds:

    CONTENT, QUESTION           a chunk or a question with a vector …
    WORDED, UNVECTORED          … and without one
    ADDED, REMOVED              how many entries came, and went, with each term (`terms`)
    NAMED                       which terms the coordinates are those of
    VALUES                      values of an attribute, for filters that compare or spell them (`facts`)

The state is a property of the collection, which Milvus changes atomically and shows to every reader at once: rows that
it does not list have not happened. Rows are never changed. Those of a batch come first, then the state that counts
them; those that the batch removed are listed as dead, and deleted once no reader can have an older state.

Whoever writes has a fencing number, by which its rows and its state are numbered: of several states the highest number
counts, so that one who was overtaken writes rows that nobody sees and a state that nobody reads.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from qianxun.core.errors import BadSettings, IndexUnusable, LeaseLost
from qianxun.core.types import IndexStamp
from qianxun.index.milvus.conditions import Condition, among, between, either
from qianxun.index.milvus.server import Milvus
from qianxun.index.shared import unusable

FORMAT: Final = 2
CONTENT, QUESTION, WORDED, UNVECTORED, ADDED, REMOVED, VALUES, NAMED = range(8)
CHUNKS: Final = (CONTENT, WORDED)
ENTRIES: Final = (CONTENT, QUESTION, WORDED, UNVECTORED)
STATE: Final = "qianxun.state."
ABANDONED_SECONDS: Final = 86_400.0  # a build without writes for so long was abandoned
FENCE_ORIGIN: Final = 1_600_000_000_000_000  # fences are microseconds, of this century
FENCE_BITS: Final = 12  # rows that a writer can number for each microsecond until the next one comes: 4,096
OWN_ROWS: Final = 1 << 20  # that no other writer numbers, also where the clock that gives fences stands still
MOST_EPOCHS: Final = 16
ARRAY_VALUES: Final = 4_096  # that an array of Milvus may hold
TEXT_BYTES: Final = 65_535  # … and a VARCHAR, which counts bytes


@dataclass(frozen=True, slots=True)
class State:
    """An index at one moment. ``words`` and ``grams`` are the lengths of its ``contents`` chunks added up."""

    base: int
    stamp: IndexStamp
    exact: bool  # whether its vectors are searched one by one
    fence: int = 0
    watermark: int = 0
    generation: int = 0  # counts the batches
    timestamp: int = 0  # of the last write, by the server's clock
    touched: float = 0.0
    epochs: tuple[tuple[int, int], ...] = ()  # the rows that count: from, to below
    next_serial: int = 0  # rows are numbered a second time, without gaps, to be read some at a time
    dead: tuple[tuple[float, tuple[int, ...]], ...] = ()  # … but for these, by when they died
    contents: int = 0
    words: int = 0
    grams: int = 0
    vectors: tuple[int, int] = (0, 0)  # of content, of questions
    top_keys: tuple[int, int] = (-1, -1)  # the highest that ever came: a higher one replaces nothing
    averages: tuple[float, float] = (0.0, 0.0)  # the lengths by which sparse vectors are weighed; 0: none is yet
    first_count: int = 0  # the rows of ADDED, REMOVED and NAMED from here …
    next_count: int = 0  # … to below here are counted
    counted: int = 0  # terms in the first of them, which sums up what came before
    logged: int = 0  # terms in the others
    next_values: int = 0

    @property
    def visible(self) -> Condition:
        rows = either([between("id", start, end) for start, end in self.epochs])
        dead = [row for _, group in self.dead for row in group]
        return rows & ~among("id", dead) if dead else rows

    @property
    def next_row(self) -> int:
        return self.epochs[-1][1] if self.epochs else 0

    def counts(self, row: int) -> bool:
        return any(start <= row < end for start, end in self.epochs)

    def of_kinds(self, *kinds: int) -> Condition:
        return among("kind", kinds) & self.visible

    def with_rows(self, number: int) -> State:
        *before, (start, end) = self.epochs
        return replace(self, epochs=(*before, (start, end + number)), next_serial=self.next_serial + number)

    def taken_over(self, fence: int) -> State:
        """As one who writes with this fence finds it: rows are numbered where no other writer numbers any.

        Raises LeaseLost where a later one has written.
        """
        if 0 < fence < self.fence:
            raise lease_lost(self.base)
        if self.epochs and fence in (0, self.fence):
            return self
        first = max(first_row(fence), self.next_row + OWN_ROWS if self.epochs else 0)
        filled = tuple(epoch for epoch in self.epochs if epoch[0] < epoch[1])
        return replace(self, fence=fence, epochs=(*filled, (first, first)))

    def unused(self) -> Condition | None:
        """Between the oldest two epochs, where there are many: rows of writers that broke off."""
        if len(self.epochs) <= MOST_EPOCHS:
            return None
        return between("id", self.epochs[0][1], self.epochs[1][0])

    def with_fewer_epochs(self) -> State:
        """The oldest two as one: what lies between them has been deleted."""
        return replace(self, epochs=((self.epochs[0][0], self.epochs[1][1]), *self.epochs[2:]))


def first_row(fence: int) -> int:
    return max(fence - FENCE_ORIGIN, 0 if fence > FENCE_ORIGIN else fence) << FENCE_BITS


def lease_lost(base: int) -> LeaseLost:
    return LeaseLost(f"知识库 {base} 的索引已由另一个进程接手", hint="由它继续，这里什么也没有改")


def encoded(state: State) -> dict[str, str]:
    """The property that says it. Of two writers each has a property of its own."""
    return {f"{STATE}{state.fence:020d}": json.dumps({"format": FORMAT, **asdict(state)}, separators=(",", ":"))}


def decoded(properties: Mapping[str, str]) -> State:
    """The state of the highest fencing number. Raises IndexUnusable."""
    keys = sorted(key for key in properties if key.startswith(STATE))
    try:
        found: dict[str, Any] = json.loads(properties[keys[-1]])
        if found.pop("format") != FORMAT:
            raise unusable("由另一个版本的千寻写成")
        found["stamp"] = IndexStamp(**found["stamp"])
        found["epochs"] = tuple((start, end) for start, end in found["epochs"])
        found["dead"] = tuple((when, tuple(rows)) for when, rows in found["dead"])
        for name in ("vectors", "top_keys", "averages"):
            found[name] = tuple(found[name])
        return State(**found)
    except (IndexError, ValueError, TypeError, KeyError) as error:
        raise unusable("集合里没有千寻的状态，或已损坏") from error


def older_states(properties: Mapping[str, str], fence: int) -> list[str]:
    return [key for key in properties if key.startswith(STATE) and key < f"{STATE}{fence:020d}"]


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def check_prefix(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,60}", name):
        raise BadSettings(f"不能用作 Milvus 集合名的开头：{name!r}", hint="只用小写字母、数字与下划线")
    return name


def alias_of(prefix: str, base: int) -> str:
    return f"{prefix}_{base:d}"


def builds_of(milvus: Milvus, prefix: str, base: int) -> list[str]:
    """The collections of a base, current or not, oldest first."""
    pattern = re.compile(rf"{re.escape(alias_of(prefix, base))}_(\d+)")
    found = [(int(match[1]), match[0]) for match in map(pattern.fullmatch, milvus.names()) if match]
    return [name for _, name in sorted(found)]


def new_build(prefix: str, base: int) -> str:
    """No two are ever called alike, also where two processes build at once."""
    return f"{alias_of(prefix, base)}_{time.time_ns()}"


# ── collections ──────────────────────────────────────────────────────────────────────────────────


def fields(dimension: int) -> Sequence[Mapping[str, Any]]:
    numbers = ("serial", "kind", "key", "document", "words", "grams", "check_sum")
    return [
        {"name": "id", "type": "INT64", "is_primary": True, "auto_id": False},
        *({"name": name, "type": "INT64"} for name in numbers),
        {"name": "facts", "type": "ARRAY", "element": "INT64", "max_capacity": ARRAY_VALUES},
        {"name": "value", "type": "VARCHAR", "max_length": TEXT_BYTES},
        {"name": "dense", "type": "FLOAT_VECTOR", "dim": dense_size(dimension)},
        {"name": "sparse", "type": "SPARSE_FLOAT_VECTOR"},
    ]


def dense_size(dimension: int) -> int:
    return max(dimension, 2)  # Milvus has no shorter vectors, and no collection of this layout without one


def indexes(exact: bool, is_light: bool) -> Mapping[str, Mapping[str, Any]]:
    graph = {"index_type": "HNSW", "metric_type": "IP", "params": {"M": 16, "efConstruction": 128}}
    found: dict[str, Mapping[str, Any]] = {
        "dense": {"index_type": "FLAT", "metric_type": "IP"} if exact else graph,
        "sparse": {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"},
        "serial": {"index_type": "INVERTED"},
        "key": {"index_type": "INVERTED"},
        "document": {"index_type": "INVERTED"},
    }
    if not is_light:  # which has none over arrays
        found["facts"] = {"index_type": "INVERTED"}
    return found


def create(milvus: Milvus, name: str, state: State) -> None:
    milvus.create(name, fields(state.stamp.dimension), indexes(state.exact, milvus.is_light), encoded(state))


def load(milvus: Milvus, name: str) -> tuple[str, State] | None:
    """A collection, by its name or alias, and its state."""
    found = milvus.describe(name)
    return None if found is None else (found.name, decoded(found.properties))


def save(milvus: Milvus, name: str, state: State) -> None:
    """Writes the state, as that of the next generation: from now on it counts.

    Raises LeaseLost where a later writer's does.
    """
    state = replace(state, generation=state.generation + 1, touched=time.time())
    milvus.set_properties(name, encoded(state))
    found = milvus.describe(name)
    if found is None:
        raise unusable("已被删除")
    if decoded(found.properties).fence > state.fence:
        raise lease_lost(state.base)
    if older := older_states(found.properties, state.fence):
        milvus.drop_properties(name, older)


def successor(base: int, stamp: IndexStamp, before: State | None, exact_limit: int) -> State:
    """An empty state, for as many chunks as there were before, and as long ones."""
    state = State(base, stamp, exact=before is None or max(before.vectors) <= exact_limit, touched=time.time())
    if before is None or before.contents == 0 or before.stamp.analysis != stamp.analysis:
        return state
    return replace(state, averages=(before.words / before.contents, before.grams / before.contents))


def is_forgotten(milvus: Milvus, name: str) -> bool:
    """Whether nobody has written to a build for so long that nobody will."""
    try:
        found = load(milvus, name)
    except IndexUnusable:
        return True
    return found is not None and time.time() - found[1].touched > ABANDONED_SECONDS
