"""Server-sent events: written, and read as they come.

https://html.spec.whatwg.org/multipage/server-sent-events.html, 9.2.6
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

LARGEST_EVENT: Final = 1 << 20  # bytes
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """More than LARGEST_EVENT bytes, and no end of it."""


@dataclass(frozen=True, slots=True)
class Event:
    data: str
    name: str = "message"


def written(name: str, data: bytes) -> bytes:
    """An event; without a name, of data alone, which must be one line: JSON has no line breaks of its own."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + data + b"\n\n"


@dataclass(slots=True)
class Events:
    """Takes bytes in whatever pieces they come, even in the midst of a character; gives the events that are complete.

    An event that is not ended by an empty line never was one. Comments, ids and retry times are passed over. A field
    ``error``, which llama.cpp sends and the standard does not have, is an event of that name.
    """

    largest: int = LARGEST_EVENT
    _rest: bytearray = field(default_factory=bytearray)  # of a line that has no end yet
    _looked: int = 0  # up to where
    _data: list[str] = field(default_factory=list)
    _name: str = ""
    _size: int = 0  # of the event under way
    _is_first: bool = True

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Raises EventTooLarge."""
        self._rest += piece
        for line in self._lines():
            self._size += len(line)
            self._check(self._size)
            if line:
                self._take(line.decode("utf-8", "replace"))
            elif (event := self._ended()) is not None:
                yield event
        self._check(self._size + len(self._rest))

    def _lines(self) -> Iterator[bytes]:
        """Looks at no byte twice, however small the pieces are in which a long line comes."""
        start = 0
        while (end := _LINE_END.search(self._rest, self._looked)) is not None:
            if end.end() == len(self._rest) and end.group() == b"\r":
                break  # the other half of the line's end may be on its way
            line = bytes(self._rest[start : end.start()])
            start = self._looked = end.end()
            yield line.removeprefix(_BOM) if self._is_first else line
            self._is_first = False
        self._looked = (len(self._rest) if end is None else end.start()) - start
        del self._rest[:start]

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "error":
            self._data.append(value)
            self._name = name

    def _ended(self) -> Event | None:
        event = Event("\n".join(self._data), self._name or "message") if self._data else None
        self._data, self._name, self._size = [], "", 0
        return event

    def _check(self, size: int) -> None:
        if size > self.largest:
            raise EventTooLarge
