"""Stored tables: their names and columns for every candidate of a search, whole for the few it shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Dialect, Row, Select, and_, bindparam, null, select, update

from qianxun.core.types import Column, Table
from qianxun.records import rows
from qianxun.records.database.restrict import permitted_in
from qianxun.records.database.statements import Compiled, KeyedQuery, compiled, select_in
from qianxun.records.schema import ChunkRow, TableRow


class TableHead(NamedTuple):
    """A table without its cells. ``key`` is never reused."""

    key: int
    position: int  # among the tables of its document
    title: str
    source: str
    notes: str
    columns: tuple[Column, ...]


_BASE: Final = bindparam("knowledge_base", type_=TableRow.knowledge_base_id.type)
_SAME_TABLE: Final = and_(
    TableRow.document_key == ChunkRow.document_key,
    TableRow.generation == ChunkRow.generation,
    TableRow.position == ChunkRow.table_position,
)


def _of_base(*columns: Any) -> Select[Any]:
    return select(*columns).where(TableRow.knowledge_base_id == _BASE)


_OF_CHUNKS: Final = KeyedQuery(
    select(ChunkRow.key, TableRow.key).join(TableRow, _SAME_TABLE).where(ChunkRow.knowledge_base_id == _BASE),
    ChunkRow.key,
)
_HEADS: Final = KeyedQuery(
    _of_base(TableRow.key, TableRow.position, TableRow.title, TableRow.source, TableRow.notes, TableRow.columns),
    TableRow.key,
)
_ROW_STARTS: Final = KeyedQuery(_of_base(TableRow.key, TableRow.row_starts, TableRow.hidden_rows), TableRow.key)
_ANY: Final = select(_of_base(TableRow.key).exists())


def has_tables(tx: Connection, knowledge_base: int) -> bool:
    """Whether the base has any table at all."""
    own = {"knowledge_base": knowledge_base}
    if permitted_in(tx) is not None:
        return bool(tx.execute(_ANY, own).scalar())
    return bool(_any_query(tx.dialect).rows(tx, own)[0][0])


@lru_cache
def _any_query(dialect: Dialect) -> Compiled:
    return compiled(_ANY, dialect)


def of_chunks(tx: Connection, knowledge_base: int, chunk_keys: Iterable[int]) -> dict[int, int]:
    """Chunk → the key of its table. A chunk of prose or a deleted one has no entry."""
    return {row[0]: row[1] for row in _OF_CHUNKS.rows(tx, knowledge_base, chunk_keys)}


def heads(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, TableHead]:
    """These tables without their cells."""
    found = _HEADS.rows(tx, knowledge_base, keys)
    return {
        key: TableHead(key, position, title, source, notes, rows.columns_of(columns))
        for key, position, title, source, notes, columns in found
    }


def hide_rows(tx: Connection, document_key: int, generation: int, hidden: Mapping[int, Sequence[int]]) -> None:
    """Notes which rows of a version's tables (by their position) corrections edited or took out."""
    own = (TableRow.document_key == document_key) & (TableRow.generation == generation)
    tx.execute(update(TableRow).where(own, TableRow.hidden_rows.is_not(None)).values(hidden_rows=null()))
    for position, numbers in hidden.items():
        tx.execute(update(TableRow).where(own, TableRow.position == position).values(hidden_rows=list(numbers)))


def hidden_rows(tx: Connection, document_key: int, generation: int) -> dict[int, tuple[int, ...]]:
    """What `hide_rows` noted, by the tables' positions."""
    own = (TableRow.document_key == document_key) & (TableRow.generation == generation)
    query = select(TableRow.position, TableRow.hidden_rows).where(own, TableRow.hidden_rows.is_not(None))
    return {row.position: tuple(row.hidden_rows or ()) for row in tx.execute(query.order_by(TableRow.position))}


def row_starts(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, list[int]]:
    """Where the rows of these tables begin in their document's text."""
    return {key: _seen(starts, hidden) for key, starts, hidden in _ROW_STARTS.rows(tx, knowledge_base, keys)}


def whole(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, Table]:
    """These tables with all their cells."""
    query = select(TableRow.__table__).where(TableRow.knowledge_base_id == knowledge_base)
    return {row.key: _without_hidden(row) for row in select_in(tx, query, TableRow.key, keys)}


def _without_hidden(row: Row[Any]) -> Table:
    table = rows.table_of(row)
    if not row.hidden_rows:
        return table
    seen = (tuple(_seen(table.rows, row.hidden_rows)), tuple(_seen(table.texts, row.hidden_rows)))
    return replace(table, rows=seen[0], texts=seen[1])


def _seen(found: Sequence[Any], hidden: Sequence[int] | None) -> list[Any]:
    """What belongs to the rows that are not hidden."""
    return [one for at, one in enumerate(found) if at not in hidden] if hidden else list(found)
