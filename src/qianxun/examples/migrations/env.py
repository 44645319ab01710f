"""Alembic's entry: runs on the connection, and for the prefix and the dimension, that `examples.store` hands over."""

from __future__ import annotations

from alembic import context

from qianxun.examples.schema import PgVector, models, version_table

given = context.config.attributes
given["connection"].dialect.ischema_names["vector"] = PgVector  # what `--autogenerate` reads back is known, too
context.configure(
    connection=given["connection"],
    target_metadata=models(given["prefix"], given["dimension"]).metadata,
    version_table=version_table(given["prefix"]),
    version_table_schema=given["schema"] or None,
    render_as_batch=True,  # SQLite cannot alter most things in place
)
with context.begin_transaction():
    context.run_migrations()
