"""BM25 over sparse vectors: Milvus finds the candidates, their vectors give the exact scores.

The formula, its constants and its rounded lengths are tantivy's, and so is what a query leaves out: all backends score
alike. Deleted entries count nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Bm25, Ranking, Scores, TermCounts, Terms
from qianxun.index import bm25 as scoring
from qianxun.index import shared
from qianxun.index.milvus import terms as sparse
from qianxun.index.milvus.conditions import Condition
from qianxun.index.milvus.server import MOST_HITS, Milvus, SearchHits
from qianxun.index.milvus.states import CHUNKS, State
from qianxun.index.milvus.terms import GRAMS, WORDS
from qianxun.index.shared import SCORE_DECIMALS, Require, distinct

SLACK: Final = 2e-4  # what rounding can change
EXTRA: Final = 512  # candidates, beyond four times the limit, that are looked at because averages have changed


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The coordinates of a query's terms (0: of none), and in how many chunks each occurs."""

    places: Mapping[sparse.Term, int]
    holding: Mapping[sparse.Term, int]


@dataclass(frozen=True, slots=True)
class Search:
    """What a search of one state needs."""

    milvus: Milvus
    name: str
    state: State
    known: QueryTerms
    gram_weight: float
    bm25: Bm25

    def holding(self, field: str, term: str) -> int:
        return min(self.known.holding[field, term], self.state.contents)


@dataclass(frozen=True, slots=True)
class WeightedTerms:
    """The terms of a query by coordinate, sorted: their fields (0: words), and what each adds at most."""

    terms: NDArray[np.uint32]
    fields: NDArray[np.int64]
    weights: NDArray[np.float64]
    required: NDArray[np.bool_]

    def plain(self) -> dict[int, float]:
        return dict(zip(self.terms.tolist(), self.weights.tolist(), strict=True))


def known(frequencies: sparse.Frequencies, terms: Terms) -> QueryTerms:
    named = ((WORDS, distinct(terms.words)), (GRAMS, distinct(terms.grams)))
    places = frequencies.places([(field, term) for field, own in named for term in own])
    return QueryTerms(places, {term: frequencies.of(place) if place else 0 for term, place in places.items()})


def count(state: State, known: QueryTerms, terms: Terms) -> TermCounts:
    """In how many entries each term occurs."""
    return TermCounts(
        state.contents,
        {word: known.holding[WORDS, word] for word in distinct(terms.words)},
        {gram: known.holding[GRAMS, gram] for gram in distinct(terms.grams)},
    )


def match(search: Search, terms: Terms, limit: int, require: Require, where: Condition) -> Ranking:
    """The best of the entries that pass, ties by key."""
    words = distinct(terms.words)
    chosen = _informative(search, words, distinct(terms.grams))
    weights = {term: _weight(search, *term) for term in chosen}
    top = scoring.ceiling(weights.values())
    known = [term for term in chosen if search.holding(*term)]
    is_hopeless = require == "all" and any(search.holding(WORDS, word) == 0 for word in words)
    if limit <= 0 or not known or is_hopeless:
        return Ranking.of((), top)
    query = weighed(search, {term: weights[term] for term in known}, words if require == "all" else ())
    return _best(search, query, limit, where & search.state.of_kinds(*CHUNKS), top)


def _informative(search: Search, words: Sequence[str], grams: Sequence[str]) -> list[tuple[str, str]]:
    """The words, and the grams without characters that occur nearly everywhere, unless nothing else is known."""
    most = shared.most_frequent(search.state.contents)
    rare = [gram for gram in grams if len(gram) > 1 or search.holding(GRAMS, gram) <= most]
    chosen = [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in rare)]
    if any(search.holding(*term) for term in chosen):
        return chosen
    return [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in grams)]


def _weight(search: Search, field: str, term: str) -> float:
    weight = scoring.term_weight(search.state.contents, search.holding(field, term), search.bm25)
    return weight * (search.gram_weight if field == GRAMS else 1.0)


def weighed(search: Search, weights: Mapping[sparse.Term, float], required: Sequence[str]) -> WeightedTerms:
    table = sorted((search.known.places[term], term, weight) for term, weight in weights.items())
    return WeightedTerms(
        np.array([number for number, _, _ in table], dtype=np.uint32),
        np.array([0 if field == WORDS else 1 for _, (field, _), _ in table], dtype=np.int64),
        np.array([weight for _, _, weight in table], dtype=np.float64),
        np.array([field == WORDS and term in required for _, (field, term), _ in table], dtype=bool),
    )


# ── candidates ───────────────────────────────────────────────────────────────────────────────────


def _best(search: Search, query: WeightedTerms, limit: int, where: Condition, top: float) -> Ranking:
    """Fetches more and more candidates until none beyond them can be among the best, nor tie with the last.

    What Milvus orders by differs from the score by no more than ``drift``. Looking for the last places costs more than
    it tells: beyond some hundred candidates their own order decides.
    """
    fetch = min(limit + limit // 4 + 32, MOST_HITS)
    drift = _drift(search)
    while True:
        found = search.milvus.search(
            search.name,
            "sparse",
            query.plain(),
            fetch,
            where,
            ("key", "words", "grams"),
            sparse="sparse",
            since=search.state.timestamp,
        )
        ranking = ranked(search, query, found, top)
        is_all = len(found) < fetch or fetch >= MOST_HITS
        if is_all or (len(ranking) >= limit and _is_beyond(ranking.scores[limit - 1], found, fetch, limit, drift)):
            return ranking.head(limit)
        fetch = min(fetch * 4, MOST_HITS)


def _is_beyond(least: float, found: SearchHits, fetch: int, limit: int, drift: float) -> bool:
    last = float(found.scores[-1])
    return least > last * drift + SLACK or (fetch >= 4 * limit + EXTRA and least > last + SLACK)


def _drift(search: Search) -> float:
    """By how much a score can exceed what Milvus orders by: constants and averages are those of another time."""
    ratios = [
        ((1 + then) / (1 + now)).max()
        for then, now in zip(sparse.usual_damping(search.state.averages), _damping(search), strict=True)
    ]
    return float(max(1.0, *ratios))


def _damping(search: Search) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    state = search.state
    words, grams = (
        scoring.damping_by_code(scoring.average_length(total, state.contents), search.bm25)
        for total in (state.words, state.grams)
    )
    return words, grams


def ranked(search: Search, query: WeightedTerms, found: SearchHits, top: float) -> Ranking:
    scores, is_whole = _scores(search, query, found)
    _, once = np.unique(found.columns["key"], return_index=True)  # what was acknowledged late may be there twice
    chosen = once[is_whole[once]]
    return Ranking.ordered(found.columns["key"][chosen], scores[chosen], top)


def _scores(search: Search, query: WeightedTerms, found: SearchHits) -> tuple[Scores, NDArray[np.bool_]]:
    """BM25 of each candidate, and whether it has any of the terms and all that are required."""
    vectors = sparse.unpacked(b"".join(found.sparse))
    rows = np.repeat(np.arange(len(found)), [len(data) // 8 for data in found.sparse])
    places = np.minimum(np.searchsorted(query.terms, vectors.terms), len(query.terms) - 1)
    is_wanted = query.terms[places] == vectors.terms
    rows, places, values = rows[is_wanted], places[is_wanted], vectors.values[is_wanted].astype(np.float64)
    scores = np.zeros(len(found))
    then, now = sparse.usual_damping(search.state.averages), _damping(search)
    for field, lengths in enumerate((found.columns["words"], found.columns["grams"])):
        own = query.fields[places] == field
        at = rows[own]
        times = sparse.times_of(values[own], lengths[at], then[field])
        damping = now[field][scoring.norm_codes(lengths[at])]
        added = query.weights[places[own]] * times / (times + damping)
        scores += np.bincount(at, weights=added, minlength=len(found))
    have = np.bincount(rows[query.required[places]], minlength=len(found))
    is_whole = (np.bincount(rows, minlength=len(found)) > 0) & (have >= np.count_nonzero(query.required))
    return np.round(scores, SCORE_DECIMALS), is_whole
