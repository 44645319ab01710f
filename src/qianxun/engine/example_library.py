"""The example library of the settings: in the database of record, with the settings' embedding model.

The functions without a store search it under the names of the seed. Nothing is opened before first use; callers with
a store or an engine of their own make an `ExampleLibrary`.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sqlalchemy import Connection, inspect

from qianxun.core.errors import BadSettings
from qianxun.core.ports import EmbeddingModel, nothing
from qianxun.engine.admin.database import make_folder
from qianxun.engine.embedding_models import NO_MODEL, Embeddings, open_model
from qianxun.engine.model_catalog import open_registry
from qianxun.engine.settings import Settings, load
from qianxun.engine.storage import connection_options, database_url
from qianxun.examples.importing import Database, import_file, insert_examples, store_over
from qianxun.examples.insert import Watch
from qianxun.examples.library import (
    MIN_RESULTS,
    SIMILARITY_THRESHOLD,
    TABLES_AT_ONCE,
    TOP_K_PER_TABLE,
    SearchSettings,
)
from qianxun.examples.library import ExampleLibrary as ExampleLibrary
from qianxun.examples.results import GLOBAL_TOP_K, FoundExample
from qianxun.examples.results import RetrievedExample as RetrievedExample
from qianxun.examples.schema import DEFAULT_TABLE_NAMES
from qianxun.examples.store import ExampleStore, no_model
from qianxun.models.registry import Registry
from qianxun.models.threads import Lane as Lane
from qianxun.models.threads import ModelThreads
from qianxun.records import Records
from qianxun.records.database.open import connect, for_writing
from qianxun.records.database.postgres import BACKEND, create_schema, wait_at_most

_lock = threading.Lock()
_opened = ExitStack()
_default: ExampleLibrary | None = None


def example_store(settings: Settings, records: Records, embeddings: Embeddings, registry: Registry) -> ExampleStore:
    """The library in the records' database. `ExampleStore.prepare` makes its tables."""
    model = embeddings.get(*embeddings.choose(None, registry), registry)
    schema = settings.records.schema if records.engine.dialect.name == BACKEND else ""
    writing = partial(_writing, records, schema) if records.engine.dialect.name == BACKEND else records.writing
    if records.acknowledged is None and records.engine.dialect.name != BACKEND:
        writing = for_writing(records.engine).begin  # by itself a library may be there before the records' tables
    return ExampleStore(
        records.engine,
        settings.examples.prefix,
        model,
        writing=writing,
        schema=schema,
        more_tables=more_tables(settings),
    )


@contextmanager
def _writing(records: Records, schema: str) -> Iterator[Connection]:
    """On a server an import does not block the records' writers, and may take its time over an index."""
    with records.engine.begin() as connection:
        wait_at_most(connection, None)
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        if schema and not inspect(connection).has_schema(schema):
            create_schema(connection)
        yield connection


def example_library(store: ExampleStore, settings: Settings) -> ExampleLibrary:
    """The examples of a store, such as an engine's, searched a few tables at once."""
    return ExampleLibrary(store, search_settings(settings), executor=Lane("examples", TABLES_AT_ONCE))


@contextmanager
def open_examples(settings: Settings, models: Mapping[str, Any] | None = None) -> Iterator[ExampleStore]:
    """The library by itself, also while a service owns the data folder: it uses only the database."""
    if not settings.records.url:
        make_folder(settings)
    records = Records(connect(database_url(settings), connection_options(settings)))
    embeddings = Embeddings(settings, models or {})
    threads = ModelThreads()
    registry = open_registry(settings, records, threads)
    try:
        yield example_store(settings, records, embeddings, registry)
    finally:
        threads.shutdown()
        registry.clients.close()
        embeddings.close()
        records.close()


def import_from_excel(
    excel_path: str | Path,
    db_conn: Database,
    *,
    model: EmbeddingModel | None = None,
    prefix: str | None = None,
    skip_bad: bool = False,
    watch: Watch = nothing,
) -> dict[str, Any]:
    """Imports a workbook (or a .json file) into the library at ``db_conn``. Returns the outcome as plain values.

    The model and the prefix are the settings' by default. With bad rows, which are listed with sheet, row and reason,
    nothing is stored unless ``skip_bad`` lets the others in.
    """
    settings = load()
    prefix = settings.examples.prefix if prefix is None else prefix
    with store_over(db_conn, model or get_embedding_model(), prefix, more_tables(settings)) as store:
        return import_file(excel_path, store, skip_bad=skip_bad, watch=watch).as_dict()


def _inserter(category: str) -> Callable[..., int]:
    def insert(
        examples: Sequence[Mapping[str, Any]], db_conn: Database, model: EmbeddingModel, *, prefix: str | None = None
    ) -> int:
        """`insert_examples` of one category, under the settings' prefix if none is given. Returns how many."""
        chosen = load().examples.prefix if prefix is None else prefix
        return insert_examples(category, examples, db_conn, model, chosen)

    insert.__name__ = insert.__qualname__ = f"insert_{category}"
    return insert


insert_qa_examples = _inserter("qa_examples")
insert_record_examples = _inserter("record_examples")
insert_query_examples = _inserter("query_examples")
insert_greeting_examples = _inserter("greeting_examples")


@lru_cache(maxsize=1)
def get_embedding_model() -> EmbeddingModel:
    """The model of the settings, opened once in a process. Raises ModelUnavailable if there is none."""
    settings = load()
    if settings.vectorization.model == NO_MODEL:
        raise no_model()
    return open_model(settings, settings.vectorization.model)


# ── searching the library of the settings ────────────────────────────────────────────────────────


def search_settings(settings: Settings) -> SearchSettings:
    chosen = {**asdict(settings.examples), "tables": tuple(_counts(settings))}
    del chosen["prefix"]
    return SearchSettings(**chosen, counts={name: count for name, count in _counts(settings).items() if count})


def more_tables(settings: Settings) -> tuple[str, ...]:
    """Those of the settings beside the four."""
    return tuple(name for name in _counts(settings) if name not in DEFAULT_TABLE_NAMES)


def _counts(settings: Settings) -> dict[str, int]:
    """Table → results of it, 0 where the settings say no number. Raises BadSettings."""
    counts: dict[str, int] = {}
    for written in settings.examples.tables:
        name, _, count = (part.strip() for part in written.partition("="))
        if count and not (count.isascii() and count.isdigit() and int(count) > 0):
            raise BadSettings(
                f"设置 examples.tables 的 {written!r} 不对", hint="写成 policy_examples 或 policy_examples=8"
            )
        counts[name] = int(count or 0)
    return counts


@contextmanager
def open_library(settings: Settings, models: Mapping[str, Any] | None = None) -> Iterator[ExampleLibrary]:
    """The library of the settings, also while a service owns the data folder."""
    with open_examples(settings, models) as store:
        library = ExampleLibrary(store, search_settings(settings))
        try:
            yield library
        finally:
            library.close()


def default_library() -> ExampleLibrary:
    """That of the settings in force on first use; closed by `close_default_library`."""
    global _default
    with _lock:
        if _default is None:
            _default = _opened.enter_context(open_library(load()))
            atexit.register(close_default_library)
        return _default


def close_default_library() -> None:
    """The next search reads the settings again."""
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
