"""Metrics for Prometheus. Labels come from closed sets: no texts, no ids."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeVar, get_args

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from qianxun.core.answer_types import Answer, FlagKind
from qianxun.core.errors import QianxunError
from qianxun.core.governance.quotas import KINDS as QUOTA_KINDS
from qianxun.core.governance.quotas import QuotaUse
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.log_types import IndexTime, Recalled
from qianxun.core.options import MODES, QUERY_MODES
from qianxun.core.plugins import names as plugin_names
from qianxun.core.types import Degraded
from qianxun.doors.http.context import Service, service_of
from qianxun.doors.http.openapi import error_responses
from qianxun.engine.across_tenants import StorageUse, pending_writes, quota_uses, storage_use, webhook_deliveries

OTHER: Final = "other"  # the label of what is not in a closed set
TOTAL: Final = "total"
ARM_NAMES: Final = ("vector", "keyword", "qa")  # ours; those of other packages are added by name
ARMS: Final = {"hybrid": ARM_NAMES, "vector": ("vector", "qa"), "fulltext": ("keyword",)}
STAGES: Final = ("rewrite", *(f"recall.{arm}" for arm in ARM_NAMES), "fuse", "guess", "rerank", "judge", TOTAL)
LAYERS: Final = {"text": ("vector", "keyword", "expansion"), "table": ("structure", "semantic", "keyword", "expansion")}
PARTS: Final = (*ARM_NAMES, "rewrite", "rerank", "document", "structure", "semantic", "expansion", "depth", "answer")
TABLE_ANSWERS: Final = ("sure", "declined")

FORMS: Final = ("model", "extractive", "table", "probable", "declined", "direct")
OUTCOMES: Final = ("done", "partial", "failed", "left")
NODES: Final = (
    "analyze_query",
    "route_query",
    "retrieve",
    "grade_documents",
    "refine_query",
    "plan_steps",
    "generate_answer",
)
GRAPH_STAGES: Final = ("graph", "graph.surroundings", "graph.walk", "graph.context", "join")
# Parts that may be missing in an answer alone; those of its searches are counted with them.
ANSWER_PARTS: Final = ("graph", "recall", "chat", "model", "vision", "image", *NODES)
FLAGS: Final = get_args(FlagKind)

SEARCH_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ANSWER_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
INDEX_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
SCORES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
STORED: Final = ("records", "index")
MEASURED_SECONDS: Final = 30.0  # for which a count of what is stored holds
RESULTS: Final = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)

WEBHOOK_STATUSES: Final = ("pending", "failed")

Metric = TypeVar("Metric", Counter, Gauge, Histogram)
Key = TypeVar("Key", str, tuple[str, ...])


@dataclass(frozen=True, slots=True)
class AnswerTime:
    """An answer that has ended, in whatever way; ``answer`` is None if there is none."""

    mode: str  # as requested
    outcome: str  # one of OUTCOMES
    seconds: float
    answer: Answer | None = None
    first_token: float | None = None  # seconds, of a streamed one


class _Children(dict[Key, Metric]):
    """A metric by its labels, of a closed set. Made once and looked up here: `labels` of the library takes a lock and
    makes strings at every call. Made when first used, and all of them (300) when somebody reads the metrics."""

    def __init__(self, metric: Metric, labels: Iterable[Key]) -> None:
        super().__init__()
        self._metric: Metric = metric
        self._labels: tuple[Key, ...] = tuple(labels)
        self._known: frozenset[Key] = frozenset(self._labels)

    def __missing__(self, label: Key) -> Metric:
        if label not in self._known:
            raise KeyError(label)
        made: Metric = self._metric.labels(*((label,) if isinstance(label, str) else label))
        self[label] = made
        return made

    def of(self, label: Key, other: Key) -> Metric:
        """That of ``other`` where the label is not of the set."""
        return self[label if label in self._known else other]

    def fill(self) -> None:
        for label in self._labels:
            _ = self[label]


class _Registry(CollectorRegistry):
    """Shows also what was never counted, as 0."""

    def __init__(self) -> None:
        super().__init__()
        self.children: list[_Children[Any, Any]] = []

    def collect(self) -> Iterable[Any]:
        for children in self.children:
            children.fill()
        return super().collect()


def _children(metric: Metric, labels: Iterable[Key], own: Mapping[str, Any]) -> _Children[Key, Metric]:
    made = _Children(metric, labels)
    own["registry"].children.append(made)
    return made


def _count(counters: _Children[str, Counter], names: Iterable[str]) -> None:
    for name in names:
        counters.of(name, OTHER).inc()


class Metrics:
    """The metrics of one service, in a registry of their own. ``has_cache``: whether a search can miss the cache."""

    def __init__(self, *, has_cache: bool = True) -> None:
        self._has_cache = has_cache
        self.registry = registry = _Registry()
        own: dict[str, Any] = {"registry": registry}
        seconds = Histogram(
            "rag_search_duration_seconds",
            "Time of a search, by stage",
            ("mode", "stage"),
            **own,
            buckets=SEARCH_SECONDS,
        )
        others = plugin_names("arm")
        stages = (*STAGES, *(f"recall.{arm}" for arm in others), OTHER)
        self._seconds = _children(seconds, product(MODES, stages), own)
        self._results = Histogram("rag_search_results", "Results of a search", **own, buckets=RESULTS)
        self._zero = Counter("rag_zero_results", "Searches that found nothing", **own)
        arms = Counter("rag_arm_failures", "Arms that failed or were late", ("arm",), **own)
        self._arms = _children(arms, (*ARM_NAMES, *others, OTHER), own)
        degraded = Counter("rag_degraded", "Answers that say a part is missing", ("part",), **own)
        self._degraded = _children(degraded, (*PARTS, *others, *ANSWER_PARTS, OTHER), own)
        self._failed = Counter("rag_search_failures", "Searches whose every arm failed", **own)
        self._hits = Counter("rag_cache_hits", "Searches answered from the cache", **own)
        self._misses = Counter("rag_cache_misses", "Searches that the cache had no answer to", **own)
        self._layers = _Layers(own)
        self._answers = _Answers(own)
        self._index_seconds = Histogram(
            "rag_index_duration_seconds", "Time of a piece of index work", **own, buckets=INDEX_SECONDS
        )
        self._indexed = Counter("rag_indexed_documents", "Documents that index work was done for", **own)
        self._unindexed = Counter("rag_index_failures", "Documents that could not be made ready", **own)
        self._queue = Gauge("rag_queue_depth", "Writes that wait for the index, as of now", **own)
        self._vectors = Gauge("rag_vectors", "Vectors of chunks and attached questions, of all tenants", **own)
        about = "Bytes on disk: the records' database, and the index in the data folder"
        self._disk = _children(Gauge("rag_disk_bytes", about, ("part",), **own), STORED, own)
        self._used: tuple[float, StorageUse | None] = (-math.inf, None)
        about = "The quota of the tenant that reads this; without keys, of all that have one"
        self._quota = Gauge("rag_quota_limit", about, ("tenant", "kind"), **own)
        self._quota_used = Gauge("rag_quota_used", "What is used of it", ("tenant", "kind"), **own)
        about = "Events that wait to be told to webhooks, and that were given up, of all tenants"
        webhooks = Gauge("rag_webhook_deliveries", about, ("status",), **own)
        self._webhooks = _children(webhooks, WEBHOOK_STATUSES, own)
        self._quota_refusals = Counter("rag_quota_refusals", "Searches that were refused for a quota", **own)
        self._recalls = Gauge("rag_recalls_in_flight", "Searches over HTTP that are under way", **own)
        self._recalls_waiting = Gauge("rag_recalls_waiting", "Searches that wait for their turn", **own)
        self._responses = Counter(
            "http_requests", "Requests answered; 499: the client had gone", ("method", "route", "status"), **own
        )
        about = "Time from the request to the end of its answer"
        self._request_seconds = Histogram(
            "http_request_duration_seconds", about, ("route",), **own, buckets=SEARCH_SECONDS
        )
        self.in_flight = Gauge("http_requests_in_flight", "Requests that are being answered", **own)
        ProcessCollector(registry=registry)

    def recalled(self, done: Recalled) -> None:
        """A search has ended."""
        self._seconds[done.mode, TOTAL].observe(done.seconds)
        if done.answer is None:
            self._failed.inc()
            _count(self._arms, ARMS[done.mode])
            return
        recall = done.answer
        if self._has_cache:
            (self._hits if recall.from_cache else self._misses).inc()
        if not recall.from_cache:  # the steps of a cached one are those of the search that filled the cache
            for step in recall.steps:
                stage = self._seconds.of((done.mode, step.name), (done.mode, OTHER))
                stage.observe(step.seconds)
        parts = self._count_results(len(recall.results), recall.degraded)
        _count(self._arms, (part for part in parts if part in ARM_NAMES or part not in PARTS))

    def layered_recalled(self, done: LayeredRecall) -> None:
        """A layered search has ended."""
        self._layers.observe(done)
        self._count_results(len(done.results), done.degraded)

    def _count_results(self, results: int, degraded: Iterable[Degraded]) -> set[str]:
        """Returns the parts that are missing."""
        self._results.observe(results)
        if not results:
            self._zero.inc()
        parts = {missing.part for missing in degraded}
        _count(self._degraded, parts)
        return parts

    def indexed(self, done: IndexTime) -> None:
        """A piece of index work has ended."""
        self._index_seconds.observe(done.seconds)
        self._indexed.inc(done.documents)
        self._unindexed.inc(done.failed)

    def answered(self, done: AnswerTime) -> None:
        """An answer has ended, in whatever way."""
        self._answers.observe(done)
        if done.answer is not None:
            _count(self._degraded, {missing.part for missing in done.answer.degraded}.intersection(ANSWER_PARTS))

    def responded(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request has ended. ``route`` is a template, ``method`` from a closed set."""
        self._responses.labels(method, route, status).inc()
        self._request_seconds.labels(route).observe(seconds)

    async def sample(self, service: Service) -> None:
        """Sets the gauges to what is true now."""
        pending = await pending_writes(service.engine)
        self._queue.set(math.nan if pending is None else pending)  # the rest is needed most when the database is down
        await self._measure(service)
        deliveries = await webhook_deliveries(service.engine)
        for status in WEBHOOK_STATUSES:
            self._webhooks[status].set(math.nan if deliveries is None else deliveries[status])
        self._answers.in_flight.set(service.answers.running)
        self._answers.waiting.set(service.answers.waiting)
        self._recalls.set(service.recalls.running)
        self._recalls_waiting.set(service.recalls.waiting)

    def search_refused(self) -> None:
        """A search was beyond the quota of its tenant."""
        self._quota_refusals.inc()

    def show_quotas(self, uses: Iterable[QuotaUse]) -> None:
        """In what is encoded next, and of no other tenant: whoever reads metrics may be anybody's."""
        self._quota.clear()
        self._quota_used.clear()
        for use in uses:
            for kind in QUOTA_KINDS:
                if (limit := getattr(use.quota, kind)) is not None:
                    self._quota.labels(use.tenant, kind).set(limit)
                    self._quota_used.labels(use.tenant, kind).set(getattr(use.used, kind) or 0)

    async def _measure(self, service: Service) -> None:
        """Counted at most every so often: a million vectors take a moment."""
        taken, use = self._used
        if time.monotonic() - taken >= MEASURED_SECONDS:
            use = await storage_use(service.engine)
            self._used = (time.monotonic(), use)
        self._vectors.set(math.nan if use is None else use.vectors)
        self._disk["records"].set(math.nan if use is None else use.records_bytes)
        self._disk["index"].set(math.nan if use is None else use.index_bytes)


class _Layers:
    """Time, results and scores of the layers of `search_texts` and `search_tables`."""

    def __init__(self, own: dict[str, Any]) -> None:
        labels = ("engine", "layer")
        layers = [(engine, layer) for engine, names in LAYERS.items() for layer in (*names, OTHER)]
        seconds = Histogram(
            "rag_layer_duration_seconds", "Time of a layer that ran; total: of the whole", labels,
            **own, buckets=SEARCH_SECONDS,
        )  # fmt: skip
        self._seconds = _children(seconds, [*layers, *((engine, TOTAL) for engine in LAYERS)], own)
        results = Histogram("rag_layer_results", "Results that a layer let in", labels, **own, buckets=RESULTS)
        self._results = _children(results, layers, own)
        scores = Histogram("rag_layer_score", "The best score that a layer let in", labels, **own, buckets=SCORES)
        self._scores = _children(scores, layers, own)
        self._failures = _children(Counter("rag_layer_failures", "Layers that failed", labels, **own), layers, own)
        answers = Counter("rag_table_answers", "Questions that cells answer, or do not", ("outcome",), **own)
        self._answers = _children(answers, TABLE_ANSWERS, own)

    def observe(self, done: LayeredRecall) -> None:
        self._seconds[done.kind, TOTAL].observe(done.seconds)
        for run in (run for run in done.layers if run.ran):
            layer = (done.kind, run.strategy if run.strategy in LAYERS[done.kind] else OTHER)
            self._seconds[layer].observe(run.seconds)
            self._results[layer].observe(run.count)
            if run.count:
                self._scores[layer].observe(run.best)
            if run.failed:
                self._failures[layer].inc()
        if done.answer is not None:
            self._answers["sure" if done.answer.sure else "declined"].inc()


class _Answers:
    """How answers were made, how long they took, and what was wrong with them."""

    def __init__(self, own: dict[str, Any]) -> None:
        def timed(name: str, about: str, label: str, known: Iterable[str]) -> _Children[str, Histogram]:
            return _children(Histogram(name, about, (label,), **own, buckets=ANSWER_SECONDS), (*known, OTHER), own)

        about = "Answers, by who made them and how they ended"
        answers = Counter("rag_answers", about, ("mode", "form", "outcome"), **own)
        self._count = _children(answers, product((*QUERY_MODES, OTHER), (*FORMS, OTHER), OUTCOMES), own)
        about = "Time of an answer that came to its end"
        self._seconds = timed("rag_answer_duration_seconds", about, "mode", QUERY_MODES)
        about = "Time to the first word of a streamed answer"
        self._first_token = timed("rag_answer_first_word_seconds", about, "mode", QUERY_MODES)
        about = "Time of a step on the way to an answer"
        self._stages = timed("rag_answer_stage_seconds", about, "stage", (*NODES, *GRAPH_STAGES))
        flags = Counter("rag_answer_flags", "What models said and sources do not bear out", ("kind",), **own)
        self._flags = _children(flags, (*FLAGS, OTHER), own)
        self.in_flight = Gauge("rag_answers_in_flight", "Answers over HTTP that are under way", **own)
        self.waiting = Gauge("rag_answers_waiting", "Answers that wait for their turn", **own)

    def observe(self, done: AnswerTime) -> None:
        answer = done.answer
        mode = answer.mode if answer is not None else done.mode if done.mode in QUERY_MODES else OTHER
        self._count[mode, answer.form if answer is not None else OTHER, done.outcome].inc()
        if done.first_token is not None:
            self._first_token[mode].observe(done.first_token)
        if answer is None:
            return
        self._seconds[mode].observe(done.seconds)
        for step in answer.trace:
            self._stages.of(step.node, OTHER).observe(step.seconds)
        for stage in answer.steps:
            if stage.name in GRAPH_STAGES:
                self._stages[stage.name].observe(stage.seconds)
        _count(self._flags, (flag.kind for flag in answer.flags))


async def _quotas(service: Service, request: Request) -> list[QuotaUse]:
    """None if the records cannot be read: the rest is needed most then."""
    tenant = request.state.tenant if request.state.key_id is not None else None
    try:
        return await quota_uses(service.engine, tenant)
    except (QianxunError, OSError):
        return []


router = APIRouter(tags=["运行"])
TEXT: Final = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus 文本格式"}


@router.get("/metrics", summary="Prometheus 指标", response_class=Response, responses={200: TEXT, **error_responses()})
async def metrics(request: Request) -> Response:
    """检索与索引的用时、结果数、没有结果的次数、失败的各路、分层召回每一层的用时、结果数与分数，问答的方式、形式与用时，缓存命中、排队的写入、向量数与磁盘占用、各接口的请求数。"""
    numbers: Metrics = request.app.state.metrics
    service = service_of(request)
    await numbers.sample(service)
    numbers.show_quotas(await _quotas(service, request))
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(numbers.registry), headers={"content-type": media_type})
