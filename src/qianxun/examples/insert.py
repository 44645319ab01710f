"""Drafts into the tables: what is there already is recognised by its content, what is new is embedded and added."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import Connection, Insert, Table, bindparam, func, select, text
from sqlalchemy.dialects import postgresql, sqlite

from qianxun.core.types import Vector
from qianxun.examples.files.cleaning import Draft
from qianxun.examples.schema import embedded_text, nearest_index
from qianxun.examples.store import ExampleStore
from qianxun.examples.vectors import Watch, unwatched, vectorize

AT_ONCE: Final = 500  # rows in one statement
COUNTED: Final = {"preserve_rowcount": True}  # SQLAlchemy forgets how many rows an INSERT made, unless told not to
MANY: Final = 1000  # rows for which an index is better built anew

Item = TypeVar("Item")
Belonging: TypeAlias = tuple[str, Draft]  # its category, and the draft


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the drafts of one category."""

    added: int = 0
    updated: int = 0  # the same words with other tags or another grade
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class _Stored:
    id: int
    tags: tuple[str, ...]
    quality_grade: str | None

    def is_as(self, draft: Draft) -> bool:
        return (self.tags, self.quality_grade) == (draft.tags, draft.quality_grade)


def keep(store: ExampleStore, drafts: Mapping[str, Sequence[Draft]], watch: Watch = unwatched) -> dict[str, Kept]:
    """Everything in one transaction: all of it or, where something raises, nothing.

    Vectors are made before the transaction begins, so that a slow model keeps no other writer waiting and one that
    fails changes nothing. No content may come twice.
    """
    store.prepare()
    with store.connection() as connection:
        new = [
            (category, draft)
            for category, offered in drafts.items()
            for draft in _without(offered, _found(connection, store.tables[category], offered))
        ]
    vectors = dict(zip(new, _vectors(store, new, watch), strict=True))
    with store.writing() as connection:
        return {category: _keep(connection, store, category, offered, vectors) for category, offered in drafts.items()}


def remove(store: ExampleStore, category: str, ids: Sequence[int]) -> list[int]:
    """Those that were there and are gone now."""
    store.prepare()
    table = store.tables[category]
    with store.writing() as connection:
        gone = connection.execute(table.delete().where(table.c.id.in_(sorted(set(ids)))).returning(table.c.id))
        return sorted(gone.scalars())


def _vectors(store: ExampleStore, drafts: Sequence[Belonging], watch: Watch) -> Iterable[Vector]:
    return vectorize([embedded_text(*draft.content) for _, draft in drafts], store.model, watch) if drafts else ()


def _keep(
    connection: Connection,
    store: ExampleStore,
    category: str,
    offered: Sequence[Draft],
    vectors: Mapping[Belonging, Vector],
) -> Kept:
    table, now = store.tables[category], datetime.now(UTC)
    found = _found(connection, table, offered)  # again: somebody may have added some meanwhile, or removed some
    new = _without(offered, found)
    removed = [(category, draft) for draft in new if (category, draft) not in vectors]
    known = {**vectors, **dict(zip(removed, _vectors(store, removed, unwatched), strict=True))}
    added = 0
    with _indexed_last(connection, table, len(new)):
        for batch in _batches(new):
            rows = [_row(draft, known[category, draft], now) for draft in batch]
            added += connection.execute(_insert(connection, table), rows, execution_options=COUNTED).rowcount
    changed = [
        {"row": row.id, "tags": list(draft.tags), "quality_grade": draft.quality_grade, "updated_at": now}
        for draft in offered
        if (row := found.get(draft.content)) is not None and not row.is_as(draft)
    ]
    if changed:
        connection.execute(table.update().where(table.c.id == bindparam("row")), changed)
    return Kept(added, len(changed), len(offered) - added - len(changed))


@contextmanager
def _indexed_last(connection: Connection, table: Table, count: int) -> Iterator[None]:
    """Builds the HNSW index of an empty table after it was filled: 10,000 rows take 9 s that way, one by one 40.

    In one process: several would share memory, of which containers give PostgreSQL too little.
    """
    index = nearest_index(table)
    is_postgres = connection.dialect.name == "postgresql"
    if index is None or not is_postgres or count < MANY or connection.execute(select(table.c.id).limit(1)).first():
        yield
        return
    index.drop(connection, checkfirst=True)
    yield
    connection.execute(text("SET LOCAL max_parallel_maintenance_workers = 0"))
    index.create(connection)


def _insert(connection: Connection, table: Table) -> Insert:
    """Passes over what another has added since it was looked for."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _row(draft: Draft, vector: Vector, now: datetime) -> dict[str, Any]:
    return {
        "user_input": draft.user_input,
        "agent_response": draft.agent_response,
        "tags": list(draft.tags),
        "quality_grade": draft.quality_grade,
        "embedding": vector,
        "created_at": now,
        "updated_at": now,
    }


def _without(offered: Iterable[Draft], found: Mapping[tuple[str, str], _Stored]) -> list[Draft]:
    return [draft for draft in offered if draft.content not in found]


def _found(connection: Connection, table: Table, drafts: Sequence[Draft]) -> dict[tuple[str, str], _Stored]:
    """Those that are in the table already, by content."""
    columns = (table.c.id, table.c.user_input, table.c.agent_response, table.c.tags, table.c.quality_grade)
    wanted = {draft.content for draft in drafts}
    found: dict[tuple[str, str], _Stored] = {}
    for batch in _batches(sorted({draft.user_input for draft in drafts})):
        for row in connection.execute(select(*columns).where(_is_one_of(connection, table, batch))):
            if (content := (row.user_input, row.agent_response)) in wanted:
                found[content] = _Stored(row.id, tuple(row.tags or ()), row.quality_grade)
    return found


def _is_one_of(connection: Connection, table: Table, inputs: Sequence[str]) -> Any:
    """By the index over contents, which PostgreSQL keeps over fingerprints."""
    if connection.dialect.name == "postgresql":
        prints = [hashlib.md5(one.encode(), usedforsecurity=False).hexdigest() for one in inputs]
        return func.md5(table.c.user_input).in_(prints)
    return table.c.user_input.in_(inputs)


def _batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch
