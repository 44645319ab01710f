"""How sure a result is: strict, of a document that was named, or fuzzy. Tiers admit results; the score orders them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from qianxun.core.types import TermCounts, Tier
from qianxun.text.chinese import fold, occurs_in
from qianxun.text.headings import under_headings

# On calibrated similarities, the same for every model: docs/decisions/0007-scores.md.
STRICT = 0.7  # a similarity above it, and …
COVERED = 0.5  # … more than this share of the query's words make a result strict
FUZZY = 0.35


def tier_of(
    similarity: float | None, coverage: float, *, is_named: bool, meets: bool, verdict: float = 0.0
) -> Tier | None:
    """The tightest tier that a result belongs to; None where it has nothing to do with the query.

    ``similarity`` is the calibrated cosine, None if no vector took part: words alone decide then. ``meets``: some
    word, character or pair of the query was found in it. ``verdict`` is a reranker's, which has read both: it can only
    raise the tier.
    """
    if verdict > STRICT or (coverage > COVERED and (similarity is None or similarity > STRICT)):
        return "strict"
    if is_named:
        return "document"
    is_alike = verdict >= FUZZY or (similarity is not None and similarity >= FUZZY)
    return "fuzzy" if meets or is_alike else None


def rarity(counts: TermCounts) -> dict[str, float]:
    """The weight of each word of a query: BM25's inverse document frequency."""
    return {
        word: math.log(1 + (counts.entries - holding + 0.5) / (holding + 0.5)) for word, holding in counts.words.items()
    }


def matched_in(folded: str, words: Iterable[str]) -> tuple[str, ...]:
    """The words of a query that are in a folded text, in the query's order."""
    return tuple([word for word in words if word in folded and occurs_in(word, folded)])


def matched_under(folded: str, headings: Iterable[str], words: Iterable[str]) -> tuple[str, ...]:
    """The words in a chunk as it is searched: in its text, which has been folded, or in a heading above."""
    return matched_in(under_headings(folded, [fold(heading) for heading in headings]), words)


def coverage(found: Sequence[str], weights: Mapping[str, float]) -> float:
    """The share of a query that the matched words make up, each counting by its weight."""
    total = math.fsum(weights.values())
    return math.fsum(weights[word] for word in found) / total if total > 0.0 else 0.0
