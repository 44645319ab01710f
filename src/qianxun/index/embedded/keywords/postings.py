"""Where a term occurs and how often, read out of what tantivy scores it by; and searches among some of the entries.

`postings` is the function to read first.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import BM25, Bm25, Keys, TermCounts, Terms
from qianxun.index.bm25 import REPEATED
from qianxun.index.embedded.keywords.population import Members, Postings, among
from qianxun.index.embedded.keywords.population import match as match_among
from qianxun.index.embedded.keywords.search import Matched
from qianxun.index.embedded.keywords.tantivy_index import KeywordView, TantivyErrors, hits_of
from qianxun.index.shared import Require, distinct

STALE = 2  # times the entries that tantivy counts: a list as long is mostly of rows that it has dropped


def postings(view: KeywordView, members: Members, name: str, term: str) -> Postings:
    """Where a term of a field occurs, and how often: from what tantivy scores it by, which is all that it gives out.

    A list that is known is read on from where it ends; one that is mostly of rows which tantivy has dropped since is
    read anew. Where documents are replaced again and again, lists would grow without end."""
    known = view.postings.get((name, term)) or Postings.none()
    if known.end < view.end:
        if len(known.rows) > STALE * view.frequency(name, term):
            known = Postings.none()
        known = known.joined(_read_postings(view, members, name, term, known.end), view.end)
        view.postings.put((name, term), known)
    return known


def _read_postings(view: KeywordView, members: Members, name: str, term: str, first: int) -> Postings:
    """… in the rows from ``first`` on."""
    from tantivy import FieldType, Query

    if not first:
        return _search_postings(view, members, name, term, None)
    later = Query.range_query(view.schema, "row", FieldType.Integer, lower_bound=first, upper_bound=view.end)
    return _search_postings(view, members, name, term, later)


def postings_among(view: KeywordView, members: Members, name: str, term: str, rows: Keys) -> Postings:
    """… in some rows alone: not to be cached."""
    return _search_postings(view, members, name, term, _any_of(view.schema, rows))


def _search_postings(view: KeywordView, members: Members, name: str, term: str, among: Any | None) -> Postings:
    from tantivy import Occur, Query

    with TantivyErrors():
        number = view.frequency(name, term)
        query = Query.term_query(view.schema, name, term, "freq")
        if not number:
            return Postings.none()
        searched = query
        if among is not None:
            searched = Query.boolean_query([(Occur.Must, query), (Occur.Must, Query.const_score_query(among, 0.0))])
        raw, addresses, rows = hits_of(view, searched, number)
        if not addresses:
            return Postings.none()
        average = view.average(name, term)
    return members.postings(name, rows, raw / view.rarity(name, term), average)


def count_not_deleted(view: KeywordView, name: str, term: str, among: Keys | None = None) -> int:
    """In how many entries a term occurs that are not deleted in tantivy; of these rows, if any are given."""
    from tantivy import Occur, Query

    if among is None and view.searcher.num_docs == view.documents:
        return view.frequency(name, term)
    with TantivyErrors():
        query = Query.const_score_query(Query.term_query(view.schema, name, term, "freq"), 0.0)
        if among is not None:
            query = Query.boolean_query([(Occur.Must, query), (Occur.Must, _any_of(view.schema, among))])
        return int(view.searcher.search(query, 1, count=True).count)


def exact_times(view: KeywordView, name: str, term: str, address: Any) -> int:
    """How often a term occurs in an entry, however often that is."""
    from tantivy import Query

    with TantivyErrors():
        explained = json.loads(
            Query.term_query(view.schema, name, term, "freq").explain(view.searcher, address).to_json()
        )
    written: float = explained["details"][-1]["details"][0]["value"]
    return round(written / REPEATED)


def _any_of(schema: Any, rows: Keys) -> Any:
    """A query for a few rows, each a term of its own: of 200 rows among 100,000 it takes 1 ms, as a set 3."""
    from tantivy import Occur, Query

    return Query.boolean_query([(Occur.Should, Query.term_query(schema, "row", row, "basic")) for row in rows.tolist()])


# ── among the documents of a population ──────────────────────────────────────────────────────────


def match_within(
    view: KeywordView,
    terms: Terms,
    limit: int,
    require: Require,
    gram_weight: float,
    members: Members,
    allowed: NDArray[np.bool_] | None,
    bm25: Bm25 = BM25,
) -> Matched:
    """`match` as if there were no other rows than these members: every number in it is counted among them."""
    found = match_among(members, partial(postings, view, members), terms, limit, require, gram_weight, allowed, bm25)
    return Matched(*found)


def count_within(view: KeywordView, terms: Terms, members: Members) -> TermCounts:
    """In how many of the members each term occurs."""
    postings_of = partial(postings, view, members)
    words = {word: len(among(members, postings_of, ("words", word)).rows) for word in distinct(terms.words)}
    grams = {gram: len(among(members, postings_of, ("grams", gram)).rows) for gram in distinct(terms.grams)}
    return TermCounts(members.entries, words, grams)


def is_counted_at_once(view: KeywordView, terms: Terms, members: Members) -> bool:
    """Whether where these terms occur among the members is known, or that they occur nowhere."""
    wanted = (*(("words", word) for word in terms.words), *(("grams", gram) for gram in terms.grams))
    return all(members.postings_of.get(term) is not None or not view.frequency(*term) for term in wanted)
