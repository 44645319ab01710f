"""Evaluation sets: labelled questions about a base, runs over them, and what each run achieved on each question."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "evaluation_sets",
        sa.Column("id", BIG_KEY, nullable=False, autoincrement=False),
        sa.Column("knowledge_base_id", BIG_KEY, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["knowledge_base_id"], ["knowledge_bases.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("knowledge_base_id", "name", name="uq_evaluation_sets_base_name"),
    )
    op.create_table(
        "evaluation_cases",
        sa.Column("id", BIG_KEY, nullable=False, autoincrement=False),
        sa.Column("set_id", BIG_KEY, nullable=False),
        sa.Column("question", sa.String(length=2048), nullable=False),
        sa.Column("question_digest", sa.String(length=40), nullable=False),
        sa.Column("relevant", sa.JSON(), nullable=False),
        sa.Column("expected", LONG_TEXT, nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("log_id", BIG_KEY, nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["evaluation_sets.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("set_id", "question_digest", name="uq_evaluation_cases_question"),
    )
    _create_runs()


def _create_runs() -> None:
    op.create_table(
        "evaluation_runs",
        sa.Column("id", BIG_KEY, nullable=False, autoincrement=False),
        sa.Column("set_id", BIG_KEY, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("choices", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("p50_ms", sa.Double(), nullable=False),
        sa.Column("p95_ms", sa.Double(), nullable=False),
        sa.Column("setup", sa.JSON(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["evaluation_sets.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_evaluation_runs_set", "evaluation_runs", ["set_id", "id"])
    op.create_table(
        "evaluation_results",
        sa.Column("run_id", BIG_KEY, nullable=False),
        sa.Column("case_id", BIG_KEY, nullable=False, autoincrement=False),
        sa.Column("question", sa.String(length=2048), nullable=False),
        sa.Column("digest", sa.String(length=40), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("milliseconds", sa.Double(), nullable=False),
        sa.Column("first_rank", sa.Integer(), nullable=True),
        sa.Column("chunk_ids", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["evaluation_runs.id"]),
        sa.PrimaryKeyConstraint("run_id", "case_id"),
    )


def downgrade() -> None:
    op.drop_table("evaluation_results")
    op.drop_index("ix_evaluation_runs_set", table_name="evaluation_runs")
    op.drop_table("evaluation_runs")
    op.drop_table("evaluation_cases")
    op.drop_table("evaluation_sets")
