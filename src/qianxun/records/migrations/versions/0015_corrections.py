"""What people correct, and what chunks and tables know of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from qianxun.records.schema import DocId, Moment

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "corrections",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("knowledge_base_id", BIG_KEY, sa.ForeignKey("knowledge_bases.id"), nullable=False),
        sa.Column("doc_id", DocId, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("anchor", sa.JSON(), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("author", sa.String(128), nullable=False),
        sa.Column("origin", sa.String(64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("undone_by", sa.String(128), nullable=False),
        sa.Column("undone_at", Moment(), nullable=True),
        sa.Column("original", sa.JSON(), nullable=False),
        sa.Column("revision", BIG_KEY, nullable=False),
        sa.Column("chunk_keys", sa.JSON(), nullable=False),
        sa.Column("vector_model", sa.String(200), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
    )
    op.create_index("ix_corrections_document", "corrections", ["knowledge_base_id", "doc_id"])
    op.add_column("chunks", sa.Column("corrected", sa.JSON(), nullable=True))
    op.add_column("tables", sa.Column("hidden_rows", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("tables", "hidden_rows")
    op.drop_column("chunks", "corrected")
    op.drop_table("corrections")
