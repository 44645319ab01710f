"""Ruled tables of a PDF page: pdfplumber finds the cells, pdfium reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from qianxun.core.documents import Table
from qianxun.ingest.parse.pages.ruling import Box, edges, grid_of
from qianxun.ingest.tables.grid import Cell, Grid, as_text, clean
from qianxun.ingest.tables.read_table import read_table

_FEWEST_STROKES: Final = 6  # a table of two rows and two columns has as many lines
_MOST_STROKES: Final = 4_000  # drawings and maps, not tables
_MOST_CELLS: Final = 3_000
_DENSE: Final = 0.85
_EDGE_TOLERANCE: Final = 2.0  # points


@dataclass(frozen=True, slots=True)
class RuledTable:
    box: Box
    cells: tuple[Box, ...]
    grid: Grid
    pages: tuple[int, ...]  # of each row of the grid

    def holds(self, x: float, y: float) -> bool:
        return self.box.holds(x, y) and any(cell.holds(x, y) for cell in self.cells)

    def read(self, title: str) -> Table | None:
        return read_table(self.grid, title=title)

    def text(self) -> str:
        return as_text(self.grid)

    def pages_of(self, table: Table) -> tuple[int, ...]:
        """The page of each row of the table that was read from here."""
        return self.pages[len(self.pages) - len(table.rows) :]

    def followed_by(self, other: RuledTable) -> RuledTable | None:
        """Both as one, where the other is on top of the next page in the same columns; None if it is another table.

        A repeated header is left out. A header of its own, with other kinds of cells below it, begins a new table, and
        so does a form with the same labels.
        """
        if self.grid.width != other.grid.width or not _is_aligned(self._columns(), other._columns()):
            return None
        heads = zip(self.grid.rows, other.grid.rows, strict=False)
        same = next((at for at, (a, b) in enumerate(heads) if _texts(a) != _texts(b)), len(other.grid.rows))
        alone = other.read("")
        if alone is not None and same:
            same = next((at for at, row in enumerate(other.grid.rows[:same]) if _texts(row) == [*alone.texts[0]]), same)
        elif alone is not None and any(
            column.path and column.kind not in ("text", "category") for column in alone.columns
        ):
            return None
        if not same and self._is_formed_like(other):
            return None
        rest, down = other.grid.below(same), len(self.grid.rows)
        origins = {(r + down, c): (r0 + down, c0) for (r, c), (r0, c0) in rest.origins.items()}
        grid = Grid([*self.grid.rows, *rest.rows], {**self.grid.origins, **origins})
        return replace(self, grid=grid, pages=self.pages + other.pages[same:])

    def _is_formed_like(self, other: RuledTable) -> bool:
        names = [row[0].text for row in other.grid.rows]
        return names == [row[0].text for row in self.grid.rows[: len(names)]] and len(set(names)) == len(names)

    def _columns(self) -> list[float]:
        return edges([edge for cell in self.cells for edge in (cell.left, cell.right)], _EDGE_TOLERANCE)


class Tables:
    """The tables of one document. pdfplumber is slow, so only pages with ruling lines are shown to it."""

    def __init__(self, path: Path, notes: list[str]) -> None:
        self._path = path
        self._notes = notes
        self._plumber: Any = None
        self._usable = True

    def on(self, index: int, page: Any, text: Any) -> list[RuledTable]:
        """Tables with at least two rows, two columns and text in half of their cells, from the top."""
        if not self._usable or not _FEWEST_STROKES <= _strokes(page) <= _MOST_STROKES or page.get_rotation():
            return []
        height = page.get_height()
        found = []
        for cells in self._cells(index):
            grid = grid_of(cells, _EDGE_TOLERANCE, _EDGE_TOLERANCE, lambda cell: _text(text, cell, height))
            filled = sum(bool(cell.text) for row in grid.rows for cell in row) if grid else 0
            if grid and grid.width > 1 and len(grid.rows) > 1 and filled * 2 >= grid.width * len(grid.rows):
                pages = (index + 1,) * len(grid.rows)
                found.append(RuledTable(_around(cells), tuple(cells), grid, pages))
        return sorted(found, key=lambda table: table.box.top)

    def close(self) -> None:
        if self._plumber is not None:
            self._plumber.close()

    def _cells(self, index: int) -> list[list[Box]]:
        try:
            import pdfplumber
            from pdfminer.pdfexceptions import PDFException
        except ImportError:
            self._usable = False
            self._notes.append("没有识别表格：缺少依赖 pdfplumber，请安装 pip install 'qianxun[pdf]'")
            return []
        try:
            if self._plumber is None:
                self._plumber = pdfplumber.open(self._path)
            page = self._plumber.pages[index]
            tables = [[Box(*cell) for cell in table.cells] for table in page.find_tables()]
            page.close()
        except (PDFException, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as failure:
            self._notes.append(f"第 {index + 1} 页的表格未能识别：{type(failure).__name__}")
            return []
        return [cells for cells in tables if 4 <= len(cells) <= _MOST_CELLS and _is_dense(cells)]


def _is_aligned(columns: list[float], others: list[float]) -> bool:
    pairs = zip(columns, others, strict=False)
    return len(columns) == len(others) and all(abs(a - b) <= 2 * _EDGE_TOLERANCE for a, b in pairs)


def _texts(row: list[Cell]) -> list[str]:
    return [cell.text for cell in row]


def _is_dense(cells: list[Box]) -> bool:
    """Cells of a table lie side by side; the boxes of a flow chart leave space between them."""
    around = _around(cells)
    covered = sum(cell.width * cell.height for cell in cells)
    return covered >= _DENSE * around.width * around.height


def _strokes(page: Any) -> int:
    import pypdfium2.raw as raw

    count = 0
    for _ in page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=3):
        count += 1
        if count > _MOST_STROKES:
            break
    return count


def _text(text: Any, cell: Box, page_height: float) -> str:
    return clean(text.get_text_bounded(cell.left, page_height - cell.bottom, cell.right, page_height - cell.top))


def _around(cells: list[Box]) -> Box:
    return Box(
        min(cell.left for cell in cells),
        min(cell.top for cell in cells),
        max(cell.right for cell in cells),
        max(cell.bottom for cell in cells),
    )
