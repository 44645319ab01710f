"""Lines of a PDF page with their places, in the order in which they are read: column by column."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Final

from qianxun.ingest.parse.pages.pdf_tables import RuledTable
from qianxun.ingest.parse.pages.reflow import first_word, shown_width
from qianxun.ingest.parse.pages.ruling import Box

_GAP: Final = 1.2  # heights of a line: what lies farther apart is not one text
_CANDIDATES: Final = 8  # places of a gutter that are looked at
_FEWEST_ROWS: Final = 5  # that a gutter divides
_CROSSED: Final = 0.25  # the most lines that run across a gutter: titles, abstracts, figures
_EVEN: Final = 0.4  # the least share of the wider column that the narrower one has; labels of a form have less
_FULL: Final = 0.85
_RUN_ON: Final = 0.5  # of the lines of a column of text run to its margin; cells of a table do not
_NEAR: Final = 40  # lines
_WIDE: Final = 50  # half-width characters: a line that is text by itself
_NARROWEST: Final = 20  # half-width characters of a column
_ENTRY: Final = re.compile(r"[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or the part of it that a column holds; measured from the top left corner of the page, in points."""

    text: str
    box: Box
    height: float  # of its type
    first: float  # width of its first word
    parts: tuple[Line, ...] = ()  # where wide gaps divide it

    @property
    def middle(self) -> float:
        return (self.box.top + self.box.bottom) / 2


def lines_of(text: Any, content: str, page_height: float, tables: Sequence[RuledTable] = ()) -> Iterator[Line | int]:
    """The lines in the order of the file; where they enter a table, its number instead."""
    if len(content) != text.count_chars():
        content = _characters(text)
    boxes = _Boxes(text, page_height)
    for match in _ENTRY.finditer(content):
        for table, start, end in _spans(match.start(), match.end(), boxes, tables):
            line = _line(content, start, end, boxes) if table is None else table
            if line is not None:
                yield line


def _characters(text: Any) -> str:
    import pypdfium2.raw as raw

    return "".join(chr(raw.FPDFText_GetUnicode(text, at)) for at in range(text.count_chars()))


def _spans(start: int, end: int, boxes: _Boxes, tables: Sequence[RuledTable]) -> Iterator[tuple[int | None, int, int]]:
    """A line as (table or None, start, end): a row of a table may have text beside it."""
    if not tables:
        yield None, start, end
        return

    def table_at(at: int) -> int | None:
        box = boxes.at(at)
        x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
        return next((number for number, table in enumerate(tables) if table.holds(x, y)), None)

    for table, run in groupby(range(start, end), key=table_at):
        places = list(run)
        yield table, places[0], places[-1] + 1


class _Boxes:
    """The boxes of characters, as wide and high as their type."""

    def __init__(self, text: Any, page_height: float) -> None:
        import pypdfium2.raw as raw

        self._read = raw.FPDFText_GetLooseCharBox
        self._rectangle = raw.FS_RECTF()
        self._reference = ctypes.byref(self._rectangle)
        self._text, self._height = text, page_height

    def at(self, index: int) -> Box:
        self._read(self._text, index, self._reference)
        box = self._rectangle
        return Box(box.left, self._height - box.top, box.right, self._height - box.bottom)


def _line(content: str, start: int, end: int, boxes: _Boxes) -> Line | None:
    while start < end and content[start].isspace():
        start += 1
    while end > start and content[end - 1].isspace():
        end -= 1
    if start == end:
        return None
    cuts = [start, *_cuts(content, start, end, boxes), end]
    parts = tuple(_part(content, a, b, boxes) for a, b in pairwise(cuts))
    box = Box(parts[0].box.left, min(p.box.top for p in parts), parts[-1].box.right, max(p.box.bottom for p in parts))
    return Line(content[start:end], box, parts[0].height, parts[0].first, parts if len(parts) > 1 else ())


def _cuts(content: str, start: int, end: int, boxes: _Boxes) -> Iterator[int]:
    """Where a space is wider than spaces are. A gap without a space in the text is a narrow one."""
    for at in range(start + 1, end - 1):
        if content[at] == " " and content[at + 1] != " ":
            left, right = boxes.at(at - 1), boxes.at(at + 1)
            if right.left - left.right > _GAP * (right.bottom - right.top):
                yield at + 1


def _part(content: str, start: int, end: int, boxes: _Boxes) -> Line:
    text = content[start:end].rstrip()
    first, last = boxes.at(start), boxes.at(start + len(text) - 1)
    box = Box(first.left, min(first.top, last.top), max(last.right, first.right), max(first.bottom, last.bottom))
    word = boxes.at(start + len(first_word(text)) - 1)
    return Line(text, box, first.bottom - first.top, word.right - first.left)


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


def in_reading_order(lines: Sequence[Line]) -> list[Line]:
    """Column by column where a page is set in columns and its file goes from row to row; unchanged otherwise."""
    parts = [part for line in lines for part in line.parts or (line,)]
    gutter = _gutter(parts)
    if gutter is None or not _alternates(lines, gutter):
        return list(lines)
    return list(_by_columns(parts, gutter))


def _by_columns(parts: Sequence[Line], gutter: float) -> Iterator[Line]:
    """What runs across the gutter divides the page into bands; in each the left column comes first."""
    ordered = sorted(parts, key=lambda part: (round(part.middle), part.box.left))
    for crosses, band in groupby(ordered, key=lambda part: part.box.left < gutter < part.box.right):
        if crosses:
            yield from band
            continue
        rest = list(band)
        for side in ([p for p in rest if p.box.right <= gutter], [p for p in rest if p.box.left >= gutter]):
            inner = _gutter(side)
            yield from side if inner is None else _by_columns(side, inner)


def _gutter(parts: Sequence[Line]) -> float | None:
    """Where a page is divided from top to bottom into columns of running text; None where it is not."""
    between = Counter(round((a.box.right + b.box.left) / 2) for a, b in _neighbours(parts))
    best = max(((_rows_divided(parts, x), x) for x, _ in between.most_common(_CANDIDATES)), default=(0, 0))
    return best[1] if best[0] else None


def _neighbours(parts: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """Parts that stand side by side."""
    ordered = sorted(parts, key=lambda part: (round(part.middle), part.box.left))
    for left, right in pairwise(ordered):
        if left.box.right < right.box.left and abs(left.middle - right.middle) < left.height / 2:
            yield left, right


def _rows_divided(parts: Sequence[Line], x: float) -> int:
    """Lines of the shorter column; none where this is no gutter between columns of text."""
    left = [part for part in parts if part.box.right <= x]
    right = [part for part in parts if part.box.left >= x]
    crossing = len(parts) - len(left) - len(right)
    if min(len(left), len(right)) < _FEWEST_ROWS or crossing > _CROSSED * len(parts):
        return 0
    widths = [max(p.box.right for p in side) - min(p.box.left for p in side) for side in (left, right)]
    if min(widths) < _EVEN * max(widths) or not (_runs_on(left) and _runs_on(right)):
        return 0
    return min(len(left), len(right))


def _runs_on(column: Sequence[Line]) -> bool:
    """Whether most lines are as wide as the column is, and wide enough for text."""
    width = sorted(part.box.width for part in column)[int(len(column) * 0.9)]
    full = [part for part in column if part.box.width >= _FULL * width]
    return len(full) >= _RUN_ON * len(column) and median(shown_width(part.text) for part in full) >= _NARROWEST


def _alternates(lines: Sequence[Line], gutter: float) -> bool:
    """Whether the file goes to and fro between the columns: their lines are in one, or follow each other."""
    sides = [
        "both" if line.box.left < gutter < line.box.right else line.box.left < gutter
        for line in lines
        if line.parts or not line.box.left < gutter < line.box.right
    ]
    jumps = sum(a != b for a, b in pairwise(sides)) + sum(side == "both" for side in sides)
    return jumps >= max(_FEWEST_ROWS, len(sides) // 4)


def ran_to_margin(lines: Sequence[Line]) -> list[bool]:
    """Which lines end because their column does: there is no room for the first word of the next."""
    return [_ran_to_margin(lines, at) for at in range(len(lines))]


def _ran_to_margin(lines: Sequence[Line], at: int) -> bool:
    line, following = lines[at], lines[at + 1] if at + 1 < len(lines) else None
    if following is not None and _are_rows(line, following):
        return False
    near = [one for one in lines[max(at - _NEAR, 0) : at + _NEAR + 1] if _is_alike(one, line)]
    margin = sorted(one.box.right for one in near)[int(len(near) * 0.9)]
    room, width = margin - line.box.right, margin - line.box.left
    if width * shown_width(line.text) < _NARROWEST * line.box.width:
        return False
    ends = sum(margin - one.box.right <= 2 * one.height for one in near if one is not line)
    if ends < 2 and shown_width(line.text) < _WIDE:
        return False  # a caption, a label
    return room <= (1 - _FULL) * width or (following is not None and room < min(following.first, width / 2))


def _are_rows(one: Line, other: Line) -> bool:
    """Whether their gaps are one above the other, as in a table or a form; wide spaces of a justified text are not."""
    return any(abs(a.box.left - b.box.left) < a.height / 2 for a in one.parts[1:] for b in other.parts[1:])


def _is_alike(one: Line, other: Line) -> bool:
    """Of one column and one size; the first line of a paragraph may be indented."""
    return abs(one.box.left - other.box.left) <= 3 * other.height and abs(one.height - other.height) <= other.height / 3
