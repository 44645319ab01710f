"""Who may see which documents: labels, rules that give them, and on whose behalf keys may ask."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ADDED = {
    "documents": ("access_set", "own_access"),
    "api_keys": ("sees", "vouches", "principal"),
    "knowledge_retrieval_log": ("principal",),
}


def upgrade() -> None:
    op.create_table(
        "access_sets",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("knowledge_base_id", BIG_KEY, sa.ForeignKey("knowledge_bases.id"), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.UniqueConstraint("knowledge_base_id", "digest", name="uq_access_sets_labels"),
    )
    op.create_table(
        "access_rules",
        sa.Column("knowledge_base_id", BIG_KEY, sa.ForeignKey("knowledge_bases.id"), primary_key=True),
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.add_column("documents", sa.Column("access_set", BIG_KEY, nullable=False, server_default="0"))
    op.add_column("documents", sa.Column("own_access", sa.JSON(), nullable=True))
    op.add_column("api_keys", sa.Column("sees", sa.String(16), nullable=True))
    op.add_column("api_keys", sa.Column("vouches", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("api_keys", sa.Column("principal", sa.JSON(), nullable=True))
    op.add_column("knowledge_retrieval_log", sa.Column("principal", sa.String(128), nullable=True))


def downgrade() -> None:
    for table, columns in ADDED.items():
        for name in columns:
            op.drop_column(table, name)
    op.drop_table("access_rules")
    op.drop_table("access_sets")
