"""Recognised lines put into reading order: ruled tables, tables without lines, paragraphs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from qianxun.core.types import Block, Heading, Paragraph, TableBlock
from qianxun.ingest.parse.outline import heading_level
from qianxun.ingest.parse.pages.boxes import Box, grid_of
from qianxun.ingest.parse.pages.ocr import Line, Pixels
from qianxun.ingest.parse.pages.reflow import joined, reflow, shown_width
from qianxun.ingest.parse.pages.ruling import ruled_cells
from qianxun.ingest.parse.pages.unruled import loose_tables, rows_of, split_rows
from qianxun.ingest.tables.grid import Grid, clean, read_table

_SHORTEST_FULL_LINE = 20  # columns of type
_Placed = tuple[float, float, list[Block]]  # top, left, what stands there


def arrange(lines: Sequence[Line], pixels: Pixels, page: int | None = None) -> list[Block]:
    """The blocks of a picture from the top down. A table only where the grid is plain to see."""
    if not lines:
        return []
    height = median(line.height for line in lines)
    rest = list(lines)
    placed: list[_Placed] = []
    for cells in ruled_cells(pixels, height):
        grid, used = _ruled(cells, rest, height)
        if grid is not None:
            rest = [line for line in rest if line not in used]
            placed.append((cells[0].top, cells[0].left, _table(grid, rest, cells, page, height)))
    for grid, used in loose_tables(rest, height):
        block = read_table(grid)
        if block is not None:
            rest = [line for line in rest if line not in used]
            top = min(line.top for line in used)
            placed.append((top, min(line.left for line in used), [TableBlock(block, page)]))
    return _in_order(rest, placed, height, page)


def _ruled(cells: Sequence[Box], lines: Sequence[Line], height: float) -> tuple[Grid | None, set[Line]]:
    """The grid of ruled cells with its texts, and the lines that went into it; None if it holds too little."""
    cells = split_rows(cells, lines, height)
    pieces, used = _pieces(cells, lines)
    texts = {cells[index]: _cell_text(held, cells[index], height) for index, held in pieces.items()}
    filled = [text for text in texts.values() if text]
    if len(filled) < 3 or len(filled) * 5 < len(cells) or sum(map(len, filled)) < 2 * len(filled):
        return None, set()
    grid = grid_of(cells, max(height * 0.5, 4), max(height * 0.3, 4), lambda cell: texts.get(cell, ""))
    if grid is None or grid.width < 2 or len(grid.rows) < 2:
        return None, set()
    # Some tables rule only their frame and head: where the texts themselves show more columns, they are right.
    loose = loose_tables(sorted(used, key=lambda line: line.top), height)
    if len(loose) == 1 and loose[0][0].width > grid.width and len(loose[0][1]) >= 0.8 * len(used):
        return loose[0]
    return grid, used


def _pieces(cells: Sequence[Box], lines: Sequence[Line]) -> tuple[dict[int, list[Line]], set[Line]]:
    """Each line in the cell it stands in. A line across a border is divided where the border crosses it."""
    pieces: dict[int, list[Line]] = {}
    used: set[Line] = set()
    for line in lines:
        y = line.middle[1]
        crossed = [
            (index, cell)
            for index, cell in enumerate(cells)
            if cell.top <= y <= cell.bottom and _overlap(cell, line) > 0.6 * min(line.height, cell.width, line.width)
        ]
        if not crossed:
            continue
        used.add(line)
        for (index, _), piece in zip(crossed, _divided(line, [cell for _, cell in crossed]), strict=True):
            if piece.text:
                pieces.setdefault(index, []).append(piece)
    return pieces, used


def _overlap(cell: Box, line: Line) -> float:
    return min(cell.right, line.right) - max(cell.left, line.left)


def _divided(line: Line, cells: list[Box]) -> list[Line]:
    """The characters of a line shared out by where each stands, a Chinese one twice as wide as a Latin one."""
    if len(cells) == 1:
        return [line]
    words: list[str] = ["" for _ in cells]
    step = (line.right - line.left) / max(shown_width(line.text), 1)
    x = line.left
    for char in line.text:
        width = shown_width(char) * step
        nearest = _nearest(cells, x + width / 2)
        words[nearest] += char
        x += width
    return [Line(c.left, line.top, c.right, line.bottom, word.strip()) for c, word in zip(cells, words, strict=True)]


def _nearest(cells: list[Box], x: float) -> int:
    return min(range(len(cells)), key=lambda i: max(cells[i].left - x, x - cells[i].right))


def _cell_text(lines: Sequence[Line], cell: Box, height: float) -> str:
    """A cell's lines as one text. A line that left room for another word ended there on purpose."""
    text = ""
    room = 0.0
    for row in rows_of(lines):
        words = " ".join(line.text for line in row)
        text = joined(text, words, apart=room > height * 2.5) if text else words
        room = cell.width - (row[-1].right - row[0].left)
    return clean(text)


def _table(grid: Grid, rest: list[Line], cells: Sequence[Box], page: int | None, height: float) -> list[Block]:
    caption = _caption(rest, cells, height)
    table = read_table(grid, title=caption.text if caption else "")
    if table is None:
        return [Paragraph(" ".join(cell.text for r in range(len(grid.rows)) for cell in grid.distinct(r)), page)]
    if caption is not None and table.title == caption.text:
        rest.remove(caption)
    return [TableBlock(table, page)]


def _caption(rest: Sequence[Line], cells: Sequence[Box], height: float) -> Line | None:
    """The line right above a table, if it stands alone there."""
    top = min(cell.top for cell in cells)
    left, right = min(cell.left for cell in cells), max(cell.right for cell in cells)
    near = [line for line in rest if top - height * 3 <= line.bottom <= top + height * 0.5]
    if len(near) == 1 and left <= near[0].middle[0] <= right and shown_width(near[0].text) <= 80:
        return near[0]
    return None


# ── reading order ────────────────────────────────────────────────────────────────────────────────


def _in_order(rest: Sequence[Line], placed: list[_Placed], height: float, page: int | None) -> list[Block]:
    """Text between tables, columns one after the other."""
    blocks: list[Block] = []
    above = -1e9
    for top, _, found in sorted(placed, key=lambda item: item[:2]):
        blocks.extend(_prose([line for line in rest if above < line.middle[1] <= top], height, page))
        blocks.extend(found)
        above = max(above, top)
    blocks.extend(_prose([line for line in rest if line.middle[1] > above], height, page))
    return blocks


def _prose(lines: Sequence[Line], height: float, page: int | None) -> list[Block]:
    blocks: list[Block] = []
    for column in columns_of(lines, height):
        rows = rows_of(column)
        texts = [" ".join(line.text for line in row) for row in rows]
        for paragraph in reflow(texts, _filled(rows, texts, height)):
            level = heading_level(paragraph)
            blocks.append(Heading(paragraph, level, page) if level else Paragraph(paragraph, page))
    return blocks


def _filled(rows: Sequence[Sequence[Line]], texts: Sequence[str], height: float) -> list[bool]:
    """Which rows run to the right margin; in a handful of labels none does."""
    margin = sorted(row[-1].right for row in rows)[int(len(rows) * 0.9)]
    return [
        len(rows) > 2 and row[-1].right >= margin - 1.5 * height and shown_width(text) >= _SHORTEST_FULL_LINE
        for row, text in zip(rows, texts, strict=True)
    ]


def columns_of(lines: Sequence[Line], height: float) -> list[list[Line]]:
    """Cuts at gutters first, then at the widest gap between rows, until neither is left."""
    done: list[list[Line]] = []
    stack = [list(lines)] if lines else []
    while stack:
        part = stack.pop()
        halves = _gutter(part, height) or _shelf(part, height)
        if halves is None:
            done.append(part)
        else:
            stack.extend(reversed(halves))
    return done


def _gutter(part: list[Line], height: float) -> tuple[list[Line], list[Line]] | None:
    ordered = sorted(part, key=lambda line: line.left)
    reach = ordered[0].right
    for index, line in enumerate(ordered[1:], 1):
        if line.left - reach > height and min(index, len(ordered) - index) >= 4:
            return ordered[:index], ordered[index:]
        reach = max(reach, line.right)
    return None


def _shelf(part: list[Line], height: float) -> tuple[list[Line], list[Line]] | None:
    """The widest gap, if the page below or above it has a gutter the whole had not."""
    ordered = sorted(part, key=lambda line: line.top)
    reach = ordered[0].bottom
    gaps = []
    for index, line in enumerate(ordered[1:], 1):
        if line.top > reach:
            gaps.append((line.top - reach, index))
        reach = max(reach, line.bottom)
    for _, index in sorted(gaps, reverse=True)[:12]:
        if _gutter(ordered[:index], height) or _gutter(ordered[index:], height):
            return ordered[:index], ordered[index:]
    return None
