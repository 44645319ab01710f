"""Ruling lines: straightens a picture by them, finds the cells they enclose, turns boxes of cells into a grid."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import MissingExtra
from qianxun.ingest.parse.pages.ocr import Pixels
from qianxun.ingest.tables.grid import Cell, Grid, place

_Mask = NDArray[np.uint8]
_SMALL = 1_200  # pixels: below this side thin lines are found better in an enlarged copy
_LEAST_SKEW, _MOST_SKEW = 0.3, 12.0  # degrees
_MOST_CELLS = 5_000


def _cv2() -> Any:
    try:
        import cv2
    except ImportError as missing:
        raise MissingExtra("opencv-python", "ocr") from missing
    return cv2


def straighten(pixels: Pixels) -> Pixels:
    """The picture turned so that its long lines lie level; unchanged when there are none or they do lie level."""
    cv2 = _cv2()
    gray = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
    length = max(pixels.shape[1] // 6, 40)
    found = cv2.HoughLinesP(cv2.Canny(gray, 60, 180), 1, math.pi / 720, 120, minLineLength=length, maxLineGap=6)
    if found is None:
        return pixels
    ends = found.reshape(-1, 4).astype(float)
    angles = np.degrees(np.arctan2(ends[:, 3] - ends[:, 1], ends[:, 2] - ends[:, 0]))
    level = angles[np.abs(angles) <= _MOST_SKEW]
    if len(level) < 5 or np.std(level) > 2.0 or not abs(skew := float(np.median(level))) > _LEAST_SKEW:
        return pixels
    height, width = pixels.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), skew, 1.0)
    turned: Pixels = cv2.warpAffine(pixels, turn, (width, height), flags=cv2.INTER_CUBIC, borderValue=(255, 255, 255))
    return turned


def ruled_cells(pixels: Pixels, text_height: float) -> list[list[Box]]:
    """The cells of every ruled table in a picture, table by table from the top."""
    cv2 = _cv2()
    scale = 2.0 if max(pixels.shape[:2]) < _SMALL else 1.0
    gray = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
    if scale > 1:
        gray = cv2.resize(gray, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    reach = max(20, int(text_height * scale * 1.5))
    lines = _lines(gray, reach)
    count, _, stats, _ = cv2.connectedComponentsWithStats(lines, connectivity=8)
    tables = []
    for index in range(1, count):
        left, top, width, height = (int(value) for value in stats[index][:4])
        if width >= reach * 2 and height >= reach * 1.2:
            cells = _cells(lines[top : top + height, left : left + width], left, top, text_height * scale)
            if 4 <= len(cells) <= _MOST_CELLS:
                tables.append([_scaled(cell, 1 / scale) for cell in cells])
    return sorted(_outermost(tables), key=lambda cells: min(cell.top for cell in cells))


def _lines(gray: Any, reach: int) -> _Mask:
    """Long level and upright strokes. What is shorter than ``reach`` is a character's."""
    cv2 = _cv2()
    dark = cv2.adaptiveThreshold(255 - gray, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 21, -8)
    level = cv2.morphologyEx(dark, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_RECT, (reach, 1)))
    upright = cv2.morphologyEx(dark, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_RECT, (1, reach)))
    # Worn lines are bridged and made to meet at their corners.
    gap = max(reach // 3, 7)
    level = cv2.morphologyEx(level, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_RECT, (gap, 3)))
    upright = cv2.morphologyEx(upright, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_RECT, (3, gap)))
    beyond = max(reach // 4, 9)
    level = cv2.dilate(level, cv2.getStructuringElement(cv2.MORPH_RECT, (beyond, 3)))
    upright = cv2.dilate(upright, cv2.getStructuringElement(cv2.MORPH_RECT, (3, beyond)))
    both: _Mask = cv2.bitwise_or(level, upright)
    return both


def _cells(lines: _Mask, left: int, top: int, text_height: float) -> list[Box]:
    """The spaces that the lines enclose. The outer border is drawn: many tables leave out their sides."""
    cv2 = _cv2()
    framed = cv2.copyMakeBorder(lines, 3, 3, 3, 3, cv2.BORDER_CONSTANT, value=255)
    count, _, stats, _ = cv2.connectedComponentsWithStats(cv2.bitwise_not(framed), connectivity=4)
    found = []
    for index in range(1, count):
        x, y, width, height, area = (int(value) for value in stats[index])
        # Recognised boxes are taller than the text in them, so a row may be lower than a box.
        if width >= text_height * 0.7 and height >= text_height * 0.4 and area >= width * height * 0.6:
            found.append(Box(left + x - 3, top + y - 3, left + x - 3 + width, top + y - 3 + height))
    return found


def _scaled(box: Box, by: float) -> Box:
    return Box(box.left * by, box.top * by, box.right * by, box.bottom * by)


def _outermost(tables: list[list[Box]]) -> list[list[Box]]:
    """Without the frames inside a cell of a larger table."""
    outermost: list[list[Box]] = []
    for cells in sorted(tables, key=len, reverse=True):
        x, y = (cells[0].left + cells[0].right) / 2, (cells[0].top + cells[0].bottom) / 2
        if not any(any(cell.holds(x, y) for cell in other) for other in outermost):
            outermost.append(cells)
    return outermost


# ── from the boxes of cells to a grid ─────────────────────────────────────────────────────────────


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
