"""Tables of record: what they are called, for every candidate of a search; whole, for the few it shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, and_, select

from qianxun.core.types import Column, Table
from qianxun.records import rows
from qianxun.records.database.slices import in_slices
from qianxun.records.schema import ChunkRow, TableRow


class TableHead(NamedTuple):
    """A table without its cells. ``key`` is never reused."""

    key: int
    position: int  # among the tables of its document
    title: str
    source: str
    notes: str
    columns: tuple[Column, ...]


def are_there(tx: Connection, knowledge_base: int) -> bool:
    """Whether the base has any table at all."""
    return (
        tx.execute(select(TableRow.key).where(TableRow.knowledge_base_id == knowledge_base).limit(1)).first()
        is not None
    )


def of_chunks(tx: Connection, knowledge_base: int, chunk_keys: Iterable[int]) -> dict[int, int]:
    """By chunk: the key of the table that it is cut from. A chunk of prose, or one that is gone, has no entry."""
    found: dict[int, int] = {}
    for part in in_slices(list(chunk_keys)):
        own = (
            select(ChunkRow.key, TableRow.key)
            .join(
                TableRow,
                and_(
                    TableRow.document_key == ChunkRow.document_key,
                    TableRow.generation == ChunkRow.generation,
                    TableRow.position == ChunkRow.table_position,
                ),
            )
            .where(ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.key.in_(part))
        )
        found.update((chunk_key, key) for chunk_key, key in tx.execute(own))
    return found


def heads(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, TableHead]:
    """These tables without their cells."""
    found: dict[int, TableHead] = {}
    wanted = (TableRow.position, TableRow.title, TableRow.source, TableRow.notes, TableRow.columns)
    for part in in_slices(list(keys)):
        own = select(TableRow.key, *wanted)
        held = tx.execute(own.where(TableRow.knowledge_base_id == knowledge_base, TableRow.key.in_(part)))
        for key, position, title, source, notes, columns in held:
            found[key] = TableHead(key, position, title, source, notes, rows.columns_of(columns))
    return found


def row_starts(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, list[int]]:
    """Where the rows of these tables begin in their document's text."""
    found: dict[int, list[int]] = {}
    for part in in_slices(list(keys)):
        own = select(TableRow.key, TableRow.row_starts)
        held = tx.execute(own.where(TableRow.knowledge_base_id == knowledge_base, TableRow.key.in_(part)))
        found.update((key, starts) for key, starts in held)
    return found


def whole(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, Table]:
    """These tables with all their cells."""
    found: dict[int, Table] = {}
    for part in in_slices(list(keys)):
        own = select(TableRow.__table__).where(TableRow.knowledge_base_id == knowledge_base, TableRow.key.in_(part))
        found.update((row.key, rows.table_of(row)) for row in tx.execute(own))
    return found
