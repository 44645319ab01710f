"""How many tokens a text costs a language model, without asking one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_LETTERS_PER_TOKEN: Final = 4
_DIGITS_PER_TOKEN: Final = 3
_PIECE: Final = re.compile(r"[a-zA-Z]+|[0-9]+|\s+|.", re.DOTALL)


def tokens(text: str) -> int:
    """An estimate on the safe side: a Chinese character or sign is one, four letters, three digits, any white space.

    Byte-pair vocabularies that know Chinese take .6 to 1 for a character, WordPiece takes exactly one.
    """
    return sum(map(_cost, _PIECE.findall(text)))


def _cost(piece: str) -> int:
    first = piece[0]
    if first.isspace():
        return piece.count("\n")  # a blank goes with the word after it
    if first.isascii() and first.isalpha():
        return -(-len(piece) // _LETTERS_PER_TOKEN)
    if first.isascii() and first.isdigit():
        return -(-len(piece) // _DIGITS_PER_TOKEN)
    return 1 if first <= "\uffff" else 2  # outside the basic plane, bytes are what is left


def within(texts: Iterable[str], budget: int) -> Iterator[str]:
    """The texts from the first on, as far as they fit; one that does not is passed over for smaller ones."""
    left = budget
    for text in texts:
        cost = tokens(text)
        if cost <= left:
            left -= cost
            yield text
