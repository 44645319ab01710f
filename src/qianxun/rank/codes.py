"""Codes in a question: QH-2087, A310, GB19001. A code names one thing, and no other words or meaning stand for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.types import Ranking

MOST_HOLDERS: Final = 10  # chunks with a code that distinguishes them from all others
# Letters and digits together. Digits alone are as often an amount or a limit: 不少于 56000 元.
_CODE: Final = re.compile(r"(?=.*[0-9])(?=.*[a-z])[a-z0-9][a-z0-9._/-]*")
_SHORTEST: Final = 4  # letters and digits: U-20 and v2 are not one thing's alone
_ENGLISH: Final = re.compile(r"[0-9]+(?:st|nd|rd|th|s)|[0-9]+-[a-z]{3,}")  # 4th, 1950s, 4-letter


def codes_in(words: Iterable[str]) -> tuple[str, ...]:
    """The words of an analysed question that are codes; without those that are parts of another."""
    known = tuple(dict.fromkeys(words))
    codes = [word for word in known if _is_code(word)]
    return tuple(code for code in codes if not any(code != other and code in other for other in known))


def _is_code(word: str) -> bool:
    is_long = sum(map(str.isalnum, word)) >= _SHORTEST
    return is_long and _CODE.fullmatch(word) is not None and _ENGLISH.fullmatch(word) is None


@dataclass(frozen=True, slots=True)
class CodeHolders:
    """Which chunks have the codes of a question."""

    by_code: tuple[frozenset[int], ...] = ()  # their keys, for every code

    def share(self, key: int) -> float | None:
        """The share of the codes that a chunk has; None for a question without any."""
        return sum(key in holders for holders in self.by_code) / len(self.by_code) if self.by_code else None

    @property
    def is_distinctive(self) -> bool:
        """True if some code is in a few chunks only."""
        return any(0 < len(holders) <= MOST_HOLDERS for holders in self.by_code)

    def lifted(self, words: Ranking) -> Ranking:
        """The ranking by words, in which a chunk with a code that only a few have is as good as words can be: beside
        many vectors that are a little nearer, the share that a code has of a question's words would be lost."""
        rare = [holders for holders in self.by_code if 0 < len(holders) <= MOST_HOLDERS]
        shares = np.mean([np.isin(words.keys, sorted(holders)) for holders in rare], axis=0)
        scores = words.scores + (1.0 - words.scores) * shares
        return Ranking.ordered(words.keys, scores, words.ceiling, words.raw)


NO_CODES: Final = CodeHolders()
