"""Tables drawn with ``|`` in plain text.

A line with a pipe is not yet a table: shell pipelines, type unions, ASCII art and breadcrumbs have them too. A table is
several such lines in a row that agree on their number of cells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from qianxun.core.documents import Table
from qianxun.ingest.headings import heading_level
from qianxun.ingest.tables.cells import is_missing, money, number, percent
from qianxun.ingest.tables.grid import Cell, Grid, clean, place
from qianxun.ingest.tables.read_table import read_table

_PIPE: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"(?:[\s|+:]++|[-=](?![-=]))*+[-=]{2}[\s|+:\-=]*+")
_TIGHT_OR: Final = re.compile(r"[^\s|]\|\|[^\s|]|\s\|\|\s[^|]*$")
_CODE: Final = re.compile(
    r"::=|:=|=>|->|&&|\$\(|\$\{|[;{}\\]\s*$|^\s*(?:[$>]|//|#!|sudo\b|cat\b|echo\b|grep\b|ls\b|curl\b|ps\b|find\b)\s?"
    r"|\|\s*(?:grep|awk|sed|xargs|wc|sort|head|tail|tee|less|jq|uniq)\b"
    r"|\b(?:def|return|import|const|let|var|type|interface|function)\s+\w"
    r"|^[\sA-Za-z_.]+(?:=|:\s)\s*[\w'\"\[\].]+(?:\s*\|\s*[\w'\"\[\].]+)+\s*$",
    re.ASCII,
)
_SOLID: Final = re.compile(r"[^\s|]")
_WORDS: Final = re.compile(r"[^\W_]")
_ART: Final = re.compile(r"\\\s*+[|_/]|[|_/]\s?\\|/[|_]|[|_]/|(?<!_)_{3,}+\s*+\||\|\s*+_{3}")
_SENTENCE: Final = re.compile(r"[。！？!?；;]$")
_CAPTION_END: Final = re.compile(r"[。！？!?；;：:，,、|]$")
_NUMBERED_CAPTION: Final = re.compile(r"表\s?[\d一二三四五六七八九十]|Table\s\d")
_LONGEST_CAPTION: Final = 60
_LONGEST_PAIR: Final = 60  # cells of a table that is only two lines of two cells
_LONGEST_GAP: Final = 80  # a line without a pipe that may still be a row: a merged cell across all columns
_LEAST_WORDS: Final = 0.5  # share of letters, digits and Chinese among what is drawn
_LEAST_ALIKE: Final = 5  # at least one row in so many has the width of the table
_MOST_CELLS: Final = 2_000_000
_MOST_SHARED: Final = 20_000  # characters of names that go over all columns, in all of these
_FILE_ENDING: Final = re.compile(r"\.(?:txt|md|markdown|html?|csv|tsv|json|pdf|docx?|pptx?|xlsx?)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PipeTable:
    """A table in lines ``first`` to ``last`` (not included), its caption among them; ``rows`` are its data lines."""

    first: int
    last: int
    table: Table
    rows: tuple[int, ...]


_Cells: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    cells: _Cells


def pipe_tables(lines: Sequence[str], name: str = "") -> list[PipeTable]:
    """The tables among these lines, in order. ``name`` is the title of one that has no caption."""
    found: list[PipeTable] = []
    for start, stop in _runs(lines):
        if _is_drawn(lines[start:stop]):
            table = _table(lines, start, stop, found[-1].last if found else 0, title_from(name))
            if table is not None:
                found.append(table)
    return found


def split_at_tables(lines: Sequence[str], name: str) -> Iterator[Sequence[str] | Table]:
    """The tables among these lines and the runs of lines between them, in order."""
    at = 0
    for found in pipe_tables(lines, name):
        if found.first > at:
            yield lines[at : found.first]
        yield found.table
        at = found.last
    if at < len(lines):
        yield lines[at:]


def title_from(name: str) -> str:
    """A document's name as a title: without the ending of a file."""
    return _FILE_ENDING.sub("", name.strip())


# ── where ────────────────────────────────────────────────────────────────────────────────────────


def _runs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Stretches of lines with pipes; one line without may be inside where the table goes on as before it."""
    start = -1
    for at, line in enumerate(lines):
        if "|" in line or (start >= 0 and (is_rule(line) or _is_merged_row(lines, start, at))):
            start = at if start < 0 else start
        elif start >= 0:
            yield start, at
            start = -1
    if start >= 0:
        yield start, len(lines)


def is_rule(line: str) -> bool:
    """Whether a line only draws: | --- | :-: |."""
    return _RULE.fullmatch(line) is not None


def _is_merged_row(lines: Sequence[str], start: int, at: int) -> bool:
    line = lines[at].strip()
    if not line or len(line) > _LONGEST_GAP or at - start < 2 or at + 1 >= len(lines) or _SENTENCE.search(line):
        return False
    pipes = lines[at - 1].count("|")
    return pipes > 0 and lines[at + 1].count("|") == pipes


def _is_drawn(run: Sequence[str]) -> bool:
    """Whether these lines draw a table, and are not code, art or prose with a pipe in it."""
    rows = [line for line in run if not is_rule(line)]
    piped = [line for line in rows if "|" in line]
    if len(piped) < 2 or any(_ART.search(line) for line in rows):
        return False
    if sum(1 for line in piped if _CODE.search(line) or _TIGHT_OR.search(line)) * 2 >= len(piped):
        return False
    solid = sum(len(_SOLID.findall(line)) for line in rows)
    if sum(len(_WORDS.findall(line)) for line in rows) < solid * _LEAST_WORDS:
        return False
    return _agrees([split_cells(line) for line in piped], framed=all(line.strip()[0] == "|" for line in piped))


def _agrees(rows: Sequence[Sequence[str]], framed: bool) -> bool:
    widths = Counter(map(len, rows))
    common, _ = widths.most_common(1)[0]
    if len(widths) > 1 and (len(rows) < 3 or max(widths) < 3):
        return False
    if framed or common > 2 or len(rows) > 2:
        return not all(_is_prose(row) for row in rows)
    return all(len(cell) <= _LONGEST_PAIR and not _SENTENCE.search(cell) for row in rows for cell in row)


def _is_prose(cells: Sequence[str]) -> bool:
    return any(_SENTENCE.search(cell) and len(cell) > _LONGEST_PAIR for cell in cells)


# ── what ─────────────────────────────────────────────────────────────────────────────────────────


def _table(lines: Sequence[str], start: int, stop: int, floor: int, name: str) -> PipeTable | None:
    rows = [_Row(at, split_cells(lines[at])) for at in range(start, stop) if not is_rule(lines[at])]
    rows = [row for row in _without_frame(rows) if any(row.cells)]
    if len(rows) < 2:
        return None
    ruled = next((count for count, row in enumerate(rows) if row.line > start and is_rule(lines[row.line - 1])), 0)
    widths = Counter(len(row.cells) for row in rows)
    if max(widths) * len(rows) > _MOST_CELLS or max(widths.values()) * _LEAST_ALIKE < len(rows):
        return None
    grid, heads = _squared(rows, max(widths, key=lambda wide: (widths[wide], wide)))
    first, caption = _caption(lines, start, floor)
    heads = 1 if ruled == 1 and heads is None else heads
    table = read_table(grid, title=caption or name, header_rows=heads, titled=len(widths) == 1)
    if table is None or len(grid.rows) != len(rows):
        return None
    noted = len(table.notes.split("\n")) if table.notes else 0
    end = len(rows) - noted
    data = tuple(row.line for row in rows[end - len(table.rows) : end])
    return PipeTable(first, stop, table, data)


def split_cells(line: str) -> _Cells:
    """What stands between the pipes of a line, also before the first and after the last."""
    return tuple(clean(cell.replace("\\|", "|")) for cell in _PIPE.split(line))


def _without_frame(rows: Sequence[_Row]) -> list[_Row]:
    """Outer pipes open and close every row that has any; a last cell that is only sometimes blank is a cell."""
    piped = [row for row in rows if len(row.cells) > 1]
    left = int(all(not row.cells[0] for row in piped))
    right = int(all(not row.cells[-1] for row in piped))
    return [replace(row, cells=row.cells[left : len(row.cells) - right]) if len(row.cells) > 1 else row for row in rows]


def _caption(lines: Sequence[str], start: int, floor: int) -> tuple[int, str]:
    """The line right above that names the table, and where the table begins with it."""
    above = lines[start - 1].strip() if start > floor else ""
    if not above or len(above) > _LONGEST_CAPTION or _CAPTION_END.search(above) or "|" in above or is_rule(above):
        return start, ""
    if heading_level(above) is not None:
        return start, above
    alone = start - 1 == floor or not lines[start - 2].strip()
    return (start - 1, above) if alone or _NUMBERED_CAPTION.match(above) else (start, "")


# ── rows that lost their merged cells ────────────────────────────────────────────────────────────


def _squared(rows: Sequence[_Row], width: int) -> tuple[Grid, int | None]:
    """A grid as wide as most rows are, and how many rows head it where that is known.

    A row of another width has lost a merged cell; as it is unknown which, it goes whole into the first column.
    """
    placed = _header(rows, width)
    heads = 1 + max((r for r, _, _ in placed), default=-1)
    for r, row in enumerate(rows[heads:], heads):
        if len(row.cells) == width:
            placed.extend((r, c, Cell(cell)) for c, cell in enumerate(row.cells))
        else:
            placed.append((r, 0, Cell(" | ".join(cell for cell in row.cells if cell))))
    return place(placed), heads or (None if len(rows[0].cells) == width else 0)


_Placed: TypeAlias = tuple[int, int, Cell]


def _header(rows: Sequence[_Row], width: int) -> list[_Placed]:
    """Rows of names narrower than the table: 项目 | 期末 | 期初, then 余额 | 准备 | 余额 | 准备."""
    count = 0
    while (
        count < min(3, len(rows) - 1) and len(rows[count].cells) < width and not any(map(_is_value, rows[count].cells))
    ):
        count += 1
    data = [row.cells for row in rows[count:] if len(row.cells) == width]
    if not count or not data or not any(_is_value(cell) for cells in data for cell in cells[1:]):
        return []
    if count == 2 and (split := _split(rows[0].cells, rows[1].cells, width, data)) is not None:
        return split
    if sum(len(row.cells) * len("".join(row.cells)) for row in rows[:count]) > _MOST_SHARED:
        return []
    # Which name was over which columns is lost: the first names the rows, the others go over all the rest.
    shared = ["、".join(name for name in row.cells[not at :] if name) for at, row in enumerate(rows[:count])]
    wide = [(at, 1, Cell(names, col_span=width - 1)) for at, names in enumerate(shared)]
    return [(0, 0, Cell(rows[0].cells[0], row_span=count)), *wide]


def _split(above: Sequence[str], below: Sequence[str], width: int, data: Sequence[_Cells]) -> list[_Placed] | None:
    """The last names above, size over as many of those below; only where the widths leave no other reading."""
    groups = len(above) + len(below) - width
    alone = len(above) - groups
    if alone < 1 or groups < 1 or len(below) % groups or len(below) // groups < 2:
        return None
    size = len(below) // groups
    if any(below[at] != below[at % size] for at in range(len(below))):
        return None
    if any(_is_value(cell) for cells in data for cell in cells[1:alone]):
        return None
    if alone > 1 and not all(_is_value(cell) or is_missing(cell) for cells in data for cell in cells[alone:]):
        return None
    heads = [(0, at, Cell(name, row_span=2)) for at, name in enumerate(above[:alone])]
    heads += [(0, alone + at * size, Cell(name, col_span=size)) for at, name in enumerate(above[alone:])]
    return heads + [(1, alone + at, Cell(name)) for at, name in enumerate(below)]


def _is_value(text: str) -> bool:
    return number(text) is not None or percent(text) is not None or money(text) is not None
