"""The state of a set-up: versions, optional dependencies, the data folder and what is in it. `examine` reads files and
the database, also while another process owns the folder; it changes nothing."""

from __future__ import annotations

import asyncio
import platform
import sqlite3
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import IndexUnusable, MissingExtra, QianxunError, RetrieverUnavailable
from qianxun.core.system.version import installed_version
from qianxun.core.types import STORED_STATUSES, IndexStamp, KnowledgeBase
from qianxun.engine.admin.database import disk_problem, has_records
from qianxun.engine.folder_lock import DATABASE, is_exposed, owner_of
from qianxun.engine.settings import Settings
from qianxun.engine.storage import (
    acknowledged_file,
    connection_options,
    database_url,
    folder_bytes,
    index_backend,
    index_folder,
    is_index_shared,
)
from qianxun.index.embedded.backend import CURRENT
from qianxun.index.embedded.backend import examine as examine_index
from qianxun.records import bases, listing, outbox
from qianxun.records.database.acknowledged import Loss, losses, missing
from qianxun.records.database.open import connect
from qianxun.records.database.ownership import identity
from qianxun.records.database.postgres import schema_of
from qianxun.records.governance import webhooks
from qianxun.records.schema import DeliveryRow
from qianxun.text.chinese import Analyser

IndexState: TypeAlias = Literal["ready", "missing", "unfinished", "unusable", "away", "other_model", "other_records"]

# name, modules, what it gives
EXTRAS = (
    ("office", ("docx", "pptx"), "读 Word（DOCX）与 PowerPoint（PPTX）", "reads Word and PowerPoint"),
    ("pdf", ("pdfplumber", "pypdfium2"), "读 PDF", "reads PDF"),
    ("ocr", ("rapidocr",), "认出图片与扫描件里的文字", "reads images and scans"),
    ("service", ("fastapi", "uvicorn", "jinja2"), "HTTP 服务与控制台（qianxun serve）", "the service and its console"),
    ("mcp", ("mcp",), "给 Claude、Cursor 等程序用（qianxun mcp）", "the door for Claude, Cursor and the like"),
    ("postgres", ("psycopg",), "记录与索引放进 PostgreSQL", "records and indexes in PostgreSQL"),
    ("mysql", ("pymysql",), "记录放进 MySQL 或 MariaDB", "records in MySQL or MariaDB"),
    ("milvus", ("pymilvus",), "索引放进 Milvus", "indexes in Milvus"),
    ("redis", ("redis",), "几个进程共用缓存的答案（cache.url）", "answers cached for several processes"),
    ("langgraph", ("langgraph",), "查询工作流与示例库的节点", "the workflow of questions, the node of examples"),
    ("langchain", ("langchain_core",), "LangChain 的检索器", "the retriever for LangChain"),
    ("llamaindex", ("llama_index", "llama_index.core"), "LlamaIndex 的检索器", "the retriever for LlamaIndex"),
    ("neo4j", ("neo4j",), "图谱抄一份到 Neo4j", "a copy of the graph in Neo4j"),
    ("oidc", ("jwt",), "认 OpenID Connect 的令牌", "tokens of OpenID Connect"),
    ("otel", ("opentelemetry", "opentelemetry.sdk"), "把追踪送给收集端", "spans for a collector"),
    ("sentence-transformers", ("sentence_transformers",), "用 sentence-transformers 的模型", "more models"),
)


@dataclass(frozen=True, slots=True)
class Extra:
    name: str
    installed: bool
    gives: str
    gives_en: str


@dataclass(frozen=True, slots=True)
class BaseHealth:
    """An index that is not ready is built again when the base is opened, but for one whose server is ``away``;
    ``reason`` is why it is unusable."""

    name: str
    embedding_model: str
    documents: int
    quarantined: int
    chunks: int
    waiting: int
    index: IndexState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    version: str
    python: str
    sqlite: str
    folder: str
    exists: bool
    megabytes: float
    owner: str | None  # the process that has the folder open
    exposed: tuple[str, ...]  # what other users of this machine can read, until it is opened the next time
    trouble: str  # why records or indexes could not be read
    losses: tuple[Loss, ...]  # acknowledged writes that are missing, now or when the folder was opened
    extras: tuple[Extra, ...]
    bases: tuple[BaseHealth, ...]
    given_up: int = 0  # events that could not be delivered to webhooks


def examine(settings: Settings) -> Health:
    folder = settings.folder
    trouble = ""
    found: tuple[BaseHealth, ...] = ()
    given_up = 0
    lost = losses(acknowledged_file(settings))
    if has_records(settings):
        try:
            found, loss, given_up = _bases(settings)
            lost += [loss] if loss is not None else []
        except (QianxunError, SQLAlchemyError, OSError) as error:
            trouble = "　".join(disk_problem(error) or ()) or str(error).splitlines()[0]
    return Health(
        version=installed_version(),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        folder=str(folder.absolute()),
        exists=folder.is_dir(),
        megabytes=folder_bytes(folder) / 1e6,
        owner=owner_of(folder),
        exposed=tuple(str(path) for path in (folder.absolute(), folder.absolute() / DATABASE) if is_exposed(path)),
        trouble=trouble,
        losses=tuple(lost),
        extras=tuple(Extra(name, _installed(modules), *gives) for name, modules, *gives in EXTRAS),
        bases=found,
        given_up=given_up,
    )


def _installed(modules: tuple[str, ...]) -> bool:
    return all(find_spec(module) is not None for module in modules)


def _bases(settings: Settings) -> tuple[tuple[BaseHealth, ...], Loss | None, int]:
    engine = connect(database_url(settings), connection_options(settings))
    try:
        with engine.begin() as tx:
            loss = missing(tx, acknowledged_file(settings))
            found = tuple(_base(tx, base, settings) for base in bases.across_tenants(tx))
            has_webhooks = tx.dialect.has_table(tx, DeliveryRow.__tablename__, schema=schema_of(tx))
            return found, loss, webhooks.counts(tx)["failed"] if has_webhooks else 0  # a database that is not migrated
    finally:
        engine.dispose()


def _base(tx: Connection, base: KnowledgeBase, settings: Settings) -> BaseHealth:
    counts = listing.tally(tx, base.id)
    index: IndexState = "ready"
    reason = ""
    if settings.index.backend == "embedded":
        index, reason = _index(index_folder(settings, identity(tx)), base, owner_of(settings.folder) is not None)
    elif is_index_shared(settings):
        index, reason = asyncio.run(_index_on_server(settings, identity(tx), base))
    return BaseHealth(
        name=base.name,
        embedding_model=base.embedding_model,
        documents=sum(counts.get(state, 0) for state in STORED_STATUSES),
        quarantined=counts.get("quarantined", 0),
        chunks=counts["chunks"],
        waiting=outbox.depth(tx, base.id),
        index=index,
        reason=reason,
    )


async def _index_on_server(settings: Settings, database: str, base: KnowledgeBase) -> tuple[IndexState, str]:
    """Reads the whole index, too."""
    analysis = Analyser(base.config.get("dictionary", ())).version
    stamp = IndexStamp(base.embedding_model, base.dimension, analysis, base.identity)
    try:
        index = await index_backend(settings, database if settings.records.url else "").open(base.id, stamp)
        try:
            await index.check()
        finally:
            await index.close()
    except IndexUnusable as error:
        return "unusable", error.message
    except (MissingExtra, RetrieverUnavailable) as error:
        return "away", str(error)
    return "ready", ""


def _index(root: Path, base: KnowledgeBase, is_in_use: bool) -> tuple[IndexState, str]:
    """Reads the whole index: what is called sound has been looked at."""
    if not (root / str(base.id) / CURRENT).exists():
        return "missing", ""
    try:
        stamp, is_unfinished = examine_index(root, base.id)
    except IndexUnusable as error:
        return "unusable", error.message
    if is_unfinished and not is_in_use:
        return "unfinished", ""
    if stamp.model != base.embedding_model:
        return "other_model", ""
    return ("ready", "") if stamp.origin in ("", base.identity) else ("other_records", "")
