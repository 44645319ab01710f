"""BM25 over the examples' own words, in this process: examples are few, and so both databases rank the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.text.chinese import STOP_WORDS, words

K1: Final = 1.2
B: Final = 0.75


def terms(text: str) -> list[str]:
    """What of a text is compared: its words, without those that say nothing."""
    return [word for word in words(text) if word not in STOP_WORDS]


@dataclass(frozen=True, slots=True)
class KeywordIndex:
    """Texts by their words. A score of 1 is that of a text of usual length that has every word of the question once."""

    ids: NDArray[np.int64]
    postings: dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]]  # rows, and what the word is worth in each

    @classmethod
    def of(cls, ids: Sequence[int], texts: Sequence[str]) -> KeywordIndex:
        counts = [Counter(terms(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], dtype=np.float32)
        longer = lengths / max(float(lengths.mean()), 1.0) if len(lengths) else lengths
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for row, count in enumerate(counts):
            for word, times in count.items():
                found[word].append((row, times))
        return cls(
            np.array(ids, dtype=np.int64),
            {word: _posting(where, longer) for word, where in found.items()},
        )

    def match(self, text: str, limit: int) -> list[tuple[int, float]]:
        """(id, score in [0, 1]) of the best, best first; of equals the lower id."""
        asked = sorted(set(terms(text)))
        scores = np.zeros(len(self.ids), dtype=np.float32)
        for word in asked:
            if word in self.postings:
                rows, worth = self.postings[word]
                scores[rows] += worth * self._rarity(word)
        # A word that no example has counts as one that a single example has: not to have it is a lack.
        ceiling = sum(self._rarity(word) for word in asked)
        if not ceiling or not scores.any():
            return []
        best = np.lexsort((self.ids, -scores))[:limit]
        return [(int(self.ids[row]), min(float(scores[row] / ceiling), 1.0)) for row in best if scores[row] > 0.0]

    def _rarity(self, word: str) -> float:
        having = len(self.postings[word][0]) if word in self.postings else 1
        return float(np.log(1.0 + (len(self.ids) - having + 0.5) / (having + 0.5)))


def _posting(
    where: Sequence[tuple[int, int]], longer: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    rows = np.array([row for row, _ in where], dtype=np.int64)
    times = np.array([count for _, count in where], dtype=np.float32)
    worth = times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * longer[rows]))
    return rows, worth.astype(np.float32)
