"""BM25 among some of the entries, as if there were no others: how many they are, how long on average, how many of them
hold a term is all counted among them alone.

tantivy counts over everything that it holds, and its sums cannot be taken apart. It does say where a term occurs and
how it scores that, from which follows how often it occurs there; the rest is added up here, as `index.bm25` has it.
Lengths are those that a byte stands for, also in their average. Common characters count only where nothing else of the
query occurs (`bm25.COMMON`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.limits import MIB
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import BM25, Bm25, Keys, Terms
from qianxun.index import bm25 as scoring
from qianxun.index.bm25 import REPEATED, TANTIVY
from qianxun.index.shared import SCORE_DECIMALS, Require, distinct

if TYPE_CHECKING:
    from qianxun.core.types import IndexEntry

Mask = NDArray[np.bool_]
Term: TypeAlias = tuple[str, str]  # of a field
MOST_TIMES: Final = 255
POSTINGS_BYTES: Final = 2 * MIB  # of one population


def token_counts(entries: Sequence[IndexEntry]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many words and how many grams each entry has."""
    words = np.array([scoring.token_count(entry.words) for entry in entries], dtype=np.int64)
    grams = np.array([scoring.token_count(entry.grams) for entry in entries], dtype=np.int64)
    return words, grams


def packed_lengths(entries: Sequence[IndexEntry], *counts: NDArray[np.integer[Any]]) -> NDArray[np.uint16]:
    """The codes of how many words and how many grams an entry has, a byte each, counted from 1; 0 for a question."""
    is_content = np.array([entry.field == "content" for entry in entries], dtype=bool)
    codes = [np.minimum(scoring.norm_codes(lengths.astype(np.int64)), 254) + 1 for lengths in counts]
    return np.where(is_content, codes[0] | codes[1] << 8, 0).astype(np.uint16)


@dataclass(frozen=True, slots=True)
class Postings:
    """The rows in which a term occurs, in any order, and how often; of all rows below ``end``."""

    rows: NDArray[np.signedinteger[Any]]  # of 32 bits, where these do
    times: NDArray[np.uint8]
    end: int = 0

    @staticmethod
    def none() -> Postings:
        return Postings(np.empty(0, np.int32), np.empty(0, np.uint8))

    @property
    def bytes(self) -> int:
        return self.rows.nbytes + self.times.nbytes

    def joined(self, later: Postings, end: int) -> Postings:
        """With what is in later rows, up to ``end``."""
        if not len(later.rows):
            return replace(self, end=end)
        if not len(self.rows):
            return replace(later, end=end)
        rows, times = np.concatenate([self.rows, later.rows]), np.concatenate([self.times, later.times])
        return Postings(rows, times, end)


@dataclass(slots=True, eq=False)
class Members:
    """The entries of a population at one state of an index."""

    mask: Mask  # of all slots, those without keywords included
    rows: Keys  # of all slots, ascending
    first: int  # the lowest row
    holds: Mask  # by row from ``first`` on: is a member with keywords
    codes: Mapping[str, NDArray[np.uint8]]  # of lengths, by row from ``first`` on
    entries: int
    averages: Mapping[str, float]
    likeness: float | None = None  # once it was asked for
    # By field and term: what of its postings is of members, which of few members is a small part.
    postings_of: LRUCache[Term, Postings] = field(
        default_factory=lambda: LRUCache(bytes_limit=POSTINGS_BYTES, size=lambda _, found: 200 + found.bytes)
    )

    def postings(self, name: str, rows: Keys, scores: NDArray[np.float64], average: float) -> Postings:
        """Of a term, from tantivy's scores without its rarity: (k1 + 1) · times ÷ (times + damping), times and the
        ``average`` length as they are written."""
        inside = (rows >= self.first) & (rows < self.first + len(self.holds))
        if not inside.all():  # died, and were compacted away before the keyword index deleted them
            rows, scores = rows[inside], scores[inside]
        damping = scoring.damping_by_code(average / REPEATED, BM25)[self.codes[name][rows - self.first]]
        share = np.minimum(scores / (TANTIVY.k1 + 1), 1 - 1e-7)
        times = np.clip(np.round(share * damping / (1 - share)), 1, MOST_TIMES).astype(np.uint8)
        is_short = self.first + len(self.holds) < 2**31
        return Postings(rows.astype(np.int32 if is_short else np.int64), times)


def match(
    members: Members,
    postings_of: Callable[[str, str], Postings],
    terms: Terms,
    limit: int,
    require: Require,
    gram_weight: float,
    allowed: Mask | None,
    bm25: Bm25,
) -> tuple[Keys, NDArray[np.float64], float]:
    """The best members, as slots with their scores, and the ceiling; of those that are ``allowed``."""
    words, grams = distinct(terms.words), distinct(terms.grams)
    wanted = [
        *(("words", word) for word in words),
        *(("grams", gram) for gram in grams if scoring.is_informative(gram)),
    ]
    found = {term: among(members, postings_of, term) for term in wanted}
    if not any(len(own.rows) for own in found.values()):
        common = [("grams", gram) for gram in grams if not scoring.is_informative(gram)]
        found |= {term: among(members, postings_of, term) for term in common}
    weights = {
        term: scoring.term_weight(members.entries, len(own.rows), bm25) * (gram_weight if term[0] == "grams" else 1.0)
        for term, own in found.items()
    }
    top = scoring.ceiling(weights.values())
    if limit <= 0 or members.entries == 0 or not found:
        return np.empty(0, dtype=np.int64), np.empty(0), top
    rows, scores = _scored(members, found, weights, len(words) if require == "all" else 0, bm25)
    slots = np.searchsorted(members.rows, rows)
    if allowed is not None:
        passing = allowed[slots]
        slots, scores = slots[passing], scores[passing]
    if len(scores) > limit:
        best = scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit]
        slots, scores = slots[best], scores[best]
    order = np.argsort(-scores, kind="stable")
    return slots[order], scores[order], top


def among(members: Members, postings_of: Callable[[str, str], Postings], term: Term) -> Postings:
    """Where a term occurs among the members."""
    known = members.postings_of.get(term)
    if known is None:
        known = postings_of(*term)
        if not members.entries:
            known = Postings.none()
        elif len(known.rows):
            at = known.rows - members.first
            inside = (at >= 0) & (at < len(members.holds))  # others were removed, or came since
            own = members.holds[at] if inside.all() else inside & members.holds[np.where(inside, at, 0)]
            known = Postings(known.rows[own], known.times[own])
        members.postings_of.put(term, known)
    return known


def _scored(
    members: Members,
    found: Mapping[tuple[str, str], Postings],
    weights: Mapping[tuple[str, str], float],
    required: int,
    bm25: Bm25,
) -> tuple[Keys, NDArray[np.float64]]:
    """The rows in which a term occurs (or all words that are required), with their rounded scores."""
    dampings = {name: scoring.damping_by_code(average, bm25) for name, average in members.averages.items()}
    scores, have = np.zeros(len(members.holds)), np.zeros(len(members.holds) if required else 0, dtype=np.int32)
    for (name, term), own in found.items():
        at = own.rows - members.first
        damping = dampings[name][members.codes[name][at]]
        scores[at] += weights[name, term] * own.times / (own.times + damping)
        if required and name == "words":
            have[at] += 1
    if required:
        scores[have < required] = 0.0
    rows = np.flatnonzero(scores)
    return rows + members.first, np.round(scores[rows], SCORE_DECIMALS)
