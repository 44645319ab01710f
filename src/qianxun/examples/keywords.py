"""Hybrid search of examples: BM25 over their words, computed in this process so that both databases rank the same.

An example with the question's words rises, none falls: thresholds keep their meaning.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from qianxun.examples.results import DIGITS, ExampleMetadata, FoundExample, by_similarity
from qianxun.examples.revision import LibraryWatch
from qianxun.examples.schema import embedded_text
from qianxun.examples.store import ExampleStore
from qianxun.text.chinese import STOP_WORDS, words

K1: Final = 1.2
B: Final = 0.75
KEYWORD_WEIGHT: Final = 0.3


def terms(text: str) -> list[str]:
    """Its words without stop words."""
    return [word for word in words(text) if word not in STOP_WORDS]


@dataclass(frozen=True, slots=True)
class KeywordIndex:
    """A text of average length with every word of the query once scores 1."""

    ids: NDArray[np.int64]
    postings: dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]]  # word → rows, and its weight in each

    @classmethod
    def of(cls, ids: Sequence[int], texts: Sequence[str]) -> KeywordIndex:
        counts = [Counter(terms(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], dtype=np.float32)
        relative = lengths / max(float(lengths.mean()), 1.0) if len(lengths) else lengths
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for row, count in enumerate(counts):
            for word, times in count.items():
                found[word].append((row, times))
        return cls(np.array(ids, dtype=np.int64), {word: _posting(rows, relative) for word, rows in found.items()})

    def match(self, text: str, limit: int) -> list[tuple[int, float]]:
        """(id, score in [0, 1]), best first; of equals the lower id."""
        query = sorted(set(terms(text)))
        scores = np.zeros(len(self.ids), dtype=np.float32)
        for word in query:
            if word in self.postings:
                rows, weights = self.postings[word]
                scores[rows] += weights * self._idf(word)
        # A word that no example has counts as one of a single example.
        ceiling = sum(self._idf(word) for word in query)
        if not ceiling or not scores.any():
            return []
        best = np.lexsort((self.ids, -scores))[:limit]
        return [(int(self.ids[row]), min(float(scores[row] / ceiling), 1.0)) for row in best if scores[row] > 0.0]

    def _idf(self, word: str) -> float:
        count = len(self.postings[word][0]) if word in self.postings else 1
        return float(np.log(1.0 + (len(self.ids) - count + 0.5) / (count + 0.5)))


def _posting(
    rows: Sequence[tuple[int, int]], relative: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    at = np.array([row for row, _ in rows], dtype=np.int64)
    times = np.array([count for _, count in rows], dtype=np.float32)
    weights = times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * relative[at]))
    return at, weights.astype(np.float32)


@dataclass
class KeywordIndexes:
    """The index of each table, built on first use and again after the table has changed."""

    store: ExampleStore
    watch: LibraryWatch
    _cached: dict[str, tuple[object, KeywordIndex]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, source: str) -> KeywordIndex:
        return self.watch.cached(source, self._cached, self._lock, self._build)

    def _build(self, source: str) -> KeywordIndex:
        table = self.store.tables[source]
        with self.store.connection() as connection:
            rows = connection.execute(select(table.c.id, table.c.user_input, table.c.agent_response)).all()
        return KeywordIndex.of([row.id for row in rows], [embedded_text(row[1], row[2]) for row in rows])


def boosted(rows: Sequence[FoundExample], matching: Mapping[int, float]) -> list[FoundExample]:
    """Raises each similarity towards 1 by the keyword score."""
    return by_similarity([_boosted(row, matching.get(row["id"], 0.0)) for row in rows])


def _boosted(row: FoundExample, keyword_score: float) -> FoundExample:
    cosine = row["similarity"]
    metadata: ExampleMetadata = {**row["metadata"], "cosine": cosine, "keyword_score": round(keyword_score, DIGITS)}
    similarity = cosine + (1.0 - cosine) * KEYWORD_WEIGHT * keyword_score
    return {**row, "similarity": round(similarity, DIGITS), "metadata": metadata}
