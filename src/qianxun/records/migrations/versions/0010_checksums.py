"""Checksums of text, vectors and settings. Rows that exist get theirs here: what is damaged by now is not found later.

Every row with text is read and written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from qianxun.records import checksums
from qianxun.records.schema import Base

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PAGE = 500  # rows, of which no document or chunk has nearly as many
CHUNK = tuple(column.name for column in checksums.CHUNK)

# Table, its primary key, the columns that are covered, their checksum
TABLES: tuple[tuple[str, tuple[str, ...], tuple[str, ...], Callable[..., int]], ...] = (
    ("knowledge_bases", ("id",), checksums.BASE, checksums.values_checksum),
    ("document_versions", ("document_key", "generation"), checksums.VERSION, checksums.values_checksum),
    ("chunks", ("key",), CHUNK, checksums.chunk_checksum),
    ("chunk_vectors", ("chunk_key", "model"), ("chunk_key", "vector"), checksums.vector_checksum),
    ("tables", ("key",), checksums.TABLE, checksums.values_checksum),
    ("qa_pairs", ("key",), checksums.PAIR, checksums.values_checksum),
    ("pair_vectors", ("pair_key", "model"), ("pair_key", "vector"), checksums.vector_checksum),
)


def upgrade() -> None:
    for name, primary, covered, checksum in TABLES:
        op.add_column(name, sa.Column("checksum", BIG_KEY, nullable=True))
        _fill(op.get_bind(), Base.metadata.tables[name], primary, covered, checksum)


def _fill(
    tx: sa.Connection, table: sa.Table, primary: Sequence[str], covered: Sequence[str], checksum: Callable[..., int]
) -> None:
    own = sa.and_(*(table.c[name] == sa.bindparam(f"at_{name}") for name in primary))
    statement = sa.update(table).where(own).values(checksum=sa.bindparam("found"))
    columns = [table.c[name] for name in (*primary, *covered)]
    for page in _pages(tx, sa.select(*columns), columns[0]):
        values = [
            {f"at_{name}": value for name, value in zip(primary, row, strict=False)}
            | {"found": checksum(*row[len(primary) :])}
            for row in page
        ]
        tx.execute(statement, values)


def _pages(tx: sa.Connection, query: Any, first: Any) -> Iterator[list[Any]]:
    """All rows with the same first column are on one page."""
    after = -1
    while rows := tx.execute(query.where(first > after).order_by(first).limit(PAGE)).all():
        is_last = len(rows) < PAGE
        page = [row for row in rows if is_last or row[0] != rows[-1][0]]
        yield page
        if is_last:
            return
        after = page[-1][0]


def downgrade() -> None:
    for name, *_ in TABLES:
        op.drop_column(name, "checksum")
