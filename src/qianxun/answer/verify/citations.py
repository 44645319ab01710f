"""Marks in a reply: which sentence rests on which passages. Only passages that were given can be cited.

A reply is read as it comes. Its words go on at once; marks, links and images never do. Once a sentence and the marks
after it are over, it is given with the passages that it cites. A whole reply is the same reader fed once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from qianxun.answer.verify.plain_text import LINK_START, LINK_TAKEN_OUT, Atom, Mark, TextReader, Words
from qianxun.core.answer_types import Flag

_ENDING: Final = re.compile(
    r"(?:[。！？!?｡…]+|(?<=[^\W\d_])\.|(?<=\d\d\d)\.|(?<=[)\]）】])\.)[」』”’）】〕》〉\"')]*\Z"
)
"""Where a sentence may be over; a semicolon ends none: what is cited after it holds for what is before it, too."""
_LAST: Final = frozenset("。！？!?｡….」』”’）】〕》〉\"')")
_GOES_ON: Final = frozenset("，、。！？!?｡…；;」』”’）】〕》〉")
_CLOSES_UP: Final = _GOES_ON | frozenset(",.:：)\n")
_SPACES: Final = " \t\u3000"


@dataclass(frozen=True, slots=True)
class Fragment:
    """Words of the reply, in order; joined they are the reply without its marks and links."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence is over: ``text`` is all of it, ``numbers`` what it cites, ``space`` what parts it from the next."""

    text: str
    numbers: tuple[int, ...] = ()
    flags: tuple[Flag, ...] = ()
    space: str = ""


Reading: TypeAlias = Fragment | Sentence


class _Gaps:
    """Closes the gaps that marks leave: no space is left before a stop, at the head of a line, nor two in a row."""

    def __init__(self) -> None:
        self._gap = ""  # space before a mark, which may have to go
        self._after = ""  # space after it
        self._last = "\n"  # before both
        self._is_marked = False

    def closed(self, atom: Atom) -> Iterator[Atom]:
        if isinstance(atom, Mark):
            self._is_marked = True
            yield atom
        elif isinstance(atom, Words):
            yield from self._words(atom.text)
        else:
            if LINK_START.match(atom.written):  # something is shown in its place
                yield Words(self._joint(LINK_TAKEN_OUT[0]))
                self._gap, self._after, self._is_marked, self._last = "", "", False, LINK_TAKEN_OUT[-1]
            yield atom

    def close(self) -> Iterator[Atom]:
        if self._gap and not self._is_marked:
            yield Words(self._gap)

    def _words(self, text: str) -> Iterator[Atom]:
        rest = text.lstrip(_SPACES)
        space = text[: len(text) - len(rest)]
        if self._is_marked:
            self._after += space
        else:
            self._gap += space
        if not rest:
            return
        bare = rest.rstrip(_SPACES)
        yield Words(self._joint(rest[0]) + bare)
        self._gap, self._after, self._is_marked, self._last = rest[len(bare) :], "", False, bare[-1]

    def _joint(self, following: str) -> str:
        if not self._is_marked or self._last == "\n":
            return self._gap
        return "" if following in _CLOSES_UP else (self._gap + self._after)[:1]


class CitationReader:
    """Reads a reply in pieces, cut anywhere: what it gives does not depend on where, but for how `Fragment` is cut."""

    def __init__(self, given: Collection[int]) -> None:
        self._given = frozenset(given)
        self._reader, self._gaps = TextReader(), _Gaps()
        self._leading: list[Mark] = []  # that a line begins with: of what follows on it, or else of the line before
        self._begin()

    def _begin(self) -> None:
        self._sentence, self._space, self._is_over = "", "", False
        self._numbers: list[int] = []
        self._flags: list[Flag] = []

    def feed(self, piece: str) -> Iterator[Reading]:
        for atom in self._reader.feed(piece):
            yield from self._taken(self._gaps.closed(atom))

    def close(self) -> Iterator[Reading]:
        for atom in self._reader.close():
            yield from self._taken(self._gaps.closed(atom))
        yield from self._taken(self._gaps.close())
        self._cite_leading()
        yield from self._end()

    def _taken(self, atoms: Iterator[Atom]) -> Iterator[Reading]:
        for atom in atoms:
            yield from self._take(atom)

    def _take(self, atom: Atom) -> Iterator[Reading]:
        if isinstance(atom, Words):
            yield from self._words(atom.text)
        elif isinstance(atom, Mark) and self._is_over and "\n" in self._space:
            self._leading.append(atom)
        elif isinstance(atom, Mark):
            self._cite(atom)
        else:
            if LINK_START.match(atom.written):
                yield from self._words(LINK_TAKEN_OUT)
            self._flags.append(Flag("link_removed", atom.written[:200], "资料和回复中的链接、图片与 HTML 一律不输出"))

    def _cite(self, mark: Mark) -> None:
        for number in mark.numbers:
            if number in self._given:
                self._numbers.append(number)
            else:
                self._flags.append(Flag("unknown_citation", mark.written, f"没有编号为 {number} 的资料"))

    def _cite_leading(self) -> None:
        leading, self._leading = self._leading, []
        for mark in leading:
            self._cite(mark)

    def _words(self, text: str) -> Iterator[Reading]:
        shown = ""
        for mark in text:
            if mark == "\n" or mark in _GOES_ON:
                self._cite_leading()  # they are of no sentence
            if self._is_over and not mark.isspace():
                if mark not in _GOES_ON or "\n" in self._space:
                    if mark == "(" and not self._space:
                        mark = "（"  # [1] may be set before it, and [1](…) is a link
                    yield from _fragment(shown)
                    shown = ""
                    yield from self._end()
                    self._cite_leading()
                else:
                    shown += self._space
                    self._sentence, self._space, self._is_over = self._sentence + self._space, "", False
            if mark.isspace() and (self._is_over or self._is_over_before(mark)):
                self._space += mark
                self._is_over = True
                continue
            shown += mark
            self._sentence += mark
            may_end = mark in _LAST and mark != "." and not self._is_row
            self._is_over = may_end and bool(_ENDING.search(self._sentence[-16:]))
        yield from _fragment(shown)

    def _is_over_before(self, space: str) -> bool:
        """A line is a sentence; a full stop ends one only where a space follows. A row of a table is one line."""
        if space == "\n":
            return bool(self._sentence.strip())
        if self._is_row:
            return False
        return self._sentence[-1:] in _LAST and bool(_ENDING.search(self._sentence[-16:]))

    @property
    def _is_row(self) -> bool:
        return self._sentence.lstrip()[:1] == "|"

    def _end(self) -> Iterator[Reading]:
        if self._sentence.strip() or self._numbers or self._flags:
            yield Sentence(self._sentence, tuple(dict.fromkeys(self._numbers)), tuple(self._flags), self._space)
        self._begin()


def _fragment(text: str) -> Iterator[Reading]:
    if text:
        yield Fragment(text)
