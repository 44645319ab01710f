"""When documents are in force, and which ones they replace. What is stored already has none until it is given again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "document_validity",
        sa.Column("document_key", BIG_KEY, sa.ForeignKey("documents.key"), primary_key=True),
        sa.Column("generation", BIG_KEY, primary_key=True),
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("valid_from", sa.String(10), nullable=False),
        sa.Column("valid_until", sa.String(10), nullable=False),
        sa.Column("supersedes", sa.JSON(), nullable=False),
        sa.Column("read_fields", sa.JSON(), nullable=False),
    )
    op.create_index("ix_document_validity_base", "document_validity", ["knowledge_base_id"])


def downgrade() -> None:
    op.drop_table("document_validity")
