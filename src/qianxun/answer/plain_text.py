"""What may be shown of a reply or a document: its words. Links, images and HTML are taken out, marks set apart.

A text may come in pieces, cut anywhere: what is made of it does not depend on where.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

LINK_TAKEN_OUT: Final = "（链接略）"

_OPENING: Final = {"[": "]", "【": "】", "［": "］"}
_LONGEST_BRACKET: Final = 300  # characters that may stand in brackets before they are taken for plain text
_LONGEST_TARGET: Final = 2000
_LONGEST_RUN: Final = 2000
_LONGEST_RANGE: Final = 20  # [1-20]
_MARK: Final = re.compile(
    r"\s*\^?(?:资料|来源|文献|引用|参考|出处|source|ref)?\s*[#:：]?\s*"
    r"(?P<numbers>\d{1,3}(?:\s*[,，、;；\-–~～至]\s*\d{1,3})*)\s*",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(r"(\d+)(?:\s*[\-–~～至]\s*(\d+))?")
_RUN: Final = re.compile(r"[A-Za-z0-9._~:/?#@$&'*+,;=%\\-]+")
_TAG_START: Final = re.compile(r"[A-Za-z/!?]")
LINK_START: Final = re.compile(
    r"(?:(?:javascript|vbscript|mailto|blob|intent):(?=[^\s])|data:[a-z]+/|[a-z][a-z0-9+.-]{0,30}:[/\\]"
    r"|[/\\]{2}(?=[a-z0-9])|www\.).*"
    r"|(?<![a-z0-9_.@-])(?!(?:asp|vb|ado|ml)\.net\b)(?:[a-z0-9-]+\.)+(?:com|cn|net|org|gov|edu|io|ai|me|cc|tv|info|biz|top"
    r"|xyz|site|online|shop|vip|ru|uk|de|jp|kr|fr|co|hk|tw|app|dev|link|club|icu|test|example|invalid)(?![a-z0-9-]).*"
    r"|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?/.*",
    re.IGNORECASE | re.DOTALL,
)
_TRAILING: Final = ".,;:!?'"


@dataclass(frozen=True, slots=True)
class Words:
    """Text that may be shown as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """[1], 【2】, [1, 3], [2-4], [资料1]."""

    numbers: tuple[int, ...]
    written: str


@dataclass(frozen=True, slots=True)
class TakenOut:
    """A link, an image or a tag that is not shown."""

    written: str


Atom: TypeAlias = Words | Mark | TakenOut


def without_links(text: str) -> str:
    """The text as it may be read, its brackets left alone; "（链接略）" stands where a link was."""
    return "".join(atom.written if isinstance(atom, Mark) else _shown(atom) for atom in _atoms(text))


def quotable(text: str) -> str:
    """The text as it may stand in an answer: without links, and without marks of its own, which would cite there."""
    return "".join(_shown(atom) for atom in _atoms(text) if not isinstance(atom, Mark))


def _atoms(text: str) -> list[Atom]:
    reader = TextReader()
    return [*reader.feed(text), *reader.close()]


def _shown(atom: Words | TakenOut) -> str:
    if isinstance(atom, Words):
        return atom.text
    return LINK_TAKEN_OUT if LINK_START.match(atom.written) else ""


class TextReader:
    """Takes a text in pieces and gives what may be shown of it as soon as that is certain."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> Iterator[Atom]:
        self._held += "".join(mark for mark in piece if _is_visible(mark))
        yield from self._read(is_last=False)

    def close(self) -> Iterator[Atom]:
        yield from self._read(is_last=True)

    def _read(self, is_last: bool) -> Iterator[Atom]:
        text, at, plain = self._held, 0, 0
        while at < len(text):
            step = _next(text, at, is_last)
            if step is None:
                break
            atoms, end = step
            if atoms is not None:
                if plain < at:
                    yield Words(text[plain:at])
                yield from atoms
                plain = end
            at = end
        if plain < at:
            yield Words(text[plain:at])
        self._held = text[at:]


def _is_visible(mark: str) -> bool:
    """Not what nobody sees: control and format characters hide one word in another."""
    return mark in "\n\t" or unicodedata.category(mark) not in ("Cc", "Cf", "Cs", "Co")


_Step: TypeAlias = tuple[tuple[Atom, ...] | None, int] | None
"""What stands here (None: plain text) and where it ends; None altogether: what follows decides."""


def _next(text: str, at: int, is_last: bool) -> _Step:
    mark = text[at]
    if mark in _OPENING:
        return _bracket(text, at, at, is_last)
    if mark == "!" and (at + 1 < len(text) or not is_last):
        if at + 1 == len(text):
            return None
        return _bracket(text, at, at + 1, is_last) if text[at + 1] == "[" else (None, at + 1)
    if mark == "<":
        return _tag(text, at, is_last)
    if mark.isascii() and (mark.isalnum() or mark in "/\\"):
        return _run(text, at, is_last)
    return None, at + 1


def _bracket(text: str, at: int, opening: int, is_last: bool) -> _Step:
    """A mark, a link or an image; else the opening bracket is a plain one."""
    close = text.find(_OPENING[text[opening]], opening + 1, opening + _LONGEST_BRACKET)
    if close < 0:
        is_over = is_last or len(text) - opening >= _LONGEST_BRACKET or "\n" in text[opening:]
        return (None, opening + 1) if is_over else None
    inside = text[opening + 1 : close]
    after = text[close + 1 : close + 2]
    if not after and not is_last:
        return None
    if after == "(" and text[opening] == "[":
        return _target(text, at, inside, close + 1, is_last)
    told = _MARK.fullmatch(inside)
    if told and at == opening and not after.isdigit():
        return (Mark(_numbers(told["numbers"]), text[at : close + 1]),), close + 1
    return None, opening + 1


def _target(text: str, at: int, inside: str, opening: int, is_last: bool) -> _Step:
    """The words of a link stay, what it points at does not; of an image nothing stays."""
    close = text.find(")", opening, opening + _LONGEST_TARGET)
    if close < 0:
        is_over = is_last or len(text) - opening >= _LONGEST_TARGET or "\n" in text[opening:]
        return (None, at + 1) if is_over else None
    taken = TakenOut(text[at : close + 1])
    if text[at] == "!" or "\n" in text[opening:close]:
        return (taken,), close + 1
    told = _MARK.fullmatch(inside)
    if told:  # [1](http://…) is a mark that somebody made a link of
        return (Mark(_numbers(told["numbers"]), f"[{inside}]"), taken), close + 1
    return (Words(LINK_START.sub("", inside).replace("<", "＜")), taken), close + 1


def _numbers(told: str) -> tuple[int, ...]:
    found: list[int] = []
    for first, last in _RANGE.findall(told):
        end = int(last or first)
        found.extend(range(int(first), min(end, int(first) + _LONGEST_RANGE) + 1))
    return tuple(dict.fromkeys(found))


def _tag(text: str, at: int, is_last: bool) -> _Step:
    if at + 1 == len(text):
        return (None, at + 1) if is_last else None
    if not _TAG_START.match(text, at + 1):
        return None, at + 1
    close = text.find(">", at + 1, at + _LONGEST_TARGET)
    if close >= 0:
        return (TakenOut(text[at : close + 1]),), close + 1
    if is_last or len(text) - at >= _LONGEST_TARGET:
        return (Words("＜"),), at + 1  # never closed: it must not become a tag with what stands behind the answer
    return None


def _run(text: str, at: int, is_last: bool) -> _Step:
    """Letters, digits and signs up to the next space or Chinese character: a word, a number, or a link."""
    match = _RUN.match(text, at, at + _LONGEST_RUN)
    assert match is not None  # begins with one of them
    end = match.end()
    if end == len(text) and end - at < _LONGEST_RUN and not is_last:
        return None
    found = LINK_START.search(text, at, end)
    if found is None:
        return None, end
    stop = end
    while stop > found.start() and text[stop - 1] in _TRAILING:
        stop -= 1
    before = (Words(text[at : found.start()]),) if found.start() > at else ()
    return (*before, TakenOut(text[found.start() : stop])), stop
