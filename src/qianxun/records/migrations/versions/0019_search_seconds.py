"""Searches against a quota are counted by the second, and no longer by the minute: a window that moves has no edge."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create("second")


def downgrade() -> None:
    _create("minute")


def _create(unit: str) -> None:
    """Anew: what was counted is of the last minutes alone."""
    op.drop_table("search_counts")
    op.create_table(
        "search_counts",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column(unit, BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("searches", BIG_KEY, nullable=False),
    )
