"""The arms of a recall, side by side, each under its own deadline. One that fails or is late is said aloud."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from qianxun.errors import (
    BadInput,
    BadModelReply,
    IndexUnusable,
    ModelUnavailable,
    QianxunError,
    RecallFailed,
    RetrieverUnavailable,
)
from qianxun.pipelines.asking import Asked
from qianxun.pipelines.base import OpenBase, Serving, in_model_thread, read
from qianxun.ports import EmbeddingModel, Retriever
from qianxun.rank.calibrate import clipped
from qianxun.rank.fuse import best_of, joined
from qianxun.recall.dense import DenseRetriever
from qianxun.recall.keyword import KeywordRetriever
from qianxun.recall.qa import QARetriever
from qianxun.records import pairs
from qianxun.types import NOTHING, Degraded, Query, Ranking, Scores, StepTime, Vector

log = logging.getLogger(__name__)

WITH_VECTOR: Final = ("vector", "qa")  # arms that wait for the query's vector
# Two questions on one matter lie nearer to each other than a question to the passage that answers it: the curve of a
# query–query set has its middle at .735 (kuake_qtr), those of query–passage sets at .557 and .588 (cmrc2018,
# dureader_robust). The lead is a cautious part of that.
QUESTION_LEAD: Final = 0.1
AT_ONCE_SECONDS: Final = 0.03  # a vector that is here so soon is worth waiting for: one thread less to wake
QUICK_SECONDS: Final = 0.01  # what the arms may take of the event loop's own time
STUCK_SECONDS: Final = 0.1  # an arm takes some milliseconds
DISMISSED_SECONDS: Final = 1.0  # for an arm to end once it was told to
CLOCK_SECONDS: Final = 0.005  # a timer may fire a little early


@dataclass(frozen=True, slots=True)
class Heard:
    """What the arms answered: one ranking each, over all queries."""

    rankings: Mapping[str, Ranking]
    own: Mapping[str, Ranking]  # the same for the user's own queries alone, guesses left out
    degraded: tuple[Degraded, ...]
    steps: tuple[StepTime, ...]
    vectors: tuple[Vector, ...] = ()  # of the queries, where they were asked for
    # What the vector arm would have said of the candidates that only others found, in no order.
    behind: Ranking = field(default_factory=lambda: NOTHING)

    @property
    def sides(self) -> tuple[str, ...]:
        """What is fused, by name: see `scores`."""
        return tuple(dict.fromkeys("vector" if arm in WITH_VECTOR else arm for arm in self.rankings))

    def scores(self) -> dict[str, Ranking]:
        """What is fused: words on one side, meaning on the other. A question stands for the chunk that answers it."""
        meaning = [self.rankings[arm] for arm in WITH_VECTOR if arm in self.rankings]
        # What only questions found stands behind, too; otherwise nothing is in two of them.
        one = best_of if len(self.rankings.get("qa", NOTHING)) else joined
        sides = {"vector": one([*meaning, self.behind])} if meaning else {}
        return sides | {arm: ranking for arm, ranking in self.rankings.items() if arm not in WITH_VECTOR}


def standard_arms(base: OpenBase, serving: Serving) -> tuple[Retriever, ...]:
    """One file each in ``recall/``."""

    async def chunk_of(keys: Sequence[int]) -> Mapping[int, int]:
        return await read(base, pairs.chunks_of, keys)

    return (
        DenseRetriever(serving.index, clipped),
        KeywordRetriever(serving.index),
        QARetriever(serving.index, chunk_of, _led, serving.index.is_here and base.records.is_here),
    )


def _led(cosines: Scores) -> Scores:
    return clipped(cosines - QUESTION_LEAD)


async def hear(
    base: OpenBase, serving: Serving, asked: Asked, names: Sequence[str], depth: int, seconds: float
) -> Heard:
    """Every named arm on every query. Raises RecallFailed when none answers."""
    arms = [arm for arm in (base.arms or standard_arms)(base, serving) if arm.name in names]
    if not arms:
        raise RecallFailed("没有一路检索可用", hint=f"这种检索要用到：{'、'.join(names)}")
    wants_vector = any(arm.name in WITH_VECTOR for arm in arms)
    vectors = [_vector(base, serving, query) for query in asked.queries] if wants_vector else []
    try:
        is_quick = base.arms is None and serving.arms_seconds < QUICK_SECONDS and all(map(_is_here, arms))
        if is_quick and await _are_there(vectors, min(seconds, AT_ONCE_SECONDS)):
            await asyncio.sleep(0)  # perhaps nothing else is waited for, and others must have their turn
            outcomes = _outcomes_at_once(serving, arms, asked.queries, vectors, depth)
        else:
            outcomes = await _outcomes(serving, arms, asked.queries, vectors, depth, seconds)
        return _heard(arms, outcomes, asked, vectors)
    finally:
        await _dismiss(vectors)


# ── listening ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Answer:
    rankings: tuple[Ranking, ...]  # one per query
    seconds: float
    started: float


_Outcome: TypeAlias = "_Answer | BaseException"


class _Silent(QianxunError):
    """An arm that did not answer."""


def _outcomes_at_once(
    serving: Serving,
    arms: Sequence[Retriever],
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
) -> dict[str, _Outcome]:
    """Without a thread: the caches of another core know nothing of this search, which costs a fifth of it.

    For arms that have shown that they take no time to speak of. One that had to read the disk has kept others waiting;
    the next search is given to a thread again.
    """
    started = time.perf_counter()
    given = _given(queries, [vector.result() for vector in vectors])
    said = {arm.name: _answer_here(arm, given, depth) for arm in arms}
    serving.arms_seconds = time.perf_counter() - started
    return said


async def _outcomes(
    serving: Serving,
    arms: Sequence[Retriever],
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
    seconds: float,
) -> dict[str, _Outcome]:
    """What each arm has said or raised when the time is over: the ones that are here in as few threads as may be, each
    other on its own.

    Where the vector is there at once all that are here share a thread; where it takes its time, words do not wait.
    """
    deadline = time.monotonic() + seconds
    said: dict[str, _Outcome] = {}
    here = list(filter(_is_here, arms))
    tasks = [asyncio.ensure_future(_listen(arm, queries, vectors, depth, said)) for arm in arms if arm not in here]
    by_words = [arm for arm in here if arm.name not in WITH_VECTOR]
    by_meaning = [arm for arm in here if arm.name in WITH_VECTOR]
    try:
        if by_meaning and by_words and not await _are_there(vectors, min(seconds, AT_ONCE_SECONDS)):
            listening = _listen_here(by_words, queries, [], depth, said, deadline)
            tasks.append(asyncio.ensure_future(listening))
            here = by_meaning
        if here:
            listening = _listen_here(here, queries, vectors if by_meaning else [], depth, said, deadline)
            if not tasks:  # as mostly; to make a task of it would cost more than to fuse what it finds
                await listening
            else:
                tasks.append(asyncio.ensure_future(listening))
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
        is_late = time.monotonic() > deadline - CLOCK_SECONDS
    finally:
        await _dismiss(tasks)
    took = [told.seconds if isinstance(told, _Answer) else math.inf for told in said.values()]
    serving.arms_seconds = sum(took) if len(said) == len(arms) else math.inf
    silent = _Silent(f"{seconds:g} 秒内没有答复" if is_late else "中途停下了，没有答复")
    return {arm.name: said.get(arm.name, silent) for arm in arms}


def _is_here(arm: Retriever) -> bool:
    return getattr(arm, "is_here", False)


async def _are_there(vectors: Sequence[asyncio.Future[Vector]], seconds: float) -> bool:
    if not all(vector.done() for vector in vectors):
        await asyncio.wait(vectors, timeout=seconds)
    return all(map(_is_well, vectors))


async def _listen(
    arm: Retriever,
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
    said: dict[str, _Outcome],
) -> None:
    """One arm, which waits for others: a service, a database."""
    started = time.perf_counter()
    try:
        given = await _with_vectors(queries, vectors if arm.name in WITH_VECTOR else [])
        found = [sound(await arm.search(query, depth), arm.name, depth) for query in given]
    except Exception as error:  # the door of an arm, which may be anybody's: told by `_heard`
        said[arm.name] = error
    else:
        said[arm.name] = _Answer(tuple(found), time.perf_counter() - started, started)


async def _listen_here(
    arms: Sequence[Retriever],
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
    said: dict[str, _Outcome],
    deadline: float,
) -> None:
    """Arms that need nothing but the processor, one after another in one thread; behind one that is stuck, in another
    one, so that it keeps nobody from answering in time."""
    try:
        async with asyncio.timeout_at(deadline):
            given = await _with_vectors(queries, vectors)
    except TimeoutError:
        return
    except Exception as error:  # as above
        said.update(dict.fromkeys((arm.name for arm in arms), error))
        return
    loop, waiting, listeners = asyncio.get_running_loop(), deque(arms), set[asyncio.Future[None]]()
    try:
        while (waiting or listeners) and (left := deadline - time.monotonic()) > 0.0:
            if waiting:
                hearing = partial(_hear_out, waiting, given, depth, said)
                listeners.add(loop.run_in_executor(None, copy_context().run, hearing))
            _, listeners = await asyncio.wait(listeners, timeout=min(left, STUCK_SECONDS))
    finally:
        for listener in listeners:
            listener.cancel()


def _hear_out(waiting: deque[Retriever], queries: Sequence[Query], depth: int, said: dict[str, _Outcome]) -> None:
    """Takes one arm after another until none is left; several threads may."""
    while True:
        try:
            arm = waiting.popleft()
        except IndexError:
            return
        said[arm.name] = _answer_here(arm, queries, depth)


def _answer_here(arm: Retriever, queries: Sequence[Query], depth: int) -> _Outcome:
    started = time.perf_counter()
    try:
        found = [sound(_finished(arm.search(query, depth)), arm.name, depth) for query in queries]
    except Exception as error:  # as above
        return error
    return _Answer(tuple(found), time.perf_counter() - started, started)


def _finished(search: Coroutine[Any, Any, Ranking]) -> Ranking:
    """What a search that never waits comes to."""
    try:
        search.send(None)
    except StopIteration as done:
        found: Ranking = done.value
        return found
    search.close()
    raise RetrieverUnavailable("这一路说自己不必等待，却在等待", hint="去掉它的 is_here")


async def _with_vectors(queries: Sequence[Query], vectors: Sequence[asyncio.Future[Vector]]) -> Sequence[Query]:
    if not vectors:
        return queries
    return _given(queries, [vector.result() if vector.done() else await asyncio.shield(vector) for vector in vectors])


def _given(queries: Sequence[Query], vectors: Sequence[Vector]) -> Sequence[Query]:
    """The queries with their vectors, where those were asked for."""
    if not vectors:
        return queries
    return [Query(query.text, query.terms, vector, query.where) for query, vector in zip(queries, vectors, strict=True)]


def _vector(base: OpenBase, serving: Serving, query: Query) -> asyncio.Future[Vector]:
    """The query's vector, or why there is none."""
    if not getattr(serving.model, "is_quick", False):
        return asyncio.ensure_future(_embedded(base, serving, query))
    known: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
    try:
        known.set_result(_checked(serving, _model(serving).embed_query(query.text)))
    except StopIteration as error:  # which a future does not take
        known.set_exception(RuntimeError(f"StopIteration: {error}"))
    except Exception as error:  # the door of a model, which may be anybody's: told by `_heard`
        known.set_exception(error)
    return known


async def _embedded(base: OpenBase, serving: Serving, query: Query) -> Vector:
    model = _model(serving)
    return _checked(serving, await in_model_thread(base, "embedding", model.name, model.embed_query, query.text))


def _model(serving: Serving) -> EmbeddingModel:
    if serving.model is None:
        raise ModelUnavailable("这个知识库没有向量模型，只按词语检索", hint="用 qianxun rebuild --model 为它加上模型")
    return serving.model


def _checked(serving: Serving, vector: Vector) -> Vector:
    model = _model(serving)
    if np.shape(vector) != (model.dimension,) or not np.isfinite(vector).all():
        raise BadModelReply(f"模型 {model.name} 给出的查询向量不对：应为 {model.dimension} 个数", hint="请检查模型")
    return vector


def _is_well(task: asyncio.Future[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _dismiss(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Ends what still runs. An arm that will not end is not waited for; what it says in the end is heard by nobody."""
    running = [task for task in tasks if not task.done()]
    for task in tasks:
        if task.done():
            _unheard(task)
        else:
            task.cancel()
            task.add_done_callback(_unheard)
    if running:
        await asyncio.wait(running, timeout=DISMISSED_SECONDS)


def _unheard(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


# ── what they said ───────────────────────────────────────────────────────────────────────────────


def _heard(
    arms: Sequence[Retriever],
    outcomes: Mapping[str, _Outcome],
    asked: Asked,
    vectors: Sequence[asyncio.Future[Vector]],
) -> Heard:
    rankings: dict[str, Ranking] = {}
    own: dict[str, Ranking] = {}
    failed: list[Degraded] = []
    steps: list[StepTime] = []
    for arm in arms:
        outcome = outcomes[arm.name]
        if isinstance(outcome, BadInput):
            raise outcome  # the request's own fault, whichever arm says it first
        if isinstance(outcome, BaseException):
            failed.append(Degraded(arm.name, _reason(arm, outcome)))
        else:
            rankings[arm.name] = best_of(outcome.rankings)
            own[arm.name] = best_of(outcome.rankings[: len(asked.own)]) if asked.corrected else rankings[arm.name]
            steps.append(StepTime(f"recall.{arm.name}", outcome.seconds, len(rankings[arm.name]), outcome.started))
    known = tuple(vector.result() for vector in vectors if _is_well(vector))
    failed = _told_once(failed) if len(known) < len(vectors) else failed
    if not rankings:
        raise RecallFailed(
            "每一路检索都失败了：" + "；".join(f"{each.part}：{each.reason}" for each in failed),
            hint="按上面的原因处理后重试；qianxun doctor 可以检查环境",
        )
    return Heard(rankings, own, tuple(failed), tuple(steps), known)


def together(heard: Heard, meant: Heard) -> Heard:
    """What the arms said of the user's own queries, and of a guess at what was meant."""
    rankings = {
        arm: best_of(filter(None, (heard.rankings.get(arm), meant.rankings.get(arm))))
        for arm in dict.fromkeys((*heard.rankings, *meant.rankings))
    }
    more = {step.name: step.seconds for step in meant.steps}
    steps = [replace(step, seconds=step.seconds + more.get(step.name, 0.0)) for step in heard.steps]
    return Heard(
        rankings,
        heard.own,
        tuple(dict.fromkeys((*heard.degraded, *meant.degraded))),
        tuple(steps),
        (*heard.vectors, *meant.vectors),
    )


def _told_once(failed: Sequence[Degraded]) -> list[Degraded]:
    """Without what two arms say of the same cause: both wait for the one vector of the query."""
    told = [each.reason for each in failed if each.part in WITH_VECTOR][:1]
    later = [each for each in failed if each.part in WITH_VECTOR][1:]
    return [each for each in failed if not (each in later and each.reason in told)]


def _reason(arm: Retriever, error: BaseException) -> str:
    if isinstance(error, QianxunError):
        return str(error)
    # The door of an arm, which may be anybody's: whatever it raises must not take the others down.
    log.error("arm %s failed", arm.name, exc_info=error)
    return f"出错：{type(error).__name__}: {error}"


def sound(ranking: Ranking, arm: str, depth: int) -> Ranking:
    """An arm's answer, if it is one: as many scores as keys, numbers in [0, 1], every chunk once; best first."""
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


async def completed(serving: Serving, heard: Heard) -> Heard:
    """Cosines also for what only other arms found: an arm's silence beyond its last candidate is not a zero."""
    if "vector" not in heard.rankings or len(heard.rankings) < 2:
        return heard
    seen = set(heard.rankings["vector"].keys.tolist())
    others = {key for arm, ranking in heard.rankings.items() if arm != "vector" for key in ranking.keys.tolist()}
    unseen = np.array(sorted(others - seen), dtype=np.int64)
    if len(unseen) == 0:
        return heard
    try:
        by_query = [await serving.index.cosines(vector, unseen) for vector in heard.vectors]
    except (IndexUnusable, RetrieverUnavailable) as error:
        return replace(heard, degraded=(*heard.degraded, Degraded("vector", str(error))))
    cosines = by_query[0] if len(by_query) == 1 else np.fmax.reduce(by_query)
    unknown = np.isnan(cosines)
    if unknown.any():
        unseen, cosines = unseen[~unknown], cosines[~unknown]
    return replace(heard, behind=Ranking(unseen, clipped(cosines), 1.0, cosines))
