"""Searching the example library: one table, several in parallel, with falling thresholds, by vector or by text."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from qianxun.core.errors import BadQuery, NotFound
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Vector
from qianxun.examples.exact import ExactSearch
from qianxun.examples.keywords import KeywordIndexes, boosted
from qianxun.examples.pgvector import PgvectorSearch
from qianxun.examples.results import (
    ANY_EXAMPLE,
    GLOBAL_TOP_K,
    ExampleFilter,
    FoundExample,
    RetrievedExample,
    dialogue,
    format_retrieved_examples,
    merge_and_rank_results,
    quality_filter,
    valid_results,
)
from qianxun.examples.revision import LibraryWatch
from qianxun.examples.schema import DEFAULT_TABLE_NAMES
from qianxun.examples.store import ExampleStore, dimension_of, search_errors

TOP_K_PER_TABLE: Final = 5
SIMILARITY_THRESHOLD: Final = 0.7
MIN_RESULTS: Final = 5
LOWER_THRESHOLDS: Final = (0.6, 0.5)  # if too few are found; below the last nothing is similar
RETRIEVAL_CONFIG: Final[Mapping[str, float]] = MappingProxyType(
    {
        "top_k_per_table": TOP_K_PER_TABLE,
        "global_top_k": GLOBAL_TOP_K,
        "similarity_threshold": SIMILARITY_THRESHOLD,
    }
)
MOST_RESULTS: Final = 1000
LONGEST_QUERY: Final = 20_000  # characters
TABLES_AT_ONCE: Final = 8  # searches of tables in parallel, each with a connection
# The words by which a question is meant for a table: a rule, not a model.
_INTENTS: Final = {
    "qa_examples": re.compile(
        r"[吗呢？?]|怎么|怎样|如何|为什么|为何|什么|能不能|可不可以|可以.{0,8}(吃|喝|用|做)|是不是|要不要|该不该"
        r"|多久|注意|会不会|有没有(事|关系|影响)"
    ),
    "record_examples": re.compile(
        r"记录|记一下|记下|记上|帮我记|登记|录入|添加|补记|改成"
        r"|(吃了|服了|服用了|打了|量了|测了|血压是?|血糖是?|体重是?|心率是?).{0,8}\d"
    ),
    "query_examples": re.compile(
        r"查询|查一下|查查|看一下我|看看我|我的.{0,10}(记录|数据|情况|趋势)|统计|平均|汇总|趋势"
        r"|(最近|上周|这周|本周|上个月|这个月|本月|昨天|今年).{0,12}(记录|数据|情况|多少|几次|怎么样|血压|血糖|吃了)"
    ),
    "greeting_examples": re.compile(
        r"^\W*(你好|您好|早上好|早安|上午好|中午好|下午好|晚上好|晚安|嗨|哈喽|hi\b|hello\b|在吗|在不在)"
        r"|谢谢|多谢|再见|拜拜|辛苦了|你是谁|你叫什么",
        re.IGNORECASE,
    ),
}


class NearestSearch(Protocol):
    """Nearest-neighbour search of one database."""

    def nearest(
        self, source: str, vector: Vector, limit: int, threshold: float, where: ExampleFilter = ANY_EXAMPLE
    ) -> list[FoundExample]:
        """Of the ``limit`` nearest, those with at least this similarity, best first."""

    def rank_ids(self, source: str, vector: Vector, ids: Sequence[int]) -> list[FoundExample]:
        """Those of the examples that exist, most similar first."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The parameters of `retrieve`, and options of every search."""

    top_k_per_table: int = TOP_K_PER_TABLE
    global_top_k: int = GLOBAL_TOP_K
    similarity_threshold: float = SIMILARITY_THRESHOLD
    min_results: int = MIN_RESULTS  # with fewer, the threshold is lowered to .6, then .5
    by_intent: bool = False  # without table names: only tables that fit the question
    hybrid: bool = False  # words and vectors
    cache_seconds: float = 0.0  # 0: no cache
    cache_entries: int = 1000
    statement_seconds: float = 10.0  # statement timeout of PostgreSQL
    tables: tuple[str, ...] = ()  # searched where no names are given; (): all
    counts: Mapping[str, int] = field(default_factory=dict)  # table → results of it, where not `top_k_per_table`


PLAIN: Final = SearchSettings()


class ExampleLibrary:
    """Searches of one library. Thread-safe; close it when done.

    ``executor`` runs the searches of several tables in parallel on PostgreSQL; by default it has its own threads.
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
        self._keywords = KeywordIndexes(store, self._watch)
        self._cache = LRUCache[str, list[RetrievedExample]](settings.cache_entries)
        self._owns_executor = executor is None
        self._executor = executor or ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="qianxun-examples")
        self._preparing = threading.Lock()

    def close(self) -> None:
        """Closes what the library opened; the database belongs to the caller."""
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
        """Of the ``top_k`` nearest, those above the threshold, most similar first. Raises NotFound or BadQuery."""
        (source,) = self.sources([table_name])
        with search_errors():
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
        """All tables in parallel, merged, most similar first, at most 15."""
        query = _Query(self._vector(query_embedding), self._limits(table_names, top_k_per_table), where)
        return _best(self._gathered(query, similarity_threshold), similarity_threshold, GLOBAL_TOP_K)

    def search_with_fallback(
        self,
        query_embedding: ArrayLike,
        table_names: Sequence[str] | None = None,
        min_results: int = MIN_RESULTS,
        *,
        top_k_per_table: int = TOP_K_PER_TABLE,
        where: ExampleFilter = ANY_EXAMPLE,
    ) -> list[FoundExample]:
        """With the first of the thresholds .7, .6, .5 that gives enough results, else with the last."""
        query = _Query(self._vector(query_embedding), self._limits(table_names, top_k_per_table), where)
        return self._with_fallback(query, SIMILARITY_THRESHOLD, min_results, GLOBAL_TOP_K)

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
        """The examples that are similar to a question, most similar first.

        If .7 gives fewer than five, .6 and .5 are tried; another threshold is used as it is, unless ``min_results`` is
        given. Raises BadQuery, NotFound, ModelError, or what the database raises.
        """
        keywords = (keywords,) if isinstance(keywords, str) else tuple(keywords or ())
        text = enhanced(query_text, keywords)
        if table_names is None and self.settings.by_intent:
            table_names = tables_for(query_text, self._default_sources())
        sources = self.sources(table_names)
        if min_results is None:
            min_results = MIN_RESULTS if similarity_threshold == SIMILARITY_THRESHOLD else 0
        per_table = max(top_k_per_table, ceil(_bounded(top_k) / max(len(sources), 1)))
        options = (top_k, similarity_threshold, min_results, per_table, where)

        def search() -> list[RetrievedExample]:
            vector = self._vector(self.store.model.embed_query(text))
            query = _Query(vector, self._limits(sources, per_table), where, text)
            found = self._with_fallback(query, similarity_threshold, min_results, top_k)
            return format_retrieved_examples([{**row, "content": dialogue(row)} for row in found])

        if self.settings.cache_seconds <= 0:
            return search()
        with search_errors():
            revisions = self._watch.revisions(sources)
        key = cache_key(query_text, keywords, sources, revisions, self.store.model.name, options)
        cached = self._cache.get(key)
        if cached is None:
            found = search()
            self._cache.put(key, deepcopy(found), self.settings.cache_seconds)
            return found
        return deepcopy(cached)  # callers may change their results

    def retrieve(self, query_text: str, keywords: Sequence[str] | None = None) -> list[RetrievedExample]:
        """`vector_db_search` with the library's settings."""
        settings = self.settings
        return self.vector_db_search(
            query_text,
            keywords,
            settings.global_top_k,
            settings.similarity_threshold,
            min_results=settings.min_results,
            top_k_per_table=settings.top_k_per_table,
        )

    def sources(self, table_names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Distinct categories, by their own names or those of their tables. Raises NotFound."""
        named = self._default_sources() if table_names is None else table_names
        if isinstance(named, str):
            raise BadQuery("table_names 应为表名的列表", hint=f"例如 [{named!r}]")
        self._prepare()
        known = {f"{self.store.prefix}{name}": name for name in self.store.tables}
        known |= {name: name for name in self.store.tables}
        for name in named:
            if name not in known:
                raise NotFound(
                    f"示例库里没有表 {name!r}",
                    hint=f"可用：{'、'.join(self.store.tables)}；别的表写进设置 examples.tables",
                )
        return tuple(dict.fromkeys(known[name] for name in named))

    def _default_sources(self) -> tuple[str, ...]:
        return self.settings.tables or tuple(self.store.tables)

    def _limits(self, table_names: Sequence[str] | None, per_table: int) -> dict[str, int]:
        return {name: _bounded(self.settings.counts.get(name, per_table)) for name in self.sources(table_names)}

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        """On the first search: the tables exist and are of this model."""
        with self._preparing, search_errors():
            self.store.prepare()

    def _with_fallback(self, query: _Query, start: float, min_results: int, top_k: int) -> list[FoundExample]:
        lower = [threshold for threshold in LOWER_THRESHOLDS if threshold < start] if min_results > 0 else []
        # The nearest of each table are the same for every threshold: searched once.
        gathered = self._gathered(query, min([start, *lower]))
        best: list[FoundExample] = []
        for threshold in (start, *lower):
            best = _best(gathered, threshold, top_k)
            if len(best) >= min(min_results, top_k):
                break
        return best

    def _gathered(self, query: _Query, threshold: float) -> list[FoundExample]:
        """The nearest of every table, in the order of the tables; the failure of one fails the search."""
        if self._is_exact or len(query.limits) < 2:  # threads of one process would not be faster
            return [row for source in query.limits for row in self._of_table(source, query, threshold)]
        running = [self._executor.submit(self._of_table, source, query, threshold) for source in query.limits]
        try:
            return [row for future in running for row in future.result()]
        finally:
            for future in running:
                if not future.done():  # another one has failed
                    future.cancel()

    def _of_table(self, source: str, query: _Query, threshold: float) -> list[FoundExample]:
        limit = query.limits[source]
        with search_errors():
            near = self._near.nearest(source, query.vector, limit, threshold, query.where)
            if not self.settings.hybrid or not query.text:
                return near
            matching = dict(self._keywords.of(source).match(query.text, limit))
            missed = sorted(set(matching) - {row["id"] for row in near})
            others = self._near.rank_ids(source, query.vector, missed) if missed else []
            others = [row for row in others if query.where.passes(row["tags"], row["quality_grade"])]
            return [row for row in boosted([*near, *others], matching) if row["similarity"] >= threshold]

    def _vector(self, given: ArrayLike) -> Vector:
        """Raises BadQuery unless it is a vector of the library's dimension."""
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
class _Query:
    vector: Vector
    limits: Mapping[str, int]  # table → results of it
    where: ExampleFilter = ANY_EXAMPLE
    text: str = field(default="", repr=False)


def enhanced(query_text: str, keywords: Sequence[str] | None = None) -> str:
    """The question followed by the keywords. Raises BadQuery if both are blank, or too long."""
    text = (f"{query_text} {' '.join(keywords)}" if keywords else query_text).strip()
    if not text:
        raise BadQuery("没有可检索的文字", hint="query_text 与 keywords 至少给一个")
    if len(text) > LONGEST_QUERY:
        raise BadQuery(f"问题有 {len(text)} 个字符，太长了", hint=f"至多 {LONGEST_QUERY} 个字符")
    return text


def _best(gathered: Sequence[FoundExample], threshold: float, top_k: int) -> list[FoundExample]:
    """Ranked without duplicates, filtered by grade, then cut: the filter needs everything that was found."""
    similar = [row for row in valid_results(gathered) if row["similarity"] >= threshold]
    ranked = merge_and_rank_results(similar, len(similar))
    return quality_filter(ranked, max(top_k, GLOBAL_TOP_K))[:top_k]


def _bounded(top_k: int) -> int:
    if not 1 <= top_k <= MOST_RESULTS:
        raise BadQuery(f"top_k 应在 1 到 {MOST_RESULTS} 之间，而不是 {top_k}", hint="改用范围内的数")
    return int(top_k)


def tables_for(text: str, tables: Sequence[str] = DEFAULT_TABLE_NAMES) -> tuple[str, ...]:
    """The tables that a question is meant for, in their order; all of them if none fits. One's own always may be."""
    fitting = [name for name in tables if name in _INTENTS and _INTENTS[name].search(text)]
    return tuple(name for name in tables if not fitting or name in fitting or name not in _INTENTS)


def cache_key(query_text: str, keywords: Sequence[str], *depends: Any) -> str:
    """“高血压” with the keyword “用药” differs from “高血压 用药” without one."""
    return sha256(repr((query_text, tuple(keywords), *depends)).encode("utf-8", "surrogatepass")).hexdigest()
