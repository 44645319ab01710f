"""The tables of the example library: on PostgreSQL with pgvector, on SQLite the same with vectors as bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np
from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column, registry
from sqlalchemy.types import TypeEngine, UserDefinedType

from qianxun.core.errors import BadSettings
from qianxun.core.types import Vector

PREFIX: Final = "gd2502_"
DIMENSION: Final = 768  # of m3e-base
INDEXED_DIMENSIONS: Final = 2000  # of an HNSW index of pgvector; longer vectors are compared one by one
LONGEST_NAME: Final = 18
LONGEST_PREFIX: Final = 30  # so that no name exceeds the 63 bytes of PostgreSQL


@dataclass(frozen=True, slots=True)
class Category:
    """``name`` is also the name of its table, after the prefix, and of a worksheet."""

    name: str
    label: str  # for people
    sheet: str  # the worksheet's Chinese name
    model: str  # the name of its SQLAlchemy model


CATEGORIES: Final = (
    Category("qa_examples", "问答", "QA示例", "QAExample"),
    Category("record_examples", "记录", "记录示例", "RecordExample"),
    Category("query_examples", "查询", "查询示例", "QueryExample"),
    Category("greeting_examples", "问候", "问候示例", "GreetingExample"),
)
DEFAULT_TABLE_NAMES: Final = tuple(category.name for category in CATEGORIES)

GRADES: Final = ("优秀", "良好", "一般")  # best first
DEFAULT_GRADE: Final = "一般"  # of an ungraded example


def embedded_text(user_input: str, agent_response: str) -> str:
    """The text of an example that is embedded."""
    return f"{user_input} {agent_response}"


class PgVector(UserDefinedType[str]):
    """pgvector's type in its text form, so that no driver has to support it."""

    cache_ok = True

    def __init__(self, dimension: int | str) -> None:
        self.dimension = int(dimension)  # text when read from a database

    def get_col_spec(self, **_: Any) -> str:
        return f"vector({self.dimension})"


class Embedding(TypeDecorator[Vector]):
    """A vector: ``vector(n)`` on PostgreSQL, n little-endian float32 elsewhere. Refuses other lengths and NaN."""

    impl = LargeBinary
    cache_ok = True

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(PgVector(self.dimension) if dialect.name == "postgresql" else LargeBinary())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        vector = np.asarray(value, dtype=np.float32)
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise ValueError(f"a vector of {self.dimension} numbers was expected, not {vector.shape}")
        return vector_text(vector) if dialect.name == "postgresql" else vector.astype("<f4").tobytes()

    def process_result_value(self, value: Any, dialect: Dialect) -> Vector | None:
        if value is None:
            return None
        if isinstance(value, str):
            return np.fromstring(value.strip("[]"), dtype=np.float32, sep=",")
        return np.frombuffer(value, dtype="<f4").astype(np.float32)


def vector_text(vector: Sequence[float] | Vector) -> str:
    """In pgvector's form: ``[0.1,-0.2]``. Nine digits are exact for a float32."""
    return "[" + ",".join(f"{number:.9g}" for number in np.asarray(vector, dtype=np.float32).tolist()) + "]"


class Moment(TypeDecorator[datetime]):
    """A time in UTC, always aware: SQLite stores no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


Tags = JSON(none_as_null=True).with_variant(ARRAY(Text), "postgresql")


class Example:
    """The columns of all four models. ``embedding`` is declared with the dimension of the library."""

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True, comment="主键")
    user_input: Mapped[str] = mapped_column(Text, comment="用户输入")
    agent_response: Mapped[str] = mapped_column(Text, comment="助手回复")
    tags: Mapped[list[str] | None] = mapped_column(Tags, comment="标签")
    quality_grade: Mapped[str | None] = mapped_column(String(50), comment="质量等级：优秀/良好/一般")
    embedding: Mapped[Vector]
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=func.now(), sort_order=2)
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=func.now(), onupdate=func.now(), sort_order=2)


@dataclass(frozen=True, slots=True)
class ExampleModels:
    """The models of one library."""

    metadata: MetaData
    of: Mapping[str, type[Example]]  # by category
    tables: Mapping[str, Table]  # by category
    stamp: Table  # one row: the model and dimension of the vectors


@lru_cache(maxsize=64)
def models(prefix: str = PREFIX, dimension: int = DIMENSION, more: tuple[str, ...] = ()) -> ExampleModels:
    """The models of a library with this prefix and dimension; ``more`` are tables of one's own. Raises BadSettings."""
    check_prefix(prefix)
    mapped = registry()
    of = {category.name: _model(mapped, category, prefix, dimension) for category in (*CATEGORIES, *map(own, more))}
    tables = {name: mapped.metadata.tables[f"{prefix}{name}"] for name in of}
    return ExampleModels(mapped.metadata, of, tables, _stamp(mapped.metadata, prefix))


def own(name: str) -> Category:
    """A category beside the four, by the name of its table. Raises BadSettings for what cannot be one."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*_examples", name) or len(name) > LONGEST_NAME:
        raise BadSettings(
            f"示例库的表名 {name!r} 不能用",
            hint=f"写成 policy_examples 这样：小写字母、数字与下划线，以 _examples 结尾，至多 {LONGEST_NAME} 个字符",
        )
    label = name.removesuffix("_examples")
    return Category(name, label, name, "".join(map(str.capitalize, label.split("_"))) + "Example")


def _model(mapped: registry, category: Category, prefix: str, dimension: int) -> type[Example]:
    table = f"{prefix}{category.name}"
    body = {
        "__tablename__": table,
        "__doc__": f"{category.label}示例",
        "__module__": __name__,
        "__table_args__": (
            *_indexes(table, dimension),
            {"sqlite_autoincrement": True},
        ),  # ids as of serial
        "embedding": mapped_column(
            Embedding(dimension), nullable=False, sort_order=1, comment="“用户输入 助手回复”的向量"
        ),
    }
    model: type[Example] = mapped.mapped(type(category.model, (Example,), body))
    return model


def _indexes(table: str, dimension: int) -> tuple[Index, ...]:
    """As the migrations create them: HNSW, and unique contents.

    PostgreSQL's B-trees take no long text (2,704 bytes), hence fingerprints.
    """
    once = f"{table}_content_idx"
    return (
        *([_nearest(table)] if dimension <= INDEXED_DIMENSIONS else []),
        Index(once, text("md5(user_input)"), text("md5(agent_response)"), unique=True).ddl_if(dialect="postgresql"),
        Index(once, "user_input", "agent_response", unique=True).ddl_if(dialect="sqlite"),
    )


def _nearest(table: str) -> Index:
    return Index(
        f"{table}_embedding_idx",
        "embedding",
        postgresql_using="hnsw",
        postgresql_ops={"embedding": "vector_cosine_ops"},
    ).ddl_if(dialect="postgresql")


def nearest_index(table: Table) -> Index | None:
    """The HNSW index of a table; None if its vectors are too long for one."""
    return next((index for index in table.indexes if index.name == f"{table.name}_embedding_idx"), None)


def _stamp(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}example_library",
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("model", String(200), nullable=False),
        Column("dimension", Integer, nullable=False),
        Column("created_at", Moment, nullable=False, server_default=func.now()),
    )


def version_table(prefix: str) -> str:
    """Alembic's version table, other than that of the records, which may be in the same database."""
    return f"{prefix}examples_version"


def check_prefix(prefix: str) -> None:
    """Raises BadSettings for a prefix that is not valid in table names."""
    if len(prefix) > LONGEST_PREFIX or not re.fullmatch(r"([a-z_][a-z0-9_]*)?", prefix):
        raise BadSettings(
            f"示例库的表名前缀“{prefix}”不能用",
            hint=f"设置 examples.prefix 只用小写字母、数字和下划线，以字母或下划线开头，至多 {LONGEST_PREFIX} 个字符",
        )


QAExample, RecordExample, QueryExample, GreetingExample = models().of.values()
