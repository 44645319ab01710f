"""The four tables of examples, and the row that says by which model their vectors were made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import postgresql

from qianxun.examples.schema import INDEXED_DIMENSIONS, Embedding

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

CATEGORIES = ("qa_examples", "record_examples", "query_examples", "greeting_examples")


def upgrade() -> None:
    prefix = context.config.attributes["prefix"]
    dimension = context.config.attributes["dimension"]
    if _is_postgres():
        # In a schema of its own the type could be seen from nowhere else, and the extension can be there but once.
        op.execute(
            "CREATE EXTENSION IF NOT EXISTS vector" + (" SCHEMA public" if context.config.attributes["schema"] else "")
        )
    op.create_table(
        f"{prefix}example_library",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    for category in CATEGORIES:
        _create(f"{prefix}{category}", dimension)


def _create(table: str, dimension: int) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False, comment="主键"),
        sa.Column("user_input", sa.Text(), nullable=False, comment="用户输入"),
        sa.Column("agent_response", sa.Text(), nullable=False, comment="助手回复"),
        sa.Column(
            "tags",
            sa.JSON(none_as_null=True).with_variant(postgresql.ARRAY(sa.Text()), "postgresql"),
            nullable=True,
            comment="标签",
        ),
        sa.Column("quality_grade", sa.String(length=50), nullable=True, comment="质量等级：优秀/良好/一般"),
        sa.Column("embedding", Embedding(dimension), nullable=False, comment="“用户输入 助手回复”的向量"),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    if not _is_postgres():
        op.create_index(f"{table}_content_idx", table, ["user_input", "agent_response"], unique=True)
        return
    op.create_index(
        f"{table}_content_idx", table, [sa.text("md5(user_input)"), sa.text("md5(agent_response)")], unique=True
    )
    if dimension <= INDEXED_DIMENSIONS:
        op.create_index(
            f"{table}_embedding_idx",
            table,
            ["embedding"],
            postgresql_using="hnsw",
            postgresql_ops={"embedding": "vector_cosine_ops"},
        )


def downgrade() -> None:
    """In reverse. The extension stays: others of the same database may use it."""
    prefix = context.config.attributes["prefix"]
    for category in reversed(CATEGORIES):
        table = f"{prefix}{category}"
        if _is_postgres():
            op.drop_index(f"{table}_embedding_idx", table_name=table, if_exists=True)
        op.drop_index(f"{table}_content_idx", table_name=table)
        op.drop_table(table)
    op.drop_table(f"{prefix}example_library")


def _is_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
