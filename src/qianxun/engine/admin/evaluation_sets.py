"""Labelled questions about a base, kept with it, and runs that measure searches on them.

`Evaluations.save_case` keeps a question and the right chunks, `start` measures a way of searching in the background,
`compare` tests the difference of two runs. `evaluate` measures on folders of their own instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np
from sqlalchemy import Connection

from qianxun.core.errors import BadInput, NotFound, QianxunError, QuotaExceeded
from qianxun.core.evaluation_types import (
    Case,
    CaseChange,
    CaseOrigin,
    CaseResult,
    EvaluationRun,
    EvaluationSet,
    Relevant,
    RunComparison,
)
from qianxun.core.options import SearchChoices, check, search_options
from qianxun.core.ports import nothing
from qianxun.core.system.version import installed_version
from qianxun.core.types import Chunk, KnowledgeBase
from qianxun.engine.admin.evaluate import MODES, NEED_MODEL, OPTIONS, Problems, found_chunks, search_by_mode
from qianxun.engine.engine import Engine
from qianxun.evaluation.cases import (
    HEADER,
    QRELS,
    Labels,
    first_relevant,
    is_still_there,
    judgement_lines,
    query_lines,
    ranked,
    read_cases,
    write_cases,
    write_corpus,
)
from qianxun.evaluation.dataset import QUERIES, load_documents
from qianxun.evaluation.experiment import SIGNIFICANT, randomisation_test
from qianxun.evaluation.metrics import METRICS, NDCG, mean_scores, measured
from qianxun.records import evaluations, listing
from qianxun.records.chunks import document_chunks
from qianxun.retrieve.recall_cache import replaying

__all__ = ["CHOICES", "DEFAULT_SET", "METRICS", "MODES", "NDCG", "Evaluations"]

Result = TypeVar("Result")
Watch = Callable[[int], None]
Count = Callable[[], Awaitable[None]]  # raises QuotaExceeded

DEFAULT_SET: Final = "常用问题"
CHOICES: Final = ("threshold", "fusion", "weights", "rerank", "fuzzy")  # of a search, that a run may make
NOTED: Final = 10  # kinds of problems that a run tells of
SHOWN: Final = 10  # chunk ids of a result that are stored
REPORT_SECONDS: Final = 1.0  # between two reports of a run's progress
PAGE: Final = 200  # documents read at a time for an export


async def uncounted() -> None:
    """For runs that no quota counts."""


@dataclass(frozen=True, slots=True)
class Evaluations:
    """``Evaluations(engine).sets()``: those of the engine's tenant. Raises NotFound for what the tenant has not."""

    engine: Engine
    count: Count = uncounted  # called before each question of a run that was started

    # ── sets ─────────────────────────────────────────────────────────────────────────────────────

    async def sets(self, knowledge_base: int | None = None) -> list[EvaluationSet]:
        """Of one base, or of all."""
        return await self._read(lambda tx, tenant: evaluations.sets(tx, tenant=tenant, knowledge_base=knowledge_base))

    async def create(self, knowledge_base: int, name: str) -> EvaluationSet:
        """Raises AlreadyThere for a name that the base has."""
        return await self._write(lambda tx, tenant: evaluations.create_set(tx, knowledge_base, name, tenant=tenant))

    async def get(self, set_id: int) -> EvaluationSet:
        return await self._read(lambda tx, tenant: evaluations.get_set(tx, set_id, tenant=tenant))

    async def remove(self, set_id: int) -> None:
        """With its cases and runs."""
        await self._write(lambda tx, tenant: evaluations.remove_set(tx, set_id, tenant=tenant))

    # ── cases ────────────────────────────────────────────────────────────────────────────────────

    async def cases(self, set_id: int, *, limit: int | None = None, after: int = 0) -> list[Case]:
        """By id; ``after`` is the id at which the last page ended."""
        return await self._read(
            lambda tx, tenant: evaluations.cases(tx, set_id, tenant=tenant, limit=limit, after=after)
        )

    async def case(self, set_id: int, case_id: int) -> Case:
        return await self._read(lambda tx, tenant: evaluations.get_case(tx, set_id, case_id, tenant=tenant))

    async def add_cases(self, set_id: int, cases: Sequence[Case]) -> list[Case]:
        """All or none; a question that the set has gets the new labels. Raises BadInput."""
        return await self._write(lambda tx, tenant: evaluations.save_cases(tx, set_id, cases, tenant=tenant))

    async def remove_case(self, set_id: int, case_id: int) -> None:
        await self._write(lambda tx, tenant: evaluations.remove_case(tx, set_id, case_id, tenant=tenant))

    async def save_case(
        self,
        knowledge_base: int,
        question: str,
        *,
        chunk_ids: Sequence[str] = (),
        doc_ids: Sequence[str] = (),
        set_name: str = DEFAULT_SET,
        expected: str = "",
        origin: CaseOrigin = "saved",
        log_id: int | None = None,
    ) -> tuple[EvaluationSet, Case]:
        """Keeps a question with the chunks, or whole documents, that should be found, in the base's set of this name.

        The set is created where there is none. Of a chunk its text is kept, so that the case outlives another way of
        cutting. Raises NotFound for a chunk or document that the base does not have.
        """
        own = self.engine.tenant

        def saved(tx: Connection) -> tuple[EvaluationSet, Case]:
            found = evaluations.set_named(tx, knowledge_base, set_name, tenant=own)
            passages = [_passage(tx, knowledge_base, chunk_id) for chunk_id in chunk_ids]
            relevant = (*passages, *(_document(tx, knowledge_base, doc_id) for doc_id in doc_ids))
            new = Case(question, tuple(relevant), expected, origin, log_id)
            (case,) = evaluations.save_cases(tx, found.id, [new], tenant=own)
            return evaluations.get_set(tx, found.id, tenant=own), case

        return await self.engine.records.write(saved)

    async def save_logged(
        self, log_id: int, *, chunk_ids: Sequence[str] = (), set_name: str = DEFAULT_SET
    ) -> tuple[EvaluationSet, Case]:
        """Keeps a logged search as a case. Without ``chunk_ids``: those of its feedback, or the first result of one
        that was rated good. Raises BadInput where it is not known what is right."""
        entry = await self.engine.logs.get(log_id)
        feedback = entry.feedback
        right = tuple(chunk_ids) or (feedback.chunk_ids if feedback is not None else ())
        if not right and feedback is not None and feedback.rating == "good":
            right = tuple(chunk_id for chunk_id, _ in entry.results[:1])
        if not right:
            raise BadInput("不知道这个问题的正确内容是哪一段", hint="在检索台上勾选正确的结果再保存，或写上 chunk_ids")
        origin: CaseOrigin = "feedback" if feedback is not None else "saved"
        return await self.save_case(
            entry.knowledge_base_id, entry.query, chunk_ids=right, set_name=set_name, origin=origin, log_id=log_id
        )

    # ── folders ──────────────────────────────────────────────────────────────────────────────────

    async def import_folder(
        self, knowledge_base: int, folder: Path, *, name: str = "", documents: bool = False, watch: Any = nothing
    ) -> tuple[EvaluationSet, tuple[str, ...]]:
        """The queries and judgements of a BEIR-style folder as a set, and what was left out and why.

        With ``documents`` its corpus is added to the base; without, the judged documents have to be there under the
        same ids. The set is called like the folder where no ``name`` is given. Raises BadInput with file and line.
        """
        cases, notes = await asyncio.to_thread(read_cases, folder)
        if documents:
            corpus = await asyncio.to_thread(load_documents, folder)
            await self.engine.add_documents(knowledge_base, corpus, watch=watch)
        chosen, own = name or folder.name, self.engine.tenant
        wanted = {label.doc_id for case in cases for label in case.relevant}

        def stored(tx: Connection) -> tuple[EvaluationSet, tuple[str, ...]]:
            found = evaluations.set_named(tx, knowledge_base, chosen, tenant=own)
            evaluations.save_cases(tx, found.id, cases, tenant=own)
            absent = wanted - listing.attributes(tx, knowledge_base, wanted).keys()
            if absent and len(absent) == len(wanted):
                raise BadInput(
                    f"标注的文档全都不在知识库里（如 {min(absent)}）", hint="连同语料一起导入，或核对 qrels 的第二列"
                )
            note = (f"{len(absent)} 个标注的文档不在知识库里（如 {min(absent)}），按永远找不到计",) if absent else ()
            return evaluations.get_set(tx, found.id, tenant=own), (*notes, *note)

        return await self.engine.records.write(stored)

    async def export_folder(self, set_id: int, folder: Path) -> int:
        """Writes the set, and the text of every document of its base, as a BEIR-style folder. Returns the number of
        cases. Raises BadInput for a folder that has files in it."""
        found = await self.get(set_id)
        cases = await self.cases(set_id)

        def written() -> None:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise BadInput(f"{folder} 里已有文件", hint="换一个空的目录")
            write_cases(folder, cases)
            with self.engine.records.reading() as tx:
                write_corpus(folder, _contents(tx, found.knowledge_base_id))

        try:
            await asyncio.to_thread(written)
        except OSError as error:
            raise BadInput(f"写不了 {folder}：{error.strerror}", hint="检查目录与权限") from error
        return len(cases)

    async def exported_files(self, set_id: int) -> dict[str, str]:
        """The files of `export_folder` but for the corpus: name → text."""
        cases = await self.cases(set_id)
        return {QUERIES: "".join(query_lines(cases)), QRELS: HEADER + "".join(judgement_lines(cases))}

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────

    async def start(
        self, set_id: int, mode: str, *, name: str = "", choices: Mapping[str, Any] | None = None
    ) -> EvaluationRun:
        """Begins to measure a way of searching on every case; `run` shows how far it is. Raises BadInput for a mode or
        choice that cannot be measured, Overloaded where too much runs already, QuotaExceeded where no search may be
        made; later questions wait until one may."""
        await self.count()
        measuring = await self._prepared(set_id, mode, name, choices or {}, self.count)
        operations, tenant = self.engine.operations, self.engine.tenant
        try:
            operations.start(
                "evaluate", tenant, measuring.base.id, measuring.run.total, measuring.work, takes_turns=True
            )
        except QianxunError:
            await self.remove_run(measuring.run.id)
            raise
        return measuring.run

    async def measure(
        self,
        set_id: int,
        mode: str,
        *,
        name: str = "",
        choices: Mapping[str, Any] | None = None,
        watch: Watch = nothing,
    ) -> EvaluationRun:
        """`start`, and waits until it is done."""
        measuring = await self._prepared(set_id, mode, name, choices or {})
        await measuring.work(watch)
        return await self.run(measuring.run.id)

    async def runs(self, set_id: int) -> list[EvaluationRun]:
        """The newest first."""
        return await self._read(lambda tx, tenant: evaluations.runs(tx, set_id, tenant=tenant))

    async def run(self, run_id: int) -> EvaluationRun:
        return await self._read(lambda tx, tenant: evaluations.get_run(tx, run_id, tenant=tenant))

    async def cancel(self, run_id: int) -> EvaluationRun:
        """It ends with the question it is at; what it measured stays."""
        return await self._write(lambda tx, tenant: evaluations.cancel_run(tx, run_id, tenant=tenant))

    async def remove_run(self, run_id: int) -> None:
        await self._write(lambda tx, tenant: evaluations.remove_run(tx, run_id, tenant=tenant))

    async def results(self, run_id: int, *, metric: str = NDCG) -> list[CaseResult]:
        """What a run achieved on each case, the worst first."""
        _check_metric(metric)
        found = await self._read(lambda tx, tenant: evaluations.results(tx, run_id, tenant=tenant))
        return sorted(found, key=lambda one: (one.metrics[metric], -(one.first_rank or 10**9), one.case_id))

    async def compare(self, before: int, after: int, *, metric: str = NDCG) -> RunComparison:
        """Two runs of one set, question by question, with the paired randomisation test of `qianxun eval`."""
        first, second = await self.run(before), await self.run(after)
        if first.set_id != second.set_id:
            raise BadInput("两次运行不属于同一个评测集", hint="选同一个评测集的两次运行")
        return _compared(before, after, await self.results(before, metric=metric), await self.results(after), metric)

    async def _prepared(
        self, set_id: int, mode: str, name: str, choices: Mapping[str, Any], count: Count = uncounted
    ) -> _Measuring:
        found = await self.get(set_id)
        base = await self.engine.knowledge_base(found.knowledge_base_id)
        _check_choices(self.engine, base, mode, choices)
        cases = await self.cases(set_id)
        if not cases:
            raise BadInput(f"评测集“{found.name}”里还没有问题", hint="从检索台保存，或导入一个 BEIR 格式的目录")
        setup = {"model": base.embedding_model, "version": installed_version()}
        values: dict[str, Any] = {
            "name": name or mode,
            "mode": mode,
            "choices": choices,
            "total": len(cases),
            "setup": setup,
        }
        run = await self._write(lambda tx, tenant: evaluations.start_run(tx, set_id, tenant=tenant, **values))
        return _Measuring(self.engine, base, run, cases, count)

    async def _read(self, work: Callable[[Connection, str], Result]) -> Result:
        return await self.engine.records.read(lambda tx: work(tx, self.engine.tenant))

    async def _write(self, work: Callable[[Connection, str], Result]) -> Result:
        return await self.engine.records.write(lambda tx: work(tx, self.engine.tenant))


# ── labels ───────────────────────────────────────────────────────────────────────────────────────


def _passage(tx: Connection, knowledge_base: int, chunk_id: str) -> Relevant:
    """The text of a chunk, as it is served now."""
    head, _, position = chunk_id.rpartition("_")
    doc_id = head.removeprefix(f"c_{knowledge_base}_")
    if doc_id != head and position.isascii() and position.isdigit() and len(position) < 10:
        for chunk in document_chunks(tx, knowledge_base, doc_id):
            if chunk.index == int(position):
                return Relevant(doc_id, chunk.text)
    raise NotFound(f"没有片段“{chunk_id[:80]}”", hint="写检索结果里的 chunk_id；文档重新切分后编号会变")


def _document(tx: Connection, knowledge_base: int, doc_id: str) -> Relevant:
    if doc_id not in listing.attributes(tx, knowledge_base, [doc_id]):
        raise NotFound(f"没有编号为“{doc_id[:80]}”的文档", hint="写检索结果里的 doc_id")
    return Relevant(doc_id)


def _contents(tx: Connection, knowledge_base: int) -> Any:
    after = ""
    while page := listing.contents(tx, knowledge_base, limit=PAGE, after=after):
        yield from page
        after = page[-1][0]


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


def _check_choices(engine: Engine, base: KnowledgeBase, mode: str, choices: Mapping[str, Any]) -> None:
    if mode not in MODES:
        raise BadInput(f"没有检索方式 {mode[:40]!r}", hint=f"可用：{'、'.join(MODES)}")
    if mode in NEED_MODEL and not base.embedding_model:
        raise BadInput(f"知识库“{base.name}”没有向量模型，不能评测 {mode}", hint="选 fulltext 或 hybrid")
    if unknown := [name for name in choices if name not in CHOICES]:
        raise BadInput(f"评测的设置里没有 {unknown[0][:40]!r}", hint=f"可用：{'、'.join(CHOICES)}")
    if choices and mode not in OPTIONS:
        raise BadInput(f"{mode} 没有可调的设置", hint=f"这些设置只用于 {'、'.join(OPTIONS)}")
    check(search_options(engine.settings.search, base.config, choices))


@dataclass
class _Measuring:
    """One run while it goes on."""

    engine: Engine
    base: KnowledgeBase
    run: EvaluationRun
    cases: Sequence[Case]
    count: Count = uncounted
    problems: Problems = field(default_factory=Problems)
    results: list[CaseResult] = field(default_factory=list)
    reported: int = 0

    async def work(self, watch: Watch) -> Mapping[str, Any]:
        """Searches for one question after the other, and stores what came of it as it goes."""
        status, reason = "failed", "内部出错，见日志"
        try:
            status, reason = ("done" if await self._measured(watch) else "cancelled"), ""
        except asyncio.CancelledError:
            status, reason = "interrupted", ""
            raise
        except QianxunError as error:
            reason = error.message
            raise
        finally:
            await asyncio.shield(self._report(status=status, reason=reason, notes=await self._notes(status)))
        return {"run": self.run.id, "status": status}

    async def _measured(self, watch: Watch) -> bool:
        """Returns False where it was cancelled."""
        last = time.monotonic()
        with replaying():  # without the cache, and without a trace in the log
            await self._search("预热")  # loads the model, which does not count in the times
            self.problems = Problems()
            for case in self.cases:
                if not await self._has_room():
                    return False
                async with self.engine.operations.turn():
                    self.results.append(await self._result(case))
                watch(1)
                if time.monotonic() - last >= REPORT_SECONDS:
                    last = time.monotonic()
                    if not await self._report():
                        return False
        return True

    async def _has_room(self) -> bool:
        """Waits until the tenant's quota of searches has room for a question. Returns False where it was cancelled."""
        while True:
            try:
                await self.count()
            except QuotaExceeded as full:
                if not await self._report():
                    return False
                await asyncio.sleep(min(max(full.retry_seconds, 1), REPORT_SECONDS))
            else:
                return True

    async def _search(self, question: str) -> list[Chunk]:
        run = self.run
        found = await search_by_mode(self.engine, self.base, question, run.mode, self.problems, _chosen(run))
        return found_chunks(found)

    async def _result(self, case: Case) -> CaseResult:
        labels = Labels.of_case(case)
        started = time.perf_counter()
        found = await self._search(case.question)
        seconds = time.perf_counter() - started
        return CaseResult(
            case.id,
            case.question,
            measured(labels.grades, ranked(labels, found)),
            round(seconds * 1000, 3),
            first_relevant(labels, found),
            tuple(chunk.chunk_id for chunk in found[:SHOWN]),
            evaluations.case_digest(case),
        )

    async def _report(self, **changes: Any) -> bool:
        new, self.reported = self.results[self.reported :], len(self.results)
        if self.results:
            times = [result.milliseconds for result in self.results]
            p50, p95 = np.percentile(times, [50, 95])
            per_metric = {
                name: {str(result.case_id): result.metrics[name] for result in self.results} for name in METRICS
            }
            changes |= {"metrics": mean_scores(per_metric), "p50_ms": float(p50), "p95_ms": float(p95)}
        values = {"done": len(self.results), **changes}
        return await self.engine.records.write(lambda tx: evaluations.report_progress(tx, self.run.id, new, **values))

    async def _notes(self, status: str) -> list[str]:
        degraded = self.problems.degraded.most_common(NOTED)
        notes = [f"{times} 次检索里“{part}”没有参加：{reason}" for (part, reason), times in degraded]
        notes += [
            f"{times} 个问题被拒绝，按未命中计：{reason}" for reason, times in self.problems.refused.most_common(NOTED)
        ]
        if status == "done" and (lost := await self.engine.records.read(self._lost)):
            notes.append(f"{len(lost)} 处标注的原文已不在知识库里，按找不到计（如问题“{lost[0][:40]}”）")
        return notes

    def _lost(self, tx: Connection) -> list[str]:
        """Questions with a label whose passage, or document, is not in the base any more."""
        served: dict[str, list[Chunk]] = {}
        lost = []
        for case, result in zip(self.cases, self.results, strict=False):
            if result.metrics["recall@100"] == 1.0:
                continue
            for label in case.relevant:
                if label.doc_id not in served:
                    served[label.doc_id] = document_chunks(tx, self.base.id, label.doc_id)
                lost += [case.question] if not is_still_there(label, served[label.doc_id]) else []
        return lost


def _chosen(run: EvaluationRun) -> SearchChoices:
    return cast(SearchChoices, dict(run.choices))


# ── comparison ───────────────────────────────────────────────────────────────────────────────────


def _check_metric(metric: str) -> None:
    if metric not in METRICS:
        raise BadInput(f"没有指标 {metric[:40]!r}", hint=f"可用：{'、'.join(METRICS)}")


def _compared(
    before: int, after: int, first: Sequence[CaseResult], second: Sequence[CaseResult], metric: str
) -> RunComparison:
    """Cases whose question and labels were the same in both, the largest loss first."""
    new = {one.case_id: one for one in second}
    both = [(one, new[one.case_id]) for one in first if one.case_id in new and new[one.case_id].digest == one.digest]
    changes = [CaseChange(one.case_id, one.question, one.metrics[metric], two.metrics[metric]) for one, two in both]
    differences = np.array([change.difference for change in changes], dtype=np.float64)
    p_value = randomisation_test(differences)
    count = max(1, len(changes))
    return RunComparison(
        metric=metric,
        before=before,
        after=after,
        means=(sum(change.before for change in changes) / count, sum(change.after for change in changes) / count),
        difference=float(differences.sum()) / count,
        p_value=p_value,
        is_significant=p_value < SIGNIFICANT,
        better=sum(change.difference > 0 for change in changes),
        worse=sum(change.difference < 0 for change in changes),
        left_out=len(first) + len(second) - 2 * len(changes),
        cases=tuple(sorted(changes, key=lambda one: (one.difference, one.before, one.case_id))),
    )
