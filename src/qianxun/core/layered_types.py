"""What a layered recall gives: prose or tables, each with the layer that admitted it and the reasons for its score; and
what flows between the steps of an exact answer over a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.governance.validity import AsOf
from qianxun.core.types import CellValue, Chunk, ChunkKind, Column, Degraded, Generation, Metadata, Table

MOST_CITED: Final = 50

Operation: TypeAlias = Literal[
    "lookup", "filter", "list", "count", "sum", "average", "max", "min", "top", "difference", "ratio", "none"
]
Comparison: TypeAlias = Literal["=", "!=", ">", ">=", "<", "<=", "between", "in", "not in", "contains", "not contains"]


@dataclass(frozen=True, slots=True)
class TableInput:
    """A table to answer from. ``context`` is what stands around it: the document's name, the headings above."""

    id: str
    table: Table
    context: str = ""


@dataclass(frozen=True, slots=True)
class CitedCell:
    """A cell of a table: ``row`` and ``column`` count from 0 in `Table.rows` and `Table.columns`; row -1: a header."""

    table: str
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """An answer computed from typed rows, or (``sure`` is False) the rows that come closest and why there is none."""

    sure: bool
    text: str
    reading: str  # how the question was understood, for people
    operation: Operation = "none"
    values: tuple[CellValue, ...] = ()
    cells: tuple[CitedCell, ...] = ()
    confidence: float = 0.0
    table: str = ""
    rows: tuple[int, ...] = ()
    reason: str = ""  # why it declined
    understood: bool = False  # it declined although the question is clear: what the cells hold gives no answer
    leftover: str = ""  # words of the question that neither the columns nor the cells explain: they may change it


@dataclass(frozen=True, slots=True)
class Condition:
    """What a row must have in one column. Texts are in plain form, numbers in the column's own unit."""

    column: int
    comparison: Comparison
    values: tuple[str | Decimal, ...]
    written: str
    mask: int  # the characters of the question that say it
    than: int | None = None  # the column that it is compared with, instead of values


@dataclass(frozen=True, slots=True)
class Plan:
    """A question as work on rows."""

    operation: Operation
    conditions: tuple[Condition, ...] = ()
    outputs: tuple[int, ...] = ()
    measure: int | None = None
    limit: int = 1
    nth: int = 1  # the second highest: 2
    distinct: bool = False
    rows: tuple[int, ...] | None = None  # of a lookup that chose them by their labels
    against: tuple[tuple[int, int], ...] = ()  # the two cells of a difference or a ratio


@dataclass(frozen=True, slots=True)
class Understood:
    """A plan, what it explains of the question, and how closely the names it uses were said (0 to 1). ``strict``: its
    column was not named but guessed from everyday words, so that nothing may be left unexplained."""

    plan: Plan
    explained: int
    closeness: float
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Unsure:
    """Why a question was not turned into work, and the rows that come closest."""

    reason: str
    rows: tuple[int, ...] = field(default=())


# ── results of a layered recall ──────────────────────────────────────────────────────────────────


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
    cells: tuple[tuple[str, ...], ...] = ()  # of the rows shown, as the author showed them


@dataclass(frozen=True, slots=True)
class LayeredResult:
    """One result, in the names of the seed. ``doc`` is the chunk that matched best."""

    doc: Chunk
    score: float
    strategy: str  # of its layer: vector, keyword, expansion, structure, semantic; rule: people put it first
    layer: int  # the first that let it in, from 1; 0: none, but a rule
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

    @property
    def failed(self) -> bool:
        return self.ran and bool(self.reason)


@dataclass(frozen=True, slots=True)
class Cited:
    """A cell that an answer rests on, as its author showed it. Row -1: a header."""

    table: str
    row: int
    column: int
    name: str  # of the column
    text: str


@dataclass(frozen=True, slots=True)
class LayeredRecall:
    """The answer of `search_texts` or `search_tables`, best first."""

    query: str
    kind: ChunkKind
    results: tuple[LayeredResult, ...]
    layers: tuple[LayerRun, ...]
    degraded: tuple[Degraded, ...] = ()
    answer: TableAnswer | None = None  # of tables: computed from their cells, or why it was not
    cited: tuple[Cited, ...] = ()  # the first cells that the answer cites; a count cites every row
    cells_total: int = 0  # how many it cites
    wanted: int = 0  # results that the layers were to find
    seconds: float = 0.0
    trace_id: str = ""
    generation: Generation | None = None  # the state it was answered from
    as_of: AsOf | None = None  # the day whose documents were searched; None: those of all times


def cited_cells(answer: TableAnswer | None, tables: Mapping[str, Table]) -> tuple[Cited, ...]:
    """The first cells that an answer cites, with what they say; ``tables`` by the id that the answer has for them."""
    if answer is None:
        return ()
    return tuple(_cited(cell, tables[cell.table]) for cell in answer.cells[:MOST_CITED])


def _cited(cell: CitedCell, table: Table) -> Cited:
    column = table.columns[cell.column]
    text = column.name if cell.row < 0 else table.texts[cell.row][cell.column]
    return Cited(cell.table, cell.row, cell.column, column.name, text)
