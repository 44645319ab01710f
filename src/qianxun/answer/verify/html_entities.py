"""HTML entities in a text that comes in pieces: a link may be written in them, and entities in entities."""

from __future__ import annotations

import html
import re
from typing import Final

_LONGEST: Final = 40  # characters of an entity: the longest name has 32
_NAMED: Final = re.compile(r"&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});\Z")
_DECIMAL: Final = re.compile(r"&#[0-9]{1,9}\Z")
_HEX: Final = re.compile(r"&#[xX][0-9a-fA-F]{1,8}\Z")
_UNFINISHED: Final = re.compile(r"&[A-Za-z0-9#&]*\Z")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF;")


class EntityReader:
    """Takes a text in pieces and gives it with every entity read, also ``&amp;colon;`` and ``&#58`` without its end.

    What is read may be part of the next entity; none that has a meaning is left.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        if not self._held and "&" not in piece:
            return piece
        ready: list[str] = []
        tail = self._held
        for mark in piece:
            if not tail and mark != "&":
                ready.append(mark)
                continue
            tail = _with(tail, mark)
            if not mark.isalnum() or len(tail) > _LONGEST:
                done = _certain(tail)
                ready.append(tail[:done])
                tail = tail[done:]
        self._held = tail
        return "".join(ready)

    def close(self) -> str:
        tail, self._held = _without_number(self._held, " "), ""
        return tail


def _with(tail: str, mark: str) -> str:
    """The tail and what follows it; an entity that ends here is what it stands for."""
    tail = _without_number(tail, mark) + mark
    while tail.endswith(";") and (found := _NAMED.search(tail, max(0, len(tail) - _LONGEST))):
        meant = html.unescape(found[0])
        if meant == found[0] or (meant.endswith(";") and len(meant) > 1):  # a name that means nothing
            break
        tail = tail[: found.start()] + meant
    return tail


def _without_number(tail: str, following: str) -> str:
    """``&#58`` ends where its digits do."""
    found = None
    if following not in _HEX_DIGITS:
        found = _HEX.search(tail)
    if found is None and not (following.isascii() and following.isdigit()) and following != ";":
        found = _DECIMAL.search(tail)
    return tail if found is None else tail[: found.start()] + html.unescape(found[0] + ";")


def _certain(tail: str) -> int:
    """How much of it no later character can change."""
    found = _UNFINISHED.search(tail, max(0, len(tail) - _LONGEST))
    return len(tail) if found is None else found.start()
