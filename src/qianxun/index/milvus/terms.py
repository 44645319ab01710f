"""Words and grams as one sparse vector, and in how many chunks each of them occurs.

A term is a coordinate (32 bits of its hash, as in Milvus's own BM25), and what stands there is how much of its weight
it adds in this chunk: times ÷ (times + damping), with BM25's usual constants and the average lengths of when the build
began. An inner product with the weights of a query is thus its BM25 score but for the change of these averages; it
finds the candidates, and what is in their vectors gives the times back, by which `keywords` scores them exactly.

The numbers of chunks that hold a term are written as they change, a row for each batch, and summed up when a good many
have come. Whoever searches words has the sums in memory: 8 bytes for each different term of the base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import BM25
from qianxun.index.bm25 import NORMS, TOKEN, damping, norm_codes
from qianxun.index.milvus.conditions import between
from qianxun.index.milvus.server import Milvus
from qianxun.index.milvus.states import ADDED, REMOVED, State
from qianxun.index.shared import unusable, writable

WORDS, GRAMS = "w", "g"
TERM_BITS: Final = 0xFFFF_FFFE  # Milvus has no coordinate beyond
MOST_TIMES: Final = 255
PAGE: Final = 50  # rows of counts that are read at once
FEW_CHANGES: Final = 20_000  # terms that changed before they are put in order with the others
SUM_AFTER: Final = 200_000  # terms that are logged, at least, before they are summed up

Numbers = NDArray[np.int64]


@lru_cache(maxsize=200_000)
def coordinate(field_name: str, term: str) -> int:
    """The number of a term; 0 is that of none."""
    digest = blake2b(f"{field_name}{term}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % (TERM_BITS - 1) + 1


@dataclass(frozen=True, slots=True)
class Sparse:
    """A vector's coordinates and what stands there."""

    terms: NDArray[np.uint32]
    values: NDArray[np.float32]

    def plain(self) -> dict[int, float]:
        return dict(zip(self.terms.tolist(), self.values.tolist(), strict=True))


NO_TERMS: Final[Mapping[int, float]] = {0: 1.0}  # Milvus has no empty vector


def unpacked(data: bytes) -> Sparse:
    pairs = np.frombuffer(data, dtype=[("term", "<u4"), ("value", "<f4")])
    return Sparse(pairs["term"], pairs["value"])


@dataclass(frozen=True, slots=True)
class Counted:
    """The terms of a chunk, how often each occurs, and the lengths of its two fields."""

    times: Mapping[int, int]
    fields: Mapping[int, int]  # 0: of words, 1: of grams
    words: int
    grams: int


def counted(words: str, grams: str) -> Counted:
    times: dict[int, int] = {}
    fields: dict[int, int] = {}
    lengths = []
    for number, (name, text) in enumerate(((WORDS, words), (GRAMS, grams))):
        tokens = TOKEN.findall(writable(text))
        lengths.append(len(tokens))
        for token, often in Counter(tokens).items():
            term = coordinate(name, token)
            times[term] = times.get(term, 0) + often
            fields[term] = number
    return Counted(times, fields, lengths[0], lengths[1])


def usual_damping(averages: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By the code of a length, for words and for grams."""
    words, grams = (damping(average or 1.0, BM25) for average in averages)
    return words, grams


def vector(chunk: Counted, dampings: Sequence[NDArray[np.float64]]) -> dict[int, float]:
    if not chunk.times:
        return dict(NO_TERMS)
    codes = norm_codes(np.array([chunk.words, chunk.grams]))
    own = [float(dampings[number][codes[number]]) for number in (0, 1)]
    capped = {term: min(often, MOST_TIMES) for term, often in chunk.times.items()}
    return {term: often / (often + own[chunk.fields[term]]) for term, often in capped.items()}


def times_of(values: NDArray[np.float64], lengths: Numbers, usual: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often terms occur in chunks of these lengths, from what stands in their vectors."""
    own = usual[norm_codes(lengths)]
    times: NDArray[np.float64] = np.round(values * own / (1 - values))
    return times


def longest_code(most: int) -> int:
    return int(np.searchsorted(NORMS, most, side="right"))


# ── in how many chunks ───────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Frequencies:
    """In how many chunks each term occurs, as of one moment of a build."""

    first: int = -1  # of the rows that were read …
    upto: int = 0  # … to below
    _terms: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    _counts: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    _changes: dict[int, int] = field(default_factory=dict)

    def of(self, term: int) -> int:
        at = int(np.searchsorted(self._terms, term))
        known = int(self._counts[at]) if at < len(self._terms) and self._terms[at] == term else 0
        return known + self._changes.get(term, 0)

    def follow(self, milvus: Milvus, name: str, state: State) -> Frequencies:
        """Up to this state; self, or another where the rows were summed up or this is of a later state."""
        if self.first != state.first_count or self.upto > state.next_count:
            return Frequencies(state.first_count, state.first_count).follow(milvus, name, state)
        while self.upto < state.next_count:
            end = min(self.upto + PAGE, state.next_count)
            where = state.of_kinds(ADDED, REMOVED) & between("key", self.upto, end)
            rows = {
                int(row["key"]): row for row in milvus.query(name, where, ("key", "kind", "sparse"), state.timestamp)
            }
            if len(rows) != end - self.upto:
                raise unusable("词频的记录不完整")
            for _, row in sorted(rows.items()):
                self._change(row["sparse"], 1 if row["kind"] == ADDED else -1)
            self.upto = end
        return self

    def _change(self, counts: Mapping[int, float], sign: int) -> None:
        for term, often in counts.items():
            if term:
                self._changes[term] = self._changes.get(term, 0) + sign * round(often)
        if len(self._changes) > max(FEW_CHANGES, len(self._terms) // 4):
            self._terms, self._counts = self.columns()
            self._changes = {}

    def columns(self) -> tuple[NDArray[np.uint32], Numbers]:
        """All terms that occur anywhere, sorted, and in how many chunks."""
        changed = np.fromiter(self._changes, np.uint32, len(self._changes))
        terms, places = np.unique(np.concatenate([self._terms, changed]), return_inverse=True)
        counts = np.zeros(len(terms), dtype=np.int64)
        np.add.at(counts, places[: len(self._terms)], self._counts)
        np.add.at(counts, places[len(self._terms) :], np.fromiter(self._changes.values(), np.int64, len(changed)))
        return terms[counts > 0], counts[counts > 0]

    def with_changes(self, added: Mapping[int, int], removed: Mapping[int, int]) -> dict[int, int]:
        """As it will be after a batch: every term that occurs anywhere."""
        terms, counts = self.columns()
        found = dict(zip(terms.tolist(), counts.tolist(), strict=True))
        for changes, sign in ((added, 1), (removed, -1)):
            for term, often in changes.items():
                found[term] = found.get(term, 0) + sign * often
        return {term: often for term, often in found.items() if often > 0}


def holding(chunks: Iterable[Iterable[int]]) -> dict[int, int]:
    """In how many of these chunks each term occurs."""
    return dict(Counter(term for chunk in chunks for term in chunk if term))
