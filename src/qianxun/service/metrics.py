"""What the service counts and times, for Prometheus. Labels come from closed sets: no text, no ids of anybody."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Final

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from sqlalchemy.exc import SQLAlchemyError

from qianxun.engine import Engine
from qianxun.pipelines.base import IndexTime
from qianxun.pipelines.options import ARMS
from qianxun.pipelines.steps import Recalled
from qianxun.service.answers import problems
from qianxun.service.context import service_of
from qianxun.service.turns import Turns

log = logging.getLogger(__name__)

OTHER: Final = "other"  # what is not in a closed set
TOTAL: Final = "total"
ARM_NAMES: Final = ("vector", "keyword", "qa")
STAGES: Final = ("rewrite", *(f"recall.{arm}" for arm in ARM_NAMES), "fuse", "guess", "rerank", "judge", TOTAL)
PARTS: Final = (*ARM_NAMES, "rewrite", "rerank", "document")

SEARCH_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
INDEX_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
RESULTS: Final = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


class Metrics:
    """The numbers of one service, in a registry of their own. ``has_cache``: answers are kept, so a miss means one."""

    def __init__(self, *, has_cache: bool = True) -> None:
        self.registry = registry = CollectorRegistry()
        self._has_cache = has_cache
        seconds = Histogram(
            "rag_search_duration_seconds", "Time of a search, by stage", ("mode", "stage"),
            registry=registry, buckets=SEARCH_SECONDS,
        )  # fmt: skip
        # Looked up by hand: Histogram.labels takes a lock and makes strings each time.
        self._seconds = {(mode, stage): seconds.labels(mode, stage) for mode in ARMS for stage in (*STAGES, OTHER)}
        self._results = Histogram("rag_search_results", "Results of a search", registry=registry, buckets=RESULTS)
        self._zero = Counter("rag_zero_results", "Searches that found nothing", registry=registry)
        arms = Counter("rag_arm_failures", "Arms that failed or were late", ("arm",), registry=registry)
        self._arms = {arm: arms.labels(arm) for arm in (*ARM_NAMES, OTHER)}
        degraded = Counter("rag_degraded", "Answers that say a part is missing", ("part",), registry=registry)
        self._degraded = {part: degraded.labels(part) for part in (*PARTS, OTHER)}
        self._failed = Counter("rag_search_failures", "Searches whose every arm failed", registry=registry)
        self._hits = Counter("rag_cache_hits", "Searches answered from the cache", registry=registry)
        self._misses = Counter("rag_cache_misses", "Searches that the cache had no answer to", registry=registry)
        self._index_seconds = Histogram(
            "rag_index_duration_seconds", "Time of a piece of index work", registry=registry, buckets=INDEX_SECONDS
        )
        self._indexed = Counter("rag_indexed_documents", "Documents that index work was done for", registry=registry)
        self._unindexed = Counter("rag_index_failures", "Documents that could not be made ready", registry=registry)
        self._queue = Gauge("rag_queue_depth", "Writes that wait for the index, as of now", registry=registry)
        self._recalls = Gauge("rag_recalls_in_flight", "Searches over HTTP that are under way", registry=registry)
        self._recalls_waiting = Gauge("rag_recalls_waiting", "Searches that wait for their turn", registry=registry)
        self._answered = Counter(
            "http_requests", "Requests answered; 499: the client had gone", ("method", "route", "status"),
            registry=registry,
        )  # fmt: skip
        self._request_seconds = Histogram(
            "http_request_duration_seconds", "Time from the request to the end of its answer", ("route",),
            registry=registry, buckets=SEARCH_SECONDS,
        )  # fmt: skip
        self.in_flight = Gauge("http_requests_in_flight", "Requests that are being answered", registry=registry)
        ProcessCollector(registry=registry)

    def recalled(self, done: Recalled) -> None:
        """A search has ended."""
        self._seconds[done.mode, TOTAL].observe(done.seconds)
        answer = done.answer
        if answer is None:
            self._failed.inc()
            self._count_arms(ARMS[done.mode])
            return
        self._results.observe(len(answer.found))
        if not answer.found:
            self._zero.inc()
        if self._has_cache:
            (self._hits if answer.from_cache else self._misses).inc()
        if not answer.from_cache:  # whose steps are those of the search it came from
            for step in answer.steps:
                stage = self._seconds.get((done.mode, step.name)) or self._seconds[done.mode, OTHER]
                stage.observe(step.seconds)
        parts = {each.part for each in answer.degraded}
        for part in parts:
            self._degraded.get(part, self._degraded[OTHER]).inc()
        self._count_arms(part for part in parts if part in ARM_NAMES or part not in PARTS)

    def indexed(self, done: IndexTime) -> None:
        """A piece of index work has ended."""
        self._index_seconds.observe(done.seconds)
        self._indexed.inc(done.documents)
        self._unindexed.inc(done.failed)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request has ended. ``route`` is a template, ``method`` a known one."""
        self._answered.labels(method, route, status).inc()
        self._request_seconds.labels(route).observe(seconds)

    def looked_up(self, queue: float, turns: Turns) -> None:
        """What is only known by asking, just before it is told. ``queue``: not a number where nobody knows."""
        self._queue.set(queue)
        self._recalls.set(turns.running)
        self._recalls_waiting.set(turns.waiting)

    def _count_arms(self, names: Iterable[str]) -> None:
        for name in names:
            self._arms.get(name, self._arms[OTHER]).inc()


def routes() -> APIRouter:
    router = APIRouter()

    @router.get(
        "/metrics",
        tags=["运行"],
        summary="Prometheus 指标",
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus 文本格式"},
            **problems(),
        },
    )
    async def metrics(request: Request) -> Response:
        """检索与索引的用时、结果数、没有结果的次数、失败的各路、缓存命中、排队的写入、各接口的请求数。"""
        held: Metrics = request.app.state.metrics
        service = service_of(request)
        held.looked_up(await _depth(service.engine), service.turns)
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(held.registry), headers={"content-type": media_type})

    return router


async def _depth(engine: Engine) -> float:
    try:
        return await engine.queue_depth()
    except SQLAlchemyError as error:  # the other numbers are wanted most when the database is down
        log.warning("the depth of the queue is not known: %s", type(error).__name__)
        return math.nan
