"""Chunks without a text of their own, which is read out of their version: earlier programs would take them for damaged.

The rows that exist stay as they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    """Gives every chunk its text."""
    chunks = sa.table("chunks", *map(sa.column, ("document_key", "generation", "start", "end", "text")))
    versions = sa.table("document_versions", *map(sa.column, ("document_key", "generation", "content")))
    own = sa.func.substr(versions.c.content, chunks.c.start + 1, chunks.c.end - chunks.c.start)
    same = (versions.c.document_key == chunks.c.document_key) & (versions.c.generation == chunks.c.generation)
    text = sa.select(own).where(same).correlate(chunks).scalar_subquery()
    op.execute(sa.update(chunks).where(chunks.c.text == "").values(text=text))
