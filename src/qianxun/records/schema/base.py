"""What the tables are made of: types of columns that every database has, and a class for each table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.schema import SchemaItem

BigKey = BigInteger().with_variant(Integer, "sqlite")


DocId = String(255).with_variant(String(255, collation="C"), "postgresql")  # listed in the order of their bytes


LongText = Text().with_variant(LONGTEXT, "mysql")


class Moment(TypeDecorator[datetime]):
    """A point in time, always in UTC and always aware: SQLite and MySQL keep no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base:
    """A table whose columns are the attributes of a class, which is used in statements.

    Without SQLAlchemy's ORM: it is not needed, and loading it would take a tenth of a process that opens a base and
    runs one query.
    """

    metadata: ClassVar = MetaData()
    __tablename__: ClassVar[str]
    __table_args__: ClassVar[tuple[SchemaItem, ...]] = ()
    __table__: ClassVar[Table]

    def __init_subclass__(cls) -> None:
        columns = {name: value for name, value in vars(cls).items() if isinstance(value, Column)}
        for name, item in columns.items():
            item.name, item.key = item.name or name, item.key or name
        cls.__table__ = Table(cls.__tablename__, cls.metadata, *columns.values(), *cls.__table_args__)

    @classmethod
    def __clause_element__(cls) -> Table:
        return cls.__table__


def column(*arguments: Any, nullable: bool = False, **options: Any) -> Column[Any]:
    """A column that is not null by default."""
    return Column(*arguments, nullable=nullable, **options)


VERSIONS = Table(  # as Alembic has it
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
