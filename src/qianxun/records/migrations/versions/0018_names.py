"""Documents by name: which of them a title means is looked for after every change of a base."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_document_versions_name", "document_versions", ["knowledge_base_id", "name"])


def downgrade() -> None:
    op.drop_index("ix_document_versions_name", "document_versions")
