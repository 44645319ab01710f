"""BM25 over the live rows alone, to the bit as tantivy would score them had the dead never been there.

tantivy counts entries that were deleted until their segments merge, and estimates lengths anew when they do: what is in
its statistics depends on how an index came to be. Where they are not those of the live rows, tantivy proposes, every
term boosted to what it would weigh, and what it proposes is scored again here, with its own formula in its own 32 bits,
added up in its own order. Only the average length is not set right by boosts: how far it can move a score is bounded,
and so many more are proposed that none is missed.

How often a term occurs in a row comes from its posting list, or, where that is long and not in memory, from a search
among the rows that were proposed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import BM25, Bm25, Keys, Terms
from qianxun.index import bm25 as scoring
from qianxun.index.bm25 import REPEATED, TANTIVY
from qianxun.index.embedded.keywords import postings, search, tantivy_index
from qianxun.index.embedded.keywords.population import MOST_TIMES, Members, Postings, Term
from qianxun.index.embedded.keywords.search import SCALE, Matched, Sieve, WantedTerms
from qianxun.index.embedded.keywords.tantivy_index import KeywordView
from qianxun.index.embedded.members import live_members
from qianxun.index.embedded.rows import UNCOUNTED, Rows
from qianxun.index.shared import SCORE_DECIMALS, Require, distinct

LIVE: Final = "live"  # no population has such a digest
# Postings: of a list that is read whole, which takes .35 µs each, and is in memory from then on; of longer ones that
# are read for one question, and of the longest that is. To look for a term among 200 rows takes 1 ms, every time.
SHORT: Final = 1_000
BUDGET: Final = 25_000
LONGEST: Final = 50_000
MOST_ENTRIES: Final = 150_000  # beyond, most lists are too long to be read: tantivy's statistics have to do
FEW_PENDING: Final = 100  # rows that are looked up rather than lists read
SLACK: Final = 1e-5  # share of a score that sums in 32 bits may be off
Single = np.float32
Singles: TypeAlias = NDArray[np.float32]
FIELDS: Final = ("words", "grams")


@dataclass(frozen=True, slots=True, eq=False)
class LiveStatistics:
    """What tantivy would count over the live rows of one state. ``pending`` are dead, and not yet deleted in it."""

    view: KeywordView
    members: Members
    averages: Mapping[str, np.float32]  # of lengths, as they are written
    pending: Keys
    _counted: dict[Term, int] = field(default_factory=dict, repr=False)

    @property
    def documents(self) -> int:
        return self.members.entries

    @property
    def has_dead(self) -> bool:
        """Whether the keyword index counts rows that are dead."""
        return self.view.documents != self.documents

    def frequency(self, name: str, term: str) -> int:
        if (name, term) not in self._counted:
            self._counted[name, term] = self._count(name, term)
        return self._counted[name, term]

    def rarity(self, name: str, term: str) -> float:
        return scoring.rarity(self.documents, self.frequency(name, term))

    def _count(self, name: str, term: str) -> int:
        total, view = self.view.frequency(name, term), self.view
        if not total or not self.has_dead:
            return total
        is_read = view.postings.get((name, term)) is not None
        if not is_read and not len(self.pending):
            return postings.count_not_deleted(view, name, term)
        if is_read or total <= SHORT or len(self.pending) > FEW_PENDING:
            return self._count_listed(postings.postings(view, self.members, name, term))
        dead = postings.count_not_deleted(view, name, term, self.pending)
        return postings.count_not_deleted(view, name, term) - dead

    def _count_listed(self, listed: Postings) -> int:
        at, _ = _inside(listed.rows - self.members.first, len(self.members.holds))
        return int(np.count_nonzero(self.members.holds[at]))

    def read_whole(self, terms: Sequence[Term]) -> set[Term]:
        """The terms whose lists are in memory, or are now to be read: short ones, and of the others some for each
        question, shortest first, so that all are in memory after some questions and none of them waits for long."""
        sizes = {term: self.view.frequency(*term) for term in terms}
        chosen = {term for term in terms if sizes[term] <= SHORT or self.view.postings.get(term) is not None}
        room = BUDGET
        for term in sorted(sizes.keys() - chosen, key=lambda one: (sizes[one], one)):
            if sizes[term] > (LONGEST if room == BUDGET else room):
                break
            chosen.add(term)
            room -= sizes[term]
        return chosen

    def postings(self, term: Term, rows: Keys, *, is_whole: bool) -> Postings:
        """Where a term occurs, at least of these ``rows``."""
        if is_whole:
            return postings.postings(self.view, self.members, *term)
        return postings.postings_among(self.view, self.members, *term, rows)

    def gain(self, terms: Sequence[Term]) -> float:
        """The most that a score can be of what tantivy gives, all terms being boosted to their weights."""
        most = 1.0
        for name, term in dict(terms).items():
            longest = self.members.codes[name][self.members.holds].max(initial=0)
            counted = REPEATED + _norms(Single(self.view.average(name, term)))[longest]
            wanted = REPEATED + _norms(self.averages[name])[longest]
            most = max(most, float(counted / wanted))
        return most * (1 + SLACK)


def live_statistics(view: KeywordView, rows: Rows, pending: Keys) -> LiveStatistics | None:
    """Those of the live rows; None where nothing ever died, so that tantivy counts nothing else, where an earlier
    version has not counted the tokens of each row, or in a base so large that a question would wait for them."""
    if (not rows.dead and len(rows) == view.end) or len(rows) > MOST_ENTRIES:
        return None
    known = rows.populations.get(LIVE)
    if known is None or known.view is not view:
        known = _statistics(view, rows, pending)
        rows.populations.put(LIVE, known)
    return known if isinstance(known, LiveStatistics) else None


@dataclass(frozen=True, slots=True)
class _Unknown:
    view: KeywordView


def _statistics(view: KeywordView, rows: Rows, pending: Keys) -> LiveStatistics | _Unknown:
    searched = rows.in_keywords()
    counts = {name: rows.columns[name][searched] for name in FIELDS}
    has_lengths = bool(rows.columns["lengths"][searched].all())
    if not has_lengths or any((own == UNCOUNTED).any() for own in counts.values()):
        return _Unknown(view)
    averages = {name: _average(own) for name, own in counts.items()}
    return LiveStatistics(view, live_members(rows), averages, pending)


def _average(tokens: NDArray[np.uint32]) -> np.float32:
    total = REPEATED * int(tokens.sum(dtype=np.int64))
    return Single(total) / Single(len(tokens)) if total else Single(1)  # of nothing, which no term occurs in


def are_counted(live: LiveStatistics, terms: Terms) -> bool:
    """Whether tantivy's own statistics are those of the live rows, as far as these terms go."""
    if live.has_dead:
        return False
    for name, wanted in (("words", terms.words), ("grams", terms.grams)):
        occurring = next((term for term in distinct(wanted) if live.view.frequency(name, term)), None)
        if occurring is not None and Single(live.view.average(name, occurring)) != live.averages[name]:
            return False
    return True


def match(
    live: LiveStatistics,
    terms: Terms,
    limit: int,
    require: Require,
    gram_weight: float,
    rows: Keys,
    allowed: NDArray[np.bool_],
    bm25: Bm25 = BM25,
) -> Matched:
    """`search.match`, by the statistics of the live rows."""
    with tantivy_index.TantivyErrors():
        wanted = search.wanted_terms(live, terms, gram_weight, bm25)
        if limit <= 0 or not allowed.any() or wanted.is_empty:
            return Matched(np.empty(0, dtype=np.int64), np.empty(0), wanted.ceiling)
        slots, scores = _search(live, wanted, limit, require, rows, allowed, bm25)
    return Matched(slots, scores, wanted.ceiling)


def _search(
    live: LiveStatistics,
    wanted: WantedTerms,
    limit: int,
    require: Require,
    rows: Keys,
    allowed: NDArray[np.bool_],
    bm25: Bm25,
) -> tuple[Keys, NDArray[np.float64]]:
    """Fetches more and more hits until the best ``limit``, and all that tie with the last, must be among them."""
    occurring = [term for term, _ in wanted.clauses if live.frequency(*term)]
    if not occurring:
        return np.empty(0, dtype=np.int64), np.empty(0)
    sieve = Sieve.of(rows, allowed, live.documents)
    query = search.text_query(live.view.schema, wanted, require, sieve.few, _boosts(live, wanted))
    gain, fetch = live.gain(occurring), sieve.first_fetch(limit) + len(live.pending)
    while True:
        hits = live.view.searcher.search(query, fetch, count=False).hits
        addresses = [address for _, address in hits]
        at, slots = sieve.passing(tantivy_index.rows_of(live.view, addresses))
        times = _times(live, wanted, rows[slots], [addresses[one] for one in at.tolist()])
        scores = times.scores(live, require == "all")
        is_all = len(hits) < fetch
        if not is_all:
            beyond = round(hits[-1][0] * gain * SCALE, SCORE_DECIMALS)
            is_all = len(scores) >= limit and float(np.partition(scores, -limit)[-limit]) > beyond
        if is_all:
            break
        fetch = search.deeper(fetch, limit, len(scores))
    if bm25 == BM25 or not len(scores):
        return slots, scores
    best = scores >= np.partition(scores, -min(limit, len(scores)))[-min(limit, len(scores))]
    return slots[best], times.scores_by(live, bm25, best)


def _boosts(live: LiveStatistics, wanted: WantedTerms) -> dict[Term, float]:
    """What makes tantivy weigh each term as it would without the dead."""
    view = live.view
    return {term: live.rarity(*term) / view.rarity(*term) for term, _ in wanted.clauses}


@dataclass(frozen=True, slots=True)
class _Times:
    """How often each clause's term occurs in each of some rows."""

    clauses: Sequence[tuple[Term, float]]
    times: NDArray[np.int64]  # of a clause, of a row
    codes: Mapping[str, NDArray[np.uint8]]  # of the rows' lengths

    def scores(self, live: LiveStatistics, is_required: bool) -> NDArray[np.float64]:
        """… as tantivy adds them up: one after another, but what is required apart from the rest."""
        sums = {name: np.zeros(self.times.shape[1], dtype=Single) for name in FIELDS}
        norms = {name: _norms(average)[self.codes[name]] for name, average in live.averages.items()}
        for ((name, term), counts), times in zip(self.clauses, self.times, strict=True):
            written = (times * REPEATED).astype(Single)
            own = _weight(live.documents, live.frequency(name, term), counts) * (written / (written + norms[name]))
            sums[name if is_required else "words"] += own
        total = sums["words"] + sums["grams"]
        rounded: NDArray[np.float64] = (total.astype(np.float64) * SCALE).round(SCORE_DECIMALS)
        return rounded

    def scores_by(self, live: LiveStatistics, bm25: Bm25, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The scores of the chosen rows by other constants than tantivy's, as `keywords` has them."""
        parts = []
        for ((name, term), counts), times in zip(self.clauses, self.times[:, chosen], strict=True):
            weight = scoring.term_weight(live.documents, live.frequency(name, term), bm25) * counts
            lengths = scoring.WRITTEN_NORMS[self.codes[name][chosen]]
            damping = scoring.damping(lengths, float(live.averages[name]), bm25)
            written = times * float(REPEATED)
            parts.append(weight * (written / (written + REPEATED * damping)))
        return np.array([math.fsum(own) for own in zip(*parts, strict=True)], dtype=np.float64).round(SCORE_DECIMALS)


def _times(live: LiveStatistics, wanted: WantedTerms, rows: Keys, addresses: Sequence[Any]) -> _Times:
    members = live.members
    clauses = [(term, counts) for term, counts in wanted.clauses if live.frequency(*term)]
    times = np.zeros((len(clauses), len(rows)), dtype=np.int64)
    places = np.zeros(len(members.holds), dtype=np.int32)  # from 1 on, by row
    places[rows - members.first] = np.arange(1, len(rows) + 1)
    whole = live.read_whole([term for term, _ in clauses]) if len(rows) else set()
    for own, (term, _) in zip(times, clauses, strict=True):
        if not len(rows):
            break
        listed = live.postings(term, rows, is_whole=term in whole)
        at, inside = _inside(listed.rows - members.first, len(places))
        place = places[at]
        proposed = np.flatnonzero(place)
        own[place[proposed] - 1] = listed.times[inside][proposed]
        for many in np.flatnonzero(own >= MOST_TIMES).tolist():
            own[many] = postings.exact_times(live.view, *term, addresses[many])
    codes = {name: members.codes[name][rows - members.first] for name in FIELDS}
    return _Times(clauses, times, codes)


def _inside(at: NDArray[Any], end: int) -> tuple[NDArray[Any], NDArray[np.bool_] | slice]:
    """Those of the places that are there, and which they are; others were removed since a list was read."""
    if not len(at) or (at.min() >= 0 and at.max() < end):
        return at, slice(None)
    inside = (at >= 0) & (at < end)
    return at[inside], inside


def _norms(average: np.float32) -> Singles:
    """tantivy's damping for each code of a length, in its own order of operations."""
    k1, b = Single(TANTIVY.k1), Single(TANTIVY.b)
    found: Singles = k1 * ((Single(1) - b) + b * scoring.WRITTEN_NORMS.astype(Single) / average)
    return found


def _weight(entries: int, holding: int, counts: float) -> np.float32:
    """tantivy's weight of a term. Its logarithm in 32 bits is the one in 64, rounded (8,477 of 8,477 terms)."""
    ratio = (Single(entries - holding) + Single(0.5)) / (Single(holding) + Single(0.5))
    rarity = Single(math.log(float(Single(1) + ratio)))
    return rarity * (Single(1) + Single(TANTIVY.k1)) * Single(counts)
