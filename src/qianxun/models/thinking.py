"""What a reasoning model says to itself before it replies: <think>…</think>, told apart from the reply as it comes."""

from __future__ import annotations

from collections.abc import Iterator

OPENS, CLOSES = "<think>", "</think>"


def spoken(pieces: Iterator[str]) -> Iterator[str]:
    """The reply without the thoughts that it opens with, and without space before it; none of the pieces is empty.

    Holds back no more than may still turn out to be a tag. A thought that never ends was no reply at all.
    """
    if first := _beginning(pieces):
        yield first
    yield from pieces


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
