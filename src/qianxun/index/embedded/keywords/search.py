"""The best entries of the keyword index for a query's words and grams: `match` is the function to read first."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.system.gc_pause import paused_collection
from qianxun.core.types import BM25, Bm25, Keys, TermCounts, Terms
from qianxun.index import bm25 as scoring
from qianxun.index import shared
from qianxun.index.bm25 import REPEATED, TANTIVY
from qianxun.index.embedded.keywords.population import Term
from qianxun.index.embedded.keywords.tantivy_index import MANY_HITS, KeywordView, Statistics, TantivyErrors, rows_of
from qianxun.index.shared import SCORE_DECIMALS, Require, distinct

# So many allowed rows, times the cube root of all, are given to tantivy as a set; more are sifted from its hits. Both
# take as long at 3.5 % of 15,000 rows and at .6 % of 364,000 (docs/decisions/0032-a-million-chunks.md).
SET_PER_CUBE_ROOT = 24
LARGE = 50_000  # rows
STRETCHES = 16  # of rows after one another, as those of a tenant often are, are given as ranges
LONG = 500  # rows; fewer are looked up sooner than ranges are gone through
SCALE = (BM25.k1 + 1) / (TANTIVY.k1 + 1)  # from tantivy's scores to those of the default constants


@dataclass(frozen=True, slots=True)
class Matched:
    """Positions of the rows among all of them, with their scores, best first, and the highest score the query could
    have."""

    slots: Keys
    scores: NDArray[np.float64]
    ceiling: float


def match(
    view: KeywordView,
    terms: Terms,
    limit: int,
    require: Require,
    gram_weight: float,
    rows: Keys,
    allowed: NDArray[np.bool_],
    bm25: Bm25 = BM25,
) -> Matched:
    """The best allowed rows, ``rows`` being all there are. All that tie at the cut come, for the caller to order.

    tantivy counts by the default constants (`index.bm25`). By others, what it finds best is scored again, exactly.

    Characters that occur nearly everywhere count only when the query has nothing else: see `_informative`.
    """
    wanted = wanted_terms(view, terms, gram_weight, bm25)
    if limit <= 0 or not allowed.any() or wanted.is_empty:
        return Matched(np.empty(0, dtype=np.int64), np.empty(0), wanted.ceiling)
    sieve = Sieve.of(rows, allowed, len(rows))
    query = text_query(view.schema, wanted, require, sieve.few)
    with TantivyErrors():
        if bm25 == BM25:
            slots, scores = _search(view, query, limit, sieve)
        else:
            rescore = partial(_rescored, view, text_query(view.schema, wanted, require), bm25, gram_weight)
            slots, scores = _search(view, query, limit, sieve, rescore)
    return Matched(slots, scores, wanted.ceiling)


@dataclass(frozen=True, slots=True)
class WantedTerms:
    """What of a query is searched for, and the highest score that it could have."""

    words: Sequence[str]
    grams: Sequence[str]
    gram_weight: float
    ceiling: float

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.grams)

    @property
    def clauses(self) -> Sequence[tuple[Term, float]]:
        """The terms and what each counts, in the order in which tantivy adds up their scores."""
        grams = ((("grams", gram), self.gram_weight) for gram in self.grams)
        return (*((("words", word), 1.0) for word in self.words), *grams)


def wanted_terms(statistics: Statistics, terms: Terms, gram_weight: float, bm25: Bm25) -> WantedTerms:
    words = distinct(terms.words)
    with TantivyErrors():
        grams = _informative(statistics, words, distinct(terms.grams))
        top = _ceiling(statistics, words, grams, gram_weight, bm25.k1)
    return WantedTerms(words, grams, gram_weight, top)


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which of tantivy's hits count: rows among all ``rows`` that are ``allowed``."""

    rows: Keys
    allowed: NDArray[np.bool_] | None  # None for all
    few: Keys | None  # those that are allowed, where tantivy is given them
    share: float  # of its hits that are allowed

    @staticmethod
    def of(rows: Keys, allowed: NDArray[np.bool_], searched: int) -> Sieve:
        """``searched`` rows are in the keyword index."""
        count = int(np.count_nonzero(allowed))
        few = rows[allowed] if count < searched and _is_set(allowed, count) else None
        return Sieve(rows, None if count == len(rows) else allowed, few, 1.0 if few is not None else count / searched)

    def first_fetch(self, limit: int) -> int:
        """How many hits it takes for ``limit`` that pass, and some that tie with the last."""
        is_all = self.few is None and self.share >= 1
        return limit + (limit // 8 if is_all else max(limit, int(limit * (1.2 / self.share - 1)))) + 16

    def passing(self, found: Keys) -> tuple[Keys, Keys]:
        """Positions of those found rows that pass, among the found and among all."""
        slots = _slots(self.rows, found)
        passes = self.rows[slots] == found
        if self.allowed is not None:
            passes &= self.allowed[slots]
        at = np.flatnonzero(passes)
        return at, slots[at]


def _is_set(allowed: NDArray[np.bool_], count: int) -> bool:
    """Whether so many allowed rows are given to tantivy, rather than sifted from its hits."""
    if count == len(allowed):
        return False
    if (
        len(allowed) > LARGE
        and LONG < count < len(allowed) // 4
        and np.count_nonzero(allowed[1:] & ~allowed[:-1]) < STRETCHES
    ):
        return True
    return count <= SET_PER_CUBE_ROOT * math.cbrt(len(allowed))


def _informative(statistics: Statistics, words: Sequence[str], grams: Sequence[str]) -> Sequence[str]:
    """The grams without single characters like 的 and 一, unless nothing else of the query occurs in any entry.

    Their lists made up two thirds of a search and did not better it: nDCG@10 .9809 with them and .9809 without on
    CMRC2018, .7783 and .7786 on DuReader-robust, a tenth being the only bound (docs/decisions/0006-recall-speed.md).
    """
    most = shared.most_frequent(statistics.documents)
    count = statistics.frequency
    rare = [gram for gram in grams if len(gram) > 1 or count("grams", gram) <= most]
    known = any(count("words", word) for word in words) or any(count("grams", gram) for gram in rare)
    return rare if known else grams


def count(statistics: Statistics, terms: Terms) -> TermCounts:
    """In how many entries each term occurs."""
    with TantivyErrors():
        words = {word: statistics.frequency("words", word) for word in distinct(terms.words)}
        grams = {gram: statistics.frequency("grams", gram) for gram in distinct(terms.grams)}
    return TermCounts(statistics.documents, words, grams)


def _search(
    view: KeywordView,
    query: Any,
    limit: int,
    sieve: Sieve,
    rescore: Callable[[Sequence[Any]], NDArray[np.float64]] | None = None,
) -> tuple[Keys, NDArray[np.float64]]:
    """Fetches more and more hits until ``limit`` that pass, and all that tie with the last, are among them."""
    fetch = sieve.first_fetch(limit)
    while True:
        with paused_collection() if fetch >= MANY_HITS else nullcontext():
            hits = view.searcher.search(query, fetch, count=False).hits
            if not hits:
                return np.empty(0, dtype=np.int64), np.empty(0)
            at, slots = sieve.passing(rows_of(view, [address for _, address in hits]))
            best = [hits[one] for one in at.tolist()]  # of 24,000 hits a filter may leave 240
            rounded = (np.array([score for score, _ in (*best, hits[-1])]) * SCALE).round(SCORE_DECIMALS)
            is_all = len(hits) < fetch
            del hits
        scores, last = rounded[:-1], rounded[-1]
        if is_all or (len(scores) >= limit and scores[limit - 1] > last):
            if rescore is None:
                return slots, scores
            # Of the best alone: how many more were fetched depends on how segments lie.
            number = int(np.count_nonzero(scores >= scores[min(limit, len(scores)) - 1])) if len(scores) else 0
            return slots[:number], rescore([address for _, address in best[:number]])
        fetch = deeper(fetch, limit, len(scores))


def deeper(fetch: int, limit: int, passed: int) -> int:
    """How many hits to fetch when so many of ``fetch`` passed: with what came so far half as much again as it takes,
    and many more where that is enough, but hits tie with the last."""
    return int(fetch * 8) if passed >= limit else int(fetch * min(8.0, 1.5 * limit / max(passed, 1)))


def _rescored(
    view: KeywordView, query: Any, bm25: Bm25, gram_weight: float, addresses: Sequence[Any]
) -> NDArray[np.float64]:
    """The scores of these entries by other constants, from the counts and lengths that tantivy scored them by."""
    explained = (json.loads(query.explain(view.searcher, address).to_json()) for address in addresses)
    scores = [math.fsum(_term_score(clause, bm25, gram_weight) for clause in _clauses(whole)) for whole in explained]
    return np.array(scores, dtype=np.float64).round(SCORE_DECIMALS)


def _clauses(explanation: dict[str, Any]) -> Sequence[dict[str, Any]]:
    is_sum = explanation["description"].startswith("BooleanClause")
    clauses: Sequence[dict[str, Any]] = explanation["details"] if is_sum else (explanation,)
    return clauses


def _term_score(clause: dict[str, Any], bm25: Bm25, gram_weight: float) -> float:
    term = clause
    while not term["description"].startswith("TermQuery"):  # within its boost
        term = term["details"][0]
    _, rarity, share = term["details"]
    holding, entries = (part["value"] for part in rarity["details"])
    freq, _, _, length, average = (part["value"] for part in share["details"])
    weight = scoring.term_weight(entries, holding, bm25) * (1.0 if term is clause else gram_weight)
    damping = scoring.damping(float(length), float(np.float32(average)), bm25)
    return float(weight * (freq / (freq + REPEATED * damping)))


def _slots(rows: Keys, found: Keys) -> Keys:
    """Positions of rows among all of them; a base that nothing was ever removed from has no gaps."""
    has_gaps = len(rows) == 0 or rows[-1] - rows[0] != len(rows) - 1
    slots: Keys = np.searchsorted(rows, found) if has_gaps else np.maximum(found - rows[0], 0)
    return np.minimum(slots, len(rows) - 1)


def text_query(
    schema: Any,
    wanted: WantedTerms,
    require: Require,
    few: Keys | None = None,
    boosts: Mapping[Term, float] | None = None,
) -> Any:
    """Terms only: nothing of a user's text is parsed. Each counts ``boosts`` times what it would."""
    from tantivy import Occur, Query

    word_occurs = Occur.Must if require == "all" else Occur.Should
    clauses = []
    for (name, term), weight in wanted.clauses:
        clause, boost = Query.term_query(schema, name, term, "freq"), weight * (boosts[name, term] if boosts else 1.0)
        boosted = clause if name == "words" and not boosts else Query.boost_query(clause, boost)
        clauses.append((word_occurs if name == "words" else Occur.Should, boosted))
    text = Query.boolean_query(clauses)
    if few is None:
        return text
    within = Query.const_score_query(_among(schema, few), 0.0)
    return Query.boolean_query([(Occur.Must, within), (Occur.Must, text)])


def _among(schema: Any, rows: Keys) -> Any:
    """A query for these rows, ascending."""
    from tantivy import FieldType, Occur, Query

    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    if len(starts) > STRETCHES or len(rows) <= LONG:
        return Query.term_set_query(schema, "row", rows.tolist())
    ends = [*(starts[1:] - 1).tolist(), len(rows) - 1]
    stretches = zip(rows[starts].tolist(), rows[ends].tolist(), strict=True)
    ranges = [
        Query.range_query(schema, "row", FieldType.Integer, lower_bound=first, upper_bound=last)
        for first, last in stretches
    ]
    return ranges[0] if len(ranges) == 1 else Query.boolean_query([(Occur.Should, stretch) for stretch in ranges])


def _ceiling(
    statistics: Statistics, words: Sequence[str], grams: Sequence[str], gram_weight: float, k1: float = BM25.k1
) -> float:
    """Each term's weight where it is so frequent that length no longer matters; rounded up, never down."""
    total: float = sum([statistics.rarity("words", word) for word in words])
    total += gram_weight * sum([statistics.rarity("grams", gram) for gram in grams])
    return math.ceil(total * (k1 + 1) * 10.0**SCORE_DECIMALS) / 10.0**SCORE_DECIMALS
