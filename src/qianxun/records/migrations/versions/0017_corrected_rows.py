"""What corrections put in the place of a table's rows; until now only which rows they hid."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tables", sa.Column("corrected_rows", sa.JSON(), nullable=True))
    _convert("hidden_rows", "corrected_rows", lambda numbers: {str(number): [] for number in numbers})
    op.drop_column("tables", "hidden_rows")


def downgrade() -> None:
    op.add_column("tables", sa.Column("hidden_rows", sa.JSON(), nullable=True))
    _convert("corrected_rows", "hidden_rows", lambda rows: [int(number) for number in rows])
    op.drop_column("tables", "corrected_rows")


def _convert(old: str, new: str, converted: object) -> None:
    assert callable(converted)
    names = ("hidden_rows", "corrected_rows")
    columns = (sa.Column(name, sa.JSON(none_as_null=True)) for name in names)
    tables = sa.Table("tables", sa.MetaData(), sa.Column("key", sa.BigInteger, primary_key=True), *columns)
    tx = op.get_bind()
    for key, stored in tx.execute(sa.select(tables.c.key, tables.c[old]).where(tables.c[old].is_not(None))).all():
        tx.execute(tables.update().where(tables.c.key == key).values({new: converted(stored)}))
