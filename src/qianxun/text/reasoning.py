"""Separates the thoughts of a reasoning model from its reply while it streams: <think>…</think>.

Templates of some models open the tag themselves (Qwen3-Thinking, DeepSeek-R1), and where the service does not take the
thoughts out, a reply only closes it, on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

OPENS, CLOSES = "<think>", "</think>"
_CLOSING_LINE: Final = re.compile(rf"\n[ \t]*{CLOSES}[ \t]*\n")
_WINDOW: Final = 64  # characters, in which a closing line has to lie


class Thoughts(Enum):
    """All pieces before were no part of the reply."""

    BEFORE = "before"


def without_thoughts(pieces: Iterator[str]) -> Iterator[str]:
    """The reply without the thoughts that it opens with, and without space before it; none of the pieces is empty.

    Buffers no more than may still turn out to be a tag. A thought that never ends was no reply at all.
    """
    if first := _beginning(pieces):
        yield first
    yield from pieces


def marked_thoughts(pieces: Iterator[str]) -> Iterator[str | Thoughts]:
    """All pieces as they come; `Thoughts.BEFORE` after those that turned out to be thoughts, which nothing opened.

    A tag in a line with other words is quoted, and closes nothing.
    """
    before, is_first = "\n", False  # of the reply proper
    for piece in pieces:
        read = before + piece if before else ""
        found = _CLOSING_LINE.search(read)
        if found is not None and OPENS not in read[: found.start()]:
            end = found.end() - len(before)
            yield piece[:end]
            yield Thoughts.BEFORE
            before, is_first, piece = "", True, piece[end:]
        else:
            before = "" if OPENS in read else read[-_WINDOW:]
        piece = piece.lstrip() if is_first else piece
        if piece:
            is_first = False
            yield piece
    if _CLOSING_LINE.search(f"{before}\n"):
        yield Thoughts.BEFORE


def reply_in(text: str) -> str:
    """A whole text without the thoughts before its reply; "" where there are only thoughts."""
    reply: list[str] = []
    for piece in marked_thoughts(without_thoughts(iter([text]))):
        if piece is Thoughts.BEFORE:
            reply.clear()
        else:
            reply.append(piece)
    return "".join(reply)


def _beginning(pieces: Iterator[str]) -> str:
    buffer = ""
    for piece in pieces:
        buffer = (buffer + piece).lstrip()
        if buffer.startswith(OPENS):
            return _after_thoughts(buffer, pieces)
        if not OPENS.startswith(buffer):
            break
    return buffer


def _after_thoughts(buffer: str, pieces: Iterator[str]) -> str:
    while CLOSES not in buffer:
        piece = next(pieces, None)
        if piece is None:
            return ""
        buffer = buffer[-len(CLOSES) :] + piece
    rest = buffer.partition(CLOSES)[2].lstrip()
    while not rest and (piece := next(pieces, None)) is not None:
        rest = piece.lstrip()
    return rest
