"""What flows between the steps of an answer over a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from qianxun.core.types import CellValue, Table

Operation: TypeAlias = Literal[
    "lookup", "filter", "list", "count", "sum", "average", "max", "min", "top", "difference", "ratio", "none"
]
Comparison: TypeAlias = Literal["=", "!=", ">", ">=", "<", "<=", "between", "in", "not in", "contains", "not contains"]


@dataclass(frozen=True, slots=True)
class AskedTable:
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


@dataclass(frozen=True, slots=True)
class Condition:
    """What a row must have in one column. Texts are in plain form, numbers in the column's own unit."""

    column: int
    comparison: Comparison
    values: tuple[str | Decimal, ...]
    written: str
    mask: int  # the characters of the question that say it


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
