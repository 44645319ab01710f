"""What the service counts and times, for Prometheus. Labels come from closed sets: no text, no ids of anybody."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Final

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.answer_types import QUERY_MODES
from qianxun.core.answer_types import Answer as GivenAnswer
from qianxun.core.errors import QianxunError
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.log_types import IndexTime, Recalled
from qianxun.core.options import MODES
from qianxun.core.plugins import names as plugin_names
from qianxun.doors.http.concurrency import Turns
from qianxun.doors.http.context import service_of
from qianxun.doors.http.responses import error_responses
from qianxun.engine.engine import Engine

log = logging.getLogger(__name__)

OTHER: Final = "other"  # what is not in a closed set
TOTAL: Final = "total"
ARM_NAMES: Final = ("vector", "keyword", "qa")  # ours; those of other packages are added by name
ARMS: Final = {"hybrid": ARM_NAMES, "vector": ("vector", "qa"), "fulltext": ("keyword",)}
STAGES: Final = ("rewrite", *(f"recall.{arm}" for arm in ARM_NAMES), "fuse", "guess", "rerank", "judge", TOTAL)
LAYERS: Final = {
    "text": ("vector", "keyword", "expansion"),
    "table": ("structure", "semantic", "keyword", "expansion"),
}
PARTS: Final = (*ARM_NAMES, "rewrite", "rerank", "document", "structure", "semantic", "expansion", "depth", "answer")
ANSWERS: Final = ("sure", "declined")

FORMS: Final = ("model", "extractive", "table", "declined", "direct")
OUTCOMES: Final = ("done", "partial", "failed", "left")
NODES: Final = ("analyze_query", "route_query", "retrieve", "grade_documents", "refine_query", "generate_answer")
GRAPH_STAGES: Final = ("graph", "graph.surroundings", "graph.walk", "graph.context", "join")
# What may be missing in an answer and in no search of its own: those are counted with the searches.
ANSWER_PARTS: Final = ("graph", "recall", "chat", "model", "vision", "image", *NODES)
FLAGS: Final = ("unsupported_number", "unknown_citation", "uncited", "link_removed", "dropped")

SEARCH_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ANSWER_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
INDEX_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
SCORES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
RESULTS: Final = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, slots=True)
class AnswerTime:
    """A question whose answer has ended, one way or another; ``answer`` None: it never became one."""

    mode: str  # that was asked for
    outcome: str  # done | partial | failed | left
    seconds: float
    answer: GivenAnswer | None = None
    first_word: float | None = None  # seconds until it, of a streamed one


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
        others = plugin_names("arm")
        stages = (*STAGES, *(f"recall.{arm}" for arm in others), OTHER)
        self._seconds = {(mode, stage): seconds.labels(mode, stage) for mode in MODES for stage in stages}
        self._results = Histogram("rag_search_results", "Results of a search", registry=registry, buckets=RESULTS)
        self._zero = Counter("rag_zero_results", "Searches that found nothing", registry=registry)
        arms = Counter("rag_arm_failures", "Arms that failed or were late", ("arm",), registry=registry)
        self._arms = {arm: arms.labels(arm) for arm in (*ARM_NAMES, *others, OTHER)}
        degraded = Counter("rag_degraded", "Answers that say a part is missing", ("part",), registry=registry)
        self._degraded = {part: degraded.labels(part) for part in (*PARTS, *others, *ANSWER_PARTS, OTHER)}
        self._failed = Counter("rag_search_failures", "Searches whose every arm failed", registry=registry)
        self._hits = Counter("rag_cache_hits", "Searches answered from the cache", registry=registry)
        self._misses = Counter("rag_cache_misses", "Searches that the cache had no answer to", registry=registry)
        self._layers = _Layers(registry)
        self._answers = _Answers(registry)
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

    def climbed(self, done: LayeredRecall) -> None:
        """A layered search has ended."""
        self._layers.observe(done)
        self._results.observe(len(done.results))
        if not done.results:
            self._zero.inc()
        for part in {each.part for each in done.degraded}:
            self._degraded.get(part, self._degraded[OTHER]).inc()

    def indexed(self, done: IndexTime) -> None:
        """A piece of index work has ended."""
        self._index_seconds.observe(done.seconds)
        self._indexed.inc(done.documents)
        self._unindexed.inc(done.failed)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request has ended. ``route`` is a template, ``method`` a known one."""
        self._answered.labels(method, route, status).inc()
        self._request_seconds.labels(route).observe(seconds)

    def asked(self, done: AnswerTime) -> None:
        """A question has been answered, or not."""
        self._answers.observe(done)
        for part in {each.part for each in done.answer.degraded} if done.answer is not None else ():
            if part in ANSWER_PARTS:
                self._degraded[part].inc()

    def looked_up(self, queue: float, turns: Turns, answers: Turns) -> None:
        """What is only known by asking, just before it is told. ``queue``: not a number where nobody knows."""
        self._queue.set(queue)
        self._answers.in_flight.set(answers.running)
        self._answers.waiting.set(answers.waiting)
        self._recalls.set(turns.running)
        self._recalls_waiting.set(turns.waiting)

    def _count_arms(self, names: Iterable[str]) -> None:
        for name in names:
            self._arms.get(name, self._arms[OTHER]).inc()


class _Layers:
    """What the layers of `search_texts` and `search_tables` cost and give."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("engine", "layer")
        seconds = Histogram(
            "rag_layer_duration_seconds", "Time of a layer that ran; total: of the whole", labels,
            registry=registry, buckets=SEARCH_SECONDS,
        )  # fmt: skip
        results = Histogram(
            "rag_layer_results", "Results that a layer let in", labels, registry=registry, buckets=RESULTS
        )
        scores = Histogram(
            "rag_layer_score", "The best score that a layer let in", labels, registry=registry, buckets=SCORES
        )
        failures = Counter("rag_layer_failures", "Layers that failed", labels, registry=registry)
        known = [(engine, layer) for engine, layers in LAYERS.items() for layer in (*layers, OTHER)]
        self._seconds = {each: seconds.labels(*each) for each in [*known, *((engine, TOTAL) for engine in LAYERS)]}
        self._results = {each: results.labels(*each) for each in known}
        self._scores = {each: scores.labels(*each) for each in known}
        self._failures = {each: failures.labels(*each) for each in known}
        answers = Counter(
            "rag_table_answers", "Questions that cells answer, or do not", ("outcome",), registry=registry
        )
        self._answers = {outcome: answers.labels(outcome) for outcome in ANSWERS}

    def observe(self, done: LayeredRecall) -> None:
        self._seconds[done.kind, TOTAL].observe(done.seconds)
        for run in done.layers:
            if not run.ran:
                continue
            each = (done.kind, run.strategy if run.strategy in LAYERS[done.kind] else OTHER)
            self._seconds[each].observe(run.seconds)
            self._results[each].observe(run.count)
            if run.count:
                self._scores[each].observe(run.best)
            if run.failed:
                self._failures[each].inc()
        if done.answer is not None:
            self._answers["sure" if done.answer.sure else "declined"].inc()


class _Answers:
    """What answers are made of, how long they take, and what was wrong with them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def timed(name: str, about: str, label: str, known: Iterable[str]) -> dict[str, Histogram]:
            made = Histogram(name, about, (label,), registry=registry, buckets=ANSWER_SECONDS)
            return {each: made.labels(each) for each in (*known, OTHER)}

        answers = Counter(
            "rag_answers", "Answers, by who made them and how they ended", ("mode", "form", "outcome"),
            registry=registry,
        )  # fmt: skip
        self._count = {
            each: answers.labels(*each) for each in product((*QUERY_MODES, OTHER), (*FORMS, OTHER), OUTCOMES)
        }
        about = "Time of an answer that came to its end"
        self._seconds = timed("rag_answer_duration_seconds", about, "mode", QUERY_MODES)
        about = "Time to the first word of a streamed answer"
        self._first = timed("rag_answer_first_word_seconds", about, "mode", QUERY_MODES)
        about = "Time of a step on the way to an answer"
        self._stages = timed("rag_answer_stage_seconds", about, "stage", (*NODES, *GRAPH_STAGES))
        flags = Counter(
            "rag_answer_flags", "What models said and sources do not bear out", ("kind",), registry=registry
        )
        self._flags = {kind: flags.labels(kind) for kind in (*FLAGS, OTHER)}
        self.in_flight = Gauge("rag_answers_in_flight", "Answers over HTTP that are under way", registry=registry)
        self.waiting = Gauge("rag_answers_waiting", "Answers that wait for their turn", registry=registry)

    def observe(self, done: AnswerTime) -> None:
        answer = done.answer
        mode = answer.mode if answer is not None else done.mode if done.mode in QUERY_MODES else OTHER
        self._count[mode, answer.form if answer is not None else OTHER, done.outcome].inc()
        if done.first_word is not None:
            self._first[mode].observe(done.first_word)
        if answer is None:
            return
        self._seconds[mode].observe(done.seconds)
        for step in answer.trace:
            self._stages.get(step.node, self._stages[OTHER]).observe(step.seconds)
        for stage in answer.steps:
            if stage.name in GRAPH_STAGES:
                self._stages[stage.name].observe(stage.seconds)
        for flag in answer.flags:
            self._flags.get(flag.kind, self._flags[OTHER]).inc()


def routes() -> APIRouter:
    router = APIRouter()

    @router.get(
        "/metrics",
        tags=["运行"],
        summary="Prometheus 指标",
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus 文本格式"},
            **error_responses(),
        },
    )
    async def metrics(request: Request) -> Response:
        """检索与索引的用时、结果数、没有结果的次数、失败的各路、分层召回每一层的用时、结果数与分数，问答的方式、形式与用时，缓存命中、排队的写入、各接口的请求数。"""
        held: Metrics = request.app.state.metrics
        service = service_of(request)
        held.looked_up(await _depth(service.engine), service.turns, service.answers)
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(held.registry), headers={"content-type": media_type})

    return router


async def _depth(engine: Engine) -> float:
    try:
        return await engine.admin.queue_depth()
    except (QianxunError, SQLAlchemyError) as error:  # the other numbers are wanted most when the database is down
        log.warning("the depth of the queue is not known: %s", type(error).__name__)
        return math.nan
