"""One example library in one database: its tables and migrations, and the model of its vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from alembic.config import Config
from sqlalchemy import Column, Connection, Engine, Table, inspect, select, text
from sqlalchemy.exc import DBAPIError

from qianxun.core.errors import BadSettings, ModelUnavailable, QianxunError, RetrieverUnavailable
from qianxun.core.foreign import embedding_model
from qianxun.core.ports import EmbeddingModel
from qianxun.examples.schema import DIMENSION, PREFIX, Embedding, ExampleModels, check_prefix, models, version_table
from qianxun.records.database.open import run_alembic

MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0001"
LONGEST_MODEL_NAME = 200  # characters of the stamp
SHOWN: Final = ("id", "user_input", "agent_response", "tags", "quality_grade", "created_at", "updated_at")  # columns

Opening: TypeAlias = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class Stamp:
    """The model of a library's vectors."""

    model: str
    dimension: int

    @staticmethod
    def of(model: EmbeddingModel) -> Stamp:
        return Stamp(model.name[:LONGEST_MODEL_NAME], model.dimension)


class ExampleStore:
    """The library with this prefix in a database.

    Without a ``model`` it can be read, not searched or added to. ``writing`` and ``reading`` open transactions if the
    engine's own would not do (SQLite's single writer). ``schema`` is a PostgreSQL schema other than the default; it is
    first on the search path. ``more_tables`` are categories of one's own beside the four.
    """

    def __init__(
        self,
        engine: Engine,
        prefix: str = PREFIX,
        model: EmbeddingModel | None = None,
        *,
        writing: Opening | None = None,
        reading: Opening | None = None,
        schema: str = "",
        more_tables: Sequence[str] = (),
    ) -> None:
        check_prefix(prefix)
        self.engine = engine
        self.more_tables = tuple(more_tables)
        self.prefix = prefix
        self._schema = schema
        self._model = None if model is None else embedding_model(model)
        self._dimension = DIMENSION if self._model is None else self._model.dimension
        self._writing = writing or partial(_alone, engine)
        self._reading = reading or engine.begin
        self._is_prepared = False

    @classmethod
    def on(
        cls,
        connection: Connection,
        prefix: str = PREFIX,
        model: EmbeddingModel | None = None,
        *,
        more_tables: Sequence[str] = (),
    ) -> ExampleStore:
        """The library on one open connection, within its transaction if it has begun one."""

        def within() -> AbstractContextManager[Connection]:
            return _within(connection)

        return cls(connection.engine, prefix, model, writing=within, reading=within, more_tables=more_tables)

    @property
    def model(self) -> EmbeddingModel:
        """Raises ModelUnavailable if there is none."""
        if self._model is None:
            raise no_model()
        return self._model

    @property
    def models(self) -> ExampleModels:
        return self.models_of(self._dimension)

    def models_of(self, dimension: int) -> ExampleModels:
        return models(self.prefix, dimension, self.more_tables)

    @property
    def tables(self) -> Mapping[str, Table]:
        """By category: ``store.tables["qa_examples"]``."""
        return self.models.tables

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A transaction for reading."""
        with self._reading() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction for writing: committed at the end of the block, rolled back if it raises."""
        with self._writing() as connection:
            yield connection

    def stamp(self, connection: Connection) -> Stamp | None:
        """None if there is no library yet."""
        return stamp_of(connection, self.prefix, self._schema)

    def prepare(self) -> None:
        """Creates or migrates the tables; costs nothing once that is done.

        Raises BadSettings for a library of another model, ModelUnavailable if a new library has no model.
        """
        if self._is_prepared:
            return
        with self.connection() as connection:
            stamp = self.stamp(connection)
            is_ready = stamp is not None and _version(connection, self.prefix, self._schema) == HEAD
            is_ready = is_ready and all(
                _has_table(connection, f"{self.prefix}{name}", self._schema) for name in self.more_tables
            )
        if not is_ready:
            with self.writing() as connection:
                stamp = prepare(connection, self.prefix, self._model, self._schema)
                self._create_more(connection, stamp)
        assert stamp is not None
        self._dimension = stamp.dimension
        if self._model is not None:
            expect(stamp, self._model)
        self._is_prepared = True

    def reload(self) -> None:
        """After the library has changed to another model."""
        self._is_prepared = False
        self.prepare()

    @property
    def dimension(self) -> int:
        """Of the library's vectors, or of those that it would have."""
        return self._dimension

    def missing_revisions(self) -> list[str]:
        """What `migrate` would do; nothing without a library and a model to make one with."""
        with self.connection() as connection:
            if connection.dialect.name == "mysql" or (self.stamp(connection) is None and self._model is None):
                return []
            is_newest = _version(connection, self.prefix, self._schema) == HEAD
            tables = [f"{self.prefix}{name}" for name in self.more_tables]
            lacking = [name for name in tables if not _has_table(connection, name, self._schema)]
            return [*([] if is_newest else [HEAD]), *lacking]

    def migrate(self, connection: Connection) -> Stamp:
        """Migrates the tables of a library, whatever its model; makes those of a new one with its own."""
        stamp = prepare(connection, self.prefix, self._model, self._schema)
        self._create_more(connection, stamp)
        return stamp

    def _create_more(self, connection: Connection, stamp: Stamp) -> None:
        """The tables of one's own, which the migrations do not know, exactly as they make the four."""
        tables = self.models_of(stamp.dimension).tables
        for name in self.more_tables:
            if not _has_table(connection, tables[name].name, self._schema):
                tables[name].create(connection)


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        _begin(connection)
        yield connection


@contextmanager
def _within(connection: Connection) -> Iterator[Connection]:
    if not connection.in_transaction():
        with connection.begin():
            _begin(connection)
            yield connection
        return
    _begin(connection)
    with connection.begin_nested():
        yield connection


def _begin(connection: Connection) -> None:
    """Python's SQLite driver begins at the first INSERT only: tables and savepoints would not be rolled back."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite" and driver is not None and not getattr(driver, "in_transaction", True):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def prepare(connection: Connection, prefix: str, model: EmbeddingModel | None, schema: str = "") -> Stamp:
    """Creates or migrates the tables on this connection; returns their stamp."""
    if connection.dialect.name == "postgresql":
        # Two at the same time would both find nothing and both create.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"{prefix}examples"})
    stamp = stamp_of(connection, prefix, schema)
    is_new = stamp is None
    if stamp is None:
        if model is None:
            raise no_model()
        stamp = Stamp.of(model)
    upgrade(connection, prefix, stamp.dimension, schema=schema)
    table = models(prefix, stamp.dimension).stamp
    if is_new:
        connection.execute(table.insert().values(id=1, model=stamp.model, dimension=stamp.dimension))
    return stamp


def no_model() -> ModelUnavailable:
    """Examples are found by their vectors: without a model a library cannot be searched or added to."""
    return ModelUnavailable(
        "示例库靠向量检索，没有向量模型就不能建立、导入和检索",
        hint="运行 qianxun models pull bge-small-zh-v1.5，或在设置 vectorization 里写明模型服务",
    )


def expect(stamp: Stamp, model: EmbeddingModel) -> None:
    """Raises BadSettings for another model: its vectors cannot be compared, even of the same dimension."""
    if stamp != Stamp.of(model):
        raise BadSettings(
            f"示例库的向量是模型 {stamp.model}（{stamp.dimension} 维）算的，"
            f"现在的模型是 {model.name}（{model.dimension} 维）",
            hint=f"把设置 vectorization.model 改回 {stamp.model}，或运行 qianxun examples reembed 用现在的模型重算",
        )


def stamp_of(connection: Connection, prefix: str, schema: str = "") -> Stamp | None:
    """None if there is no library yet."""
    table = models(prefix).stamp
    if not _has_table(connection, table.name, schema):
        return None
    row = connection.execute(select(table.c.model, table.c.dimension)).first()
    return Stamp(row.model, row.dimension) if row is not None else None


def upgrade(connection: Connection, prefix: str, dimension: int, revision: str = "head", *, schema: str = "") -> None:
    """Alembic up, on this connection and in its transaction. Raises BadSettings on a server without pgvector 0.8."""
    if connection.dialect.name == "mysql":
        raise BadSettings(
            "示例库放在 SQLite 或 PostgreSQL 里，不能放在 MySQL 里",
            hint="给示例库另用一个数据目录（--data 目录，不设 records.url），或把记录放在 PostgreSQL",
        )
    try:
        run_alembic("upgrade", _alembic(connection, prefix, dimension, schema), revision)
    except (DBAPIError, QianxunError) as error:  # the latter: from the records' engine
        message = str(error.orig if isinstance(error, DBAPIError) else error.message).strip().splitlines()[0]
        if "extension" in message and "vector" in message:
            raise BadSettings(
                f"这台 PostgreSQL 用不了 pgvector 扩展：{message}",
                hint="请管理员安装 pgvector（0.8 或更新）并运行 CREATE EXTENSION vector",
            ) from error
        if "already exists" in message:
            raise BadSettings(
                f"数据库里已有同名的表，不是示例库建的：{message}", hint="用设置 examples.prefix 换一个表名前缀"
            ) from error
        raise
    _refuse_old_pgvector(connection)


def _refuse_old_pgvector(connection: Connection) -> None:
    """Without `hnsw.iterative_scan`, which came with 0.8, every search would fail."""
    if connection.dialect.name != "postgresql":
        return
    version = connection.execute(text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")).scalar() or ""
    if [int(part) for part in version.split(".")[:2] if part.isdigit()] < [0, 8]:
        raise BadSettings(
            f"pgvector {version} 太旧，示例库要 0.8 或更新",
            hint="请管理员在服务器上升级 pgvector，再在这个数据库里执行 ALTER EXTENSION vector UPDATE",
        )


def downgrade(connection: Connection, prefix: str, dimension: int, revision: str = "base", *, schema: str = "") -> None:
    """Alembic down; by default drops the tables with all their examples."""
    run_alembic("downgrade", _alembic(connection, prefix, dimension, schema), revision)


def _alembic(connection: Connection, prefix: str, dimension: int, schema: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes.update(connection=connection, prefix=prefix, dimension=dimension, schema=schema)
    return config


def _version(connection: Connection, prefix: str, schema: str) -> str | None:
    name = version_table(prefix)
    if not _has_table(connection, name, schema):
        return None
    return connection.execute(text(f"SELECT version_num FROM {name}")).scalar()


def _has_table(connection: Connection, name: str, schema: str) -> bool:
    """In the schema itself: those of another library in `public` are visible, too."""
    return inspect(connection).has_table(name, schema=schema or None)


# ── for searches ─────────────────────────────────────────────────────────────────────────────────


def shown_columns(table: Table) -> list[Column[Any]]:
    return [table.c[name] for name in SHOWN]


def dimension_of(table: Table) -> int:
    kind = table.c.embedding.type
    assert isinstance(kind, Embedding)
    return kind.dimension


def check_stamp(store: ExampleStore, stamp: Stamp | None) -> None:
    """Raises BadSettings if the library has changed to another model since it was opened.

    Without a model the caller made the vector, and is responsible for it.
    """
    with suppress(ModelUnavailable):
        model = store.model
        if stamp is not None:
            expect(stamp, model)


def search_error(error: Exception) -> RetrieverUnavailable:
    """With the first line of the database's message: the others show the statement."""
    lines = str(error).strip().splitlines()
    return RetrieverUnavailable(
        f"示例库检索不了：{lines[0] if lines else type(error).__name__}",
        hint="检查数据库是否在运行、示例库的表是否完整",
    )


@contextmanager
def search_errors() -> Iterator[None]:
    """Turns database errors of SQLAlchemy into RetrieverUnavailable."""
    try:
        yield
    except DBAPIError as error:
        raise search_error(error.orig if isinstance(error.orig, Exception) else error) from error
