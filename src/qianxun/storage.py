"""Where the settings say that the records are."""

from __future__ import annotations

from qianxun.records.database import sqlite_url
from qianxun.records.postgres import Reach
from qianxun.settings import Settings

DATABASE = "qianxun.db"


def database_url(settings: Settings) -> str:
    """Of the database server, or of the file in the data folder."""
    return settings.records.url or sqlite_url(settings.folder / DATABASE)


def reach(settings: Settings) -> Reach:
    """How a database server is reached."""
    told = settings.records
    return Reach(told.pool_size, told.connect_seconds, told.statement_seconds, told.schema)
