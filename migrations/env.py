"""Alembic's entry when it is started by hand."""

from alembic import context

from qianxun.engine.admin.examples import run_migrations

run_migrations(context)
