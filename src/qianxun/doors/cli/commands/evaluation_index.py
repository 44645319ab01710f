"""The base that `eval` searches: built once for a corpus, a model and a way of cutting, and used again after that.

It lives in a data folder of its own, ``<data>/evaluation/<fingerprint>``, apart from the user's bases, and may be
deleted at any time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from qianxun.core.errors import BadInput, ModelUnavailable, NotFound
from qianxun.doors.cli.progress import Interrupted

if TYPE_CHECKING:
    from qianxun.core.ingest_types import Step
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings
    from qianxun.evaluation.dataset import Dataset

FOLDER = "evaluation"
BASE = "evaluation"
BUILT = "built.json"  # written last: without it the build goes on where it stopped
SPENT = "spent.json"  # seconds of a build that has not come to its end
PATIENCE = 600.0  # seconds
MAKING = "2"  # how a corpus becomes documents; another number is another index


@dataclass(frozen=True, slots=True)
class Built:
    """An index that holds the whole corpus, and what it took to build it."""

    dataset: str
    documents: int
    chunks: int
    model: str
    seconds: float


def model_of(settings: Settings) -> str:
    """The model that a base gets under these settings; "" where there is none."""
    from qianxun.engine.embedding_models import NO_MODEL, model_folders
    from qianxun.models import SENTENCE_PREFIX, card, find_local

    vectors = settings.vectorization
    if vectors.model == NO_MODEL:
        return ""
    if vectors.base_url or vectors.model.startswith(SENTENCE_PREFIX):
        return vectors.model
    known = card(vectors.model)
    return known.name if find_local(known.name, model_folders(settings)) is not None else ""


def home(settings: Settings, dataset: Dataset, model: str) -> Settings:
    """The same settings over the folder in which this corpus is indexed under them."""
    from importlib.metadata import version

    from qianxun.evaluation.dataset import corpus_fingerprint
    from qianxun.text.chinese import Analyser

    vectors, chunking = settings.vectorization, settings.chunking
    told = (
        corpus_fingerprint(dataset),
        (model, vectors.base_url, vectors.dimension) if model else (),
        (chunking.chunk_size, chunking.chunk_overlap, chunking.by_meaning),
        (Analyser(()).version, settings.index.backend, version("qianxun"), MAKING),
    )
    mark = hashlib.blake2b(repr(told).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    folder = settings.folder / FOLDER / mark
    # Rankings are compared, not patience: on a busy machine a deadline would change what is measured. And no answer
    # may come from a cache where its time is taken.
    search = replace(
        settings.search, arm_seconds=PATIENCE, rerank_seconds=PATIENCE, rewrite_seconds=PATIENCE, cache_entries=0
    )
    return replace(settings, data=str(folder), records=replace(settings.records, url=""), search=search)


async def ready(
    engine: Engine, dataset: Dataset, model: str, watch: Callable[[int], None]
) -> tuple[KnowledgeBase, Built, bool]:
    """The base with the whole corpus in it, what it took, and whether it was there already."""
    folder = engine.settings.folder
    try:
        base = await engine.knowledge_base(BASE)
    except NotFound:
        base = await engine.create_knowledge_base(BASE, model=model or "none")
    held = _read(folder)
    if held is not None and (await engine.statistics(base.id)).get("indexed", 0) == held.documents:
        return base, held, True
    (folder / BUILT).unlink(missing_ok=True)
    seconds = await _build(engine, base, dataset, watch)
    counts = await engine.statistics(base.id)
    _check_complete(counts, len(dataset.documents))
    built = Built(dataset.name, len(dataset.documents), counts.get("chunks", 0), model, seconds)
    _write(folder / BUILT, json.dumps(asdict(built), ensure_ascii=False))
    (folder / SPENT).unlink(missing_ok=True)
    return base, built, False


async def _build(engine: Engine, base: KnowledgeBase, dataset: Dataset, watch: Callable[[int], None]) -> float:
    """Takes in what is not in yet; answers the seconds, those of a build that was stopped included."""
    from qianxun.indexing.add import take

    _check_documents(dataset)
    follow = _Follow(engine.settings.folder / SPENT, watch)
    try:
        await engine.drain(base.id)  # what a stopped build left waiting
        await take(await engine.base(base.id), dataset.documents, follow)
    except asyncio.CancelledError:
        follow.stop()
        raise
    return follow.seconds()


class _Follow:
    """Follows a build, and writes down how long it has taken so far. Called by worker threads too."""

    def __init__(self, path: Path, watch: Callable[[int], None]) -> None:
        self._path = path
        self._watch = watch
        self._before = _spent(path)
        self._started = time.perf_counter()
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def seconds(self) -> float:
        return self._before + time.perf_counter() - self._started

    def __call__(self, step: Step) -> None:
        if self._stopped.is_set():
            raise Interrupted
        if step.kind == "waiting":
            raise ModelUnavailable(step.reason, hint="待模型可用后再运行同一条命令，会从这里继续")
        if step.kind == "added":
            _write(self._path, json.dumps({"seconds": round(self.seconds(), 3)}))
            self._watch(step.count)


def _check_documents(dataset: Dataset) -> None:
    from qianxun.records.documents import check

    for document in dataset.documents:
        try:
            check(document)
        except BadInput as error:
            raise BadInput(f"语料中的文档 {document.id[:80]!r} 不能入库：{error.message}", hint=error.hint) from error


def _check_complete(counts: dict[str, int], expected: int) -> None:
    if counts.get("indexed", 0) == expected:
        return
    left = {state: counts[state] for state in ("pending", "retrying", "quarantined") if counts.get(state)}
    told = "、".join(f"{state} {number}" for state, number in left.items()) or "原因不明"
    raise ModelUnavailable(
        f"{expected} 个文档中有 {expected - counts.get('indexed', 0)} 个没能进入索引（{told}）",
        hint="检查模型（qianxun models test）后再运行同一条命令，会从这里继续",
    )


def _read(folder: Path) -> Built | None:
    try:
        return Built(**json.loads((folder / BUILT).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _spent(path: Path) -> float:
    try:
        return float(json.loads(path.read_text("utf-8"))["seconds"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0.0


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
