"""Searching the example library: one table, several side by side, by falling thresholds, from a question in words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from qianxun.core.errors import BadQuery, NotFound
from qianxun.core.types import Vector
from qianxun.examples.formatting import RetrievedExample, format_retrieved_examples
from qianxun.examples.revision import LibraryWatch
from qianxun.examples.rows import ANY_EXAMPLE, ExampleFilter, dimension_of, said_plainly
from qianxun.examples.schema import DEFAULT_TABLE_NAMES
from qianxun.examples.search.cache import KeptAnswers, key_of
from qianxun.examples.search.exact import ExactSearch
from qianxun.examples.search.intent import tables_for
from qianxun.examples.search.keyword_boost import KeywordIndexes, lifted
from qianxun.examples.search.pgvector import PgvectorSearch
from qianxun.examples.search.ranking import (
    GLOBAL_TOP_K,
    FoundExample,
    merge_and_rank_results,
    quality_filter,
    valid_results,
)
from qianxun.examples.store import ExampleStore

TOP_K_PER_TABLE: Final = 5
SIMILARITY_THRESHOLD: Final = 0.7
MIN_RESULTS: Final = 5
LOWER_THRESHOLDS: Final = (0.6, 0.5)  # where too few are found; the last is the floor: below it nothing is alike
RETRIEVAL_CONFIG: Final[Mapping[str, float]] = MappingProxyType(
    {
        "top_k_per_table": TOP_K_PER_TABLE,
        "global_top_k": GLOBAL_TOP_K,
        "similarity_threshold": SIMILARITY_THRESHOLD,
    }
)
MOST_RESULTS: Final = 1000
LONGEST_QUERY: Final = 20_000  # characters
TABLES_AT_ONCE: Final = 8  # searches of tables that one library runs side by side, and connections they take


class NearestSearch(Protocol):
    """How one database finds the examples nearest to a vector."""

    def nearest(
        self, source: str, vector: Vector, limit: int, threshold: float, where: ExampleFilter = ANY_EXAMPLE
    ) -> list[FoundExample]:
        """Of the ``limit`` nearest those that are at least so similar, best first."""

    def of_ids(self, source: str, vector: Vector, ids: Sequence[int]) -> list[FoundExample]:
        """These examples, as far as they are there, most similar first."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How a library is searched: what `retrieve` asks for, and what every search does beyond the plain one."""

    top_k_per_table: int = TOP_K_PER_TABLE
    global_top_k: int = GLOBAL_TOP_K
    similarity_threshold: float = SIMILARITY_THRESHOLD
    min_results: int = MIN_RESULTS  # with fewer the threshold is lowered: .6, then .5
    by_intent: bool = False  # where no tables are named: only those that the question seems meant for
    hybrid: bool = False  # words count beside vectors
    cache_seconds: float = 0.0  # how long an answer is kept; 0: not at all
    cache_entries: int = 1000
    statement_seconds: float = 10.0  # after which PostgreSQL gives a search up


PLAIN: Final = SearchSettings()


class ExampleLibrary:
    """One library, searched. Safe under threads; to be closed.

    ``executor`` runs the searches of several tables side by side on PostgreSQL; without one it has its own threads.
    """

    def __init__(
        self, store: ExampleStore, settings: SearchSettings = PLAIN, *, executor: Executor | None = None
    ) -> None:
        self.store, self.settings = store, settings
        self._watch = LibraryWatch(store)
        self._is_exact = store.engine.dialect.name != "postgresql"
        self._near: NearestSearch = (
            ExactSearch(store, self._watch) if self._is_exact else PgvectorSearch(store, settings.statement_seconds)
        )
        self._words = KeywordIndexes(store, self._watch)
        self._kept = KeptAnswers(settings.cache_seconds, settings.cache_entries)
        self._owns_executor = executor is None
        self._executor = executor or ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="qianxun-examples")
        self._preparing = threading.Lock()

    def close(self) -> None:
        """Ends what the library itself began; the database is its owner's."""
        self._watch.close()
        if self._owns_executor:
            self._executor.shutdown(wait=False, cancel_futures=True)

    # ── by vector ────────────────────────────────────────────────────────────────────────────────

    def search_in_table(
        self,
        table_name: str,
        query_embedding: ArrayLike,
        top_k: int = TOP_K_PER_TABLE,
        threshold: float = SIMILARITY_THRESHOLD,
        *,
        where: ExampleFilter = ANY_EXAMPLE,
    ) -> list[FoundExample]:
        """Of the ``top_k`` nearest those at least so similar, most similar first. Raises NotFound, BadQuery."""
        (source,) = self.sources([table_name])
        with said_plainly():
            return self._near.nearest(source, self._vector(query_embedding), _bounded(top_k), float(threshold), where)

    def multi_table_search(
        self,
        query_embedding: ArrayLike,
        table_names: Sequence[str] | None = None,
        top_k_per_table: int = TOP_K_PER_TABLE,
        similarity_threshold: float = SIMILARITY_THRESHOLD,
        *,
        where: ExampleFilter = ANY_EXAMPLE,
    ) -> list[FoundExample]:
        """All tables side by side, merged, most similar first, at most 15."""
        sources = self.sources(table_names)
        asked = _Asked(self._vector(query_embedding), sources, top_k_per_table, where)
        return _best(self._gathered(asked, similarity_threshold), similarity_threshold, GLOBAL_TOP_K)

    def search_with_fallback(
        self,
        query_embedding: ArrayLike,
        table_names: Sequence[str] | None = None,
        min_results: int = MIN_RESULTS,
        *,
        top_k_per_table: int = TOP_K_PER_TABLE,
        where: ExampleFilter = ANY_EXAMPLE,
    ) -> list[FoundExample]:
        """By the first of the thresholds .7, .6, .5 that lets in enough; where none does, what the last let in."""
        sources = self.sources(table_names)
        asked = _Asked(self._vector(query_embedding), sources, top_k_per_table, where)
        return self._fallen_back(asked, SIMILARITY_THRESHOLD, min_results, GLOBAL_TOP_K)

    # ── by words ─────────────────────────────────────────────────────────────────────────────────

    def vector_db_search(
        self,
        query_text: str,
        keywords: Sequence[str] | None = None,
        top_k: int = GLOBAL_TOP_K,
        similarity_threshold: float = SIMILARITY_THRESHOLD,
        table_names: Sequence[str] | None = None,
        *,
        min_results: int | None = None,
        top_k_per_table: int = TOP_K_PER_TABLE,
        where: ExampleFilter = ANY_EXAMPLE,
    ) -> list[RetrievedExample]:
        """The examples that help to answer a question, most similar first.

        Where .7 lets in fewer than five, .6 and .5 are tried; a threshold of the caller's own is kept to, unless
        ``min_results`` asks for more. Raises BadQuery, NotFound, ModelError, or what the database raises.
        """
        keywords = (keywords,) if isinstance(keywords, str) else tuple(keywords or ())
        text = enhanced(query_text, keywords)
        if table_names is None and self.settings.by_intent:
            table_names = tables_for(query_text)
        sources = self.sources(table_names)
        if min_results is None:
            min_results = MIN_RESULTS if similarity_threshold == SIMILARITY_THRESHOLD else 0
        per_table = max(top_k_per_table, ceil(_bounded(top_k) / max(len(sources), 1)))
        depends = (top_k, similarity_threshold, min_results, per_table, where)

        def search() -> list[RetrievedExample]:
            vector = self._vector(self.store.model.embed_query(text))
            asked = _Asked(vector, sources, per_table, where, text)
            return format_retrieved_examples(self._fallen_back(asked, similarity_threshold, min_results, top_k))

        return self._kept_or(search, query_text, keywords, sources, depends)

    def retrieve(self, query_text: str, keywords: Sequence[str] | None = None) -> list[RetrievedExample]:
        """`vector_db_search` as the library's settings have it."""
        told = self.settings
        return self.vector_db_search(
            query_text,
            keywords,
            told.global_top_k,
            told.similarity_threshold,
            min_results=told.min_results,
            top_k_per_table=told.top_k_per_table,
        )

    def sources(self, table_names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Categories by their own names or those of their tables, each once. Raises NotFound for any other."""
        named = DEFAULT_TABLE_NAMES if table_names is None else table_names
        if isinstance(named, str):
            raise BadQuery("table_names 应为表名的列表", hint=f"例如 [{named!r}]")
        self._prepare()
        known = {f"{self.store.prefix}{name}": name for name in DEFAULT_TABLE_NAMES}
        known |= {name: name for name in DEFAULT_TABLE_NAMES}
        for name in named:
            if name not in known:
                raise NotFound(f"示例库里没有表 {name!r}", hint=f"可用：{'、'.join(DEFAULT_TABLE_NAMES)}")
        return tuple(dict.fromkeys(known[name] for name in named))

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        """On the first search: the tables are there, and of the model that will be asked."""
        with self._preparing, said_plainly():
            self.store.prepare()

    def _fallen_back(self, asked: _Asked, start: float, min_results: int, top_k: int) -> list[FoundExample]:
        lower = [threshold for threshold in LOWER_THRESHOLDS if threshold < start] if min_results > 0 else []
        # The nearest of each table are the same under every threshold: asked for once, they are held against all.
        gathered = self._gathered(asked, min([start, *lower]))
        best: list[FoundExample] = []
        for threshold in (start, *lower):
            best = _best(gathered, threshold, top_k)
            if len(best) >= min(min_results, top_k):
                break
        return best

    def _gathered(self, asked: _Asked, threshold: float) -> list[FoundExample]:
        """Of every table its nearest, in the order of the tables; one that fails fails the search."""
        if self._is_exact or len(asked.sources) < 2:  # one process would only get in its own way
            return [row for source in asked.sources for row in self._of_table(source, asked, threshold)]
        running = [self._executor.submit(self._of_table, source, asked, threshold) for source in asked.sources]
        try:
            return [row for future in running for row in future.result()]
        finally:
            for future in running:
                if not future.done():  # another has failed: nobody waits for this one
                    future.cancel()

    def _of_table(self, source: str, asked: _Asked, threshold: float) -> list[FoundExample]:
        limit = _bounded(asked.per_table)
        with said_plainly():
            return self._found_in(source, asked, limit, threshold)

    def _found_in(self, source: str, asked: _Asked, limit: int, threshold: float) -> list[FoundExample]:
        near = self._near.nearest(source, asked.vector, limit, threshold, asked.where)
        if not self.settings.hybrid or not asked.text:
            return near
        matching = dict(self._words.of(source).match(asked.text, limit))
        missed = sorted(set(matching) - {row["id"] for row in near})
        others = self._near.of_ids(source, asked.vector, missed) if missed else []
        others = [row for row in others if asked.where.passes(row["tags"], row["quality_grade"])]
        return [row for row in lifted([*near, *others], matching) if row["similarity"] >= threshold]

    def _kept_or(
        self,
        search: Callable[[], list[RetrievedExample]],
        query_text: str,
        keywords: tuple[str, ...],
        sources: tuple[str, ...],
        depends: tuple[Any, ...],
    ) -> list[RetrievedExample]:
        if self.settings.cache_seconds <= 0:
            return search()
        with said_plainly():
            revisions = self._watch.revisions(sources)
        key = key_of(query_text, keywords, sources, revisions, self.store.model.name, depends)
        answer = self._kept.get(key)
        if answer is None:
            answer = search()
            self._kept.put(key, answer)
        return answer

    def _vector(self, given: ArrayLike) -> Vector:
        """Raises BadQuery for what is no vector of the library's dimension."""
        try:
            vector = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise BadQuery("查询向量应为一列数", hint="用示例库的模型向量化问题") from error
        dimension = dimension_of(next(iter(self.store.tables.values())))
        if vector.shape != (dimension,):
            raise BadQuery(f"查询向量应为 {dimension} 维，而不是 {vector.shape}", hint="用示例库的模型向量化问题")
        if not np.isfinite(vector).all() or not vector.any():
            raise BadQuery("查询向量全为零，或含有非数", hint="检查向量模型")
        return vector


@dataclass(frozen=True, slots=True)
class _Asked:
    vector: Vector
    sources: tuple[str, ...]
    per_table: int
    where: ExampleFilter = ANY_EXAMPLE
    text: str = field(default="", repr=False)


def enhanced(query_text: str, keywords: Sequence[str] | None = None) -> str:
    """The question with the keywords behind it. Raises BadQuery where there is nothing to search for."""
    text = (f"{query_text} {' '.join(keywords)}" if keywords else query_text).strip()
    if not text:
        raise BadQuery("没有可检索的文字", hint="query_text 与 keywords 至少给一个")
    if len(text) > LONGEST_QUERY:
        raise BadQuery(f"问题有 {len(text)} 个字符，太长了", hint=f"至多 {LONGEST_QUERY} 个字符")
    return text


def _best(gathered: Sequence[FoundExample], threshold: float, top_k: int) -> list[FoundExample]:
    """Ranked and without doubles first, then by grade, then cut: the filter is to see everything that was found."""
    similar = [row for row in valid_results(gathered) if row["similarity"] >= threshold]
    ranked = merge_and_rank_results(similar, len(similar))
    return quality_filter(ranked, max(top_k, GLOBAL_TOP_K))[:top_k]


def _bounded(top_k: int) -> int:
    if not 1 <= top_k <= MOST_RESULTS:
        raise BadQuery(f"top_k 应在 1 到 {MOST_RESULTS} 之间，而不是 {top_k}", hint="改用范围内的数")
    return int(top_k)
