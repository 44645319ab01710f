"""Runs the arms of a search side by side, each under the deadline, in as few threads as possible.

An arm that fails or is late is left out and named in ``degraded``. `run_arms` is the function to read first.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from qianxun.bases.base import ArmTime, OpenBase, Serving, in_model_thread
from qianxun.core.errors import (
    BadInput,
    BadModelReply,
    IndexUnusable,
    ModelUnavailable,
    QianxunError,
    RecallFailed,
    RetrieverUnavailable,
)
from qianxun.core.ports import EmbeddingModel, RetrieverArm
from qianxun.core.system.quick_work import QUICK_SECONDS
from qianxun.core.types import (
    BM25,
    NOTHING,
    Bm25,
    Degraded,
    Everything,
    Filter,
    Query,
    Ranking,
    StepTime,
    Vector,
    matches,
)
from qianxun.rank.fuse import best_of, joined
from qianxun.records.database.disk_errors import trouble
from qianxun.retrieve.arms import STANDARD, SearchContext, signal_of
from qianxun.retrieve.query_plan import QueryPlan

log = logging.getLogger(__name__)

AT_ONCE_SECONDS: Final = 0.03  # a vector that comes this soon is worth waiting for: one thread less to wake
STUCK_SECONDS: Final = 0.1  # an arm takes some milliseconds
CANCEL_SECONDS: Final = 1.0  # for an arm to end once it was cancelled
CLOCK_SECONDS: Final = 0.005  # a timer may fire a little early


@dataclass(frozen=True, slots=True)
class ArmResults:
    """What the arms found: one ranking each, over all queries."""

    rankings: Mapping[str, Ranking]
    own: Mapping[str, Ranking]  # the same for the user's own queries alone, guesses left out
    degraded: tuple[Degraded, ...]
    steps: tuple[StepTime, ...]
    vectors: tuple[Vector, ...] = ()  # of the queries, if an arm needs them
    # Cosines of the candidates that only other arms found, in no order.
    backfill: Ranking = field(default_factory=lambda: NOTHING)
    arms: Mapping[str, RetrieverArm] = field(default_factory=lambda: {arm.name: arm for arm in STANDARD})

    @property
    def signals(self) -> tuple[str, ...]:
        """What is fused, by name: see `scores`."""
        return tuple(dict.fromkeys(signal_of(self.arms[name]) for name in self.rankings))

    def scores(self) -> dict[str, Ranking]:
        """What is fused: one ranking for each signal, the vector signal with its backfill first."""
        by_signal: dict[str, list[Ranking]] = {"vector": []}
        for name, ranking in self.rankings.items():
            by_signal.setdefault(signal_of(self.arms[name]), []).append(ranking)
        scores = {name: best_of(found) if len(found) > 1 else found[0] for name, found in by_signal.items() if found}
        if by_signal["vector"]:
            # What only questions found is in the backfill, too; otherwise no chunk is in two of them.
            others = [len(self.rankings[name]) for name in self.vector_arms() if name != "vector"]
            scores["vector"] = (best_of if any(others) else joined)([*by_signal["vector"], self.backfill])
        return scores

    def vector_arms(self) -> list[str]:
        """The arms that answered by meaning."""
        return [name for name in self.rankings if signal_of(self.arms[name]) == "vector"]


async def run_arms(
    base: OpenBase,
    serving: Serving,
    plan: QueryPlan,
    arms: Sequence[RetrieverArm],
    depth: int,
    seconds: float,
    bm25: Bm25 = BM25,
) -> ArmResults:
    """Every arm on every query. Raises RecallFailed if none answers, BadInput if an arm refuses the request."""
    needs_vector = any(arm.needs_vector for arm in arms)
    vectors = [_vector(base, serving, query) for query in plan.queries] if needs_vector else []
    run = _Run(SearchContext(base, serving, bm25), arms, plan.queries, vectors, depth, seconds)
    try:
        outcomes = await run.outcomes()
        known = tuple(vector.result() for vector in vectors if _is_done_well(vector))
    finally:
        await _cancel(vectors)
    for error in outcomes.values():
        if isinstance(error, IndexUnusable) and base.serving is serving:  # else it is being replaced already
            base.damaged(base, str(error))
    return _results(arms, outcomes, plan, known, has_all_vectors=len(known) == len(vectors))


@dataclass(frozen=True, slots=True)
class ArmOutcome:
    rankings: tuple[Ranking, ...]  # one for each query
    seconds: float
    started: float
    work: float = math.inf  # seconds that it would take of the event loop


Outcome: TypeAlias = "ArmOutcome | BaseException"


class _NoAnswer(QianxunError):
    """An arm that did not answer."""


def _results(
    arms: Sequence[RetrieverArm],
    outcomes: Mapping[str, Outcome],
    plan: QueryPlan,
    vectors: tuple[Vector, ...],
    *,
    has_all_vectors: bool,
) -> ArmResults:
    rankings: dict[str, Ranking] = {}
    own: dict[str, Ranking] = {}
    failed: list[Degraded] = []
    steps: list[StepTime] = []
    vector_checksum: set[str] = set()  # reasons of the arms that wait for the one vector of the query
    for arm in arms:
        outcome = outcomes[arm.name]
        if isinstance(outcome, BadInput):
            raise outcome  # the request's own fault, whichever arm finds it first
        if isinstance(outcome, BaseException):
            reason = _reason(arm, outcome)
            is_repeated = arm.needs_vector and reason in vector_checksum and not has_all_vectors
            failed += [] if is_repeated else [Degraded(arm.name, reason)]
            if arm.needs_vector and not vector_checksum:
                vector_checksum.add(reason)
        else:
            rankings[arm.name] = best_of(outcome.rankings)
            own[arm.name] = best_of(outcome.rankings[: len(plan.unguessed)]) if plan.corrected else rankings[arm.name]
            steps.append(StepTime(f"recall.{arm.name}", outcome.seconds, len(rankings[arm.name]), outcome.started))
    if not rankings:
        raise RecallFailed(
            "每一路检索都失败了：" + "；".join(f"{arm.part}：{arm.reason}" for arm in failed),
            hint="按上面的原因处理后重试；qianxun doctor 可以检查环境",
        )
    known = {arm.name: arm for arm in arms}
    return ArmResults(rankings, own, tuple(failed), tuple(steps), vectors, arms=known)


def _reason(arm: RetrieverArm, error: BaseException) -> str:
    if isinstance(error, QianxunError):
        return str(error)
    # Any arm may raise anything: it must not take the others down.
    log.error("arm %s failed", arm.name, exc_info=error)
    if (known := trouble(error)) is not None:
        return "，".join(known)
    return f"出错：{type(error).__name__}: {error}"


def merged(results: ArmResults, guess: ArmResults) -> ArmResults:
    """The results of the user's own queries, and those of a guessed correction."""
    rankings = {
        arm: best_of(filter(None, (results.rankings.get(arm), guess.rankings.get(arm))))
        for arm in dict.fromkeys((*results.rankings, *guess.rankings))
    }
    more = {step.name: step.seconds for step in guess.steps}
    return replace(
        results,
        rankings=rankings,
        degraded=tuple(dict.fromkeys((*results.degraded, *guess.degraded))),
        steps=tuple(replace(step, seconds=step.seconds + more.get(step.name, 0.0)) for step in results.steps),
        vectors=(*results.vectors, *guess.vectors),
        backfill=NOTHING,
    )


# ── running ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Run:
    """The arms of one search on their way. ``done`` has what each answered or raised, by its name."""

    context: SearchContext
    arms: Sequence[RetrieverArm]
    queries: Sequence[Query]
    vectors: Sequence[asyncio.Future[Vector]]
    depth: int
    seconds: float
    deadline: float = field(init=False)
    done: dict[str, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.seconds

    async def outcomes(self) -> dict[str, Outcome]:
        """Without a thread where that takes no time to speak of: the caches of another core know nothing of this
        search, which costs a fifth of it."""
        if self._is_quick() and await self._has_vectors():
            await asyncio.sleep(0)  # nothing else may be awaited here, and other tasks must have their turn
            queries = self._with_vectors([vector.result() for vector in self.vectors])
            self.done = {arm.name: self._run_here(arm, queries) for arm in self.arms}
            self._note_times(self.done)
            return self.done
        return await self._in_threads()

    def _is_local(self, arm: RetrieverArm) -> bool:
        try:
            return bool(arm.is_local(self.context))
        except Exception:  # any arm may raise anything
            log.exception("arm %s does not say whether it is local", arm.name)
            return False

    # How long it will take

    def _is_quick(self) -> bool:
        """True if these arms will take no time to speak of. One that has not run yet may have to open its part of the
        index; one of another package may block, whatever `is_local` returns."""
        is_ours = all(arm in STANDARD and arm.is_local(self.context) for arm in self.arms)
        return is_ours and sum(map(self._expected, self.arms)) < QUICK_SECONDS

    def _expected(self, arm: RetrieverArm) -> float:
        last = self.context.serving.arm_times.get(self._time_key(arm))
        if last is None:
            return math.inf
        # Every word has entries of its own to visit: two thousand characters take a hundred times as long.
        return last.seconds if arm.needs_vector else last.seconds * max(1.0, self._terms() / last.terms)

    def _note_times(self, done: Mapping[str, Outcome]) -> None:
        terms = self._terms()
        for arm in self.arms:
            outcome = done.get(arm.name)
            seconds = outcome.work if isinstance(outcome, ArmOutcome) else math.inf
            self.context.serving.arm_times[self._time_key(arm)] = ArmTime(seconds, terms)

    def _time_key(self, arm: RetrieverArm) -> tuple[str, bool]:
        return arm.name, not isinstance(self.queries[0].where, Everything)

    def _terms(self) -> int:
        return sum(len(query.terms.words) + len(query.terms.grams) for query in self.queries) or 1

    # In threads

    async def _in_threads(self) -> dict[str, Outcome]:
        """Local arms in as few threads as possible, every other as a task of its own. If the vector is there at once
        all local arms share a thread; if not, the arms that do not need it go ahead."""
        local = [arm for arm in self.arms if self._is_local(arm)]
        tasks = [asyncio.ensure_future(self._run_remote(arm)) for arm in self.arms if arm not in local]
        ahead = [arm for arm in local if not arm.needs_vector]
        try:
            if 0 < len(ahead) < len(local) and not await self._has_vectors():
                tasks.append(asyncio.ensure_future(self._run_local(ahead)))
                local = [arm for arm in local if arm.needs_vector]
            if local and not tasks:  # mostly: a task would cost more than the fusion of what is found
                await self._run_local(local)
            elif local:
                tasks.append(asyncio.ensure_future(self._run_local(local)))
            if tasks:
                await asyncio.wait(tasks, timeout=max(0.0, self.deadline - time.monotonic()))
            is_late = time.monotonic() > self.deadline - CLOCK_SECONDS
        finally:
            await _cancel(tasks)
        done = dict(self.done)  # a thread that is late may still write to it
        self._note_times(done)
        missing = _NoAnswer(f"{self.seconds:g} 秒内没有答复" if is_late else "中途停下了，没有答复")
        return {arm.name: done.get(arm.name, missing) for arm in self.arms}

    async def _run_remote(self, arm: RetrieverArm) -> None:
        """One arm that waits for others: a service, a database."""
        started = time.perf_counter()
        try:
            queries = self._with_vectors(
                [await asyncio.shield(vector) for vector in self.vectors] if arm.needs_vector else []
            )
            found = tuple([await self._ranking(arm, query) for query in queries])
        except Exception as error:  # any arm may raise anything; `_results` reports it
            self.done[arm.name] = error
        else:
            self.done[arm.name] = ArmOutcome(found, time.perf_counter() - started, started)

    async def _run_local(self, arms: Sequence[RetrieverArm]) -> None:
        """Arms that need nothing but the processor, one after another in one thread. If one is stuck another thread
        goes on with the rest, so that these answer in time."""
        needs_vector = any(arm.needs_vector for arm in arms)
        # Not `timeout_at`: a loop has a clock of its own.
        timeout = asyncio.timeout(max(0.0, self.deadline - time.monotonic()))
        try:
            async with timeout:
                vectors = self.vectors if needs_vector else ()
                known = [vector.result() if vector.done() else await asyncio.shield(vector) for vector in vectors]
        except Exception as error:  # as above
            if not timeout.expired():  # else it is our own TimeoutError; one of a model is reported
                self.done.update(dict.fromkeys((arm.name for arm in arms), error))
            return
        waiting, queries = deque(arms), self._with_vectors(known)
        loop, threads = asyncio.get_running_loop(), set[asyncio.Future[None]]()
        try:
            while (waiting or threads) and (left := self.deadline - time.monotonic()) > 0.0:
                if waiting:
                    threads.add(loop.run_in_executor(None, copy_context().run, self._run_waiting, waiting, queries))
                _, threads = await asyncio.wait(threads, timeout=min(left, STUCK_SECONDS))
        finally:
            for thread in threads:
                thread.cancel()

    def _run_waiting(self, waiting: deque[RetrieverArm], queries: Sequence[Query]) -> None:
        """Takes one arm after another until none is left; several threads may."""
        while True:
            try:
                arm = waiting.popleft()
            except IndexError:
                return
            self.done[arm.name] = self._run_here(arm, queries)

    # One arm

    def _run_here(self, arm: RetrieverArm, queries: Sequence[Query]) -> Outcome:
        started, worked, waits = time.perf_counter(), time.thread_time(), _disk_waits()
        try:
            found = tuple([_finished(self._ranking(arm, query)) for query in queries])
        except Exception as error:  # as above
            return error
        seconds, work = time.perf_counter() - started, time.thread_time() - worked
        # On a busy machine everything takes long, in another thread as well, and more of the processors with it.
        return ArmOutcome(found, seconds, started, seconds if _disk_waits() > waits else work)

    async def _ranking(self, arm: RetrieverArm, query: Query) -> Ranking:
        found = await arm.search(query, self.depth, self.context)
        if not arm.applies_filters and not isinstance(query.where, Everything):
            found = await self._filtered(found, query.where)
        scores = arm.calibrate(found)
        if scores is not found.scores:
            found = Ranking(found.keys, scores, 1.0, found.scores)
        return checked(found, arm.name, self.depth)

    async def _filtered(self, found: Ranking, where: Filter) -> Ranking:
        known = await self.context.chunks(found.keys.tolist())
        passes = [key in known and matches(where, known[key].attributes) for key in found.keys.tolist()]
        rows = np.flatnonzero(passes)
        raw = None if found.raw is None else found.raw[rows]
        return Ranking(found.keys[rows], found.scores[rows], found.ceiling, raw)

    def _with_vectors(self, vectors: Sequence[Vector]) -> Sequence[Query]:
        if not vectors:
            return self.queries
        pairs = zip(self.queries, vectors, strict=True)
        return [Query(query.text, query.terms, vector, query.where) for query, vector in pairs]

    async def _has_vectors(self) -> bool:
        """True if the vectors are there, or come at once."""
        if not all(vector.done() for vector in self.vectors):
            await asyncio.wait(self.vectors, timeout=min(self.seconds, AT_ONCE_SECONDS))
        return all(map(_is_done_well, self.vectors))


def _disk_waits() -> int:
    """How often this thread has waited for a page of a file; the process, where threads are not counted."""
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_majflt


def _finished(search: Coroutine[Any, Any, Ranking]) -> Ranking:
    """What a coroutine returns that never waits."""
    try:
        search.send(None)
    except StopIteration as done:
        found: Ranking = done.value
        return found
    search.close()
    raise RetrieverUnavailable("这一路说自己不必等待，却在等待", hint="去掉它的 is_local")


def checked(ranking: Ranking, arm: str, depth: int) -> Ranking:
    """An arm's answer, best first. Raises BadModelReply unless it has as many scores as keys, numbers in [0, 1], and
    every chunk once."""
    keys, scores, raw = ranking.keys, ranking.scores, ranking.raw
    shape = np.shape(keys)
    if len(shape) != 1 or np.shape(scores) != shape or (raw is not None and np.shape(raw) != shape):
        raise BadModelReply(f"{arm} 的片段与分数对不上：{np.shape(keys)} 与 {np.shape(scores)}")
    if len(keys) > depth:
        raise BadModelReply(f"{arm} 给出 {len(keys)} 个片段，最多应为 {depth}")
    if len(keys) == 0:
        return ranking
    if keys.dtype != np.int64 or scores.dtype.kind != "f":
        raise BadModelReply(f"{arm} 的片段编号应为 int64、分数应为浮点数，而不是 {keys.dtype} 与 {scores.dtype}")
    if raw is not None and not np.isfinite(raw).all():
        raise BadModelReply(f"{arm} 的原始分数里有非数")
    if not (scores.min() >= 0.0 and scores.max() <= 1.0):  # which no NaN is
        raise BadModelReply(f"{arm} 的分数里有非数，或不在 0 到 1 之间")
    if len(set(keys.tolist())) != len(keys):
        raise BadModelReply(f"{arm} 把同一个片段给了两次")
    if (scores[1:] > scores[:-1]).any():
        return Ranking.ordered(keys, scores, ranking.ceiling, raw)
    return ranking


# ── the vectors of the queries ───────────────────────────────────────────────────────────────────


def _vector(base: OpenBase, serving: Serving, query: Query) -> asyncio.Future[Vector]:
    """The query's vector, or why there is none."""
    model = serving.model
    if model is not None and not getattr(model, "is_quick", False):
        return asyncio.ensure_future(_embedded(base, model, query.text))
    known: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
    try:
        if model is None:
            reason = "这个知识库没有向量模型，只按词语检索"
            raise ModelUnavailable(reason, hint="用 qianxun rebuild --model 为它加上模型")
        known.set_result(_checked_vector(model, model.embed_query(query.text)))
    except StopIteration as error:  # which a future does not take
        known.set_exception(RuntimeError(f"StopIteration: {error}"))
    except Exception as error:  # any model may raise anything; `_results` reports it
        known.set_exception(error)
    return known


async def _embedded(base: OpenBase, model: EmbeddingModel, text: str) -> Vector:
    return _checked_vector(model, await in_model_thread(base, "embedding", model.name, model.embed_query, text))


def _checked_vector(model: EmbeddingModel, vector: Vector) -> Vector:
    if np.shape(vector) != (model.dimension,) or not np.isfinite(vector).all():
        raise BadModelReply(f"模型 {model.name} 给出的查询向量不对：应为 {model.dimension} 个数", hint="请检查模型")
    return vector


def _is_done_well(task: asyncio.Future[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _cancel(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancels what still runs and waits a moment for it; what it raises later is dropped."""
    running = [task for task in tasks if not task.done()]
    for task in tasks:
        if task.done():
            _drop(task)
        else:
            task.cancel()
            task.add_done_callback(_drop)
    if running:
        await asyncio.wait(running, timeout=CANCEL_SECONDS)


def _drop(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
