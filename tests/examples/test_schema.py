"""The tables as they stand in the database, asked from its own catalogues."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import StatementError
from sqlalchemy.orm import Session

from qianxun.core.errors import BadSettings, ModelUnavailable
from qianxun.examples.schema import (
    DEFAULT_TABLE_NAMES,
    GreetingExample,
    PgVector,
    QAExample,
    QueryExample,
    RecordExample,
    models,
    vector_text,
)
from qianxun.examples.store import HEAD, MIGRATIONS, ExampleStore, downgrade, stamp_of, upgrade
from qianxun.records.database.open import connect, sqlite_url
from qianxun.records.database.server import ConnectionOptions
from qianxun.testing.scripted import HashEmbedding
from tests.examples.conftest import stored
from tests.examples.libraries import MODEL, fill

M3E = HashEmbedding(768, "m3e-base")
COLUMNS = ("id", "user_input", "agent_response", "tags", "quality_grade", "embedding", "created_at", "updated_at")


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Engine]:
    engine = connect(postgres_url)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("category", DEFAULT_TABLE_NAMES)
def test_columns_have_the_types_of_the_design(postgres: Engine, category: str) -> None:
    ExampleStore(postgres, "gd2502_", M3E).prepare()
    with postgres.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
                " WHERE attrelid = to_regclass(:name) AND attnum > 0 ORDER BY attnum"
            ),
            {"name": f"gd2502_{category}"},
        ).all()
    assert rows == [
        ("id", "integer", True),
        ("user_input", "text", True),
        ("agent_response", "text", True),
        ("tags", "text[]", False),
        ("quality_grade", "character varying(50)", False),
        ("embedding", "vector(768)", True),
        ("created_at", "timestamp with time zone", True),
        ("updated_at", "timestamp with time zone", True),
    ]


@pytest.mark.parametrize("category", DEFAULT_TABLE_NAMES)
def test_the_nearest_are_found_by_an_hnsw_index_over_cosines(postgres: Engine, category: str) -> None:
    ExampleStore(postgres, "gd2502_", M3E).prepare()
    with postgres.connect() as connection:
        method, operators, column = connection.execute(
            text(
                "SELECT am.amname, opc.opcname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " JOIN pg_am am ON am.oid = c.relam JOIN pg_opclass opc ON opc.oid = i.indclass[0]"
                " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE c.relname = :name"
            ),
            {"name": f"gd2502_{category}_embedding_idx"},
        ).one()
        default = connection.execute(
            text("SELECT column_default FROM information_schema.columns WHERE table_name = :t AND column_name = 'id'"),
            {"t": f"gd2502_{category}"},
        ).scalar()
    assert (method, operators, column) == ("hnsw", "vector_cosine_ops", "embedding")
    assert default == f"nextval('gd2502_{category}_id_seq'::regclass)"  # serial


def test_similarity_is_stored_nowhere(store: ExampleStore) -> None:
    store.prepare()
    with store.connection() as connection:
        for category in DEFAULT_TABLE_NAMES:
            there = connection.execute(text(f"SELECT * FROM gd2502_{category}")).keys()
            assert tuple(there) == tuple(store.tables[category].c.keys()) == COLUMNS


def _is_postgres(store: ExampleStore) -> bool:
    return store.engine.dialect.name == "postgresql"


def test_the_models_bear_the_names_of_the_design() -> None:
    named = {QAExample: "qa", RecordExample: "record", QueryExample: "query", GreetingExample: "greeting"}
    for model, name in named.items():
        assert model.__table__.name == f"gd2502_{name}_examples"  # type: ignore[attr-defined]
        assert model.__table__.c.embedding.type.dimension == 768  # type: ignore[attr-defined]
    assert [model.__name__ for model in named] == ["QAExample", "RecordExample", "QueryExample", "GreetingExample"]


def test_an_example_is_kept_and_read_back_by_its_model(store: ExampleStore) -> None:
    store.prepare()
    vector = MODEL.embed_passages(["你好 您好"])[0]
    example = store.models.of["greeting_examples"]
    with Session(store.engine) as session:
        session.add(
            example(user_input="你好", agent_response="您好", tags=["开场白"], quality_grade=None, embedding=vector)  # type: ignore[call-arg]
        )
        session.commit()
        (found,) = session.query(example)
        assert (found.id, found.tags, found.quality_grade) == (1, ["开场白"], None)
        assert np.array_equal(found.embedding, vector)
        assert found.created_at.tzinfo is not None
        assert found.updated_at == found.created_at


def test_a_vector_survives_its_text_form_to_the_bit() -> None:
    vector = np.random.default_rng(1).normal(size=512).astype(np.float32)
    read = np.fromstring(vector_text(vector).strip("[]"), dtype=np.float32, sep=",")
    assert np.array_equal(read, vector)


@pytest.mark.parametrize("bad", [np.zeros(63), np.zeros((1, 64)), np.full(64, np.nan)])
def test_what_is_no_vector_of_the_library_is_refused(store: ExampleStore, bad: np.ndarray) -> None:
    store.prepare()
    with store.writing() as connection, pytest.raises(StatementError, match="64 numbers"):
        connection.execute(
            store.tables["qa_examples"].insert(), {"user_input": "a", "agent_response": "b", "embedding": bad}
        )


def test_down_removes_everything_in_reverse_and_up_brings_it_back(store: ExampleStore) -> None:
    store.prepare()
    fill(store)
    with store.writing() as connection:
        downgrade(connection, "gd2502_", 64)
    with store.connection() as connection:
        assert [name for name in inspect(connection).get_table_names() if name.startswith("gd2502_")] == [
            "gd2502_examples_version"
        ]
        assert stamp_of(connection, "gd2502_") is None
    again = ExampleStore(store.engine, "gd2502_", MODEL)
    again.prepare()
    assert stored(again) == []


def test_the_migrations_make_what_the_models_say(store: ExampleStore) -> None:
    store.prepare()
    store.engine.dialect.ischema_names["vector"] = PgVector  # type: ignore[attr-defined]
    with store.connection() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "gd2502_examples_version",
                "compare_type": True,
                # One index has another form on each database; the tests above look at them.
                "include_object": lambda _object, _name, kind, _reflected, _other: kind != "index",
            },
        )
        assert compare_metadata(context, store.models.metadata) == []


def test_the_newest_migration_is_the_one_the_store_knows() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD]


def test_libraries_with_other_prefixes_stand_side_by_side(store: ExampleStore) -> None:
    other = ExampleStore(store.engine, "", HashEmbedding(16))
    store.prepare()
    other.prepare()
    fill(store)
    assert stored(other) == []
    with store.connection() as connection:
        names = inspect(connection).get_table_names()
    assert {"qa_examples", "gd2502_qa_examples", "examples_version", "gd2502_examples_version"} <= set(names)
    assert "alembic_version" not in names  # the records' own, which may stand in the same database


@pytest.mark.parametrize("prefix", ["大写_", "Gd_", "a b", "1a", "a;drop table x", "x" * 31, 'a"'])
def test_a_prefix_that_makes_no_name_is_refused(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="前缀"):
        ExampleStore(connect(sqlite_url(tmp_path / "a.db")), prefix, MODEL)


@pytest.mark.parametrize("model", [HashEmbedding(32), HashEmbedding(64, "另一个模型")])
def test_a_library_of_another_model_is_recognised(store: ExampleStore, model: HashEmbedding) -> None:
    store.prepare()
    with pytest.raises(BadSettings, match="qianxun examples reembed") as told:
        ExampleStore(store.engine, "gd2502_", model).prepare()
    assert "fake-64（64 维）" in told.value.message


def test_without_a_model_a_library_can_be_opened_but_not_made(store: ExampleStore) -> None:
    bare = ExampleStore(store.engine, "gd2502_", None)
    with pytest.raises(ModelUnavailable, match="models pull"):
        bare.prepare()
    store.prepare()
    bare.prepare()
    assert bare.tables["qa_examples"].c.embedding.type.dimension == 64  # type: ignore[attr-defined]


def test_two_that_begin_at_once_make_one_library(store: ExampleStore) -> None:
    stores = [ExampleStore(store.engine, "gd2502_", MODEL) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        if _is_postgres(store):
            list(pool.map(lambda each: each.prepare(), stores))
        else:  # whoever has SQLite has one writer: the engine sees to that
            for each in stores:
                each.prepare()
    with store.connection() as connection:
        assert connection.execute(text("SELECT count(*) FROM gd2502_example_library")).scalar() == 1


def test_a_table_of_somebody_elses_is_left_alone(store: ExampleStore) -> None:
    with store.writing() as connection:
        connection.execute(text("CREATE TABLE gd2502_qa_examples (id integer)"))
    with pytest.raises(BadSettings, match=r"examples\.prefix"):
        store.prepare()
    with store.connection() as connection:
        assert inspect(connection).has_table("gd2502_qa_examples")
        assert not inspect(connection).has_table("gd2502_example_library")


def test_a_schema_of_its_own_sees_no_library_beside_it(postgres_url: str) -> None:
    public, own = connect(postgres_url), connect(postgres_url, ConnectionOptions(schema="own"))
    try:
        first = ExampleStore(public, "gd2502_", MODEL)
        first.prepare()
        fill(first)
        with public.begin() as connection:
            connection.execute(text("CREATE SCHEMA own"))
        second = ExampleStore(own, "gd2502_", HashEmbedding(16), schema="own")
        second.prepare()
        assert (len(stored(first)), stored(second)) == (4, [])
    finally:
        public.dispose()
        own.dispose()


def test_vectors_too_wide_for_an_index_are_kept_without_one(postgres: Engine) -> None:
    with postgres.begin() as connection:
        upgrade(connection, "wide_", 2048)
        names = connection.execute(text("SELECT indexname FROM pg_indexes WHERE tablename = 'wide_qa_examples'"))
        assert sorted(names.scalars()) == ["wide_qa_examples_content_idx", "wide_qa_examples_pkey"]
        downgrade(connection, "wide_", 2048)


def test_whoever_may_not_create_the_extension_is_told_what_to_do(postgres: Engine) -> None:
    with postgres.begin() as connection:
        connection.execute(text("CREATE ROLE poor LOGIN; GRANT ALL ON SCHEMA public TO poor"))
    with postgres.connect() as connection:
        connection.execute(text("SET ROLE poor"))
        try:
            with pytest.raises(BadSettings, match="CREATE EXTENSION vector"):
                upgrade(connection, "gd2502_", 64)
        finally:
            connection.rollback()
            connection.execute(text("RESET ROLE"))
            connection.execute(text("REVOKE ALL ON SCHEMA public FROM poor; DROP ROLE poor"))
            connection.commit()


def test_a_pgvector_too_old_to_be_searched_is_refused_before_anything_is_made(postgres: Engine) -> None:
    old = "CREATE EXTENSION vector; UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'"
    with postgres.begin() as connection:
        connection.execute(text(old))
    with (
        pytest.raises(BadSettings, match=r"0\.7\.4.*\n?.*ALTER EXTENSION vector UPDATE"),
        postgres.begin() as connection,
    ):
        upgrade(connection, "gd2502_", 64)
    with postgres.connect() as connection:
        assert stamp_of(connection, "gd2502_") is None
        assert not inspect(connection).get_table_names()


def test_models_of_one_library_are_made_once() -> None:
    assert models("a_", 8) is models("a_", 8)
    assert models("a_", 8) is not models("a_", 16)
