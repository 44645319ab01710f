"""The log of searches as it is documented: its index by base and time is called idx_kb_created, its times are whole."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLE = "knowledge_retrieval_log"
COLUMNS = ["knowledge_base_id", "created_at"]


def upgrade() -> None:
    op.execute(f"UPDATE {TABLE} SET time_cost_ms = round(time_cost_ms)")
    _alter(sa.Double(), sa.Integer(), "ix_retrieval_log_base_created", "idx_kb_created")


def downgrade() -> None:
    _alter(sa.Integer(), sa.Double(), "idx_kb_created", "ix_retrieval_log_base_created")


def _alter(before: Any, after: Any, old: str, new: str) -> None:
    with op.batch_alter_table(TABLE, schema=None) as batch_op:
        batch_op.drop_index(old)
        batch_op.alter_column("time_cost_ms", existing_type=before, type_=after, existing_nullable=False)
        batch_op.create_index(new, COLUMNS, unique=False)
