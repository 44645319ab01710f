"""A grid of cells as a file has it: merged cells in every slot that they cover, empty rows and columns dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from qianxun.core.documents import CellValue, ColumnKind
from qianxun.core.errors import TooLarge

_SPACE: Final = re.compile(r"\s+")
_BETWEEN_HAN: Final = re.compile(r"(?<=[\u3400-\u9fff，。、；：）】》]) (?=[\u3400-\u9fff（【《])")
_WIDEST_SPAN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell as its file shows it. ``value`` and ``kind`` are set where the file itself is typed (Excel)."""

    text: str
    row_span: int = 1
    col_span: int = 1
    value: CellValue = None
    kind: ColumnKind | None = None
    header: bool = False
    unit: str = ""  # what its number format adds: 0.0"万元"


EMPTY: Final = Cell("")


@dataclass(slots=True)
class Grid:
    """A rectangle of cells. A merged cell is in every slot it covers; ``origins`` maps these to where it begins."""

    rows: list[list[Cell]]
    origins: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    def is_origin(self, row: int, col: int) -> bool:
        return self.origins.get((row, col), (row, col)) == (row, col)

    def distinct(self, row: int) -> list[Cell]:
        """The filled cells of a row, a merged one once."""
        seen: set[tuple[int, int]] = set()
        found = []
        for col, cell in enumerate(self.rows[row]):
            origin = self.origins.get((row, col), (row, col))
            if cell.text and origin not in seen:
                seen.add(origin)
                found.append(cell)
        return found

    def below(self, count: int) -> Grid:
        return self.part(count, len(self.rows))

    def part(self, start: int, stop: int) -> Grid:
        inside = (item for item in self.origins.items() if start <= item[0][0] < stop)
        origins = {(r - start, c): (max(r0 - start, 0), c0) for (r, c), (r0, c0) in inside}
        return Grid(self.rows[start:stop], origins)


def clean(text: str) -> str:
    """A cell's text on one line; line breaks between Chinese characters leave no space."""
    flat = _SPACE.sub(" ", text).strip()
    return _BETWEEN_HAN.sub("", flat) if "\n" in text else flat


def flow(rows: Sequence[Sequence[Cell]], most_cells: int) -> Grid:
    """Places cells the way HTML does: each goes to the next free slot of its row, spans cover what they say."""
    taken: set[tuple[int, int]] = set()
    placed: list[tuple[int, int, Cell]] = []
    for r, row in enumerate(rows):
        c = 0
        for cell in row:
            while (r, c) in taken:
                c += 1
            tall = min(max(cell.row_span, 1), len(rows) - r)
            wide = min(max(cell.col_span, 1), _WIDEST_SPAN)
            if len(taken) + tall * wide > most_cells:
                raise TooLarge(f"表格超过 {most_cells} 个单元格", hint="请拆分表格")
            if cell.row_span == cell.col_span == 1:  # as nearly all of them are
                taken.add((r, c))
                placed.append((r, c, cell))
            else:
                taken.update((r + i, c + j) for i in range(tall) for j in range(wide))
                placed.append((r, c, replace(cell, row_span=tall, col_span=wide)))
            c += wide
    return place(placed)


def place(placed: Iterable[tuple[int, int, Cell]]) -> Grid:
    """A grid from cells whose positions are known; empty rows and columns are dropped."""
    cells = list(placed)
    height = max((r + cell.row_span for r, _, cell in cells), default=0)
    width = max((c + cell.col_span for _, c, cell in cells), default=0)
    rows = [[EMPTY] * width for _ in range(height)]
    origins: dict[tuple[int, int], tuple[int, int]] = {}
    for r, c, cell in cells:
        if cell.row_span == cell.col_span == 1:
            rows[r][c] = cell
            continue
        for i in range(r, r + cell.row_span):
            for j in range(c, c + cell.col_span):
                rows[i][j] = cell
                origins[i, j] = (r, c)
    return _without_gaps(Grid(rows, origins))


def _without_gaps(grid: Grid) -> Grid:
    """Drops rows and columns in which no filled cell begins."""
    live_rows: set[int] = set()
    live_cols: set[int] = set()
    for r, row in enumerate(grid.rows):
        for c, cell in enumerate(row):
            if cell.text and (not grid.origins or grid.is_origin(r, c)):
                live_rows.add(r)
                live_cols.add(c)
    if len(live_rows) == len(grid.rows) and len(live_cols) == grid.width:
        return grid
    row_at = {old: new for new, old in enumerate(sorted(live_rows))}
    col_at = {old: new for new, old in enumerate(sorted(live_cols))}
    rows = [[grid.rows[r][c] for c in sorted(live_cols)] for r in sorted(live_rows)]
    origins = {
        (row_at[r], col_at[c]): (row_at[r0], col_at[c0])
        for (r, c), (r0, c0) in grid.origins.items()
        if r in row_at and c in col_at and r0 in row_at and c0 in col_at
    }
    return Grid(rows, origins)


def as_text(grid: Grid) -> str:
    """A grid that is no table, line by line."""
    return "\n".join(filter(None, (" ".join(cell.text for cell in grid.distinct(r)) for r in range(len(grid.rows)))))
