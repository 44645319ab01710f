"""Alembic's entry: runs on the connection that `records.database` hands over."""

from __future__ import annotations

from alembic import context

from qianxun.records.schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot alter most things in place
)
with context.begin_transaction():
    context.run_migrations()
