"""Changes the model of a library: every vector is computed again, and the columns get its dimension."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from sqlalchemy import Connection, Table, bindparam, select, text

from qianxun.core.errors import NotFound
from qianxun.core.ports import nothing
from qianxun.core.types import Vector
from qianxun.examples.insert import Watch, vectorize
from qianxun.examples.schema import embedded_text, models, nearest_index
from qianxun.examples.store import ExampleStore, Stamp

Made: TypeAlias = dict[tuple[str, int], Vector]  # (category, id) → its vector


def reembed(store: ExampleStore, watch: Watch = nothing) -> int:
    """Embeds all examples again in one transaction and returns their number.

    Raises NotFound if there is no library, ModelError if the model fails: nothing is changed then.
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
        store.migrate(connection)
        _lock(connection, tables)
        late = {key: words for key, words in _texts(connection, tables).items() if words != texts.get(key)}
        made |= zip(late, vectorize(list(late.values()), model), strict=True)
        for category, table in tables.items():
            _change(connection, table, category, made, model.dimension)
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
