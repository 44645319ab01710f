"""What `doctor` finds out. Reads files and the database beside whoever owns the folder; changes nothing."""

from __future__ import annotations

import platform
import sqlite3
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import IndexUnusable, QianxunError
from qianxun.core.types import KnowledgeBase
from qianxun.doors.cli.i18n import tr
from qianxun.doors.cli.session import has_records
from qianxun.engine.folder_lock import owner_of
from qianxun.engine.settings import Settings
from qianxun.engine.storage import database_url, index_folder, reach
from qianxun.index.embedded.extents import load_state, unsealed
from qianxun.index.embedded.index import CURRENT
from qianxun.records import bases, listing, outbox
from qianxun.records.database.disk_errors import trouble
from qianxun.records.database.open import connect
from qianxun.records.database.ownership import identity

# name, modules, what it gives
EXTRAS = (
    ("office", ("docx", "pptx"), "读 Word（DOCX）与 PowerPoint（PPTX）", "reads Word and PowerPoint"),
    ("pdf", ("pdfplumber", "pypdfium2"), "读 PDF", "reads PDF"),
    ("ocr", ("rapidocr",), "认出图片与扫描件里的文字", "reads images and scans"),
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
    """``index``: ready, missing, foreign (built by another model) or unusable; the last three mend themselves."""

    name: str
    embedding_model: str
    documents: int
    quarantined: int
    chunks: int
    waiting: int
    index: str
    index_told: str
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    version: str
    python: str
    sqlite: str
    folder: str
    exists: bool
    megabytes: float
    owner: str | None
    trouble: str
    extras: tuple[Extra, ...]
    bases: tuple[BaseHealth, ...]

    @property
    def is_sound(self) -> bool:
        return not self.trouble and not any(base.trouble for base in self.bases)


def examine(settings: Settings) -> Health:
    folder = settings.folder
    failure = ""
    found: tuple[BaseHealth, ...] = ()
    if has_records(settings):
        try:
            found = _bases(settings)
        except (QianxunError, SQLAlchemyError, OSError) as error:
            failure = _reason(error)
    return Health(
        version=version("qianxun"),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        folder=str(folder.absolute()),
        exists=folder.is_dir(),
        megabytes=_bytes(folder) / 1e6,
        owner=owner_of(folder),
        trouble=failure,
        extras=tuple(Extra(name, _installed(modules), *gives) for name, modules, *gives in EXTRAS),
        bases=found,
    )


def _reason(error: Exception) -> str:
    told = "　".join(trouble(error) or ()) or str(error).splitlines()[0]
    return tr(f"读不了记录或索引：{told}", f"The records or an index cannot be read: {told}")


def _installed(modules: tuple[str, ...]) -> bool:
    return all(find_spec(module) is not None for module in modules)


def _bytes(folder: Path) -> int:
    """Files may vanish under a running process, or be somebody else's: those count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except (FileNotFoundError, PermissionError):
            continue
    return total


def _bases(settings: Settings) -> tuple[BaseHealth, ...]:
    engine = connect(database_url(settings), reach(settings))
    try:
        with engine.begin() as tx:
            return tuple(_base(tx, about, settings) for about in bases.of_all_tenants(tx))
    finally:
        engine.dispose()


def _base(tx: Connection, about: KnowledgeBase, settings: Settings) -> BaseHealth:
    counts = listing.tally(tx, about.id)
    states = {state: counts.get(state, 0) for state in ("indexed", "pending", "retrying", "quarantined")}
    index, told = (
        _index(index_folder(settings, identity(tx)), about) if settings.index.backend == "embedded" else ("ready", "")
    )
    quarantined = states["quarantined"]
    return BaseHealth(
        name=about.name,
        embedding_model=about.embedding_model,
        documents=sum(states.values()),
        quarantined=quarantined,
        chunks=counts["chunks"],
        waiting=outbox.depth(tx, about.id),
        index=index,
        index_told=told,
        trouble=_trouble(about.name, quarantined),
    )


def _trouble(name: str, quarantined: int) -> str:
    if not quarantined:
        return ""
    return tr(
        f"{quarantined} 个文档被隔离，原因见 qianxun kb show {name}",
        f"{quarantined} documents are quarantined; for the reasons: qianxun kb show {name}",
    )


def _index(root: Path, about: KnowledgeBase) -> tuple[str, str]:
    folder = root / str(about.id)
    if not (folder / CURRENT).exists():
        return "missing", tr("索引在首次使用时建立", "the index is built on first use")
    try:
        state = load_state(folder / Path(unsealed(folder / CURRENT)).name)
    except IndexUnusable as error:
        return "unusable", tr(f"{error.message}，下次打开时自动重建", f"{error.message}; rebuilt on next opening")
    if state.stamp.model != about.embedding_model:
        return "foreign", tr(
            "索引属于另一个模型，下次打开时自动重建", "built by another model; rebuilt on next opening"
        )
    if state.stamp.origin not in ("", about.identity):
        return "foreign", tr(
            "索引由别的知识库的记录建成，下次打开时自动重建",
            "built of another base's records; rebuilt on next opening",
        )
    return "ready", ""
