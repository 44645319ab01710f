"""Where the settings say that the records are."""

from __future__ import annotations

from qianxun.engine.settings import Settings
from qianxun.records.database.open import sqlite_url
from qianxun.records.database.postgres import Reach

DATABASE = "qianxun.db"


def database_url(settings: Settings) -> str:
    """Of the database server, or of the file in the data folder."""
    return settings.records.url or sqlite_url(settings.folder / DATABASE)


def reach(settings: Settings) -> Reach:
    """How a database server is reached."""
    told = settings.records
    return Reach(told.pool_size, told.connect_seconds, told.statement_seconds, told.schema)
