"""Where the settings say that the indexes are."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path

from qianxun.ports import IndexBackend
from qianxun.registry import create_index_backend
from qianxun.settings import Settings

POSTGRES = "postgres"
SCHEMA = "qianxun_index"


def index_backend(settings: Settings, database: str = "") -> IndexBackend:
    """The backend that is named: in the data folder, or in a schema of a database server.

    ``database`` is the identity of the records' database, where that is not in the data folder itself.
    """
    chosen = settings.index
    if chosen.backend != POSTGRES:
        root = index_folder(settings, database)
        backend: IndexBackend = create_index_backend(chosen.backend, root=root, exact_limit=chosen.exact_limit)
        return backend
    url = chosen.url or settings.records.url
    found: IndexBackend = create_index_backend(
        POSTGRES, url=url, schema=schema_for(settings), exact_limit=chosen.exact_limit
    )
    return found


def index_folder(settings: Settings, database: str = "") -> Path:
    """Of the embedded index: one for each database, since the numbers of bases mean something else in another."""
    return settings.folder / (f"index-{database}" if database else "index")


def schema_for(settings: Settings) -> str:
    """Where bases are known by their numbers, no two records may share a schema: each has one of its own.

    Records that lie in the same database have the plain name, or that of their own schema before it.
    """
    records, url = settings.records, settings.index.url or settings.records.url
    if _place(url) == _place(records.url):
        return f"{records.schema}_index" if re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", records.schema) else SCHEMA
    whose = f"{_place(records.url)} {records.schema}" if records.url else str(settings.folder.resolve())
    return f"{SCHEMA}_{blake2b(whose.encode(), digest_size=5).hexdigest()}"


def _place(url: str) -> str:
    """A database, whoever logs in to it and by whatever driver."""
    return re.sub(r"^\w+(\+\w+)?://([^@/]*@)?", "", url)
