"""Asks arms side by side, in as few threads as may be: each has said something when the time is over, or is silent."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from qianxun.bases.base import ArmTime, OpenBase, Serving, in_model_thread
from qianxun.core.errors import BadModelReply, ModelUnavailable, QianxunError, RetrieverUnavailable
from qianxun.core.ports import EmbeddingModel, Retriever
from qianxun.core.types import Everything, Query, Ranking, Vector

WITH_VECTOR: Final = ("vector", "qa")  # arms that wait for the query's vector
AT_ONCE_SECONDS: Final = 0.03  # a vector that is here so soon is worth waiting for: one thread less to wake
QUICK_SECONDS: Final = 0.01  # what the arms may take of the event loop's own time
STUCK_SECONDS: Final = 0.1  # an arm takes some milliseconds
DISMISSED_SECONDS: Final = 1.0  # for an arm to end once it was told to
CLOCK_SECONDS: Final = 0.005  # a timer may fire a little early


@dataclass(frozen=True, slots=True)
class Answer:
    rankings: tuple[Ranking, ...]  # one per query
    seconds: float
    started: float


Outcome: TypeAlias = "Answer | BaseException"


class _Silent(QianxunError):
    """An arm that did not answer."""


@dataclass(frozen=True, slots=True)
class ArmOutcomes:
    """What each arm answered or raised, by its name, and the vectors of the queries."""

    outcomes: Mapping[str, Outcome]
    vectors: tuple[Vector, ...]
    lacks_vectors: bool  # that were wanted


async def listen(
    base: OpenBase, serving: Serving, arms: Sequence[Retriever], queries: Sequence[Query], depth: int, seconds: float
) -> ArmOutcomes:
    """Every arm on every query."""
    wants_vector = any(arm.name in WITH_VECTOR for arm in arms)
    vectors = [_vector(base, serving, query) for query in queries] if wants_vector else []
    try:
        is_quick = base.arms is None and _are_quick(serving, arms, queries)
        if is_quick and await _are_there(vectors, min(seconds, AT_ONCE_SECONDS)):
            await asyncio.sleep(0)  # perhaps nothing else is waited for, and others must have their turn
            outcomes = _outcomes_at_once(serving, arms, queries, vectors, depth)
        else:
            outcomes = await _outcomes(serving, arms, queries, vectors, depth, seconds)
        known = tuple(vector.result() for vector in vectors if _is_well(vector))
        return ArmOutcomes(outcomes, known, len(known) < len(vectors))
    finally:
        await _dismiss(vectors)


# ── without a thread ─────────────────────────────────────────────────────────────────────────────


def _outcomes_at_once(
    serving: Serving,
    arms: Sequence[Retriever],
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
) -> dict[str, Outcome]:
    """Without a thread: the caches of another core know nothing of this search, which costs a fifth of it.

    For arms that have shown, each of them, that they take no time to speak of. One that had to read the disk has kept
    others waiting; the next search is given to a thread again.
    """
    given = _given(queries, [vector.result() for vector in vectors])
    said = {arm.name: _answer_here(arm, given, depth) for arm in arms}
    _take_time(serving, arms, queries, said)
    return said


def _are_quick(serving: Serving, arms: Sequence[Retriever], queries: Sequence[Query]) -> bool:
    """Whether these arms, asked this, will take no time to speak of; of one that was never asked so, nobody knows: it
    may have to open its part of the index first."""
    return all(map(_is_here, arms)) and sum(_expected(serving, arm, queries) for arm in arms) < QUICK_SECONDS


def _expected(serving: Serving, arm: Retriever, queries: Sequence[Query]) -> float:
    last = serving.arm_times.get(_kind(arm, queries))
    if last is None:
        return math.inf
    # Every word has entries of its own to visit: two thousand characters take a hundred times as long as a question.
    return last.seconds if arm.name in WITH_VECTOR else last.seconds * max(1.0, _terms(queries) / last.terms)


def _take_time(
    serving: Serving, arms: Sequence[Retriever], queries: Sequence[Query], said: Mapping[str, Outcome]
) -> None:
    terms = _terms(queries)
    for arm in arms:
        outcome = said.get(arm.name)
        seconds = outcome.seconds if isinstance(outcome, Answer) else math.inf
        serving.arm_times[_kind(arm, queries)] = ArmTime(seconds, terms)


def _kind(arm: Retriever, queries: Sequence[Query]) -> tuple[str, bool]:
    return arm.name, not isinstance(queries[0].where, Everything)


def _terms(queries: Sequence[Query]) -> int:
    return sum(len(query.terms.words) + len(query.terms.grams) for query in queries) or 1


def _is_here(arm: Retriever) -> bool:
    return getattr(arm, "is_here", False)


# ── in threads ───────────────────────────────────────────────────────────────────────────────────


async def _outcomes(
    serving: Serving,
    arms: Sequence[Retriever],
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
    seconds: float,
) -> dict[str, Outcome]:
    """What each arm has said or raised when the time is over: the ones that are here in as few threads as may be, each
    other on its own.

    Where the vector is there at once all that are here share a thread; where it takes its time, words do not wait.
    """
    deadline = time.monotonic() + seconds
    said: dict[str, Outcome] = {}
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
    heard = dict(said)  # a thread that is late may still be speaking
    _take_time(serving, arms, queries, heard)
    silent = _Silent(f"{seconds:g} 秒内没有答复" if is_late else "中途停下了，没有答复")
    return {arm.name: heard.get(arm.name, silent) for arm in arms}


async def _listen(
    arm: Retriever,
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
    said: dict[str, Outcome],
) -> None:
    """One arm, which waits for others: a service, a database."""
    started = time.perf_counter()
    try:
        given = await _with_vectors(queries, vectors if arm.name in WITH_VECTOR else [])
        found = [sound(await arm.search(query, depth), arm.name, depth) for query in given]
    except Exception as error:  # the door of an arm, which may be anybody's: told by `_heard`
        said[arm.name] = error
    else:
        said[arm.name] = Answer(tuple(found), time.perf_counter() - started, started)


async def _listen_here(
    arms: Sequence[Retriever],
    queries: Sequence[Query],
    vectors: Sequence[asyncio.Future[Vector]],
    depth: int,
    said: dict[str, Outcome],
    deadline: float,
) -> None:
    """Arms that need nothing but the processor, one after another in one thread; behind one that is stuck, in another
    one, so that it keeps nobody from answering in time."""
    patience = asyncio.timeout(max(0.0, deadline - time.monotonic()))  # not `timeout_at`: a loop has its own clock
    try:
        async with patience:
            given = await _with_vectors(queries, vectors)
    except Exception as error:  # as above
        if not patience.expired():  # else it is our own TimeoutError; a model's is told like all others
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


def _hear_out(waiting: deque[Retriever], queries: Sequence[Query], depth: int, said: dict[str, Outcome]) -> None:
    """Takes one arm after another until none is left; several threads may."""
    while True:
        try:
            arm = waiting.popleft()
        except IndexError:
            return
        said[arm.name] = _answer_here(arm, queries, depth)


def _answer_here(arm: Retriever, queries: Sequence[Query], depth: int) -> Outcome:
    started = time.perf_counter()
    try:
        found = [sound(_finished(arm.search(query, depth)), arm.name, depth) for query in queries]
    except Exception as error:  # as above
        return error
    return Answer(tuple(found), time.perf_counter() - started, started)


def _finished(search: Coroutine[Any, Any, Ranking]) -> Ranking:
    """What a search that never waits comes to."""
    try:
        search.send(None)
    except StopIteration as done:
        found: Ranking = done.value
        return found
    search.close()
    raise RetrieverUnavailable("这一路说自己不必等待，却在等待", hint="去掉它的 is_here")


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


# ── the vectors of the queries ───────────────────────────────────────────────────────────────────


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


async def _are_there(vectors: Sequence[asyncio.Future[Vector]], seconds: float) -> bool:
    if not all(vector.done() for vector in vectors):
        await asyncio.wait(vectors, timeout=seconds)
    return all(map(_is_well, vectors))


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
