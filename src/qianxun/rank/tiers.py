"""How sure a result is: strict, of a document that was named, or fuzzy. Tiers let results in; the score orders them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from qianxun.chinese import fold
from qianxun.types import TermCounts, Tier

STRICT = 0.7  # a similarity above it, and …
COVERED = 0.5  # … more than this share of the query's words make a result strict
FUZZY = 0.35


def tier_of(similarity: float | None, coverage: float, *, is_named: bool, meets: bool) -> Tier | None:
    """The tightest tier that a result belongs to; None where it has nothing to do with the query.

    ``similarity`` is the calibrated cosine, None where no vector was asked: words alone decide then. ``meets`` says
    that some word, character or pair of the query was found in it.
    """
    if coverage > COVERED and (similarity is None or similarity > STRICT):
        return "strict"
    if is_named:
        return "document"
    return "fuzzy" if meets or (similarity is not None and similarity >= FUZZY) else None


def rarity(counts: TermCounts) -> dict[str, float]:
    """How much each word of a query tells: BM25's inverse document frequency."""
    return {
        word: math.log(1 + (counts.entries - holding + 0.5) / (holding + 0.5)) for word, holding in counts.words.items()
    }


def matched(text: str, words: Iterable[str]) -> tuple[str, ...]:
    """The words of a query that stand in a text, in the query's order."""
    return matched_in(fold(text), words)


def matched_in(folded: str, words: Iterable[str]) -> tuple[str, ...]:
    """`matched`, where the text has been folded already."""
    return tuple(word for word in words if word in folded and stands_in(word, folded))


def stands_in(word: str, folded: str) -> bool:
    """Whether a word stands in a folded text, and not inside a longer run of letters or digits: 12 is not in 2012."""
    at = folded.find(word)
    while at >= 0:
        end = at + len(word)
        if not (_runs_on(folded[at - 1 : at], word[:1]) or _runs_on(word[-1:], folded[end : end + 1])):
            return True
        at = folded.find(word, at + 1)
    return False


def _runs_on(left: str, right: str) -> bool:
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


def coverage(held: Sequence[str], weights: Mapping[str, float]) -> float:
    """The share of a query that the matched words make up, each counting by its weight."""
    total = math.fsum(weights.values())
    return math.fsum(weights[word] for word in held) / total if total > 0.0 else 0.0
