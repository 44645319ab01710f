"""From the boxes of cells to a grid: edges that nearly meet are one line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qianxun.ingest.tables.grid import Cell, Grid, place


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.top <= y <= self.bottom

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


def edges(values: Sequence[float], tolerance: float) -> list[float]:
    """The lines that the values lie on, each the mean of values that are within ``tolerance`` of their neighbour."""
    ordered = sorted(values)
    groups: list[list[float]] = []
    for value in ordered:
        if groups and value - groups[-1][-1] <= tolerance:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]


def grid_of(cells: Sequence[Box], across: float, down: float, text_of: Callable[[Box], str]) -> Grid | None:
    """The grid that cell boxes form, merged cells spanning; None unless it has two rows and two columns.

    ``across`` and ``down`` say how far apart the edges of one column or row line may lie.
    """
    columns = edges([edge for cell in cells for edge in (cell.left, cell.right)], across)
    rows = edges([edge for cell in cells for edge in (cell.top, cell.bottom)], down)
    if len(columns) < 3 or len(rows) < 3:
        return None
    placed = []
    taken: set[tuple[int, int]] = set()
    for cell in sorted(cells, key=lambda box: (box.top, box.left)):
        c0, c1 = _nearest(columns, cell.left), _nearest(columns, cell.right)
        r0, r1 = _nearest(rows, cell.top), _nearest(rows, cell.bottom)
        slots = {(r, c) for r in range(r0, r1) for c in range(c0, c1)}
        if not slots or slots & taken:
            continue
        taken |= slots
        placed.append((r0, c0, Cell(text_of(cell), r1 - r0, c1 - c0)))
    return place(placed) if placed else None


def _nearest(lines: Sequence[float], value: float) -> int:
    at = bisect_left(lines, value)
    if at == 0:
        return 0
    if at == len(lines):
        return len(lines) - 1
    return at if lines[at] - value < value - lines[at - 1] else at - 1
