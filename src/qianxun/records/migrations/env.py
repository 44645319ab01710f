"""Alembic's entry: runs on the connection that `records.database` hands over."""

from __future__ import annotations

from alembic import context

from qianxun.records.database.migrating import skip_what_is_applied
from qianxun.records.database.postgres import schema_of
from qianxun.records.schema import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    version_table_schema=schema_of(connection),
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot alter most things in place
)
skip_what_is_applied(context.get_context())
with context.begin_transaction():
    context.run_migrations()
