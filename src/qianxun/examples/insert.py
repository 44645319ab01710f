"""Drafts into the tables: known ones are recognised by their content, new ones are embedded and added."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import Connection, Insert, Table, bindparam, func, select, text
from sqlalchemy.dialects import postgresql, sqlite

from qianxun.core.errors import NotFound
from qianxun.core.foreign import embedding_model
from qianxun.core.ports import EmbeddingModel, nothing
from qianxun.core.types import Vector, Vectors
from qianxun.core.vectors import EMBED_SLICE, embed
from qianxun.examples.files.cleaning import ExampleDraft
from qianxun.examples.schema import embedded_text, models, nearest_index
from qianxun.examples.store import ExampleStore, Stamp, dimension_of

STATEMENT_ROWS: Final = 500
MANY: Final = 1000  # rows for which an index is better built anew
COUNTED: Final = {"preserve_rowcount": True}  # otherwise SQLAlchemy does not count the rows of an INSERT

Item = TypeVar("Item")
Belonging: TypeAlias = tuple[str, ExampleDraft]  # its category, and the draft
Watch: TypeAlias = Callable[[int, int], None]  # (done, of how many)
Made: TypeAlias = dict[tuple[str, int], Vector]  # (category, id) → its vector


@dataclass(frozen=True, slots=True)
class Inserted:
    """What became of the drafts of one category."""

    added: int = 0
    updated: int = 0  # the same texts with other tags or another grade
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class _Stored:
    id: int
    tags: tuple[str, ...]
    quality_grade: str | None

    def equals(self, draft: ExampleDraft) -> bool:
        return (self.tags, self.quality_grade) == (draft.tags, draft.quality_grade)


def insert_drafts(
    store: ExampleStore, drafts: Mapping[str, Sequence[ExampleDraft]], watch: Watch = nothing
) -> dict[str, Inserted]:
    """All drafts in one transaction, or none if anything raises. Contents must be distinct.

    Texts are embedded before the transaction, so that a slow model blocks no other writer and a failing one changes
    nothing.
    """
    store.prepare()
    with store.connection() as connection:
        new = [
            (category, draft)
            for category, offered in drafts.items()
            for draft in _missing(offered, _found(connection, store.tables[category], offered))
        ]
    vectors = dict(zip(new, _vectors(store, new, watch), strict=True))
    with store.writing() as connection:
        return {
            category: _insert_category(connection, store, category, offered, vectors)
            for category, offered in drafts.items()
        }


def remove(store: ExampleStore, category: str, ids: Sequence[int]) -> list[int]:
    """Deletes these examples; returns the ids of those that existed."""
    store.prepare()
    table = store.tables[category]
    with store.writing() as connection:
        deleted = connection.execute(table.delete().where(table.c.id.in_(sorted(set(ids)))).returning(table.c.id))
        return sorted(deleted.scalars())


def vectorize_text(text: str, model: EmbeddingModel | Any) -> list[float]:
    """The unit vector of one text, as it is stored. ``model`` is one of ours or a `SentenceTransformer`."""
    numbers: list[float] = vectorize([text], embedding_model(model))[0].tolist()
    return numbers


def vectorize(texts: Sequence[str], model: EmbeddingModel, watch: Watch = nothing) -> Vectors:
    """One unit vector per text, in order. Raises ModelUnavailable or BadModelReply."""
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        watch(done, len(texts))

    return embed(texts, model, report, batch_size=EMBED_SLICE, by_length=True)


def _vectors(store: ExampleStore, drafts: Sequence[Belonging], watch: Watch) -> Iterable[Vector]:
    return vectorize([embedded_text(*draft.content) for _, draft in drafts], store.model, watch) if drafts else ()


def _insert_category(
    connection: Connection,
    store: ExampleStore,
    category: str,
    offered: Sequence[ExampleDraft],
    vectors: Mapping[Belonging, Vector],
) -> Inserted:
    table, now = store.tables[category], datetime.now(UTC)
    found = _found(connection, table, offered)  # again: others may have added or removed some meanwhile
    new = _missing(offered, found)
    removed = [(category, draft) for draft in new if (category, draft) not in vectors]
    known = {**vectors, **dict(zip(removed, _vectors(store, removed, nothing), strict=True))}
    added = 0
    with _indexed_last(connection, table, len(new)):
        for batch in _batches(new):
            rows = [_row(draft, known[category, draft], now) for draft in batch]
            added += connection.execute(_insert(connection, table), rows, execution_options=COUNTED).rowcount
    changed = [
        {"row": row.id, "tags": list(draft.tags), "quality_grade": draft.quality_grade, "updated_at": now}
        for draft in offered
        if (row := found.get(draft.content)) is not None and not row.equals(draft)
    ]
    if changed:
        connection.execute(table.update().where(table.c.id == bindparam("row")), changed)
    return Inserted(added, len(changed), len(offered) - added - len(changed))


@contextmanager
def _indexed_last(connection: Connection, table: Table, count: int) -> Iterator[None]:
    """Builds the HNSW index of an empty table after filling it: 10,000 rows take 9 s that way, one by one 40.

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
    """Ignores rows that others have added meanwhile."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _row(draft: ExampleDraft, vector: Vector, now: datetime) -> dict[str, Any]:
    return {
        "user_input": draft.user_input,
        "agent_response": draft.agent_response,
        "tags": list(draft.tags),
        "quality_grade": draft.quality_grade,
        "embedding": vector,
        "created_at": now,
        "updated_at": now,
    }


def _missing(offered: Iterable[ExampleDraft], found: Mapping[tuple[str, str], _Stored]) -> list[ExampleDraft]:
    return [draft for draft in offered if draft.content not in found]


def _found(connection: Connection, table: Table, drafts: Sequence[ExampleDraft]) -> dict[tuple[str, str], _Stored]:
    """Those that the table has already, by content."""
    columns = (table.c.id, table.c.user_input, table.c.agent_response, table.c.tags, table.c.quality_grade)
    contents = {draft.content for draft in drafts}
    found: dict[tuple[str, str], _Stored] = {}
    for batch in _batches(sorted({draft.user_input for draft in drafts})):
        for row in connection.execute(select(*columns).where(_is_one_of(connection, table, batch))):
            if (content := (row.user_input, row.agent_response)) in contents:
                found[content] = _Stored(row.id, tuple(row.tags or ()), row.quality_grade)
    return found


def _is_one_of(connection: Connection, table: Table, inputs: Sequence[str]) -> Any:
    """By the index over contents, which has fingerprints on PostgreSQL."""
    if connection.dialect.name == "postgresql":
        prints = [hashlib.md5(one.encode(), usedforsecurity=False).hexdigest() for one in inputs]
        return func.md5(table.c.user_input).in_(prints)
    return table.c.user_input.in_(inputs)


def _batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, STATEMENT_ROWS)):
        yield batch


# ── another model ────────────────────────────────────────────────────────────────────────────────


def reembed(store: ExampleStore, watch: Watch = nothing) -> int:
    """Embeds all examples again in one transaction and returns their number.

    Raises NotFound if there is no library, ModelError if the model fails: nothing is changed then.
    """
    model = store.model
    with store.connection() as connection:
        stamp = store.stamp(connection)
        if stamp is None:
            raise NotFound("还没有示例库", hint="先运行 qianxun examples import FILE.xlsx")
        tables = store.models_of(stamp.dimension).tables
        texts = _texts(connection, tables)
    made: Made = dict(zip(texts, vectorize(list(texts.values()), model, watch), strict=True))
    with store.writing() as connection:
        store.migrate(connection)
        _lock(connection, tables)
        late = {key: words for key, words in _texts(connection, tables).items() if words != texts.get(key)}
        made |= zip(late, vectorize(list(late.values()), model), strict=True)
        for category, table in tables.items():
            _change(connection, table, store.models_of(model.dimension).tables[category], category, made)
        new = Stamp.of(model)
        connection.execute(models(store.prefix).stamp.update().values(model=new.model, dimension=new.dimension))
    store.reload()
    return len(made)


def _texts(connection: Connection, tables: Mapping[str, Table]) -> dict[tuple[str, int], str]:
    return {
        (category, row.id): embedded_text(row.user_input, row.agent_response)
        for category, table in tables.items()
        for row in connection.execute(select(table.c.id, table.c.user_input, table.c.agent_response))
    }


def _lock(connection: Connection, tables: Mapping[str, Table]) -> None:
    """Against examples with vectors of the old model. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        names = ", ".join(table.name for table in tables.values())
        connection.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))


def _change(connection: Connection, table: Table, new: Table, category: str, made: Made) -> None:
    dimension = dimension_of(new)
    if connection.dialect.name != "postgresql":
        _update(connection, new, category, made)
        return
    if (index := nearest_index(table)) is not None:
        index.drop(connection, checkfirst=True)
    connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN embedding TYPE vector"))
    _update(connection, new, category, made)
    connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN embedding TYPE vector({dimension})"))
    if (index := nearest_index(new)) is not None:
        connection.execute(text("SET LOCAL max_parallel_maintenance_workers = 0"))  # see `insert`
        index.create(connection)


def _update(connection: Connection, table: Table, category: str, made: Made) -> None:
    now = datetime.now(UTC)
    rows = [
        {"row": number, "embedding": vector, "updated_at": now}
        for (owner, number), vector in made.items()
        if owner == category
    ]
    if rows:
        connection.execute(table.update().where(table.c.id == bindparam("row")), rows)
