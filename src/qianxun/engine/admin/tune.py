"""Which settings of a search suit one base: each tried on the same questions, compared with the base as it is.

`tune` is the function to read first. Questions are those of a folder, those that were saved with the base, or made of
the base's own sentences. Nothing is set; `apply` does that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast
from uuid import uuid4

import numpy as np
from sqlalchemy import Connection

from qianxun.core.errors import BadInput
from qianxun.core.evaluation_types import Case, Relevant
from qianxun.core.options import SearchChoices
from qianxun.core.ports import nothing
from qianxun.core.types import Chunk, Document, KnowledgeBase
from qianxun.engine.admin.evaluate import Problems, found_chunks, search_by_mode
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.engine import Engine
from qianxun.evaluation.cases import Labels, ranked, read_cases
from qianxun.evaluation.experiment import SIGNIFICANT, randomisation_test
from qianxun.evaluation.metrics import NDCG, measured
from qianxun.records import chunks, documents, listing
from qianxun.retrieve.recall_cache import replaying
from qianxun.text.chinese import SENTENCE_END, STOP_WORDS, Analyser

Origin: TypeAlias = Literal["folder", "saved", "made"]
Watch: TypeAlias = Callable[[int], None]

VECTOR_WEIGHTS: Final = (0.3, 0.5, 0.7, 0.85)
MADE: Final = 100  # questions made of the base's own sentences
SENTENCE: Final = (10, 80)  # characters of one that a question is made of
FEWEST: Final = 8  # with fewer questions no difference can be told from chance
PAGE: Final = 50  # documents that are copied at a time
MOST_TRIED: Final = 20  # sizes of chunks; each takes as long as the base took to index


@dataclass(frozen=True, slots=True)
class Attempt:
    """One setting, measured. ``difference`` and ``p_value`` compare it with the base as it is."""

    name: str
    changes: Mapping[str, Any]  # of the base's configuration
    ndcg: float
    first: float  # the share of questions whose first result is right
    p50_ms: float
    difference: float = 0.0
    p_value: float = 1.0
    is_significant: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """``attempts`` begin with the base as it is. ``best`` is the setting that is significantly better, if any is."""

    origin: Origin
    questions: int
    attempts: tuple[Attempt, ...]
    best: Attempt | None


async def tune(
    engine: Engine,
    base: KnowledgeBase,
    *,
    folder: Path | None = None,
    limit: int | None = None,
    chunk_sizes: Sequence[int] = (),
    watch: Watch = nothing,
) -> Tuning:
    """Every setting on every question. With several tried, one counts as better only at a level of .05 divided by their
    number (Bonferroni). Raises BadInput where there is nothing to ask, or too little to tell."""
    origin, cases = await questions(engine, base, folder, limit)
    if len(cases) < FEWEST:
        raise BadInput(
            f"只有 {len(cases)} 个问题，看不出差别",
            hint=f"至少要 {FEWEST} 个：在检索台上保存问题，或用 --cases 给一个评测目录",
        )
    if len(chunk_sizes) > MOST_TRIED:
        raise BadInput(f"一次至多试 {MOST_TRIED} 种分块", hint="少给几种")
    tried = [await _measured(engine, base, cases, one, watch) for one in settings_to_try(base, origin)]
    tried += [await _recut(engine, base, cases, size, watch) for size in dict.fromkeys(chunk_sizes)]
    attempts = _compared(tried)
    better = [attempt for attempt in attempts[1:] if attempt.is_significant and attempt.difference > 0.0]
    return Tuning(origin, len(cases), attempts, max(better, key=lambda one: one.difference, default=None))


async def apply(engine: Engine, base: KnowledgeBase, attempt: Attempt) -> KnowledgeBase:
    """Sets what was tried. Another size of chunks counts for what is added or changed from now on."""
    return await engine.configure(base.id, attempt.changes)


# ── what is tried ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    choices: Mapping[str, Any] = field(default_factory=dict)  # of a search
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the base's configuration, to the same effect


def settings_to_try(base: KnowledgeBase, origin: Origin) -> list[Setting]:
    """The base as it is, first. Questions made of its own sentences have their words: weights are not tried on them."""
    found = [Setting("as_is")]
    if not base.embedding_model:
        return found
    if origin != "made":
        found += [_weighted(vector) for vector in VECTOR_WEIGHTS]
    found += [
        Setting(f"fusion={fusion}", {"fusion": fusion}, {"search.fusion": fusion})
        for fusion in ("weighted", "rrf", "min_max")
        if fusion != base.config.get("search", {}).get("fusion", "weighted")
    ]
    rerank = "none" if base.config.get("search", {}).get("rerank") else "maxsim"
    chosen = "" if rerank == "none" else rerank
    return [*found, Setting(f"rerank={rerank}", {"rerank": chosen}, {"search.rerank": chosen or None})]


def _weighted(vector: float) -> Setting:
    weights = {"vector": vector, "keyword": round(1.0 - vector, 2)}
    changes = {f"search.weights.{name}": weight for name, weight in weights.items()}
    return Setting(f"weights={vector:g}/{weights['keyword']:g}", {"weights": weights}, changes)


# ── questions ────────────────────────────────────────────────────────────────────────────────────


async def questions(
    engine: Engine, base: KnowledgeBase, folder: Path | None, limit: int | None
) -> tuple[Origin, list[Case]]:
    """Of the folder; else those that were saved with the base; else made of its sentences."""
    if limit is not None and limit < 1:
        raise BadInput(f"--limit 为 {limit}，至少应为 1", hint="去掉它就用全部问题")
    if folder is not None:
        found, _ = await asyncio.to_thread(read_cases, folder)
        return "folder", found[:limit]
    evaluations = Evaluations(engine)
    saved = [case for one in await evaluations.sets(base.id) for case in await evaluations.cases(one.id)]
    if saved:
        return "saved", list({case.question: case for case in saved}.values())[:limit]
    open_base = await engine.base(base.id)
    return "made", await open_base.records.read(
        lambda tx: made_questions(tx, base.id, open_base.analyser, limit or MADE)
    )


def made_questions(tx: Connection, knowledge_base: int, analyser: Analyser, count: int) -> list[Case]:
    """One for each of so many chunks, evenly spread: every second word of a sentence, its chunk the right one."""
    keys = chunks.served_keys(tx, knowledge_base)
    chosen = keys[np.unique(np.linspace(0, len(keys) - 1, min(count, len(keys))).astype(np.int64))] if len(keys) else ()
    found = []
    for chunk in chunks.by_keys(tx, knowledge_base, [int(key) for key in chosen]).values():
        if question := _made_of(chunk, analyser):
            found.append(Case(question, (Relevant(chunk.doc_id, chunk.text),)))
    return list({case.question: case for case in found}.values())


def _made_of(chunk: Chunk, analyser: Analyser) -> str:
    sentences = [part.strip() for part in SENTENCE_END.split(chunk.text)]
    fitting = [part for part in sentences if SENTENCE[0] <= len(part) <= SENTENCE[1]]
    if not fitting:
        return ""
    words = [word for word in analyser.words(max(fitting, key=len)) if word not in STOP_WORDS]
    return " ".join(words[::2])


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Measured:
    setting: Setting
    per_question: tuple[float, ...]  # nDCG@10
    first: float
    p50_ms: float
    notes: tuple[str, ...]


async def _measured(
    engine: Engine, base: KnowledgeBase, cases: Sequence[Case], setting: Setting, watch: Watch
) -> _Measured:
    problems, scores, hits, seconds = Problems(), [], 0, []
    with replaying():  # without the cache, and without a trace in the log
        await search_by_mode(engine, base, "预热", "hybrid", Problems(), cast(SearchChoices, setting.choices))
        for case in cases:
            started = time.perf_counter()
            found = await search_by_mode(
                engine, base, case.question, "hybrid", problems, cast(SearchChoices, setting.choices)
            )
            seconds.append(time.perf_counter() - started)
            labels = Labels.of_case(case)
            values = measured(labels.grades, ranked(labels, found_chunks(found)))
            scores.append(values[NDCG])
            hits += values["hit@1"] > 0.0
            watch(1)
    notes = [f"{times} 次检索里“{part}”没有参加：{reason}" for (part, reason), times in problems.degraded.items()]
    p50 = float(np.percentile(seconds, 50)) * 1000.0
    return _Measured(setting, tuple(scores), hits / len(cases), p50, tuple(notes[:3]))


async def _recut(engine: Engine, base: KnowledgeBase, cases: Sequence[Case], size: int, watch: Watch) -> _Measured:
    """The base's documents cut in another size, in a base of their own that is deleted afterwards."""
    overlap = min(int(base.config.get("chunk_overlap", 0)), size // 4)
    changes = {"chunk_size": size, "chunk_overlap": overlap}
    config = {**base.config, **changes, "graph": False}
    name = f"{base.name[:100]}·tune·{uuid4().hex[:8]}"
    other = await engine.create_knowledge_base(name, model=base.embedding_model or "none", config=config)
    try:
        open_base = await engine.base(base.id)
        versions = await open_base.records.read(lambda tx: listing.served_versions(tx, base.id))
        for start in range(0, len(versions), PAGE):
            page = partial(_loaded, versions=versions[start : start + PAGE])
            await engine.add_documents(other.id, await open_base.records.read(page))
        return await _measured(engine, other, cases, Setting(f"chunk_size={size}", {}, changes), watch)
    finally:
        await engine.delete_knowledge_base(other.id)


def _loaded(tx: Connection, versions: Sequence[tuple[int, int]]) -> list[Document]:
    return [documents.load(tx, key, generation) for key, generation in versions]


def _compared(tried: Sequence[_Measured]) -> tuple[Attempt, ...]:
    own = np.array(tried[0].per_question)
    level = SIGNIFICANT / max(1, len(tried) - 1)
    found = []
    for one in tried:
        differences = np.array(one.per_question) - own
        p_value = 1.0 if one is tried[0] else randomisation_test(differences)
        attempt = Attempt(
            one.setting.name,
            one.setting.changes,
            float(np.mean(one.per_question)),
            one.first,
            one.p50_ms,
            float(differences.mean()),
            p_value,
            p_value < level,
            one.notes,
        )
        found.append(attempt)
    return tuple(found)
