"""BM25 among some of the entries, as if there were no others: the postings of all, and of them those of the members.

What the embedded index does in `index.embedded.keywords.population`, with the exact lengths that entries have here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Keys, Population, Ranking, TermCounts, Terms
from qianxun.index import bm25 as scoring
from qianxun.index.postgres.facts import AllowedOwners
from qianxun.index.postgres.keywords import Postings, Search
from qianxun.index.postgres.postings import GRAMS, WORDS
from qianxun.index.postgres.server import Tx, bigints
from qianxun.index.postgres.tables import State, Tables
from qianxun.index.shared import SCORE_DECIMALS, Require, distinct

Term = tuple[str, str]  # field and spelling


@dataclass(slots=True, eq=False)
class Members:
    """The entries of a population at one state of an index."""

    holds: NDArray[np.bool_]  # by row
    keys: Keys  # by row
    owners: Keys  # by row
    entries: int
    averages: Mapping[str, float]  # lengths, by field
    likeness: float | None = None  # once it was asked for


def members(tx: Tx, tables: Tables, state: State, population: Population) -> Members:
    """Reads the entries of these documents that have keywords."""
    found = tx.rows(
        f"""SELECT row, key, owner, words, grams FROM {tables.entries}
            WHERE base = %(base)s AND lane = 0 AND document = ANY(%(documents)s::bigint[])""",
        base=state.base,
        documents=bigints(population.documents),
    )
    table = np.array(found, dtype=np.int64).reshape(-1, 5)
    rows = table[:, 0]
    holds, keys, owners = (np.zeros(state.next_row, dtype=kind) for kind in (bool, np.int64, np.int64))
    holds[rows], keys[rows], owners[rows] = True, table[:, 1], table[:, 2]
    lengths = {WORDS: int(table[:, 3].sum()), GRAMS: int(table[:, 4].sum())}
    averages = {field: scoring.average_length(total, len(rows)) for field, total in lengths.items()}
    return Members(holds, keys, owners, len(rows), averages)


def match(
    search: Search, terms: Terms, limit: int, require: Require, own: Members, allowed: AllowedOwners | None
) -> Ranking:
    """The best members that are allowed (None: all of them), ties by key."""
    words, grams = distinct(terms.words), distinct(terms.grams)
    wanted = [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in grams if scoring.is_informative(gram))]
    found = _among(search, wanted, own)
    if not any(map(len, found.values())):
        found |= _among(search, [(GRAMS, gram) for gram in grams if not scoring.is_informative(gram)], own)
    weights = {term: _weight(search, term, len(postings), own) for term, postings in found.items()}
    top = scoring.ceiling(weights.values())
    if limit <= 0 or own.entries == 0 or not found:
        return Ranking.of((), top)
    scores = _scores(search, found, weights, own, len(words) if require == "all" else 0)
    rows = np.flatnonzero(scores)
    if allowed is not None:
        rows = rows[allowed.among(own.owners[rows])]
    return Ranking.ordered(own.keys[rows], np.round(scores[rows], SCORE_DECIMALS), top).head(limit)


def count(search: Search, terms: Terms, own: Members) -> TermCounts:
    words, grams = distinct(terms.words), distinct(terms.grams)
    found = _among(search, [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in grams)], own)
    return TermCounts(
        own.entries,
        {word: len(found[WORDS, word]) for word in words},
        {gram: len(found[GRAMS, gram]) for gram in grams},
    )


def _among(search: Search, terms: list[Term], own: Members) -> dict[Term, Postings]:
    """The postings of the terms in the members."""
    if not terms:
        return {}
    found = search.postings(terms)
    among = {}
    for term, postings in found.items():
        is_own = own.holds[postings.rows]
        among[term] = Postings(postings.rows[is_own], postings.times[is_own], postings.norms[is_own])
    return among


def _weight(search: Search, term: Term, holding: int, own: Members) -> float:
    weight = scoring.term_weight(own.entries, holding, search.bm25)
    return weight * (search.gram_weight if term[0] == GRAMS else 1.0)


def _scores(
    search: Search, found: Mapping[Term, Postings], weights: Mapping[Term, float], own: Members, required: int
) -> NDArray[np.float64]:
    """Of every row; 0 where no term of the query occurs, or not all words that are required."""
    scores, have = np.zeros(len(own.holds)), np.zeros(len(own.holds), dtype=np.int32)
    damping = {field: scoring.damping_by_code(average, search.bm25) for field, average in own.averages.items()}
    for term, postings in found.items():
        share = postings.times / (postings.times + damping[term[0]][postings.norms])
        scores[postings.rows] += weights[term] * share
        if term[0] == WORDS:
            have[postings.rows] += 1
    if required:
        scores[have < required] = 0.0
    return scores
