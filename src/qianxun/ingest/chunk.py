"""Text into chunks of bounded length with exact offsets, cut where a reader would cut.

Headings and tables divide the text into sections (`_sections`); inside a section the splitter goes from window to
window, ending each at the strongest boundary that leaves it well filled.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.core.documents import Mark, Piece, TableSpan, Text
from qianxun.core.errors import BadInput
from qianxun.text.chinese import CLAUSE_END, SENTENCE_END
from qianxun.text.line_breaks import wrap_breaks

_SOLID: Final = re.compile(r"\S")
_WORD_SIGNS: Final = frozenset("_./:%@+-,'’?=&#~")  # inside numbers, addresses, names
_CLOSED: Final = re.compile(r"[。！？!?；;：:…”’」』》】)）.]\s?$")
_FULL_LINE: Final = 20  # characters: a shorter one at the foot of a page is an item or a label, not half a sentence
_SHORTEST_PAGE: Final = 60
_STRETCH: Final = 1 << 16  # characters that a pattern goes through at once: no other thread runs meanwhile
_PLAIN: Final = re.compile("[^\\s。！？；…｡．!?;.，、：,:—\"'」』”’）】〕》〉]")  # in no boundary
_LONGEST_WORD: Final = 32  # how far a hard cut moves back to spare a word, a number or an emoji


@dataclass(frozen=True, slots=True)
class _Level:
    """A kind of boundary. A window ends at it if that leaves at least ``share`` of the window filled."""

    pattern: re.Pattern[str]
    share: float
    before: bool = False  # cut before the match (line ends, which chunks do not keep) or after it
    plain: re.Pattern[str] = _PLAIN

    def positions(self, content: str, start: int, end: int) -> list[int]:
        """Where the matches are, found in one stretch after the other: each ends after a character that is in none."""
        positions: list[int] = []
        while start < end:
            last = self.plain.search(content, min(start + _STRETCH, end), end)
            stop = last.end() if last else end
            found = self.pattern.finditer(content, start, stop)
            positions += [match.start() for match in found] if self.before else [match.end() for match in found]
            start = stop
        return positions


_LEVELS: Final = (
    _Level(re.compile(r"\n\s*\n"), 0.5, before=True),
    _Level(re.compile(r"\n+"), 0.5, before=True),
    _Level(SENTENCE_END, 0.25),
    _Level(CLAUSE_END, 0.1),
)


@dataclass(frozen=True, slots=True)
class _Section:
    """A stretch of text under one heading. ``body`` is where the text after its heading lines begins."""

    start: int
    end: int
    body: int
    headings: tuple[str, ...]


class ChunkSplitter:
    """Cuts texts into chunks of at most ``chunk_size`` characters, of which up to ``chunk_overlap`` repeat the last."""

    def __init__(self, chunk_size: int = 500, chunk_overlap: int = 50, separators: Sequence[str] | None = None) -> None:
        """``separators`` replace the built-in boundaries (paragraph, line, sentence, clause), strongest first."""
        if chunk_size < 1:
            raise BadInput(f"chunk_size 必须至少为 1，收到 {chunk_size}", hint="常用值为 300 到 800 个字符。")
        if not 0 <= chunk_overlap < chunk_size:
            raise BadInput(
                f"chunk_overlap 必须不小于 0 且小于 chunk_size（{chunk_size}），收到 {chunk_overlap}",
                hint="常用值为 chunk_size 的十分之一。",
            )
        self.chunk_size = chunk_size
        self.chunk_overlap = chunk_overlap
        self._levels = _LEVELS if separators is None else tuple(_levels(separators))

    def split(self, text: str) -> list[tuple[str, int]]:
        """The chunks, each with its offset in ``text``."""
        return [(piece.body, piece.start) for piece in self.pieces(Text(text))]

    def pieces(self, text: Text, cuts: Iterable[int] = ()) -> tuple[Piece, ...]:
        """The chunks of a text, in order. ``cuts`` are further offsets that no chunk of prose reaches across.

        Every character that is not space is in some chunk; ``content[start:end]`` is a chunk's body; no chunk reaches
        across a heading. A table is whole where it fits, otherwise cut between rows with its header repeated.
        """
        content = text.content
        if len(content) <= self.chunk_size and not (text.marks or text.tables or text.pages or cuts):
            body = content.strip()
            start = content.find(body[0]) if body else 0
            return (Piece(start, start + len(body), body),) if body else ()
        return tuple(_Splitting(self, text, cuts).pieces())

    def windows(self, content: str, start: int, end: int, *, size: int, overlap: int, body: int) -> Iterator[range]:
        """Stretches of at most ``size`` that cover ``content[start:end]``; the first reaches beyond ``body``."""
        end = _without_space(content, start, end)
        at = _skip_space(content, start, end)
        if end - at <= size:
            if at < end:
                yield range(at, end)
            return
        boundaries = _Boundaries(content, self._levels, at, end)
        floor = max(body, at)
        done = floor if floor < at + size else at
        while end - at > size:
            cut = boundaries.last(at, done, size)
            yield range(at, _without_space(content, at, cut))
            done = _skip_space(content, cut, end)
            at = _skip_space(content, boundaries.overlap(max(done - overlap, floor), cut), end)
        yield range(at, end)


def _levels(separators: Sequence[str]) -> Iterator[_Level]:
    for separator in separators:
        if separator:
            blank = separator.isspace()
            repeated, others = re.compile(f"(?:{re.escape(separator)})+"), re.compile(f"[^{re.escape(separator)}]")
            yield _Level(repeated, 0.5 if blank else 0.25, before=blank, plain=others)


# ── sections ─────────────────────────────────────────────────────────────────────────────────────


def _sections(content: str, marks: Sequence[Mark]) -> Iterator[_Section]:
    """The text divided at its headings. A heading with only a deeper heading below it stays with that."""
    path: list[Mark] = []
    start = 0
    for index, mark in enumerate(marks):
        if index == 0 and not _is_blank(content, 0, mark.start):
            yield _Section(0, mark.start, 0, ())
        if index == 0 or start < 0:
            start = mark.start
        path = [*(above for above in path if above.level < mark.level), mark]
        following = marks[index + 1] if index + 1 < len(marks) else None
        end = following.start if following else len(content)
        body = _line_end(content, mark.start, end)
        if following and following.level > mark.level and _is_blank(content, body, end):
            continue
        yield _Section(start, end, body, tuple(above.title for above in path))
        start = -1
    if not marks:
        yield _Section(0, len(content), 0, ())


def _line_end(content: str, start: int, end: int) -> int:
    found = content.find("\n", start, end)
    return end if found < 0 else found


def _is_blank(content: str, start: int, end: int) -> bool:
    return _SOLID.search(content, start, end) is None


def _skip_space(content: str, start: int, end: int) -> int:
    found = _SOLID.search(content, start, end)
    return found.start() if found else end


def _without_space(content: str, start: int, end: int) -> int:
    while end > start and content[end - 1].isspace():
        end -= 1
    return end


class _Splitting:
    """One text that is being split."""

    def __init__(self, splitter: ChunkSplitter, text: Text, cuts: Iterable[int]) -> None:
        self._splitter = splitter
        self._content = text.content
        self._tables = sorted(enumerate(text.tables), key=lambda entry: entry[1].start)
        self._table_starts = [span.start for _, span in self._tables]
        marks = sorted(text.marks, key=lambda mark: mark.start)
        self._marks = [mark for mark in marks if not self._in_table(mark.start)]
        self._page_starts = [page.start for page in text.pages]
        self._pages = [page.page for page in text.pages]
        self._cuts = sorted({*cuts, *self._page_ends()})

    def pieces(self) -> Iterator[Piece]:
        for section in _sections(self._content, self._marks):
            yield from self._section(section)

    def _page_ends(self) -> Iterator[int]:
        """Where a page begins that does not continue a sentence: a chunk on two pages has no page to be cited by.

        A heading at the foot of a page and a nearly empty page (a cover) stay with the next page.
        """
        headings = {mark.start for mark in self._marks}
        before = 0
        for start in self._page_starts[1:]:
            end = _without_space(self._content, 0, start)
            line = self._content.rfind("\n", before, end) + 1 or before
            runs_on = end - line >= _FULL_LINE and not _CLOSED.search(self._content, max(end - 2, 0), end)
            if end - before >= _SHORTEST_PAGE and line not in headings and not runs_on:
                yield start
                before = start

    def _page(self, start: int, end: int) -> int | None:
        """The page with most of a stretch, the earlier of two with as much."""
        first = max(bisect_right(self._page_starts, start) - 1, 0)
        last = bisect_left(self._page_starts, end)
        if not self._pages or last == 0:
            return None
        bounds = [start, *self._page_starts[first + 1 : last], end]
        longest = max(range(len(bounds) - 1), key=lambda at: bounds[at + 1] - bounds[at])
        return self._pages[first + longest]

    def _in_table(self, offset: int) -> bool:
        before = bisect_left(self._table_starts, offset) - 1
        return before >= 0 and offset < self._tables[before][1].end

    def _section(self, section: _Section) -> Iterator[Piece]:
        at = section.start
        first = bisect_left(self._table_starts, section.start)
        last = bisect_left(self._table_starts, section.end)
        for index, span in self._tables[first:last]:
            start = span.start
            if start < at:
                continue  # inside the table before it
            if at < section.body <= start and self._joins_table(at, section.body, span):
                start = at
            else:
                yield from self._prose(section, at, start)
            yield from self._table(section, index, span, start)
            at = span.end
        yield from self._prose(section, at, section.end)

    def _joins_table(self, start: int, body: int, span: TableSpan) -> bool:
        """Whether a heading has nothing below it but this table, and there is room for it above the first row."""
        first_row = span.row_starts[1] if len(span.row_starts) > 1 else span.end
        return _is_blank(self._content, body, span.start) and self._fits(start, first_row, "")

    def _prose(self, section: _Section, start: int, end: int) -> Iterator[Piece]:
        size, overlap = self._splitter.chunk_size, self._splitter.chunk_overlap
        inner = self._cuts[bisect_right(self._cuts, max(start, section.body)) : bisect_left(self._cuts, end)]
        for first, last in zip([start, *inner], [*inner, end], strict=True):
            body = max(first, section.body)
            for window in self._splitter.windows(self._content, first, last, size=size, overlap=overlap, body=body):
                yield self._piece(section, window)

    def _piece(self, section: _Section, window: range, lead: str = "", table: int | None = None) -> Piece:
        start, end = window.start, window.stop
        return Piece(
            start,
            end,
            self._content[start:end],
            lead=lead,
            kind="text" if table is None else "table",
            headings=section.headings,
            page=self._page(start, end),
            table=table,
        )

    def _table(self, section: _Section, index: int, span: TableSpan, start: int) -> Iterator[Piece]:
        """Groups of rows. The header is part of the first group's body and the lead of the others."""
        size = self._splitter.chunk_size
        rows = [row for row in span.row_starts if span.start <= row < span.end] or [span.start]
        header = _repeatable(self._content[span.start : rows[0]], size)

        def lead(begin: int) -> str:
            return header if begin >= rows[0] else ""

        at = filled = start
        for end in [*rows[1:], span.end]:
            if filled > at and not self._fits(at, end, lead(at)):
                yield self._piece(section, self._rows(at, filled), lead(at), index)
                at = filled
            filled = end
            if not self._fits(at, end, lead(at)):
                room = size - len(header)
                for window in self._splitter.windows(self._content, at, end, size=room, overlap=0, body=at):
                    yield self._piece(section, window, lead(window.start), index)
                at = end
        if self._rows(at, filled):
            yield self._piece(section, self._rows(at, filled), lead(at), index)

    def _rows(self, start: int, end: int) -> range:
        return range(start, _without_space(self._content, start, end))

    def _fits(self, start: int, end: int, lead: str) -> bool:
        return len(lead) + len(self._rows(start, end)) <= self._splitter.chunk_size


def _repeatable(header: str, size: int) -> str:
    """The header to repeat above every group of rows: at most half a chunk, the column names before the title."""
    for lead in (header, header.rstrip("\n").rpartition("\n")[2] + "\n"):
        if len(lead) <= size // 2:
            return lead if lead.strip() else ""
    return ""


# ── boundaries ───────────────────────────────────────────────────────────────────────────────────


class _Boundaries:
    """Where a stretch of text may be cut, found once for the whole stretch."""

    def __init__(self, content: str, levels: Sequence[_Level], start: int, end: int) -> None:
        self._content = content
        broken = {start + place for place in wrap_breaks(content[start:end])}  # lines go on there
        self._levels = [
            (level.share, [place for place in level.positions(content, start, end) if place not in broken])
            for level in levels
        ]

    def last(self, at: int, done: int, size: int) -> int:
        """The best place beyond ``done`` to end a window that begins at ``at``."""
        limit = at + size
        reachable = [(share, _latest(positions, limit)) for share, positions in self._levels]
        for share, position in reachable:
            if position > done and position - at >= share * size:
                return position
        for _, position in reachable:
            if position > done:
                return position
        return _hard_cut(self._content, done + 1, limit)

    def overlap(self, lowest: int, cut: int) -> int:
        """Where the window after ``cut`` begins: a sentence's beginning, else a clause's, not before ``lowest``."""
        if lowest >= cut:
            return cut
        earliest = [_earliest(positions, lowest, cut) for _, positions in self._levels]
        for candidates in (earliest[:-1], earliest[-1:]):
            if candidates and min(candidates) < cut:
                return min(candidates)
        while lowest < cut and _splits(self._content, lowest):
            lowest += 1
        return lowest


def _latest(positions: list[int], limit: int) -> int:
    index = bisect_right(positions, limit)
    return positions[index - 1] if index else -1


def _earliest(positions: list[int], lowest: int, otherwise: int) -> int:
    index = bisect_left(positions, lowest)
    return positions[index] if index < len(positions) else otherwise


def _hard_cut(content: str, lowest: int, limit: int) -> int:
    """The last place up to ``limit`` that spares words, numbers and composed characters; ``limit`` if there is none."""
    nearest = max(lowest, limit - _LONGEST_WORD)
    for splits in (_splits, _splits_character):
        for position in range(limit, nearest - 1, -1):
            if not splits(content, position):
                return position
    return limit


def _splits(content: str, position: int) -> bool:
    """Whether a cut here would go through a word, a number or a composed character."""
    left, right = content[position - 1], content[position]
    return (_in_word(left) and _in_word(right)) or _splits_character(content, position)


def _in_word(character: str) -> bool:
    return character in _WORD_SIGNS or (character < "\u3000" and character.isalnum())


def _splits_character(content: str, position: int) -> bool:
    left, right = content[position - 1], content[position]
    if left < "\u0300" and right < "\u0300":
        return False
    return (
        unicodedata.combining(right) != 0
        or right in "\u200d\u20e3"
        or left == "\u200d"
        or "\ufe00" <= right <= "\ufe0f"
        or "\U0001f3fb" <= right <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= right <= "\U000e007f"  # tags of flags
        or ("\U0001f1e6" <= left <= "\U0001f1ff" and "\U0001f1e6" <= right <= "\U0001f1ff")  # flags
        or ("\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff")
    )
