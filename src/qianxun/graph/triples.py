"""Triples that are given as data: rows of a table whose columns say so, and lines of the form ``X 的 P 是 O``.

They are taken as they are: nothing is guessed, and nothing is too long to be a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

Span: TypeAlias = tuple[int, int]

_HEADERS: Final = (
    frozenset({"s", "subject", "head", "source", "主体", "主语", "头实体", "实体", "头", "起点", "头节点"}),
    frozenset(
        {"p", "predicate", "relation", "relationship", "rel", "type", "关系", "属性", "谓语", "谓词", "关系类型"}
    ),
    frozenset(
        {"o", "object", "tail", "target", "value", "客体", "宾语", "尾实体", "值", "尾", "终点", "尾节点", "属性值"}
    ),
)
_CELL: Final = re.compile(r"(?:\\.|[^|\\\n])+")  # a pipe that is escaped is part of its cell
_OF: Final = " 的 "
_IS: Final = (" 是 ", " 为 ")
_ENDS_SENTENCE: Final = re.compile(r"[。！？]")
_LONGEST_PREDICATE: Final = 40
_LONGEST: Final = 400  # characters of a name


class Triple(NamedTuple):
    """Where subject, predicate and object stand in the text."""

    subject: Span
    predicate: Span
    object: Span

    @property
    def span(self) -> Span:
        every = (*self.subject, *self.predicate, *self.object)
        return min(every), max(every)


def of_table(text: str) -> list[Triple]:
    """The rows of a table whose header names subject, predicate and object; none of any other table."""
    columns: tuple[int, int, int] | None = None
    found: list[Triple] = []
    for line in pipe_rows(text):
        if columns is None:
            columns = _triple_columns([text[start:end].casefold() for start, end in line])
        elif len(line) > max(columns):
            triple = Triple(*(line[at] for at in columns))
            if all(start < end <= start + _LONGEST for start, end in triple):
                found.append(triple)
    return found


def _triple_columns(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Which columns hold the three; None where the header does not say, or says it twice."""
    places = [[at for at, name in enumerate(names) if name in known] for known in _HEADERS]
    if not all(len(each) == 1 for each in places):
        return None
    (subject,), (predicate,), (object_,) = places
    return subject, predicate, object_


def pipe_rows(text: str) -> Iterator[list[Span]]:
    """The cells of each line that is drawn with pipes, without the space around them."""
    at = 0
    for line in text.split("\n"):
        if line.startswith("|"):
            cells = [_trimmed(text, at + cell.start(), at + cell.end()) for cell in _CELL.finditer(line)]
            yield cells
        at += len(line) + 1


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


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
            found.append(Triple(*(_trimmed(text, at + start, at + end) for start, end in told)))
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
    return parts if all(0 < end - start <= _LONGEST for start, end in parts) else None
