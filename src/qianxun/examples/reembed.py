"""Another model for a library that is there: every vector made anew, and the tables made as wide as they must be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from sqlalchemy import Connection, Table, bindparam, select, text

from qianxun.core.errors import NotFound
from qianxun.core.types import Vector
from qianxun.examples.schema import embedded_text, models, nearest_index
from qianxun.examples.store import ExampleStore, Stamp
from qianxun.examples.vectors import Watch, unwatched, vectorize

Made: TypeAlias = dict[tuple[str, int], Vector]  # (category, id) → its vector


def reembed(store: ExampleStore, watch: Watch = unwatched) -> int:
    """Answers how many examples there are. All of them change over in one transaction, or none does.

    Raises NotFound where there is no library, ModelError where the model fails: then nothing is changed.
    """
    model = store.model
    with store.connection() as connection:
        stamp = store.stamp(connection)
        if stamp is None:
            raise NotFound("还没有示例库", hint="先运行 qianxun examples import FILE.xlsx")
        tables = models(store.prefix, stamp.dimension).tables
        texts = _texts(connection, tables)
    made: Made = dict(zip(texts, vectorize(list(texts.values()), model, watch), strict=True))
    with store.writing() as connection:
        store.bring_up_to_date(connection)
        _lock(connection, tables)
        late = {key: words for key, words in _texts(connection, tables).items() if words != texts.get(key)}
        made |= zip(late, vectorize(list(late.values()), model), strict=True)
        for category, table in tables.items():
            _change(connection, table, category, made, model.dimension)
        new = Stamp.of(model)
        connection.execute(models(store.prefix).stamp.update().values(model=new.model, dimension=new.dimension))
    store.look_again()
    return len(made)


def _texts(connection: Connection, tables: Mapping[str, Table]) -> dict[tuple[str, int], str]:
    return {
        (category, row.id): embedded_text(row.user_input, row.agent_response)
        for category, table in tables.items()
        for row in connection.execute(select(table.c.id, table.c.user_input, table.c.agent_response))
    }


def _lock(connection: Connection, tables: Mapping[str, Table]) -> None:
    """Nobody adds an example with a vector of the old model meanwhile. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        names = ", ".join(table.name for table in tables.values())
        connection.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))


def _change(connection: Connection, table: Table, category: str, made: Made, dimension: int) -> None:
    new = models(table.name.removesuffix(category), dimension).tables[category]
    if connection.dialect.name != "postgresql":
        _update(connection, new, category, made)
        return
    if (index := nearest_index(table)) is not None:
        index.drop(connection, checkfirst=True)
    connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN embedding TYPE vector"))
    _update(connection, new, category, made)
    connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN embedding TYPE vector({dimension})"))
    if (index := nearest_index(new)) is not None:
        connection.execute(text("SET LOCAL max_parallel_maintenance_workers = 0"))  # see `keeping`
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
