"""Where the settings put the records, the indexes and cached answers, and which index backend they name."""

from __future__ import annotations

import importlib
import logging
from hashlib import blake2b
from pathlib import Path
from typing import Any

from qianxun.core import plugins
from qianxun.core.errors import BadSettings
from qianxun.core.ports import Cache, IndexBackend
from qianxun.core.system.cache import MemoryCache
from qianxun.core.system.version import installed_version
from qianxun.engine.folder_lock import DATABASE
from qianxun.engine.settings import Settings
from qianxun.rank.rerank import SharedScores
from qianxun.records.database.open import sqlite_url
from qianxun.records.database.server import ConnectionOptions

log = logging.getLogger(__name__)

SCHEMA = "qianxun_index"
MILVUS = "milvus"
INDEX_BACKENDS = {
    "embedded": "qianxun.index.embedded.backend",
    "milvus": "qianxun.index.milvus.index",
    "postgres": "qianxun.index.postgres.index",
}


def database_url(settings: Settings) -> str:
    """Of the database server, or of the file in the data folder."""
    return settings.records.url or sqlite_url(settings.folder / DATABASE)


def folder_bytes(folder: Path) -> int:
    """What its files take. Files that vanish while another process works, or that may not be read, count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except (FileNotFoundError, PermissionError):
            continue
    return total


def acknowledged_file(settings: Settings) -> Path:
    """In which the engine of this folder counts what it commits."""
    return settings.folder / "acknowledged"


def connection_options(settings: Settings) -> ConnectionOptions:
    """How a database server is reached."""
    section = settings.records
    return ConnectionOptions(section.pool_size, section.connect_seconds, section.statement_seconds, section.schema)


def index_backend(settings: Settings, database: str = "") -> IndexBackend:
    """The backend that the settings name: ours, a plug-in's, or a dotted module with a ``create()``.

    ``database`` is the identity of the records' database, if that is not in the data folder itself. Raises BadSettings.
    """
    section = settings.index
    name = section.backend
    if name != MILVUS and any(known.startswith("milvus.") for known in settings.origins):
        log.warning("设置里有 milvus，而 index.backend 是 %s：索引不在 Milvus 里", name)
    if name == "postgres":
        place: dict[str, Any] = {"url": section.url or settings.records.url, "schema": schema_for(settings, database)}
    elif name == MILVUS:
        place = {**milvus_address(settings), "prefix": schema_for(settings, database)}
    else:
        place = {"root": index_folder(settings, database)}
    if name in INDEX_BACKENDS or "." in name:
        created: IndexBackend = _module(INDEX_BACKENDS.get(name, name)).create(exact_limit=section.exact_limit, **place)
    elif name in plugins.names("index"):
        created = plugins.create("index", name, exact_limit=section.exact_limit, url=section.url, **place)
    else:
        known = "、".join(sorted((*INDEX_BACKENDS, *plugins.names("index"))))
        raise BadSettings(f"没有名为 {name} 的索引后端", hint=f"可用：{known}，或写出带 create() 的模块全名")
    return created


def reader_backend(settings: Settings) -> IndexBackend:
    """The index in the data folder, for a process beside the one that writes to it. Raises BadSettings."""
    if settings.records.url or settings.index.backend != "embedded":
        raise BadSettings(
            "serve --workers 用于数据目录里的记录与索引",
            hint="记录与索引在服务器上时不需要它：直接多运行几个 qianxun serve",
        )
    from qianxun.index.embedded.reader import create_reader

    return create_reader(index_folder(settings), exact_limit=settings.index.exact_limit)


def is_index_shared(settings: Settings) -> bool:
    """Whether several processes may use the index at once: one on a server. Its module says so by ``SHARED``."""
    name = settings.index.backend
    if name in INDEX_BACKENDS or "." in name:
        return bool(getattr(_module(INDEX_BACKENDS.get(name, name)), "SHARED", False))
    return name in plugins.names("index") and bool(getattr(plugins.load("index", name), "SHARED", False))


def is_shared(settings: Settings) -> bool:
    """Whether any number of engines may work on the same records at once: records and index are on servers."""
    return bool(settings.records.url) and is_index_shared(settings)


def milvus_address(settings: Settings) -> dict[str, str]:
    """A host may be named with its protocol: ``https://…`` is a server that wants TLS."""
    section = settings.milvus
    host = section.host if "://" in section.host else f"http://{section.host}"
    return {"uri": f"{host.rstrip('/')}:{section.port}", "user": section.user, "password": section.password}


def open_cache(settings: Settings) -> tuple[Cache, SharedScores | None]:
    """Of answers, and of rerank scores where processes share them. Raises MissingExtra or BadSettings."""
    near = MemoryCache(settings.search.cache_entries)
    if not settings.cache.url:
        return near, None
    from qianxun.retrieve.redis_cache import RedisCache

    ranking = (installed_version(), settings.search, settings.vectorization, settings.rerank)
    digest = blake2b(repr(ranking).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    shared = RedisCache(settings.cache.url, near, settings.search.cache_seconds, ranking=digest)
    return shared, shared.scores


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise BadSettings(f"导入不了索引后端 {name}：{error}", hint="检查模块名与安装") from error


def index_folder(settings: Settings, database: str = "") -> Path:
    """Of the embedded index: one for each database, since the ids of bases mean something else in another."""
    return settings.folder / (f"index-{database}" if database else "index")


def graph_folder(settings: Settings, database: str = "") -> Path:
    """Where large graphs are kept, for each database apart."""
    return settings.folder / (f"graph-{database}" if database else "graph")


def schema_for(settings: Settings, database: str = "") -> str:
    """The schema of the index of these records, or how the names of its collections begin: ids of bases are unique
    within one database only.

    Tables that earlier records left in the same database are thus never taken for those of the present ones.
    """
    origin = database or str(settings.folder.resolve())
    return f"{SCHEMA}_{blake2b(origin.encode(), digest_size=5).hexdigest()}"
