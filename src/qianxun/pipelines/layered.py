"""What a layered recall gives: prose or tables, each with the layer that let it in and the reasons for its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qianxun.answer.table_shapes import TableAnswer
from qianxun.types import Chunk, ChunkKind, Column, Degraded, Metadata


@dataclass(frozen=True, slots=True)
class TableShown:
    """A table among the results. However many chunks it was cut into, it is one result."""

    id: str  # {doc_id}#{position}
    title: str
    type: str  # "" where none could be told
    columns: tuple[Column, ...]
    rows: int  # how many it has
    shown: tuple[int, ...]  # those that ``content`` shows, counted from 0
    source: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class LayeredResult:
    """One result, in the names of the seed. ``doc`` is the chunk that matched best."""

    doc: Chunk
    score: float
    strategy: str  # of its layer: vector, keyword, expansion, structure, semantic
    layer: int  # the first that let it in, from 1
    content: str
    metadata: Metadata
    doc_id: str
    document_name: str
    match_details: Mapping[str, Any]  # what each layer saw in it, as plain JSON values
    table: TableShown | None = None


@dataclass(frozen=True, slots=True)
class LayerRun:
    """What one layer did."""

    layer: int
    strategy: str
    ran: bool
    reason: str = ""  # why it did not run, or what failed
    count: int = 0  # results that no layer before it had let in
    best: float = 0.0  # the best score among them
    seconds: float = 0.0
    start: float = field(default=0.0, compare=False)  # by `time.perf_counter`


@dataclass(frozen=True, slots=True)
class LayeredRecall:
    """The answer of `search_texts` or `search_tables`, best first."""

    query: str
    kind: ChunkKind
    results: tuple[LayeredResult, ...]
    layers: tuple[LayerRun, ...]
    degraded: tuple[Degraded, ...] = ()
    answer: TableAnswer | None = None  # of tables: computed from their cells, or why it was not
    seconds: float = 0.0
    trace_id: str = ""
