"""Triples in structured text: tables with columns for them, lines of the form ``X 的 P 是 O``, and plain tables.

The first two are taken as they are, whatever the names look like. In a plain table, the first cell of a row is the
subject, and the column names are the predicates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from qianxun.core.graph_types import Span
from qianxun.graph.extract.lexicon import listed

_HEADERS: Final = tuple(listed("tables", name) for name in ("subjects", "predicates", "objects"))
_ROW_NUMBERS: Final = listed("tables", "row_numbers")
_CELL: Final = re.compile(r"(?<=\|)(?:\\.|[^|\\\n])*(?=\|)")  # an escaped pipe is part of its cell
_FIGURE: Final = re.compile(r"[-+±~约≈<>≤≥￥¥$€£]?\s*[\d０-９]|[—–\-/\\.\s]*$")
_KEYED: Final = re.compile(
    r"^[-•*· \t]{0,4}([\u4e00-\u9fff]{2,8})[：:][ \t]?([^\s：:。；][^\n：:。；]{1,29})$", re.MULTILINE
)
_OF: Final = " 的 "
_IS: Final = (" 是 ", " 为 ")
_ENDS_SENTENCE: Final = re.compile(r"[。！]")
_SEPARATOR: Final = re.compile(r"[、;；/／|，,]|(?<=[\u3400-\u9fff》])[ \u3000]+(?=[\u3400-\u9fff《])")
_LOOSE: Final = re.compile(r"[，, \u3000]")
_BRACKETS: Final = re.compile(r"[（(【\[]")
_PAIRS: Final = {"《": "》", "〈": "〉", "“": "”", "「": "」", "『": "』", '"': '"'}
_LONGEST_PREDICATE: Final = 40
_LONGEST: Final = 400  # characters of a name in a triple
_LONGEST_CELL: Final = 30  # … in a plain table
_LONGEST_PART: Final = 20
_LONGEST_LOOSE_PART: Final = 8  # between commas or spaces, which separate phrases, too


class Triple(NamedTuple):
    """The spans of subject, predicate and object, and of their line."""

    subject: Span
    predicate: Span  # in the header of a plain table
    object: Span
    line: Span

    @property
    def span(self) -> Span:
        """From the first of the three to the last, of those in the line."""
        inner = [part for part in self[:3] if self.line[0] <= part[0] < self.line[1]]
        return min(start for start, _ in inner), max(end for _, end in inner)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def triples_of_table(text: str) -> list[Triple]:
    """The rows of a table whose header names subject, predicate and object; none for any other table."""
    rows = list(_rows(text))
    columns = _triple_columns([text[start:end].casefold() for start, end in rows[0][1]]) if rows else None
    if columns is None:
        return []
    subject, predicate, object_ = columns
    found = [
        Triple(cells[subject], cells[predicate], cells[object_], line)
        for line, cells in rows[1:]
        if len(cells) > max(columns)
    ]
    return [row for row in found if all(start < end <= start + _LONGEST for start, end in row[:3])]


def _triple_columns(names: Sequence[str]) -> tuple[int, int, int] | None:
    """The three columns; None if one is missing or ambiguous."""
    places = [[at for at, name in enumerate(names) if name in known] for known in _HEADERS]
    if not all(len(columns) == 1 for columns in places):
        return None
    (subject,), (predicate,), (object_,) = places
    return subject, predicate, object_


def triples_of_rows(text: str) -> list[Triple]:
    """The rows of a plain table. Figures are no names: table answers cover them."""
    (_, header), *rows = list(_rows(text)) or [((0, 0), [])]
    first = 1 if header and text[slice(*header[0])].casefold() in _ROW_NUMBERS else 0
    found: list[Triple] = []
    for line, cells in rows:
        if len(cells) != len(header) or first >= len(cells) or not _is_name(text, cells[first]):
            continue
        for name, cell in zip(header[first + 1 :], cells[first + 1 :], strict=True):
            if _is_name(text, cell) and _is_name(text, name):
                found.append(Triple(cells[first], name, cell, line))
    return found


def _is_name(text: str, cell: Span) -> bool:
    start, end = cell
    return 1 < end - start <= _LONGEST_CELL and not _FIGURE.match(text, start, end)


def _rows(text: str) -> Iterator[tuple[Span, list[Span]]]:
    """Lines drawn with pipes, and their trimmed cells."""
    at = 0
    for line in text.split("\n"):
        if line.startswith("|"):
            cells = [_trimmed(text, at + cell.start(), at + cell.end()) for cell in _CELL.finditer(line)]
            yield (at, at + len(line)), cells
        at += len(line) + 1


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def triples_of_lines(text: str, title: str = "") -> list[Triple]:
    """Lines of the form ``X 的 P 是 O`` with the parts separated by spaces, as never in prose.

    The subject of a line that begins with the document's ``title`` is the title, whatever it looks like.
    """
    if _OF not in text:
        return []
    found: list[Triple] = []
    at = 0
    for line in text.split("\n"):
        parts = _parts(line, len(title) if title and line.startswith(title + _OF) else line.find(_OF))
        if parts is not None:
            subject, predicate, object_ = (_trimmed(text, at + start, at + end) for start, end in parts)
            found.append(Triple(subject, predicate, object_, (at, at + len(line))))
        at += len(line) + 1
    return found


def _parts(line: str, of: int) -> tuple[Span, Span, Span] | None:
    """The three parts of a line whose subject ends at ``of``; None if it has another form."""
    if of <= 0:
        return None
    after = of + len(_OF)
    ends = [at for at in (line.find(word, after + 1, after + _LONGEST_PREDICATE) for word in _IS) if at > 0]
    if not ends or _ENDS_SENTENCE.search(line, after, min(ends)):
        return None
    parts = (0, of), (after, min(ends)), (min(ends) + len(_IS[0]), len(line))
    return parts if all(0 < end - start <= _LONGEST and line[start:end].strip() for start, end in parts) else None


def card_lines(text: str) -> list[tuple[Span, Span, Span]]:
    """(key, value, line) of lines such as ``出生地：绍兴``, if at least two of them are adjacent."""
    found = [(line.span(1), line.span(2), line.span()) for line in _KEYED.finditer(text)]
    return [
        row
        for at, row in enumerate(found)
        if any(_are_adjacent(row[2], other[2]) for other in (*found[max(at - 1, 0) : at], *found[at + 1 : at + 2]))
        and not _FIGURE.match(text, *row[1])
    ]


def _are_adjacent(one: Span, other: Span) -> bool:
    return abs(other[0] - one[1]) <= 2 or abs(one[0] - other[1]) <= 2


# ── objects that are lists ───────────────────────────────────────────────────────────────────────


def list_items(text: str, span: Span) -> list[Span]:
    """The names that an object lists (章韵、徐晨辰), or the object without brackets and marks if that differs."""
    start, end = span
    inside = text[start:end]
    marks = list(_SEPARATOR.finditer(inside)) if not _BRACKETS.search(inside) else []
    bounds = [0, *(edge for mark in marks for edge in mark.span()), len(inside)]
    parts = [_plain(text, start + first, start + last) for first, last in zip(bounds[::2], bounds[1::2], strict=True)]
    longest = _LONGEST_LOOSE_PART if any(_LOOSE.fullmatch(mark.group()[:1]) for mark in marks) else _LONGEST_PART
    if len(parts) == 1:
        return [part for part in parts if part != span and _is_item(text, part, _LONGEST)]
    return parts if all(_is_item(text, part, longest) for part in parts) else []


def _plain(text: str, start: int, end: int) -> Span:
    """Without a bracket at the end and without marks around it."""
    opening = _BRACKETS.search(text, start + 1, end)
    start, end = _trimmed(text, start, opening.start() if opening else end)
    if text[end - 1 : end] == "等":
        end -= 1
    closing = _PAIRS.get(text[start : start + 1])
    if closing is not None and text.find(closing, start, end) == end - 1:
        return start + 1, end - 1
    return start, end


def _is_item(text: str, part: Span, longest: int) -> bool:
    start, end = part
    return 2 <= end - start <= longest and not _FIGURE.match(text, start, end) and text[end - 1] not in "。，"
