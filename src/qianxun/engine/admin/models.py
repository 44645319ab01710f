"""Models without an engine: those of this machine (which there are, fetching one, trying one) and registered ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qianxun.core.errors import NotFound
from qianxun.engine.admin.database import open_records
from qianxun.engine.embedding_models import model_folders, open_model
from qianxun.engine.model_catalog import open_registry
from qianxun.engine.settings import Settings
from qianxun.models import (
    EVERY_CARD,
    ModelCard,
    PullEvent,
    find_local,
    open_reranker,
    pull,
    rerank_card,
    standard_sources,
)
from qianxun.models.local.download_sources import LocalFolder
from qianxun.models.registry import Registry
from qianxun.models.threads import ModelThreads
from qianxun.records.bases import check_tenant

__all__ = ["PullEvent", "find_model", "known_models", "open_registered", "pull_model", "try_model"]

SENTENCE = "住院费用可以报销多少？"
ANSWER = "住院费用的报销比例为百分之八十五。"


def known_models(settings: Settings) -> list[dict[str, Any]]:
    """Every card, as JSON, with the folder that has its files."""
    folders = model_folders(settings)
    chosen = settings.vectorization.model
    rows = []
    for card in EVERY_CARD:
        found = find_local(card, folders)
        rows.append(
            {
                "name": card.name,
                "kind": "embedding" if isinstance(card, ModelCard) else "rerank",
                "dimension": card.dimension if isinstance(card, ModelCard) else None,
                "max_tokens": card.max_tokens,
                "licence": card.licence,
                "pinned": card.pinned,
                "in_use": chosen in (card.name, *card.aliases),
                "folder": str(found) if found else None,
            }
        )
    return rows


def find_model(settings: Settings, name: str) -> Path | None:
    """The folder with the files of a model; None where it has not been fetched. Raises NotFound for an unknown name."""
    return find_local(name, model_folders(settings))


def pull_model(
    settings: Settings,
    name: str,
    source: Path | None = None,
    *,
    accept_unpinned: bool = False,
    progress: Callable[[PullEvent], None] = lambda event: None,
) -> Path:
    """`pull` into the model home of the settings; only from ``source`` where it is given. Returns the folder."""
    home = Path(settings.vectorization.model_home).expanduser()
    folders = [Path(folder).expanduser() for folder in settings.vectorization.model_folders]
    sources = (LocalFolder(source),) if source else standard_sources(name, folders)
    return pull(name, home, sources=sources, accept_unpinned=accept_unpinned, progress=progress)


def try_model(settings: Settings, name: str) -> dict[str, Any]:
    """Loads a model and embeds a sentence, or scores a question with its answer. Returns what came of it, as JSON."""
    started = time.perf_counter()
    outcome: dict[str, Any]
    if _is_reranker(name):
        vectors = settings.vectorization
        folders = model_folders(settings)
        reranker = open_reranker(name, folders=folders, threads=vectors.threads, device=vectors.device)
        loaded = time.perf_counter()
        outcome = {"model": reranker.name, "score": reranker.score(SENTENCE, [ANSWER])[0]}
        spent = "score_seconds"
    else:
        embedding = open_model(settings, name)
        loaded = time.perf_counter()
        outcome = {"model": embedding.name, "dimension": len(embedding.embed_query(SENTENCE))}
        spent = "embed_seconds"
    seconds = round(time.perf_counter() - loaded, 4)
    return {**outcome, "load_seconds": round(loaded - started, 3), spent: seconds}


def _is_reranker(name: str) -> bool:
    try:
        rerank_card(name)
    except NotFound:
        return False
    return True


@contextmanager
def open_registered(settings: Settings, tenant: str) -> Iterator[Registry]:
    """The registered models of a tenant, also while a service has the database open. Raises BadInput for its name."""
    with open_records(settings) as records:
        yield open_registry(settings, records, ModelThreads()).of(check_tenant(tenant))
