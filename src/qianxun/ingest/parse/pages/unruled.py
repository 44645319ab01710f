"""Tables without ruling lines: short texts that stand in rows and under each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from qianxun.ingest.parse.pages.boxes import Box
from qianxun.ingest.parse.pages.ocr import Line
from qianxun.ingest.tables.grid import Cell, Grid, clean, place

_Row = list[Line]


def rows_of(lines: Sequence[Line]) -> list[_Row]:
    """Lines grouped into rows by their middles, each row from left to right."""
    rows: list[_Row] = []
    for line in sorted(lines, key=lambda line: line.middle[1]):
        last = rows[-1] if rows else []
        if last and line.middle[1] - _middle(last) <= 0.5 * min(line.height, median(item.height for item in last)):
            last.append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.left) for row in rows]


def _middle(row: _Row) -> float:
    return sum(line.middle[1] for line in row) / len(row)


def loose_tables(lines: Sequence[Line], height: float) -> list[tuple[Grid, set[Line]]]:
    """The tables among unruled lines. Strict: three rows and more, columns that hold, short texts."""
    found = []
    run: list[_Row] = []
    for row in [*rows_of(lines), []]:
        if len(row) >= 2 and (not run or row[0].top - max(line.bottom for line in run[-1]) < height * 2.5):
            run.append(row)
            continue
        table = _table(run)
        if table is not None:
            found.append(table)
        run = [row] if len(row) >= 2 else []
    return found


def _table(run: list[_Row]) -> tuple[Grid, set[Line]] | None:
    if len(run) < 3:
        return None
    columns = _columns(run)
    lengths = [len(line.text) for row in run for line in row]
    if len(columns) < 2 or median(lengths) > 14 or sum(length > 30 for length in lengths) * 5 > len(lengths):
        return None
    if len(columns) == 2 and (len(run) < 4 or median(lengths) > 10):
        return None
    filled = sum(len({at for line in row for at in _under(columns, line)[:1]}) for row in run)
    if filled < 0.65 * len(run) * len(columns):
        return None
    placed = [placed for r, row in enumerate(_merged(run, columns)) for placed in _cells(row, r, columns)]
    return place(placed), {line for row in run for line in row}


def _columns(run: list[_Row]) -> list[tuple[float, float]]:
    """The stretches that the texts of the fullest rows cover; rows with wide headers would bridge them."""
    most = sorted(len(row) for row in run)[int(len(run) * 0.6)]
    spans = sorted((line.left, line.right) for row in run if len(row) >= most for line in row)
    columns: list[tuple[float, float]] = []
    for left, right in spans:
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    return columns


def _under(columns: list[tuple[float, float]], line: Line) -> list[int]:
    touched = [i for i, (left, right) in enumerate(columns) if line.left < right and left < line.right]
    if touched:
        return touched
    x = line.middle[0]
    return [min(range(len(columns)), key=lambda i: min(abs(columns[i][0] - x), abs(columns[i][1] - x)))]


def _merged(run: list[_Row], columns: list[tuple[float, float]]) -> list[_Row]:
    """A row that leaves the first column empty and follows closely is the second line of the row above."""
    rows: list[_Row] = []
    for row in run:
        starts = 0 in _under(columns, row[0])
        last = rows[-1] if rows else None
        if last is not None and not starts:
            gap = min(line.top for line in row) - max(line.bottom for line in last)
            if gap < 0.35 * median(line.height for line in row):
                last.extend(row)
                continue
        rows.append(list(row))
    return rows


def _cells(row: _Row, r: int, columns: list[tuple[float, float]]) -> list[tuple[int, int, Cell]]:
    words: dict[int, list[str]] = {}
    widths: dict[int, int] = {}
    for line in row:
        under = _under(columns, line)
        words.setdefault(under[0], []).append(line.text)
        widths[under[0]] = max(widths.get(under[0], 1), len(under))
    free = sorted(words)
    placed = []
    for position, c in enumerate(free):
        limit = (free[position + 1] if position + 1 < len(free) else len(columns)) - c
        placed.append((r, c, Cell(clean(" ".join(words[c])), 1, min(widths[c], limit))))
    return placed


def split_rows(cells: Sequence[Box], lines: Sequence[Line], height: float) -> list[Box]:
    """Ruled rows that hold many rows of text under each other, divided between them."""
    bands: dict[tuple[int, int], list[Box]] = {}
    for cell in cells:
        bands.setdefault((round(cell.top / height), round(cell.bottom / height)), []).append(cell)
    result: list[Box] = []
    for band in bands.values():
        cuts = _cuts(band, lines) if len(band) >= 3 else []
        for cell in band:
            borders = [cell.top, *(cut for cut in cuts if cell.top < cut < cell.bottom), cell.bottom]
            result.extend(Box(cell.left, top, cell.right, bottom) for top, bottom in pairwise(borders))
    return result


def _cuts(band: list[Box], lines: Sequence[Line]) -> list[float]:
    """The middles between text rows that run through most of the cells; none unless there are three such rows."""
    held = {line: cell for line in lines for cell in band if cell.holds(*line.middle)}
    filled = len(set(held.values()))
    full = [row for row in rows_of(list(held)) if len({held[line] for line in row}) * 10 >= filled * 7]
    if filled < 3 or filled * 2 < len(band) or len(full) < 3:
        return []
    middles = [_middle(row) for row in full]
    return [(above + below) / 2 for above, below in pairwise(middles)]
