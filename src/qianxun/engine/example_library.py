"""The example library as the settings mean it: in the database of record, with the settings' embedding model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect

from qianxun.core.ports import EmbeddingModel
from qianxun.engine.admin.database import make_folder
from qianxun.engine.embedding_models import NO_MODEL, Embeddings, open_model
from qianxun.engine.model_catalog import open_registry
from qianxun.engine.settings import Settings, load
from qianxun.engine.storage import database_url, reach
from qianxun.examples.importing import Database, import_file, insert_examples, store_on
from qianxun.examples.store import ExampleStore, no_model
from qianxun.examples.vectors import Watch, unwatched
from qianxun.models.registry import Registry
from qianxun.models.threads import ModelThreads
from qianxun.records import Records
from qianxun.records.database.open import connect
from qianxun.records.database.postgres import BACKEND, create_schema, wait_at_most


def example_store(settings: Settings, records: Records, embeddings: Embeddings, registry: Registry) -> ExampleStore:
    """The library in the records' database. `ExampleStore.prepare` makes its tables."""
    model = embeddings.get(*embeddings.choose(None, registry), registry)
    schema = settings.records.schema if records.engine.dialect.name == BACKEND else ""
    writing = partial(_writing, records, schema) if records.engine.dialect.name == BACKEND else records.writing
    return ExampleStore(records.engine, settings.examples.prefix, model, writing=writing, schema=schema)


@contextmanager
def _writing(records: Records, schema: str) -> Iterator[Connection]:
    """On a server an import need not keep the records' writers waiting, and may take its time over an index."""
    with records.engine.begin() as connection:
        wait_at_most(connection, None)
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        if schema and not inspect(connection).has_schema(schema):
            create_schema(connection)
        yield connection


@contextmanager
def open_examples(settings: Settings, models: Mapping[str, Any] | None = None) -> Iterator[ExampleStore]:
    """The library by itself, also beside a service that owns the data folder: it takes only the database."""
    if not settings.records.url:
        make_folder(settings)
    records = Records(connect(database_url(settings), reach(settings)))
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
    watch: Watch = unwatched,
) -> dict[str, Any]:
    """A workbook (or a .json file) into the library behind ``db_conn``; answers what became of it, as plain values.

    The model and the prefix are the settings' where they are left out. With bad rows nothing is stored, unless
    ``skip_bad`` lets the others in; each of them is told with its sheet, row and reason.
    """
    prefix = load().examples.prefix if prefix is None else prefix
    store = store_on(db_conn, model or get_embedding_model(), prefix)
    return import_file(excel_path, store, skip_bad=skip_bad, watch=watch).as_dict()


def insert_qa_examples(
    examples: Sequence[Mapping[str, Any]], db_conn: Database, model: EmbeddingModel, *, prefix: str | None = None
) -> int:
    """`insert_examples` of questions and answers, under the settings' prefix where none is given."""
    return _insert("qa_examples", examples, db_conn, model, prefix)


def insert_record_examples(
    examples: Sequence[Mapping[str, Any]], db_conn: Database, model: EmbeddingModel, *, prefix: str | None = None
) -> int:
    """`insert_examples` of things to be recorded, under the settings' prefix where none is given."""
    return _insert("record_examples", examples, db_conn, model, prefix)


def insert_query_examples(
    examples: Sequence[Mapping[str, Any]], db_conn: Database, model: EmbeddingModel, *, prefix: str | None = None
) -> int:
    """`insert_examples` of questions about what was recorded, under the settings' prefix where none is given."""
    return _insert("query_examples", examples, db_conn, model, prefix)


def insert_greeting_examples(
    examples: Sequence[Mapping[str, Any]], db_conn: Database, model: EmbeddingModel, *, prefix: str | None = None
) -> int:
    """`insert_examples` of greetings, under the settings' prefix where none is given."""
    return _insert("greeting_examples", examples, db_conn, model, prefix)


def _insert(
    category: str,
    examples: Sequence[Mapping[str, Any]],
    db_conn: Database,
    model: EmbeddingModel,
    prefix: str | None,
) -> int:
    prefix = load().examples.prefix if prefix is None else prefix
    return insert_examples(category, examples, db_conn, model, prefix)


@lru_cache(maxsize=1)
def get_embedding_model() -> EmbeddingModel:
    """The model of the settings, opened once in a process. Raises ModelUnavailable where there is none."""
    settings = load()
    if settings.vectorization.model == NO_MODEL:
        raise no_model()
    return open_model(settings, settings.vectorization.model)
