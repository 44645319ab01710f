"""Several processes on one database: who consumes a base's outbox, who prepares what it accepted, and which programs of
an earlier version may go on beside newer ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from qianxun.records.schema import Moment

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("holder", BIG_KEY, nullable=False),
        sa.Column("fence", BIG_KEY, nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
    )
    op.create_table(
        "outbox_claims",
        sa.Column("first_sequence", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("last_sequence", BIG_KEY, nullable=False),
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("holder", BIG_KEY, nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
    )
    op.create_table("schema_readers", sa.Column("revision", sa.String(32), primary_key=True))
    op.create_index("ix_outbox_claims_base", "outbox_claims", ["knowledge_base_id", "last_sequence"])


def downgrade() -> None:
    op.drop_table("schema_readers")
    op.drop_table("outbox_claims")
    op.drop_table("leases")
