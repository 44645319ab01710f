"""What a reasoning model says to itself before it replies, told apart from the reply as it comes: <think>…</think>.

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
_REMEMBERED: Final = 64  # characters, in which a closing line has to lie


class Thoughts(Enum):
    """All that came before was no part of the reply."""

    BEFORE = "before"


def without_thoughts(pieces: Iterator[str]) -> Iterator[str]:
    """The reply without the thoughts that it opens with, and without space before it; none of the pieces is empty.

    Holds back no more than may still turn out to be a tag. A thought that never ends was no reply at all.
    """
    if first := _beginning(pieces):
        yield first
    yield from pieces


def marked_thoughts(pieces: Iterator[str]) -> Iterator[str | Thoughts]:
    """All pieces as they come; `Thoughts.BEFORE` behind those that turned out to be thoughts, which nothing opened.

    A tag that stands in a line with other words is spoken of, and closes nothing.
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
            before = "" if OPENS in read else read[-_REMEMBERED:]
        piece = piece.lstrip() if is_first else piece
        if piece:
            is_first = False
            yield piece
    if _CLOSING_LINE.search(f"{before}\n"):
        yield Thoughts.BEFORE


def reply_in(text: str) -> str:
    """A whole text without the thoughts before its reply; "" where there are only thoughts."""
    told: list[str] = []
    for piece in marked_thoughts(without_thoughts(iter([text]))):
        if piece is Thoughts.BEFORE:
            told.clear()
        else:
            told.append(piece)
    return "".join(told)


def _beginning(pieces: Iterator[str]) -> str:
    held = ""
    for piece in pieces:
        held = (held + piece).lstrip()
        if held.startswith(OPENS):
            return _after_thoughts(held, pieces)
        if not OPENS.startswith(held):
            break
    return held


def _after_thoughts(held: str, pieces: Iterator[str]) -> str:
    while CLOSES not in held:
        piece = next(pieces, None)
        if piece is None:
            return ""
        held = held[-len(CLOSES) :] + piece
    rest = held.partition(CLOSES)[2].lstrip()
    while not rest and (piece := next(pieces, None)) is not None:
        rest = piece.lstrip()
    return rest
