"""No result twice: near-duplicates go, and what resembles the results above it may lose score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadInput
from qianxun.core.types import Found

NEAR_DUPLICATE = 0.9
GRAM = 5
LONGEST_TEXT = 20_000  # characters looked at
SKETCH = 512  # shingles stored of a text: all of a usual chunk; comparing two costs the same however long they are
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 1], np.uint64)


@dataclass(frozen=True, slots=True)
class Sketch:
    """A text's shingles of five characters: all of them, or the smallest hashes of many (Broder 1997)."""

    hashes: frozenset[int]
    complete: bool


def sketch(text: str) -> Sketch:
    """White space and letter case do not count. The same text has the same sketch in every process."""
    bare = "".join(text[:LONGEST_TEXT].split()).casefold()
    codes = np.frombuffer(bare.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    if 0 < len(codes) < GRAM:
        codes = np.pad(codes, (0, GRAM - len(codes)))
    if len(codes) == 0:
        return Sketch(frozenset(), True)
    grams = np.lib.stride_tricks.sliding_window_view(codes, GRAM)
    hashes = np.unique(_mixed((grams * _FACTORS).sum(axis=1, dtype=np.uint64)))
    return Sketch(frozenset(hashes[:SKETCH].tolist()), len(hashes) <= SKETCH)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: makes the smallest hashes a fair sample."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def resemblance(one: Sketch, other: Sketch) -> float:
    """The Jaccard similarity of two texts' shingles: exact while both are short, else estimated; 1 for equal texts."""
    if not one.hashes and not other.hashes:
        return 1.0
    shared = one.hashes & other.hashes
    if not shared:
        return 0.0
    if one.complete and other.complete:
        return len(shared) / (len(one.hashes) + len(other.hashes) - len(shared))
    sample = sorted(one.hashes | other.hashes)[:SKETCH]
    return len(shared.intersection(sample)) / len(sample)


def diversified(
    best_first: Sequence[Found],
    *,
    balance: float = 1.0,
    near_duplicate: float = NEAR_DUPLICATE,
    top_k: int | None = None,
) -> list[Found]:
    """At most ``top_k`` results, none a near-duplicate of a better one, by maximal marginal relevance.

    The score shown is relevance · (1 − (1 − balance) · resemblance to the most alike result above it): Carbonell and
    Goldstein's trade-off (SIGIR 1998) as a product, so that it stays in [0, 1], and a result's place is its score.
    ``balance=1.0`` leaves relevance as it is; ``near_duplicate`` above 1 keeps repeats.
    """
    if not 0.0 <= balance <= 1.0 or not near_duplicate > 0.0:
        raise BadInput("diversity 须在 0 到 1 之间，near_duplicate 须大于零", hint="1.0 表示只看相关度")
    limit = len(best_first) if top_k is None else top_k
    unique = _without_repeats(best_first, near_duplicate, limit if balance == 1.0 else len(best_first))
    if balance == 1.0:
        return [found for found, _ in unique]
    return _marginal(unique, balance, limit)


def _without_repeats(best_first: Sequence[Found], threshold: float, limit: int) -> list[tuple[Found, Sketch]]:
    unique: list[tuple[Found, Sketch]] = []
    for found in best_first:
        if len(unique) >= limit:
            break
        own = sketch(found.chunk.text)
        if all(resemblance(own, other) < threshold for _, other in unique):
            unique.append((found, own))
    return unique


def _marginal(candidates: Sequence[tuple[Found, Sketch]], balance: float, limit: int) -> list[Found]:
    """Picks the best of the rest, again and again. What is left can only lose by a pick: scores never rise."""
    relevance = np.array([found.score for found, _ in candidates])
    keys = np.array([found.chunk.key for found, _ in candidates])
    alike = np.zeros(len(candidates))
    left = list(range(len(candidates)))
    chosen: list[Found] = []
    while left and len(chosen) < limit:
        values = relevance * (1.0 - (1.0 - balance) * alike)
        best = min(left, key=lambda place: (-values[place], keys[place]))
        left.remove(best)
        found, own = candidates[best]
        chosen.append(replace(found, score=float(values[best])))
        for place in left:
            alike[place] = max(alike[place], resemblance(own, candidates[place][1]))
    return chosen
