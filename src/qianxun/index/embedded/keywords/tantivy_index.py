"""BM25 over words and grams, on tantivy. Entries are identified by row number; the caller knows which are dead.

tantivy's table of contents (``meta.json``) names immutable files that end in their own checksum. The caller stores the
checksum of the table, so that a damaged index is recognised before tantivy opens it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from qianxun.core.system.gc_pause import paused_collection
from qianxun.core.system.shortages import shortage_of_rust
from qianxun.core.types import BM25, Bm25, Keys, TermCounts, Terms
from qianxun.index import bm25 as scoring
from qianxun.index import shared
from qianxun.index.bm25 import REPEATED, TANTIVY
from qianxun.index.embedded.checked_files import check_in_turns
from qianxun.index.embedded.keywords.population import Members, Postings, Term, among
from qianxun.index.embedded.keywords.population import match as match_among
from qianxun.index.embedded.keywords.saved_postings import POSTINGS, PostingLists
from qianxun.index.shared import SCORE_DECIMALS, Require, damage, distinct, unusable, writable

log = logging.getLogger(__name__)

# Memory of tantivy while it writes. A batch that does not fit falls into several segments, and every segment costs
# every later search (docs/decisions/0006-recall-speed.md): a chunk of 400 characters takes 13 KB.
LEAST_HEAP_BYTES, MOST_HEAP_BYTES = 15_000_000, 320_000_000
HEAP_BYTES_PER_ROW = 20_000
WRITES_AN_OPENING = 200
# So many allowed rows, times the cube root of all, are given to tantivy as a set; more are sifted from its hits. Both
# take as long at 3.5 % of 15,000 rows and at .6 % of 364,000 (docs/decisions/0032-a-million-chunks.md).
SET_PER_CUBE_ROOT = 24
LARGE = 50_000  # rows
STRETCHES = 16  # of rows after one another, as those of a tenant often are, are given as ranges
LONG = 500  # rows; fewer are looked up sooner than ranges are gone through
MANY_HITS = 2_000
CACHED_TERMS = 50_000  # terms whose frequency a view keeps
STALE = 2  # times the entries that tantivy counts: a list as long is mostly of rows that it has dropped
META = "meta.json"
CHECKED = "checked"  # tantivy leaves alone what it does not know
FOOTER_MAGIC = 1337
SCALE = (BM25.k1 + 1) / (TANTIVY.k1 + 1)  # from tantivy's scores to those of the default constants
PIECE_BYTES = 1 << 18  # of a file that are checked at a time


class Statistics(Protocol):
    """What BM25 counts over all entries."""

    @property
    def documents(self) -> int: ...

    def frequency(self, name: str, term: str) -> int:
        """In how many entries a term of a field occurs."""

    def rarity(self, name: str, term: str) -> float:
        """BM25's inverse document frequency."""


@dataclass(frozen=True, slots=True)
class KeywordView:
    """The keyword index at one moment. ``documents`` counts what its statistics count: also those that died and have
    not been merged away (`live_scores` counts without them)."""

    schema: Any
    searcher: Any
    documents: int
    _known: dict[str, dict[str, tuple[int, float]]] = field(
        default_factory=lambda: {"words": {}, "grams": {}}, repr=False, compare=False
    )
    folder: Path = Path()
    end: int = 0  # all rows below it are here, or were
    averages: dict[str, float] = field(
        default_factory=dict, repr=False, compare=False
    )  # of lengths, as tantivy has them
    # By field and term, see `population`: where a term occurs is the same for every population, and in rows that were
    # there before also for every view of a folder.
    postings: PostingLists = field(default_factory=PostingLists, repr=False, compare=False)

    def frequency(self, name: str, term: str) -> int:
        return self._weighed(name, term)[0]

    def rarity(self, name: str, term: str) -> float:
        return self._weighed(name, term)[1]

    def average(self, name: str, term: str) -> float:
        """The average length of a field, in tokens as they are written; ``term`` is one that occurs in it."""
        if name not in self.averages:
            from tantivy import Query

            query = Query.term_query(self.schema, name, term, "freq")
            ((_, address),) = self.searcher.search(query, 1, count=False).hits
            explained = json.loads(query.explain(self.searcher, address).to_json())
            self.averages[name] = explained["details"][-1]["details"][-1]["value"]
        return self.averages[name]

    def _weighed(self, name: str, term: str) -> tuple[int, float]:
        known = self._known[name]
        weighed = known.get(term)
        if weighed is None:
            count = int(self.searcher.doc_freq(name, term))
            rarity = scoring.rarity(self.documents, count)
            if len(known) >= CACHED_TERMS:
                known.clear()
            weighed = known[term] = (count, rarity)
        return weighed


@dataclass(frozen=True, slots=True)
class Matched:
    """Positions of the rows among all of them, with their scores, best first, and the highest score the query could
    have."""

    slots: Keys
    scores: NDArray[np.float64]
    ceiling: float


def _schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", indexed=True, fast=True)
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("grams", tokenizer_name="whitespace", index_option="freq")
    return builder.build()


class TantivyErrors:
    """tantivy answers damage with ValueError or OSError, or panics, which Python sees as a BaseException. Its words for
    a shortage become the system's again: that is no damage. Its own words have paths in them, and go to the log."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or not (isinstance(error, ValueError | OSError) or type(error).__name__ == "PanicException"):
            return
        log.warning("the keyword index failed: %s", error)
        raise shortage_of_rust(error) or unusable("关键词索引打不开或已损坏") from error


class Keywords:
    """The keyword index in a folder. One writer at a time; views may be searched from any thread."""

    def __init__(self, folder: Path, index: Any) -> None:
        self._folder = folder
        self._index = index
        self._index.config_reader("manual")
        self._writes = 0  # by this object of tantivy's

    @staticmethod
    def create(folder: Path) -> Keywords:
        import tantivy

        folder.mkdir()
        with TantivyErrors():
            return Keywords(folder, tantivy.Index(_schema(), path=str(folder), reuse=False))

    @staticmethod
    def open(folder: Path) -> Keywords:
        import tantivy

        with TantivyErrors():
            return Keywords(folder, tantivy.Index.open(str(folder)))

    def write(self, rows: Sequence[int], words: Sequence[str], grams: Sequence[str], purged: Sequence[int]) -> None:
        """Adds rows and deletes others in one durable commit, and waits for the merges that follow from it."""
        with self._writing(len(rows)) as writer:
            for row in purged:
                writer.delete_documents_by_term("row", row)
            for row, word, gram in zip(rows, words, grams, strict=True):
                writer.add_document(_document(row, word, gram))

    def truncate(self, next_row: int, purged: Sequence[int]) -> None:
        """Deletes what an unfinished write left: every row from ``next_row`` on, and what was to be purged."""
        import tantivy

        with self._writing(0) as writer:
            beyond = tantivy.Query.range_query(
                self._index.schema, "row", tantivy.FieldType.Integer, lower_bound=next_row, upper_bound=2**62
            )
            writer.delete_documents_by_query(beyond)
            for row in purged:
                writer.delete_documents_by_term("row", row)

    def view(self, end: int = 0, before: KeywordView | None = None) -> KeywordView:
        """What is in it by now, which are rows below ``end``. What is known from a view ``before`` is known here."""
        with TantivyErrors():
            self._index.reload()
            searcher = self._index.searcher()
        meta = json.loads((self._folder / META).read_bytes())
        documents = sum(segment["max_doc"] for segment in meta["segments"])
        is_later = before is not None and before.folder == self._folder
        lists = before.postings if before is not None and is_later else self._saved_lists()
        return KeywordView(self._index.schema, searcher, documents, folder=self._folder, end=end, postings=lists)

    def _saved_lists(self) -> PostingLists:
        return PostingLists(self._folder.with_name(POSTINGS), meta_checksum(self._folder))

    @contextmanager
    def _writing(self, size: int) -> Iterator[Any]:
        """A writer, committed at the end. It gives up its lock also after a failure: whoever has the error in hand has,
        by its traceback, the writer, and the next one would find the index locked."""
        heap = max(LEAST_HEAP_BYTES, min(HEAP_BYTES_PER_ROW * size, MOST_HEAP_BYTES))
        with TantivyErrors():
            writer = self._index.writer(heap, 1)
            try:
                yield writer
                writer.commit()
            except BaseException:
                with suppress(ValueError, OSError):  # of the same failure
                    writer.wait_merging_threads()
                raise
            writer.wait_merging_threads()
            self._let_go()

    def _let_go(self) -> None:
        """tantivy's object keeps 1.7 KB of every writer that it had: after many of them another one takes its place."""
        import tantivy

        self._writes += 1
        if self._writes >= WRITES_AN_OPENING:
            self._index, self._writes = tantivy.Index.open(str(self._folder)), 0
            self._index.config_reader("manual")


def _document(row: int, words: str, grams: str) -> Any:
    from tantivy import Document

    fields = {"row": row, "words": _repeated(words), "grams": _repeated(grams)}
    try:
        return Document.from_dict(fields)
    except ValueError:  # halves of surrogate pairs, looked for only here: next to no text has any
        return Document.from_dict(fields | {name: writable(str(fields[name])) for name in ("words", "grams")})


def _repeated(tokens: str) -> str:
    return " ".join([tokens] * REPEATED)


def meta_checksum(folder: Path) -> int:
    try:
        return zlib.crc32((folder / META).read_bytes())
    except OSError as error:
        raise damage("关键词索引缺失", error) from error


def check_files(folder: Path, *, in_turns: bool = False) -> None:
    """Compares every file that the table of contents names with its checksum; of a large index, ``in_turns``, those
    that have changed and some of the others. Raises IndexUnusable."""
    try:
        meta = json.loads((folder / META).read_bytes())
        names = [name for segment in meta["segments"] for name in _file_names(segment)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damage("关键词索引的目录已损坏", error) from error
    files = [folder / name for name in names]
    if in_turns:
        check_in_turns(files, folder / CHECKED, _require_sound)
        return
    for file in files:
        _require_sound(file)


def _require_sound(path: Path) -> None:
    if not path.is_file() or not _footer_agrees(path):
        raise unusable(f"关键词索引的 {path.name} 缺失或已损坏")


def _file_names(segment: dict[str, Any]) -> Iterator[str]:
    name = segment["segment_id"].replace("-", "")
    for suffix in ("idx", "pos", "term", "store", "fast", "fieldnorm"):
        yield f"{name}.{suffix}"
    if segment["deletes"]:
        yield f"{name}.{segment['deletes']['opstamp']}.del"


def _footer_agrees(path: Path) -> bool:
    """tantivy's footer: JSON with the checksum of what precedes it, its length, a magic number."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - 8
        if end < 0:
            return False
        file.seek(end)
        length, magic = struct.unpack("<II", file.read(8))
        if magic != FOOTER_MAGIC or length > end:
            return False
        file.seek(end - length)
        try:
            expected = json.loads(file.read(length))["crc"]
        except (ValueError, KeyError, TypeError):
            return False
        file.seek(0)
        return bool(expected == _checksum(file, end - length))


def _checksum(file: BufferedReader, size: int) -> int:
    """Of the first ``size`` bytes, through one small buffer: memory for whole files cost as much as the checksum. Not
    memory-mapped: a disk that cannot be read must be an error, not the end of the process."""
    piece = memoryview(bytearray(min(PIECE_BYTES, size)))
    checksum = 0
    while size > 0 and (count := file.readinto(piece[:size])):
        checksum = zlib.crc32(piece[:count], checksum)
        size -= count
    return checksum


def all_rows(view: KeywordView) -> Keys:
    """Every row in the keyword index, sorted."""
    import tantivy

    if view.searcher.num_docs == 0:
        return np.empty(0, dtype=np.int64)
    with TantivyErrors():
        _, _, rows = _hits(view, tantivy.Query.all_query(), view.searcher.num_docs)
    return np.sort(rows)


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
        raw, addresses, rows = _hits(view, searched, number)
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


def _hits(view: KeywordView, query: Any, limit: int) -> tuple[NDArray[np.float64], list[Any], Keys]:
    """Scores, addresses and rows of the best entries. Not by `zip`, and without the collector where they are many: of
    24,000 hits it took 11 ms to take apart what tantivy finds in 6, and now takes 3."""
    with paused_collection() if limit >= MANY_HITS else nullcontext():
        hits = view.searcher.search(query, limit, count=False).hits
        addresses = [address for _, address in hits]
        rows = rows_of(view, addresses)
        return np.array([score for score, _ in hits], dtype=np.float64), addresses, rows


def rows_of(view: KeywordView, addresses: Sequence[Any]) -> Keys:
    return np.array(view.searcher.fast_field_values("row", addresses) if addresses else (), dtype=np.int64)


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
    damping = bm25.k1 * (1 - bm25.b + bm25.b * length / float(np.float32(average)))
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


def _any_of(schema: Any, rows: Keys) -> Any:
    """A query for a few rows, each a term of its own: of 200 rows among 100,000 it takes 1 ms, as a set 3."""
    from tantivy import Occur, Query

    return Query.boolean_query([(Occur.Should, Query.term_query(schema, "row", row, "basic")) for row in rows.tolist()])


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
