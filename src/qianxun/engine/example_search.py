"""The example library of the settings, searched by the seed's bare names.

Nothing is opened before it is first asked for. Who has a store or an engine of their own makes an `ExampleLibrary`.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from numpy.typing import ArrayLike

from qianxun.engine.example_library import open_examples
from qianxun.engine.settings import Settings, load
from qianxun.examples.formatting import RetrievedExample
from qianxun.examples.search.library import (
    MIN_RESULTS,
    SIMILARITY_THRESHOLD,
    TOP_K_PER_TABLE,
    ExampleLibrary,
    SearchSettings,
)
from qianxun.examples.search.ranking import GLOBAL_TOP_K, FoundExample

_lock = threading.Lock()
_opened = ExitStack()
_default: ExampleLibrary | None = None


def search_settings(settings: Settings) -> SearchSettings:
    told = settings.examples
    return SearchSettings(
        top_k_per_table=told.top_k_per_table,
        global_top_k=told.global_top_k,
        similarity_threshold=told.similarity_threshold,
        min_results=told.min_results,
        by_intent=told.by_intent,
        hybrid=told.hybrid,
        cache_seconds=told.cache_seconds,
    )


@contextmanager
def open_library(settings: Settings, models: Mapping[str, Any] | None = None) -> Iterator[ExampleLibrary]:
    """The library that the settings mean, also beside a service that owns the data folder."""
    with open_examples(settings, models) as store:
        library = ExampleLibrary(store, search_settings(settings))
        try:
            yield library
        finally:
            library.close()


def default_library() -> ExampleLibrary:
    """The one of the settings in force when it was first asked for; `close_default_library` forgets it."""
    global _default
    with _lock:
        if _default is None:
            _default = _opened.enter_context(open_library(load()))
            atexit.register(close_default_library)
        return _default


def close_default_library() -> None:
    """The next search reads the settings anew."""
    global _default
    with _lock:
        _default = None
        _opened.close()
        atexit.unregister(close_default_library)


def search_in_table(
    table_name: str,
    query_embedding: ArrayLike,
    top_k: int = TOP_K_PER_TABLE,
    threshold: float = SIMILARITY_THRESHOLD,
) -> list[FoundExample]:
    """`ExampleLibrary.search_in_table` of the library of the settings."""
    return default_library().search_in_table(table_name, query_embedding, top_k, threshold)


def multi_table_search(
    query_embedding: ArrayLike,
    table_names: Sequence[str] | None = None,
    top_k_per_table: int = TOP_K_PER_TABLE,
    similarity_threshold: float = SIMILARITY_THRESHOLD,
) -> list[FoundExample]:
    """`ExampleLibrary.multi_table_search` of the library of the settings."""
    return default_library().multi_table_search(query_embedding, table_names, top_k_per_table, similarity_threshold)


def search_with_fallback(
    query_embedding: ArrayLike, table_names: Sequence[str] | None = None, min_results: int = MIN_RESULTS
) -> list[FoundExample]:
    """`ExampleLibrary.search_with_fallback` of the library of the settings."""
    return default_library().search_with_fallback(query_embedding, table_names, min_results)


def vector_db_search(
    query_text: str,
    keywords: Sequence[str] | None = None,
    top_k: int = GLOBAL_TOP_K,
    similarity_threshold: float = SIMILARITY_THRESHOLD,
    table_names: Sequence[str] | None = None,
) -> list[RetrievedExample]:
    """`ExampleLibrary.vector_db_search` of the library of the settings."""
    return default_library().vector_db_search(query_text, keywords, top_k, similarity_threshold, table_names)
