"""Every byte that a database of records holds, as far as it can be read."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import inspect

from qianxun.records import Records


def stored_bytes(records: Records, folder: Path) -> bytes:
    """The files of the folder; on a server the rows of all tables, under their names."""
    files = b"".join(path.read_bytes() for path in folder.iterdir())
    if records.is_here:
        return files
    parts = [files.decode("latin-1")]
    with records.reading() as tx:
        for table in inspect(tx).get_table_names():
            parts.append(table)
            if tx.dialect.name == "postgresql":
                parts.extend(tx.exec_driver_sql(f'SELECT t::text FROM "{table}" AS t').scalars())
            else:
                parts.extend(str(tuple(row)) for row in tx.exec_driver_sql(f"SELECT * FROM `{table}`"))
    return "\n".join(parts).encode()
