"""What operators are accountable for: the audit log, receipts of deletions, quotas of tenants, webhooks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from qianxun.records.schema import LongText, Moment

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("sequence", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("who", sa.String(255), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("details", LongText, nullable=True),
        sa.Column("salt", sa.String(32), nullable=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_index("ix_audit_log_tenant", "audit_log", ["tenant", "sequence"])
    op.create_table(
        "deletion_receipts",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("body", LongText, nullable=False),
    )
    op.create_index("ix_deletion_receipts_tenant", "deletion_receipts", ["tenant", "created_at"])
    op.create_table(
        "quotas",
        sa.Column("tenant", sa.String(64), primary_key=True),
        *(sa.Column(name, BIG_KEY, nullable=True) for name in ("documents", "chunks", "bytes", "searches_per_minute")),
        sa.Column("updated_at", Moment(), nullable=False),
    )
    op.create_table(
        "search_counts",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("minute", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("searches", BIG_KEY, nullable=False),
    )
    _create_webhooks()


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
    )
    op.create_index("ix_webhooks_tenant", "webhooks", ["tenant", "id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("webhook_id", BIG_KEY, nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("payload", LongText, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("next_at", Moment(), nullable=False),
    )
    op.create_index("ix_webhook_deliveries_due", "webhook_deliveries", ["status", "next_at"])
    op.create_index("ix_webhook_deliveries_hook", "webhook_deliveries", ["webhook_id", "id"])


def downgrade() -> None:
    for table in ("webhook_deliveries", "webhooks", "search_counts", "quotas", "deletion_receipts", "audit_log"):
        op.drop_table(table)
