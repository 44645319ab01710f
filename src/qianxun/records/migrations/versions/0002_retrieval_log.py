"""The log of recalls."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "knowledge_retrieval_log",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("knowledge_base_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("trace_id", sa.String(length=64), nullable=False),
        sa.Column("query", sa.String(length=2048), nullable=False),
        sa.Column("retrieval_params", sa.JSON(), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("zero", sa.Boolean(), nullable=False),
        sa.Column("time_cost_ms", sa.Double(), nullable=False),
        sa.Column("from_cache", sa.Boolean(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("degraded", sa.JSON(), nullable=False),
        sa.Column("results", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("knowledge_retrieval_log", schema=None) as batch_op:
        batch_op.create_index("ix_retrieval_log_base_created", ["knowledge_base_id", "created_at"], unique=False)
        batch_op.create_index("ix_retrieval_log_created", ["created_at"], unique=False)
        batch_op.create_index("ix_retrieval_log_trace", ["trace_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("knowledge_retrieval_log", schema=None) as batch_op:
        batch_op.drop_index("ix_retrieval_log_trace")
        batch_op.drop_index("ix_retrieval_log_created")
        batch_op.drop_index("ix_retrieval_log_base_created")

    op.drop_table("knowledge_retrieval_log")
