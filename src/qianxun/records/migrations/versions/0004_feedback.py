"""What people think of a recall; and one tenant's log without reading the others'."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("knowledge_retrieval_log", schema=None) as batch_op:
        batch_op.add_column(sa.Column("rating", sa.String(length=8), nullable=True))
        batch_op.add_column(sa.Column("rated_chunks", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("comment", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("rated_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.create_index("ix_retrieval_log_tenant", ["tenant", "id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("knowledge_retrieval_log", schema=None) as batch_op:
        batch_op.drop_index("ix_retrieval_log_tenant")
        batch_op.drop_column("rated_at")
        batch_op.drop_column("comment")
        batch_op.drop_column("rated_chunks")
        batch_op.drop_column("rating")
