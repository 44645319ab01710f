"""Evaluation of the engine on a labelled dataset, as a user gets it: builds the base, searches, measures.

`evaluation_settings` name a data folder of its own, ``<data>/evaluation/<fingerprint>``, apart from the user's bases;
over an engine on it `ready_base` indexes the corpus once for a model and a way of chunking, `run_mode` searches for
every query and measures the rankings, `labelled_candidates` collects what a calibration is fitted to. The folder may be
deleted at any time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from qianxun.core.errors import BadInput, BadQuery, ModelUnavailable, NotFound
from qianxun.core.ingest_types import Step
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.options import QueryMode, SearchChoices
from qianxun.core.system.durable import replace_file
from qianxun.core.system.version import installed_version
from qianxun.core.types import Chunk, KnowledgeBase, Recall
from qianxun.engine.embedding_models import NO_MODEL, model_folders
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings
from qianxun.evaluation.calibration import Candidate, Report, calibrate
from qianxun.evaluation.dataset import Dataset, corpus_fingerprint, limited, load
from qianxun.evaluation.experiment import Comparison, Run, compare, run
from qianxun.graph.modes import ModeRecall
from qianxun.models import SENTENCE_PREFIX, card, find_local
from qianxun.records.documents import check
from qianxun.text.chinese import Analyser

__all__ = [
    "Candidate",
    "Comparison",
    "Dataset",
    "Report",
    "Run",
    "calibrate",
    "compare",
    "embedding_model",
    "evaluation_settings",
    "found_chunks",
    "labelled_candidates",
    "limited",
    "load",
    "ready_base",
    "run_mode",
    "search_by_mode",
]

FOLDER = "evaluation"
BASE = "evaluation"
BUILT = "built.json"  # written last: without it the build goes on where it stopped
SPENT = "spent.json"  # seconds of a build that has not come to its end
TIMEOUT = 600.0  # seconds
LAYOUT = "2"  # how a corpus becomes documents; another number is another index
DEPTH = 100  # chunks searched for: the most a search gives
OPTIONS: dict[str, dict[str, Any]] = {
    "vector": {"mode": "vector"},
    "fulltext": {"mode": "fulltext"},
    "hybrid": {"mode": "hybrid"},
    "rerank": {"mode": "hybrid", "rerank": "maxsim"},
}
LAYERED = ("texts", "tables")
# Query modes, by their names here: `hybrid` is the base's own search.
GATHERED: dict[str, QueryMode] = {
    "naive": "naive",
    "local": "local",
    "global": "global",
    "graph_hybrid": "hybrid",
    "mix": "mix",
}
MODES = (*OPTIONS, *LAYERED, *GATHERED)
DEFAULT_MODES = tuple(OPTIONS)
NEED_MODEL = ("vector", "rerank", "naive")

AnyRecall: TypeAlias = Recall | LayeredRecall | ModeRecall


# ── the base ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Built:
    """An index of the whole corpus, and what it took to build it."""

    dataset: str
    documents: int
    chunks: int
    model: str
    seconds: float


class Interrupted(Exception):
    """Ends a build in a worker thread after Ctrl-C; never leaves this module's callers."""


def embedding_model(settings: Settings) -> str:
    """The model that a base gets under these settings; "" where there is none."""
    vectors = settings.vectorization
    if vectors.model == NO_MODEL:
        return ""
    if vectors.base_url or vectors.model.startswith(SENTENCE_PREFIX):
        return vectors.model
    known = card(vectors.model)
    return known.name if find_local(known.name, model_folders(settings)) is not None else ""


def evaluation_settings(settings: Settings, dataset: Dataset, model: str) -> Settings:
    """The same settings over the folder in which this corpus is indexed under them."""
    vectors, chunking = settings.vectorization, settings.chunking
    key = (
        corpus_fingerprint(dataset),
        (model, vectors.base_url, vectors.dimension) if model else (),
        (chunking.chunk_size, chunking.chunk_overlap, chunking.by_meaning),
        (Analyser(()).version, settings.index.backend, installed_version(), LAYOUT),
    )
    fingerprint = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    # Rankings are compared: on a busy machine a deadline would change what is measured. And no result may come from a
    # cache where its time is taken.
    search = replace(
        settings.search, arm_seconds=TIMEOUT, rerank_seconds=TIMEOUT, rewrite_seconds=TIMEOUT, cache_entries=0
    )
    return replace(
        settings,
        data=str(settings.folder / FOLDER / fingerprint),
        records=replace(settings.records, url=""),
        search=search,
    )


async def ready_base(
    engine: Engine, dataset: Dataset, model: str, watch: Callable[[int], None]
) -> tuple[KnowledgeBase, Built, bool]:
    """The base with the whole corpus in it, what it took to build, and whether it existed already.

    ``watch`` is called with the number of documents added. Raises ModelUnavailable where some could not be indexed.
    """
    folder = engine.settings.folder
    try:
        base = await engine.knowledge_base(BASE)
    except NotFound:
        base = await engine.create_knowledge_base(BASE, model=model or "none")
    stored = _read(folder)
    if stored is not None and (await engine.statistics(base.id)).get("indexed", 0) == stored.documents:
        return base, stored, True
    (folder / BUILT).unlink(missing_ok=True)
    seconds = await _build(engine, base, dataset, watch)
    counts = await engine.statistics(base.id)
    _check_complete(counts, len(dataset.documents))
    built = Built(dataset.name, len(dataset.documents), counts.get("chunks", 0), model, seconds)
    replace_file(folder / BUILT, json.dumps(asdict(built), ensure_ascii=False).encode())
    (folder / SPENT).unlink(missing_ok=True)
    return base, built, False


async def _build(engine: Engine, base: KnowledgeBase, dataset: Dataset, watch: Callable[[int], None]) -> float:
    """Adds what is not in yet. Returns the seconds, those of an interrupted build included."""
    for document in dataset.documents:
        try:
            check(document)
        except BadInput as error:
            raise BadInput(f"语料中的文档 {document.id[:80]!r} 不能入库：{error.message}", hint=error.hint) from error
    progress = _BuildProgress(engine.settings.folder / SPENT, watch)
    try:
        await engine.drain(base.id)  # left pending by an interrupted build
        await engine.add_documents(base.id, dataset.documents, watch=progress)
    except asyncio.CancelledError:
        progress.stop()
        raise
    return progress.seconds()


class _BuildProgress:
    """Follows a build, and stores how long it has taken so far. Called by worker threads too."""

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
            replace_file(self._path, json.dumps({"seconds": round(self.seconds(), 3)}).encode())
            self._watch(step.count)


def _check_complete(counts: Mapping[str, int], expected: int) -> None:
    if counts.get("indexed", 0) == expected:
        return
    left = {state: counts[state] for state in ("pending", "retrying", "quarantined") if counts.get(state)}
    reason = "、".join(f"{state} {number}" for state, number in left.items()) or "原因不明"
    raise ModelUnavailable(
        f"{expected} 个文档中有 {expected - counts.get('indexed', 0)} 个没能进入索引（{reason}）",
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


# ── the searches ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class Problems:
    """What went wrong during searches without ending them, and how often."""

    degraded: Counter[tuple[str, str]] = field(default_factory=Counter)  # (part, reason)
    refused: Counter[str] = field(default_factory=Counter)  # reason; such a query counts as not found


async def run_mode(
    engine: Engine, base: KnowledgeBase, dataset: Dataset, mode: str, name: str, watch: Callable[[int], None]
) -> tuple[Run, Problems]:
    """Searches for every query in one of `MODES`. A document ranks where its best chunk does."""
    problems = Problems()

    async def search(text: str) -> list[str]:
        return [chunk.doc_id for chunk in found_chunks(await search_by_mode(engine, base, text, mode, problems))]

    await search_by_mode(engine, base, "预热", mode, Problems())  # loads the model, which does not count in the times
    return await run(name, dataset.queries, dataset.qrels, search, watch), problems


async def labelled_candidates(
    engine: Engine, base: KnowledgeBase, dataset: Dataset, watch: Callable[[int], None]
) -> tuple[list[list[Candidate]], Problems]:
    """The documents that a vector search finds for each query, with their cosines and whether they are relevant."""
    problems = Problems()
    candidates = []
    for query, text in dataset.queries.items():
        found = await search_by_mode(engine, base, text, "vector", problems)
        candidates.append(_labelled(found, dataset.qrels[query]) if isinstance(found, Recall) else [])
        watch(1)
    return candidates, problems


def _labelled(recall: Recall, grades: Mapping[str, int]) -> list[Candidate]:
    cosines: dict[str, float] = {}
    for hit in recall.results:
        if "vector" in hit.arms:
            cosines.setdefault(hit.chunk.doc_id, hit.arms["vector"].raw)
    return [Candidate(cosine, grades.get(document, 0) > 0) for document, cosine in cosines.items()]


def found_chunks(found: AnyRecall | None) -> list[Chunk]:
    """Best first."""
    if isinstance(found, LayeredRecall):
        return [result.doc for result in found.results]
    return [hit.chunk for hit in found.results] if found else []


async def search_by_mode(
    engine: Engine,
    base: KnowledgeBase,
    text: str,
    mode: str,
    problems: Problems,
    choices: SearchChoices | None = None,
) -> AnyRecall | None:
    """What one of `MODES` finds, as deep as a search goes; ``choices`` are for those of `OPTIONS`. None, counted among
    the problems, for a query that is refused."""
    found: AnyRecall
    try:
        if mode == "texts":
            found = await engine.search_texts(base.id, text)
        elif mode == "tables":
            found = await engine.search_tables(base.id, text, answer=False)
        elif mode in GATHERED:
            found = await engine.gather(base.id, text, mode=GATHERED[mode], top_k=DEPTH)
        else:
            chosen: SearchChoices = {**(choices or {}), **OPTIONS[mode], "top_k": DEPTH}  # type: ignore[typeddict-item]
            found = await engine.retrieve(base.id, text, **chosen)
    except BadQuery as error:
        problems.refused[error.message] += 1
        return None
    problems.degraded.update((part.part, part.reason) for part in found.degraded)
    return found
