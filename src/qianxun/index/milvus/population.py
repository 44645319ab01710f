"""BM25 among the entries of some documents, as if there were no others.

Milvus counts over a whole build. So all entries of the population that hold a term of the query are fetched, counted
and scored here; where they are more than Milvus gives at once, those of half of the documents at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Keys, Population, Ranking, TermCounts, Terms
from qianxun.index import bm25 as scoring
from qianxun.index.milvus import keywords
from qianxun.index.milvus import terms as sparse
from qianxun.index.milvus.conditions import ALL, Condition, among
from qianxun.index.milvus.keywords import Search
from qianxun.index.milvus.server import MOST_HITS, Milvus, SearchHits
from qianxun.index.milvus.states import CHUNKS, State
from qianxun.index.milvus.terms import GRAMS, WORDS
from qianxun.index.shared import Require, distinct

DOCUMENTS_AT_ONCE = 2_000  # that one condition names


@dataclass(slots=True, eq=False)
class Members:
    """The entries of a population at one state of a build."""

    documents: tuple[tuple[int, ...], ...]  # as many at a time as a condition names
    keys: Keys  # of its chunks, ascending
    words: int  # lengths, added up
    grams: int
    likeness: float | None = None  # once it was asked for


def members(milvus: Milvus, name: str, state: State, population: Population) -> Members:
    """Reads which chunks these documents have, and how long they are."""
    known = population.documents.tolist()
    groups = tuple(tuple(known[at : at + DOCUMENTS_AT_ONCE]) for at in range(0, len(known), DOCUMENTS_AT_ONCE))
    found: dict[int, tuple[int, int]] = {}
    for group in groups:
        for row in _rows(milvus, name, state, group):
            found[int(row["key"])] = (int(row["words"]), int(row["grams"]))
    keys = np.array(sorted(found), dtype=np.int64)
    return Members(groups, keys, sum(own[0] for own in found.values()), sum(own[1] for own in found.values()))


def _rows(milvus: Milvus, name: str, state: State, group: Sequence[int]) -> list[Mapping[str, int]]:
    where = state.of_kinds(*CHUNKS) & among("document", group)
    found = milvus.query(name, where, ("key", "words", "grams"), state.timestamp)
    if len(found) < MOST_HITS or len(group) == 1:
        return [*found]
    half = len(group) // 2
    return [*_rows(milvus, name, state, group[:half]), *_rows(milvus, name, state, group[half:])]


def match(search: Search, terms: Terms, limit: int, require: Require, own: Members, where: Condition) -> Ranking:
    """The best members that pass, ties by key."""
    words, grams = distinct(terms.words), distinct(terms.grams)
    wanted = [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in grams if scoring.is_informative(gram))]
    matching, holding = _matching(search, wanted, own)
    if not any(holding.values()):
        wanted += [(GRAMS, gram) for gram in grams if not scoring.is_informative(gram)]
        matching, holding = _matching(search, wanted, own)
    weights = {term: _weight(search, term, holding[term], own) for term in wanted}
    top = scoring.ceiling(weights.values())
    known = [term for term in wanted if holding[term]]
    is_hopeless = require == "all" and any(holding[WORDS, word] == 0 for word in words)
    if limit <= 0 or not known or is_hopeless:
        return Ranking.of((), top)
    counted = replace(search.state, contents=len(own.keys), words=own.words, grams=own.grams)
    among_own = replace(search, state=counted)
    query = keywords.weighed(among_own, {term: weights[term] for term in known}, words if require == "all" else ())
    rankings = [keywords.ranked(among_own, query, found, top) for found in matching]
    keys = np.concatenate([ranking.keys for ranking in rankings])
    scores = np.concatenate([ranking.scores for ranking in rankings])
    passing = np.isin(keys, _passing(search, keys, where))
    return Ranking.ordered(keys[passing], scores[passing], top).head(limit)


def count(search: Search, terms: Terms, own: Members) -> TermCounts:
    words, grams = distinct(terms.words), distinct(terms.grams)
    _, holding = _matching(search, [*((WORDS, word) for word in words), *((GRAMS, gram) for gram in grams)], own)
    return TermCounts(
        len(own.keys),
        {word: holding[WORDS, word] for word in words},
        {gram: holding[GRAMS, gram] for gram in grams},
    )


def _weight(search: Search, term: sparse.Term, holding: int, own: Members) -> float:
    weight = scoring.term_weight(len(own.keys), holding, search.bm25)
    return weight * (search.gram_weight if term[0] == GRAMS else 1.0)


def _matching(
    search: Search, terms: Sequence[sparse.Term], own: Members
) -> tuple[list[SearchHits], dict[sparse.Term, int]]:
    """The members that hold one of the terms, and how many hold each."""
    places = {term: search.known.places[term] for term in terms if search.known.places[term]}
    if not places:
        return [], dict.fromkeys(terms, 0)
    plain = dict.fromkeys(places.values(), 1.0)
    matching = [found for group in own.documents for found in _found(search, plain, group)]
    numbers = np.array(sorted(plain), dtype=np.uint32)
    counts: NDArray[np.int64] = np.zeros(len(numbers), dtype=np.int64)
    for found in matching:
        _, once = np.unique(found.columns["key"], return_index=True)
        vectors = sparse.unpacked(b"".join(found.sparse[at] for at in once.tolist()))
        at = np.minimum(np.searchsorted(numbers, vectors.terms), len(numbers) - 1)
        counts += np.bincount(at[numbers[at] == vectors.terms], minlength=len(numbers))
    by_place = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    return matching, {term: by_place[places[term]] if term in places else 0 for term in terms}


def _found(search: Search, plain: Mapping[int, float], group: Sequence[int]) -> list[SearchHits]:
    where = search.state.of_kinds(*CHUNKS) & among("document", group)
    found = search.milvus.search(
        search.name,
        "sparse",
        dict(plain),
        MOST_HITS,
        where,
        ("key", "words", "grams"),
        sparse="sparse",
        since=search.state.timestamp,
    )
    if len(found) < MOST_HITS or len(group) == 1:
        return [found] if len(found) else []
    half = len(group) // 2
    return [*_found(search, plain, group[:half]), *_found(search, plain, group[half:])]


def _passing(search: Search, keys: Keys, where: Condition) -> Keys:
    """Those of the chunks that pass a filter."""
    if where == ALL:
        return keys
    found: list[int] = []
    for at in range(0, len(keys), DOCUMENTS_AT_ONCE):
        own = search.state.of_kinds(*CHUNKS) & among("key", keys[at : at + DOCUMENTS_AT_ONCE].tolist()) & where
        found += [int(row["key"]) for row in search.milvus.query(search.name, own, ("key",), search.state.timestamp)]
    return np.array(found, dtype=np.int64)
