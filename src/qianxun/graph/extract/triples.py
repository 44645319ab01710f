"""Triples that are given as data: rows of a table whose columns say so, and lines of the form ``X 的 P 是 O``.

They are taken as they are: nothing is guessed, and nothing is too long to be a name. Of other tables each row tells
what its first cell has under the names of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

Span: TypeAlias = tuple[int, int]
Row: TypeAlias = list[Span]


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HEADERS: Final = (
    _listed("s subject head source 主体 主语 头实体 实体 头 起点 头节点 实体1"),
    _listed("p predicate relation relationship rel 关系 属性 谓语 谓词 关系类型 关系名 属性名 edge"),
    _listed("o object tail target value 客体 宾语 尾实体 值 尾 终点 尾节点 实体2 属性值"),
)
_CELL: Final = re.compile(r"(?<=\|)(?:\\.|[^|\\\n])*(?=\|)")  # a pipe that is escaped is part of its cell
_NUMBERING: Final = _listed("序号 编号 no no. id 号 # 行号 index 排名 名次")
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
_LONGEST: Final = 400  # characters of a name that is given
_LONGEST_CELL: Final = 30  # … of one that a plain table holds
_LONGEST_PART: Final = 20
_LONGEST_LOOSE_PART: Final = 8  # where commas or spaces separate them, which separate phrases, too


class Triple(NamedTuple):
    """Where subject, predicate and object stand in the text, and the line that holds them."""

    subject: Span
    predicate: Span  # of a plain table: in its header
    object: Span
    line: Span

    @property
    def span(self) -> Span:
        """From the first of the three to the last, of those that stand in the line."""
        inner = [part for part in self[:3] if self.line[0] <= part[0] < self.line[1]]
        return min(start for start, _ in inner), max(end for _, end in inner)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def of_table(text: str) -> list[Triple]:
    """The rows of a table whose header names subject, predicate and object; none of any other table."""
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
    return [each for each in found if all(start < end <= start + _LONGEST for start, end in each[:3])]


def _triple_columns(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Which columns hold the three; None where the header does not say, or says it twice."""
    places = [[at for at, name in enumerate(names) if name in known] for known in _HEADERS]
    if not all(len(each) == 1 for each in places):
        return None
    (subject,), (predicate,), (object_,) = places
    return subject, predicate, object_


def of_rows(text: str) -> list[Triple]:
    """What each row of a plain table tells of its first cell. Figures are no names: the table answers for them."""
    (_, header), *rows = list(_rows(text)) or [((0, 0), [])]
    first = 1 if header and text[slice(*header[0])].casefold() in _NUMBERING else 0
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


def _rows(text: str) -> Iterator[tuple[Span, Row]]:
    """The lines that are drawn with pipes, and their cells without the space around them."""
    at = 0
    for line in text.split("\n"):
        if line.startswith("|"):
            yield (
                (at, at + len(line)),
                [_trimmed(text, at + each.start(), at + each.end()) for each in _CELL.finditer(line)],
            )
        at += len(line) + 1


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def of_lines(text: str, title: str = "") -> list[Triple]:
    """Lines of the form ``X 的 P 是 O``, the parts set off by spaces, which prose never does.

    A line that begins with the document's ``title`` has it as its subject, whatever the title looks like.
    """
    if _OF not in text:
        return []
    found: list[Triple] = []
    at = 0
    for line in text.split("\n"):
        told = _told(line, len(title) if title and line.startswith(title + _OF) else line.find(_OF))
        if told is not None:
            subject, predicate, object_ = (_trimmed(text, at + start, at + end) for start, end in told)
            found.append(Triple(subject, predicate, object_, (at, at + len(line))))
        at += len(line) + 1
    return found


def _told(line: str, of: int) -> tuple[Span, Span, Span] | None:
    """The three parts of a line whose subject ends at ``of``; None where it is no such line."""
    if of <= 0:
        return None
    after = of + len(_OF)
    ends = [at for at in (line.find(word, after + 1, after + _LONGEST_PREDICATE) for word in _IS) if at > 0]
    if not ends or _ENDS_SENTENCE.search(line, after, min(ends)):
        return None
    parts = (0, of), (after, min(ends)), (min(ends) + len(_IS[0]), len(line))
    return parts if all(0 < end - start <= _LONGEST and line[start:end].strip() for start, end in parts) else None


def listed_values(text: str) -> list[tuple[Span, Span, Span]]:
    """(key, value, line) of lines such as ``出生地：绍兴``, where at least two follow one another: one is a remark."""
    found = [(each.span(1), each.span(2), each.span()) for each in _KEYED.finditer(text)]
    kept: list[tuple[Span, Span, Span]] = []
    for at, each in enumerate(found):
        beside = found[max(at - 1, 0) : at] + found[at + 1 : at + 2]
        if any(abs(other[2][0] - each[2][1]) <= 2 or abs(each[2][0] - other[2][1]) <= 2 for other in beside):
            kept.append(each)
    return [each for each in kept if not _FIGURE.match(text, *each[1])]


# ── objects that are lists ───────────────────────────────────────────────────────────────────────


def parts_of(text: str, span: Span) -> list[Span]:
    """The names that an object lists (章韵、徐晨辰), or what is left of it without brackets and marks; else none."""
    start, end = span
    inside = text[start:end]
    marks = list(_SEPARATOR.finditer(inside)) if not _BRACKETS.search(inside) else []
    bounds = [0, *(edge for mark in marks for edge in mark.span()), len(inside)]
    parts = [_plain(text, start + first, start + last) for first, last in zip(bounds[::2], bounds[1::2], strict=True)]
    longest = _LONGEST_LOOSE_PART if any(_LOOSE.fullmatch(mark.group()[:1]) for mark in marks) else _LONGEST_PART
    if len(parts) == 1:
        return [part for part in parts if part != span and _is_part(text, part, _LONGEST)]
    return parts if all(_is_part(text, part, longest) for part in parts) else []


def _plain(text: str, start: int, end: int) -> Span:
    """Without what stands in brackets behind it, and without the marks around it."""
    opening = _BRACKETS.search(text, start + 1, end)
    start, end = _trimmed(text, start, opening.start() if opening else end)
    if text[end - 1 : end] == "等":
        end -= 1
    closing = _PAIRS.get(text[start : start + 1])
    if closing is not None and text.find(closing, start, end) == end - 1:
        return start + 1, end - 1
    return start, end


def _is_part(text: str, part: Span, longest: int) -> bool:
    start, end = part
    return 2 <= end - start <= longest and not _FIGURE.match(text, start, end) and text[end - 1] not in "。，"
