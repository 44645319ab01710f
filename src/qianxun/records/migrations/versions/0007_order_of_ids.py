"""Documents in the order of their ids, which on PostgreSQL is the order of the bytes, too, whatever its locale."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _collate('"C"')


def downgrade() -> None:
    _collate('"default"')


def _collate(collation: str) -> None:
    if op.get_bind().dialect.name == "postgresql":  # the others compare bytes already
        op.execute(f"ALTER TABLE documents ALTER COLUMN doc_id TYPE VARCHAR(255) COLLATE {collation}")
