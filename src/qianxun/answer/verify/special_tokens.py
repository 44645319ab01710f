"""Tokens of a model's own template that a service let through: <|im_end|>, <|begin_of_box|>, <｜end▁of▁sentence｜>."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(r"<([|｜])[A-Za-z][A-Za-z0-9_▁ ]{0,40}\1>")
_UNFINISHED: Final = re.compile(r"<(?:[|｜][A-Za-z0-9_▁ ]{0,41}[|｜]?)?\Z")


def without_special_tokens(pieces: Iterator[str], spoken_of: str = "") -> Iterator[str]:
    """The reply as it comes without such tokens, but for those that the question or the sources speak of.

    Holds back no more than may still turn out to be one.
    """
    held = ""
    for piece in pieces:
        held += piece
        unfinished = _UNFINISHED.search(held)
        end = len(held) if unfinished is None else unfinished.start()
        if told := _without(held[:end], spoken_of):
            yield told
        held = held[end:]
    if held:
        yield held


def _without(text: str, spoken_of: str) -> str:
    return _TOKEN.sub(lambda token: token.group() if token.group() in spoken_of else "", text)
