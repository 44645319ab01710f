"""A database written anew, so that nothing of deleted rows is left in its files; as far as each can be asked to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Engine

from qianxun.core.errors import Overloaded
from qianxun.records.database.open import for_single_statements
from qianxun.records.database.postgres import BACKEND, schema_of
from qianxun.records.database.server import SQLITE, server_of

CHECKPOINTS: Final = 20  # tries, each of which waits for readers as long as a statement does
PAUSE_SECONDS: Final = 0.25
POSTGRES_NOTE: Final = (
    "PostgreSQL：行已逐表读过不在了，并已对这些表运行 VACUUM；预写日志（WAL）、归档与服务器的备份不在可证之内"
)
MYSQL_NOTE: Final = (
    "MySQL：行已逐表读过不在了，并已对这些表运行 OPTIMIZE；二进制日志、撤销日志与服务器的备份不在可证之内"
)


def rewrite(engine: Engine, tables: Sequence[str]) -> str:
    """Returns what is not known of the files then. Raises Overloaded where a reader never lets go of old pages."""
    if engine.dialect.name == SQLITE:
        _rewrite_file(engine)
        return ""
    server = server_of(engine.dialect.name)
    assert server is not None
    with for_single_statements(engine).connect() as connection:
        server.wait_at_most(connection, None)
        if engine.dialect.name == BACKEND:
            schema = schema_of(connection)
            for table in tables:
                connection.exec_driver_sql(f'VACUUM "{schema}"."{table}"' if schema else f'VACUUM "{table}"')
            return POSTGRES_NOTE
        for table in tables:
            connection.exec_driver_sql(f"OPTIMIZE TABLE `{table}`").close()
        return MYSQL_NOTE


def _rewrite_file(engine: Engine) -> None:
    """VACUUM writes every page anew from what is live, through the write-ahead log, which is then cut to nothing."""
    with engine.connect() as connection:
        cursor = connection.connection.cursor()
        cursor.execute("PRAGMA secure_delete=ON")
        cursor.execute("PRAGMA temp_store=FILE")  # the copy is as large as the database
        try:
            _checkpoint(connection)
            cursor.execute("VACUUM")
            _checkpoint(connection)
        finally:
            cursor.execute("PRAGMA temp_store=MEMORY")
            cursor.execute("PRAGMA secure_delete=OFF")
            cursor.close()


def _checkpoint(connection: Connection) -> None:
    for _ in range(CHECKPOINTS):
        cursor = connection.connection.cursor()
        busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        cursor.close()
        if not busy:
            return
        time.sleep(PAUSE_SECONDS)
    raise Overloaded("别的连接一直在读旧的页，数据库文件没能重写", hint="等检索与导出结束后再清除一次")
