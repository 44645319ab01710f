"""The keyword index of tantivy in a folder: created, opened, written, and as it is at one moment (`KeywordView`).

Entries are identified by row number; the caller knows which are dead.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from qianxun.core.system.gc_pause import paused_collection
from qianxun.core.system.shortages import shortage_of_rust
from qianxun.core.types import Keys
from qianxun.index import bm25 as scoring
from qianxun.index.bm25 import REPEATED
from qianxun.index.embedded.keywords.checksums import META, meta_checksum
from qianxun.index.embedded.keywords.saved_postings import POSTINGS, PostingLists
from qianxun.index.shared import unusable, writable

log = logging.getLogger(__name__)

# Memory of tantivy while it writes. A batch that does not fit falls into several segments, and every segment costs
# every later search (docs/decisions/0006-recall-speed.md): a chunk of 400 characters takes 13 KB.
LEAST_HEAP_BYTES, MOST_HEAP_BYTES = 15_000_000, 320_000_000
HEAP_BYTES_PER_ROW = 20_000
WRITES_AN_OPENING = 200
MANY_HITS = 2_000
CACHED_TERMS = 50_000  # terms whose frequency a view keeps


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


def hits_of(view: KeywordView, query: Any, limit: int) -> tuple[NDArray[np.float64], list[Any], Keys]:
    """Scores, addresses and rows of the best entries. Not by `zip`, and without the collector where they are many: of
    24,000 hits it took 11 ms to take apart what tantivy finds in 6, and now takes 3."""
    with paused_collection() if limit >= MANY_HITS else nullcontext():
        hits = view.searcher.search(query, limit, count=False).hits
        addresses = [address for _, address in hits]
        rows = rows_of(view, addresses)
        return np.array([score for score, _ in hits], dtype=np.float64), addresses, rows


def rows_of(view: KeywordView, addresses: Sequence[Any]) -> Keys:
    return np.array(view.searcher.fast_field_values("row", addresses) if addresses else (), dtype=np.int64)


def all_rows(view: KeywordView) -> Keys:
    """Every row in the keyword index, sorted."""
    import tantivy

    if view.searcher.num_docs == 0:
        return np.empty(0, dtype=np.int64)
    with TantivyErrors():
        _, _, rows = hits_of(view, tantivy.Query.all_query(), view.searcher.num_docs)
    return np.sort(rows)
