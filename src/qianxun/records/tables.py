"""Stored tables: their names and columns for every candidate of a search, whole for the few it shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Dialect, Select, and_, bindparam, null, select, update

from qianxun.core.codec.plain import plain, read
from qianxun.core.documents import CorrectedRows, RowCells
from qianxun.core.types import Column, Table
from qianxun.records import rows
from qianxun.records.database.restrict import permitted_in
from qianxun.records.database.statements import Compiled, KeyedQuery, compiled
from qianxun.records.schema import ChunkRow, TableRow


class TableHead(NamedTuple):
    """A table without its cells. ``key`` is never reused."""

    key: int
    position: int  # among the tables of its document
    title: str
    source: str
    notes: str
    columns: tuple[Column, ...]


class StoredTable(NamedTuple):
    """What is read of a table, by the names of its columns in the records."""

    key: int
    title: str
    columns: Sequence[Sequence[Any]]
    rows: Sequence[Sequence[Any]]
    texts: Sequence[Sequence[str]]
    source: str
    notes: str
    corrected_rows: Mapping[str, Any] | None


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
_ROW_STARTS: Final = KeyedQuery(_of_base(TableRow.key, TableRow.row_starts, TableRow.corrected_rows), TableRow.key)
_WHOLE: Final = KeyedQuery(_of_base(*(getattr(TableRow, name) for name in StoredTable._fields)), TableRow.key)
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


def keys_by_chunk(tx: Connection, knowledge_base: int, chunk_keys: Iterable[int]) -> dict[int, int]:
    """Chunk → the key of its table. A chunk of prose or a deleted one has no entry."""
    return {row[0]: row[1] for row in _OF_CHUNKS.rows(tx, knowledge_base, chunk_keys)}


def heads(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, TableHead]:
    """These tables without their cells."""
    found = _HEADS.rows(tx, knowledge_base, keys)
    return {
        key: TableHead(key, position, title, source, notes, rows.columns_of(columns))
        for key, position, title, source, notes, columns in found
    }


def has_corrected_rows(tx: Connection, knowledge_base: int) -> bool:
    """Whether corrections changed a row of any table of the base."""
    found = _of_base(TableRow.key).where(TableRow.corrected_rows.is_not(None))
    return tx.execute(found.limit(1), {"knowledge_base": knowledge_base}).first() is not None


def correct_rows(tx: Connection, document_key: int, generation: int, corrected: Mapping[int, CorrectedRows]) -> None:
    """Notes what corrections put in the place of rows of a version's tables, by the tables' positions."""
    own = (TableRow.document_key == document_key) & (TableRow.generation == generation)
    tx.execute(update(TableRow).where(own, TableRow.corrected_rows.is_not(None)).values(corrected_rows=null()))
    for position, changed in corrected.items():
        stored = {str(number): plain(cells) for number, cells in changed.items()}
        tx.execute(update(TableRow).where(own, TableRow.position == position).values(corrected_rows=stored))


def corrected_rows(tx: Connection, document_key: int, generation: int) -> dict[int, CorrectedRows]:
    """What `correct_rows` noted, by the tables' positions."""
    own = (TableRow.document_key == document_key) & (TableRow.generation == generation)
    query = select(TableRow.position, TableRow.corrected_rows).where(own, TableRow.corrected_rows.is_not(None))
    return {row.position: changes_of(row.corrected_rows) for row in tx.execute(query.order_by(TableRow.position))}


def row_starts(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, list[int]]:
    """Where the rows of these tables begin in their document's text."""
    return {key: _starts(starts, changed) for key, starts, changed in _ROW_STARTS.rows(tx, knowledge_base, keys)}


def whole(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, Table]:
    """These tables with all their cells."""
    return {row[0]: _corrected(StoredTable(*row)) for row in _WHOLE.rows(tx, knowledge_base, keys)}


def changes_of(stored: Mapping[str, Any] | None) -> CorrectedRows:
    """The rows that one table has in the place of others, from JSON."""
    return {int(number): tuple(read(RowCells, cell) for cell in cells) for number, cells in (stored or {}).items()}


def _corrected(row: StoredTable) -> Table:
    table = rows.table_of(row)
    if not row.corrected_rows:
        return table
    changes = changes_of(row.corrected_rows)
    own = (RowCells(*cells) for cells in zip(table.rows, table.texts, strict=True))
    seen = [cells for number, one in enumerate(own) for cells in changes.get(number, (one,))]
    return replace(table, rows=tuple(one.values for one in seen), texts=tuple(one.texts for one in seen))


def _starts(starts: Sequence[int], changed: Mapping[str, Any] | None) -> list[int]:
    """Where the rows begin; those in the place of another right after one another from where that began."""
    if not changed:
        return list(starts)
    counts = {int(number): len(cells) for number, cells in changed.items()}
    return [start + at for number, start in enumerate(starts) for at in range(counts.get(number, 1))]
