"""Vectors of questions, and where a question comes from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("qa_pairs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("origin", sa.String(length=220), server_default="given", nullable=False))
        batch_op.add_column(sa.Column("chunk_digest", sa.String(length=40), nullable=True))
        batch_op.create_index("ix_pairs_chunk", ["knowledge_base_id", "chunk_key"], unique=False)
        batch_op.create_index("ix_pairs_digest", ["knowledge_base_id", "chunk_digest"], unique=False)

    op.create_table(
        "pair_vectors",
        sa.Column("pair_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["pair_key"], ["qa_pairs.key"]),
        sa.PrimaryKeyConstraint("pair_key", "model"),
    )


def downgrade() -> None:
    op.drop_table("pair_vectors")
    with op.batch_alter_table("qa_pairs", schema=None) as batch_op:
        batch_op.drop_index("ix_pairs_digest")
        batch_op.drop_index("ix_pairs_chunk")
        batch_op.drop_column("chunk_digest")
        batch_op.drop_column("origin")
