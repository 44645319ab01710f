"""Words and grams as one sparse vector, and in how many chunks each of them occurs.

A term is a coordinate, and what stands there is how much of its weight it adds in this chunk, times ÷ (times +
damping), with BM25's usual constants and the average lengths of when the build began. An inner product with the weights
of a query is thus its BM25 score but for the change of these averages; it finds the candidates, and what is in their
vectors gives the times back, by which `keywords` scores them exactly.

Coordinates have 32 bits, too few for hashes that never meet: a term has the first of four that is not another's, and
beside each stands the print of the term that has it.

The numbers of chunks that hold a term are written as they change, rows for each batch, and summed up when a good many
have come. Whoever searches words has the sums in memory: 20 bytes for each different term of the base.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import BM25
from qianxun.index.bm25 import TOKEN, damping_by_code, norm_codes
from qianxun.index.milvus.conditions import between
from qianxun.index.milvus.server import Milvus
from qianxun.index.milvus.states import ADDED, NAMED, REMOVED, State
from qianxun.index.shared import unusable, writable

WORDS, GRAMS = "w", "g"
TERM_BITS: Final = 0xFFFF_FFFE  # Milvus has no coordinate beyond
PROBES: Final = 4  # coordinates that a term may have
MOST_TIMES: Final = 255
PAGE: Final = 50  # rows of counts that are read at once
FEW_CHANGES: Final = 20_000  # terms that changed before they are put in order with the others
SUM_AFTER: Final = 200_000  # terms that are logged, at least, before they are summed up

Numbers = NDArray[np.int64]


Term: TypeAlias = tuple[str, str]  # field and spelling


@lru_cache(maxsize=200_000)
def hashed(field_name: str, spelling: str) -> tuple[int, ...]:
    """The coordinates that a term may have, and its print; 0 is none of them."""
    digest = blake2b(f"{field_name}{spelling}".encode(), digest_size=4 * PROBES + 3).digest()
    places = struct.unpack_from(f"<{PROBES}I", digest)
    return (*(place % (TERM_BITS - 1) + 1 for place in places), int.from_bytes(digest[-3:], "little") + 1)


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A vector's coordinates and what stands there."""

    terms: NDArray[np.uint32]
    values: NDArray[np.float32]

    def plain(self) -> dict[int, float]:
        return dict(zip(self.terms.tolist(), self.values.tolist(), strict=True))


NO_TERMS: Final[Mapping[int, float]] = {0: 1.0}  # Milvus has no empty vector


def unpacked(data: bytes) -> SparseVector:
    pairs = np.frombuffer(data, dtype=[("term", "<u4"), ("value", "<f4")])
    return SparseVector(pairs["term"], pairs["value"])


@dataclass(frozen=True, slots=True)
class Tokens:
    """The terms of a chunk, and how often each occurs."""

    words: Counter[str]
    grams: Counter[str]

    def terms(self) -> Iterator[Term]:
        yield from ((WORDS, word) for word in self.words)
        yield from ((GRAMS, gram) for gram in self.grams)


def tokenised(words: str, grams: str) -> Tokens:
    return Tokens(*(Counter(TOKEN.findall(writable(text))) for text in (words, grams)))


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """The terms of a chunk by coordinate, how often each occurs, and the lengths of its two fields."""

    times: Mapping[int, int]
    fields: Mapping[int, int]  # 0: of words, 1: of grams
    words: int
    grams: int


def counted(tokens: Tokens, places: Mapping[Term, int]) -> ChunkTerms:
    times: dict[int, int] = {}
    fields: dict[int, int] = {}
    for number, (name, own) in enumerate(((WORDS, tokens.words), (GRAMS, tokens.grams))):
        for token, often in own.items():
            place = places[name, token]
            times[place] = often
            fields[place] = number
    return ChunkTerms(times, fields, tokens.words.total(), tokens.grams.total())


def usual_damping(averages: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By the code of a length, for words and for grams."""
    words, grams = (damping_by_code(average or 1.0, BM25) for average in averages)
    return words, grams


def vector(chunk: ChunkTerms, dampings: Sequence[NDArray[np.float64]]) -> dict[int, float]:
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


# ── in how many chunks ───────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Frequencies:
    """In how many chunks each term occurs, as of one moment of a build."""

    first: int = -1  # of the rows that were read …
    upto: int = 0  # … to below
    _terms: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    _counts: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    _changes: dict[int, int] = field(default_factory=dict)
    _named: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    _prints: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    _names: dict[int, int] = field(default_factory=dict)  # those that came since

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
            where = state.of_kinds(ADDED, REMOVED, NAMED) & between("key", self.upto, end)
            rows = {
                int(row["key"]): row for row in milvus.query(name, where, ("key", "kind", "sparse"), state.timestamp)
            }
            if len(rows) != end - self.upto:
                raise unusable("词频的记录不完整")
            for _, row in sorted(rows.items()):
                if row["kind"] == NAMED:
                    self._name(row["sparse"])
                else:
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

    def _name(self, prints: Mapping[int, float]) -> None:
        self._names.update((place, round(print_)) for place, print_ in prints.items())
        if len(self._names) > max(FEW_CHANGES, len(self._named) // 4):
            names = self.names()
            order = sorted(names)
            self._named = np.array(order, dtype=np.uint32)
            self._prints = np.array([names[place] for place in order], dtype=np.int64)
            self._names = {}

    def names(self) -> dict[int, int]:
        """The print of every coordinate's term."""
        return dict(zip(self._named.tolist(), self._prints.tolist(), strict=True)) | self._names

    def places(self, terms: Sequence[Term]) -> dict[Term, int]:
        """The coordinates of terms; 0 of one that occurs nowhere."""
        table, found = self._looked_up(terms)
        is_own = found == table[:, PROBES:]
        places = np.where(is_own, table[:, :PROBES], 0).max(axis=1, initial=0)
        return dict(zip(terms, places.tolist(), strict=True))

    def placed(self, terms: Sequence[Term]) -> tuple[dict[Term, int], dict[int, int]]:
        """The coordinates of terms that come, and the names that some of these coordinates get by that."""
        known = self.places(terms)
        table, found = self._looked_up(terms)
        fresh: dict[int, int] = {}
        for at, (term, place) in enumerate(known.items()):
            if place:
                continue
            *own, print_ = table[at].tolist()
            taken = found[at].tolist()
            free = (number for number, print_there in zip(own, taken, strict=True) if not print_there)
            known[term] = next((number for number in free if number not in fresh), own[0])
            fresh.setdefault(known[term], print_)
        return known, fresh

    def _looked_up(self, terms: Sequence[Term]) -> tuple[Numbers, Numbers]:
        """What `hashed` says of terms, a row each; and the prints at these coordinates, 0 where there is none."""
        table = np.array([hashed(*term) for term in terms], dtype=np.int64).reshape(-1, PROBES + 1)
        wanted = table[:, :PROBES]
        found = np.zeros(wanted.shape, dtype=np.int64)
        if len(self._named):
            at = np.minimum(np.searchsorted(self._named, wanted), len(self._named) - 1)
            found = np.where(self._named[at] == wanted, self._prints[at], 0)
        if self._names:
            flat = [self._names.get(place, 0) for place in wanted.ravel().tolist()]
            found = np.maximum(found, np.array(flat, dtype=np.int64).reshape(wanted.shape))
        return table, found

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
