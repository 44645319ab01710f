"""How much of a short question a passage says, by words alone: for questions too short to mean much to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SHORT: Final = 15  # characters: below it words decide, from it on the vector
JACCARD: Final = 0.7
DENSITY: Final = 0.3
_WIDE: Final = 3  # a passage of so many times the question's words at the most
_PER: Final = 100  # characters: one word of the question in so many is dense


def is_short(text: str) -> bool:
    return len(text.strip()) < SHORT


def overlap(asked: Sequence[str], words: Sequence[str], length: int) -> float:
    """.7 · Jaccard + .3 · density, in [0, 1]. ``words`` are those of the passage in order, ``length`` its characters.

    The Jaccard likeness is that of the stretch of the passage which fits best, as long as the question or up to three
    times that: over a whole passage it would only say how long the passage is.
    """
    wanted = frozenset(asked)
    if not wanted or not words:
        return 0.0
    hits = sum(word in wanted for word in words)
    density = min(1.0, hits * _PER / max(length, 1))
    return min(1.0, JACCARD * _likeness(wanted, words) + DENSITY * density)


def _likeness(wanted: frozenset[str], words: Sequence[str]) -> float:
    best = 0.0
    for start, word in enumerate(words):
        if word not in wanted:
            continue
        seen: set[str] = set()
        shared: set[str] = set()
        for end in range(start, min(start + _WIDE * len(wanted), len(words))):
            seen.add(words[end])
            if words[end] in wanted:
                shared.add(words[end])
                best = max(best, len(shared) / (len(wanted) + max(len(seen), len(wanted)) - len(shared)))
        if best == 1.0:
            break
    return best
