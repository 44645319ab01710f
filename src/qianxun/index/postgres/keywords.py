"""BM25 over packed postings: the server finds and sends them, numpy adds them up.

The formula, its constants and its rounded lengths are tantivy's, and so is what a query leaves out: both backends score
alike. Deleted entries count nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import BM25, Bm25, Keys, Ranking, TermCounts, Terms
from qianxun.index import bm25 as scoring
from qianxun.index import shared
from qianxun.index.postgres.facts import AllowedOwners
from qianxun.index.postgres.postings import GRAMS, WORDS, decoded, rows_of, term_hash
from qianxun.index.postgres.server import Tx, bigints
from qianxun.index.postgres.tables import State, Tables
from qianxun.index.shared import SCORE_DECIMALS, Require, distinct, unusable

FEW: Final = 5_000  # so many allowed entries are scored alone; of more, the best hits are sifted

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Postings:
    """The live postings of one term: rows, how often it occurs there, the code of the field's length."""

    rows: Keys
    times: NDArray[np.float64]
    norms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


NONE: Final = Postings(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Search:
    """What a search in one transaction needs: the state, and which rows are dead (None: none are)."""

    tx: Tx
    tables: Tables
    state: State
    dead: Mask | None
    gram_weight: float
    bm25: Bm25 = BM25

    def frequencies(self, terms: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """In how many entries each (field, term) occurs, dead ones included."""
        hashes = {term_hash(*term): term for term in terms}
        found = self.tx.rows(
            f"""SELECT term, sum(entries) FROM {self.tables.postings} WHERE base = %(base)s
                AND segment = ANY(%(segments)s::bigint[]) AND term = ANY(%(terms)s::bigint[]) GROUP BY term""",
            base=self.state.base,
            segments=self._segments(),
            terms=bigints(hashes),
        )
        return dict.fromkeys(terms, 0) | {hashes[term]: int(entries) for term, entries in found}

    def postings(
        self, terms: Sequence[tuple[str, str]], rare: Sequence[tuple[str, str]] = (), most: float = math.inf
    ) -> dict[tuple[str, str], Postings]:
        """The postings of ``terms``, and of those of ``rare`` that occur in at most ``most`` entries, dead or not."""
        hashes = {term_hash(*term): term for term in (*terms, *rare)}
        is_sent = "term = ANY(%(plain)s::bigint[]) OR sum(entries) OVER (PARTITION BY term) <= %(most)s"
        found = self.tx.rows(
            f"""SELECT term, segment, entries, CASE WHEN {is_sent} THEN data END FROM {self.tables.postings}
                WHERE base = %(base)s AND segment = ANY(%(segments)s::bigint[]) AND term = ANY(%(terms)s::bigint[])
                ORDER BY term, segment""",
            base=self.state.base,
            segments=self._segments(),
            terms=bigints(hashes),
            plain=bigints([term_hash(*term) for term in terms]),
            most=most,
        )
        parts: dict[tuple[str, str], list[tuple[int, NDArray[np.uint32]]]] = {}
        for term, segment, entries, data in found:
            known = parts.setdefault(hashes[term], [])
            if data is not None:
                known.append((segment, decoded(data, entries)))
        left_out = {term for term, known in parts.items() if not known}
        return {term: self._live(parts.get(term, ())) for term in hashes.values() if term not in left_out}

    def _segments(self) -> object:
        return bigints([segment.first for segment in self.state.segments])

    def _live(self, parts: Sequence[tuple[int, NDArray[np.uint32]]]) -> Postings:
        if not parts:
            return NONE
        postings = np.concatenate([part for _, part in parts]) if len(parts) > 1 else parts[0][1]
        rows = np.concatenate([rows_of(segment, part) for segment, part in parts])
        if len(rows) and rows.max() >= self.state.next_row:
            raise unusable("倒排表指向不存在的条目")
        if self.dead is not None:
            alive = ~self.dead[rows]
            rows, postings = rows[alive], postings[alive]
        times = (postings >> np.uint32(16) & np.uint32(255)).astype(np.float64)
        return Postings(rows, times, (postings >> np.uint32(24)).astype(np.int64))


def dead_rows(tx: Tx, tables: Tables, state: State) -> Mask | None:
    if state.dead == 0:
        return None
    rows = tx.ints(f"SELECT row AS value FROM {tables.deaths} WHERE base = %(base)s", base=state.base)
    if len(rows) != state.dead or (len(rows) and rows.max() >= state.next_row):
        raise unusable("已删条目的名单不完整")
    dead = np.zeros(state.next_row, dtype=bool)
    dead[rows] = True
    return dead


def count(search: Search, terms: Terms) -> TermCounts:
    """In how many live entries each term occurs. Where something is dead, their postings say; else sums in the server
    do."""
    words, grams = distinct(terms.words), distinct(terms.grams)
    wanted = [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in grams)]
    if search.dead is None:
        found = search.frequencies(wanted)
    else:
        found = {term: len(postings) for term, postings in search.postings(wanted).items()}
    return TermCounts(
        search.state.contents,
        {word: found[WORDS, word] for word in words},
        {gram: found[GRAMS, gram] for gram in grams},
    )


# ── scores ───────────────────────────────────────────────────────────────────────────────────────


def match(search: Search, terms: Terms, limit: int, require: Require, allowed: AllowedOwners | None) -> Ranking:
    """The best of the allowed entries (None: of all), ties by key."""
    words = distinct(terms.words)
    found = _informative(search, words, distinct(terms.grams))
    top = _ceiling(search, found)
    if limit <= 0 or search.state.contents == 0 or not found:
        return Ranking.of((), top)
    scores = _scores(search, found, words if require == "all" else ())
    candidates = np.flatnonzero(scores)
    few = None if allowed is None else _few(search, allowed)
    if few is not None:
        candidates, allowed = np.intersect1d(candidates, few), None
    return _best(search, candidates, np.round(scores, SCORE_DECIMALS), limit, allowed, top)


def _informative(search: Search, words: Sequence[str], grams: Sequence[str]) -> dict[tuple[str, str], Postings]:
    """The postings of the words, and of the grams without characters that occur nearly everywhere.

    Whether a character does depends on live entries. The server leaves out those that certainly do.
    """
    state = search.state
    most = shared.most_frequent(state.contents)
    plain = [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in grams if len(gram) > 1)]
    characters = [(GRAMS, gram) for gram in grams if len(gram) <= 1]
    if not plain and not characters:
        return {}
    found = search.postings(plain, characters, most + state.dead)
    rare = {t: postings for t, postings in found.items() if len(t[1]) > 1 or t[0] == WORDS or len(postings) <= most}
    if any(map(len, rare.values())):
        return rare
    return found | search.postings([term for term in characters if term not in found])


def _scores(search: Search, found: Mapping[tuple[str, str], Postings], required: Sequence[str]) -> NDArray[np.float64]:
    """Of every row; 0 where no term of the query occurs, or not all that are required."""
    state = search.state
    scores = np.zeros(state.next_row)
    have = np.zeros(state.next_row, dtype=np.int32)
    totals = {WORDS: state.words, GRAMS: state.grams}
    averages = {field: scoring.average_length(total, state.contents) for field, total in totals.items()}
    damping = {field: scoring.damping_by_code(average, search.bm25) for field, average in averages.items()}
    for (field, _), postings in found.items():
        weight = _weight(search, field, len(postings))
        scores[postings.rows] += weight * postings.times / (postings.times + damping[field][postings.norms])
        if field == WORDS and required:
            have[postings.rows] += 1
    if required:
        scores[have < len(required)] = 0.0
    return scores


def _weight(search: Search, field: str, holding: int) -> float:
    weight = scoring.term_weight(search.state.contents, holding, search.bm25)
    return weight * (search.gram_weight if field == GRAMS else 1.0)


def _ceiling(search: Search, found: Mapping[tuple[str, str], Postings]) -> float:
    return scoring.ceiling(_weight(search, field, len(postings)) for (field, _), postings in found.items())


# ── the best of them ─────────────────────────────────────────────────────────────────────────────


def _few(search: Search, allowed: AllowedOwners) -> Keys | None:
    """The allowed rows, if they are few."""
    if allowed.but_them or len(allowed.owners) > FEW:
        return None
    rows = search.tx.ints(
        f"""SELECT row AS value FROM {search.tables.entries} WHERE base = %(base)s AND lane = 0
            AND {allowed.condition()} LIMIT {FEW + 1}""",
        base=search.state.base,
        owners=allowed.value,
    )
    return rows if len(rows) <= FEW else None


def _best(
    search: Search, candidates: Keys, scores: NDArray[np.float64], limit: int, allowed: AllowedOwners | None, top: float
) -> Ranking:
    """Fetches the keys of more and more rows until the best, and all that tie with the last, are among them."""
    fetch = limit if allowed is None else 4 * limit + 32
    while True:
        rows = _head(candidates, scores, fetch)
        keys, passed = _keys(search, rows, allowed)
        if len(passed) >= limit or len(rows) == len(candidates):
            return Ranking.ordered(keys, scores[passed], top).head(limit)
        fetch *= 8


def _head(candidates: Keys, scores: NDArray[np.float64], number: int) -> Keys:
    """The best, with all that tie with the last of them."""
    if len(candidates) <= number:
        return candidates
    own = scores[candidates]
    least = np.partition(own, len(own) - number)[len(own) - number]
    best: Keys = candidates[own >= least]
    return best


def _keys(search: Search, rows: Keys, allowed: AllowedOwners | None) -> tuple[Keys, Keys]:
    """The keys of those rows that are allowed, and these rows."""
    if len(rows) == 0:
        return rows, rows
    found = search.tx.rows(
        f"SELECT row, key, owner FROM {search.tables.entries} WHERE base = %(base)s AND row = ANY(%(rows)s::bigint[])",
        base=search.state.base,
        rows=bigints(rows),
    )
    if len(found) != len(rows):
        raise unusable("倒排表与条目不符")
    table = np.array(found, dtype=np.int64)
    if allowed is not None:
        table = table[allowed.among(table[:, 2])]
    return table[:, 1], table[:, 0]
