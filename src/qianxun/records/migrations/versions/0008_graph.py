"""What texts tell the graph, which names people made one, and what models wrote about its communities."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
NAME = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "graph_facts",
        sa.Column("chunk_key", BIG_KEY, nullable=False),
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("document_key", BIG_KEY, nullable=False),
        sa.Column("revision", BIG_KEY, nullable=False),
        sa.Column("origin", sa.String(length=220), nullable=False),
        sa.Column("digest", sa.String(length=40), nullable=False),
        sa.Column("facts", LONG_TEXT, nullable=False),
        sa.ForeignKeyConstraint(["chunk_key"], ["chunks.key"]),
        sa.PrimaryKeyConstraint("chunk_key"),
    )
    op.create_index("ix_graph_facts_digest", "graph_facts", ["knowledge_base_id", "digest"])
    op.create_table(
        "graph_aliases",
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("alias", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("origin", sa.String(length=220), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["knowledge_base_id"], ["knowledge_bases.id"]),
        sa.PrimaryKeyConstraint("knowledge_base_id", "alias"),
    )
    op.create_table(
        "graph_summaries",
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("community", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("summary", LONG_TEXT, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["knowledge_base_id"], ["knowledge_bases.id"]),
        sa.PrimaryKeyConstraint("knowledge_base_id", "community", "model"),
    )


def downgrade() -> None:
    op.drop_table("graph_summaries")
    op.drop_table("graph_aliases")
    op.drop_index("ix_graph_facts_digest", table_name="graph_facts")
    op.drop_table("graph_facts")
