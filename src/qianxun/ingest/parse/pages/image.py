"""Images by OCR: recognised lines in reading order as ruled tables, tables without ruling lines, paragraphs.

`parse` is the format's entry; scanned PDF pages come through `read_page`, pictures of office files through `arrange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile, TableBlock
from qianxun.core.errors import UnsupportedFile
from qianxun.ingest.headings import heading_level
from qianxun.ingest.parse.pages.ocr import Line, Pixels, load_picture, recognise
from qianxun.ingest.parse.pages.reflow import joined, reflow, shown_width
from qianxun.ingest.parse.pages.ruling import Box, grid_of, ruled_cells, straighten
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, Grid, clean, place
from qianxun.ingest.tables.read_table import read_table

_SHORTEST_FULL_LINE = 20  # columns of type
_Placed = tuple[float, float, list[Block]]  # top, left, blocks there


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
    for grid, used in unruled_tables(rest, height):
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
    texts = {cells[index]: _cell_text(piece, cells[index], height) for index, piece in pieces.items()}
    filled = [text for text in texts.values() if text]
    if len(filled) < 3 or len(filled) * 5 < len(cells) or sum(map(len, filled)) < 2 * len(filled):
        return None, set()
    grid = grid_of(cells, max(height * 0.5, 4), max(height * 0.3, 4), lambda cell: texts.get(cell, ""))
    if grid is None or grid.width < 2 or len(grid.rows) < 2:
        return None, set()
    # Some tables rule only their frame and head: where the texts themselves show more columns, they are right.
    unruled = unruled_tables(sorted(used, key=lambda line: line.top), height)
    if len(unruled) == 1 and unruled[0][0].width > grid.width and len(unruled[0][1]) >= 0.8 * len(used):
        return unruled[0]
    return grid, used


def _pieces(cells: Sequence[Box], lines: Sequence[Line]) -> tuple[dict[int, list[Line]], set[Line]]:
    """Lines by the cell they are in. A line across a border is divided there."""
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
    """The characters of a line by the cell they are in, a Chinese one twice as wide as a Latin one."""
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
    """The line right above a table, if it is the only one."""
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
        halves = _gutter(part, height) or _gap(part, height)
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


def _gap(part: list[Line], height: float) -> tuple[list[Line], list[Line]] | None:
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


# ── tables without ruling lines ───────────────────────────────────────────────────────────────────

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


def unruled_tables(lines: Sequence[Line], height: float) -> list[tuple[Grid, set[Line]]]:
    """The tables among unruled lines. Strict: three rows and more, columns that hold, short texts."""
    found = []
    run: list[_Row] = []
    for row in [*rows_of(lines), []]:
        if len(row) >= 2 and (not run or row[0].top - max(line.bottom for line in run[-1]) < height * 2.5):
            run.append(row)
            continue
        table = _unruled_table(run)
        if table is not None:
            found.append(table)
        run = [row] if len(row) >= 2 else []
    return found


def _unruled_table(run: list[_Row]) -> tuple[Grid, set[Line]] | None:
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
    cell_of = {line: cell for line in lines for cell in band if cell.holds(*line.middle)}
    filled = len(set(cell_of.values()))
    full = [row for row in rows_of(list(cell_of)) if len({cell_of[line] for line in row}) * 10 >= filled * 7]
    if filled < 3 or filled * 2 < len(band) or len(full) < 3:
        return []
    middles = [_middle(row) for row in full]
    return [(above + below) / 2 for above, below in pairwise(middles)]


# ── image files ───────────────────────────────────────────────────────────────────────────────────


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    if not limits.ocr:
        raise UnsupportedFile("图片需要文字识别，而识别已关闭", hint="请在设置中打开 ocr")
    pixels = load_picture(path, limits)
    blocks = read_page(pixels)
    height, width = pixels.shape[:2]
    warnings = () if blocks else ("图片中没有认出文字",)
    return ParsedFile(tuple(blocks), "image", path.stem, {"width": width, "height": height}, (), warnings)


def read_page(pixels: Pixels, page: int | None = None) -> list[Block]:
    level = straighten(pixels)
    return arrange(recognise(level), level, page)
