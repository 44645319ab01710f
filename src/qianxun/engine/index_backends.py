"""Where the settings say that the indexes are."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from qianxun.core.ports import IndexBackend
from qianxun.engine.registry import create_index_backend
from qianxun.engine.settings import Settings

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
        POSTGRES, url=url, schema=schema_for(settings, database), exact_limit=chosen.exact_limit
    )
    return found


def index_folder(settings: Settings, database: str = "") -> Path:
    """Of the embedded index: one for each database, since the numbers of bases mean something else in another."""
    return settings.folder / (f"index-{database}" if database else "index")


def schema_for(settings: Settings, database: str = "") -> str:
    """Where the index of these records lies: bases are known by their numbers, which other records give, too.

    Tables that records of an earlier time left in the same database are never taken for those of the present ones.
    """
    whose = database or str(settings.folder.resolve())
    return f"{SCHEMA}_{blake2b(whose.encode(), digest_size=5).hexdigest()}"
