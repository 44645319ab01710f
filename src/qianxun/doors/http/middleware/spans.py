"""Spans for OpenTelemetry: a request, the search or the answer in it, their steps. They hold no texts of users.

Exporter, sampling and service name come from OpenTelemetry's own variables, which its SDK reads:
``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_TRACES_SAMPLER``, ``OTEL_SERVICE_NAME`` …
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qianxun.core.errors import MissingExtra
from qianxun.doors.http.middleware.metrics import OTHER, AnswerTime
from qianxun.doors.http.middleware.trace_ids import Parent, trace_id

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    from qianxun.core.layered_types import LayeredRecall
    from qianxun.core.log_types import Recalled
    from qianxun.core.types import Degraded, StepTime

SERVICE: Final = "qianxun"
DRIFT_NANOSECONDS: Final = 50_000_000  # of the wall clock, beyond which spans are corrected to it
FLUSH_MILLISECONDS: Final = 5_000  # when the service stops


class OpenSpan(NamedTuple):
    """The span of a request that is under way."""

    span: Span
    token: Any


class Spans:
    """Made by `open_spans`. Times of steps are of `time.perf_counter`; ``_epoch`` turns them into times of day."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(SERVICE)
        self._epoch = 0

    def begin(self, parent: Parent | None) -> OpenSpan:
        """Starts the span of a request, as a child of its caller's. It is the current one until `end`."""
        from opentelemetry import context, trace

        above = context.Context() if parent is None else trace.set_span_in_context(_remote(parent), context.Context())
        span = self._tracer.start_span("HTTP", above, trace.SpanKind.SERVER, start_time=self._now())
        return OpenSpan(span, context.attach(trace.set_span_in_context(span, above)))

    def end(self, opened: OpenSpan, method: str, route: str, status: int) -> None:
        from opentelemetry import context, trace

        span = opened.span
        if span.is_recording():
            verb = "HTTP" if method == OTHER else method
            span.update_name(verb if route == OTHER else f"{verb} {route}")
            attributes = {"http.request.method": "_OTHER" if method == OTHER else method, "http.route": route}
            span.set_attributes({**attributes, "http.response.status_code": status})
            if status >= 500:
                span.set_status(trace.StatusCode.ERROR)
        span.end(self._now())
        context.detach(opened.token)

    def recalled(self, done: Recalled) -> None:
        """A search and its steps, as children of the current span."""
        if not _is_recording():
            return
        recall = done.answer
        attributes: dict[str, Any] = {"rag.mode": done.mode}
        if recall is not None:
            attributes |= {
                "rag.results": len(recall.results),
                "rag.from_cache": recall.from_cache,
                "rag.tier": recall.tier or "",
                "rag.degraded": _parts(recall.degraded),
            }
        # The steps of a cached result have no start: they did not run.
        steps = [_step(step) for step in recall.steps if step.start] if recall is not None else []
        self._export(_Span("retrieve", done.started, done.seconds, attributes, recall is None, steps))

    def layered_recalled(self, done: LayeredRecall) -> None:
        """A layered search and the layers that ran, as children of the current span."""
        if not _is_recording():
            return
        attributes: dict[str, Any] = {
            "rag.engine": done.kind,
            "rag.wanted": done.wanted,
            "rag.results": len(done.results),
            "rag.degraded": _parts(done.degraded),
        }
        if done.answer is not None:
            attributes["rag.answered"] = done.answer.sure
        layers = []
        for run in (run for run in done.layers if run.ran and run.start):
            about = {"rag.layer": run.layer, "rag.count": run.count, "rag.best": run.best}
            layers.append(_Span(f"layer.{run.strategy}", run.start, run.seconds, about, bool(run.failed)))
        self._export(_Span(f"search_{done.kind}s", _start(done.seconds, layers), None, attributes, False, layers))

    def answered(self, done: AnswerTime) -> None:
        """An answer, its steps and those of its searches, as children of the current span."""
        if not _is_recording():
            return
        attributes: dict[str, Any] = {"rag.mode": done.mode, "rag.outcome": done.outcome}
        if done.first_token is not None:
            attributes["rag.first_word_ms"] = round(done.first_token * 1e3, 2)
        nodes: list[_Span] = []
        if (answer := done.answer) is not None:
            attributes |= {
                "rag.mode": answer.mode,
                "rag.form": answer.form,
                "rag.sources": len(answer.sources),
                "rag.flags": len(answer.flags),
                "rag.degraded": _parts(answer.degraded),
            }
            for step in (step for step in answer.trace if step.start):
                by = {"rag.by": "rules" if step.form == "rules" else "model"}
                end, steps = step.start + step.seconds, answer.steps if step.node == "retrieve" else ()
                inner = [_step(part) for part in steps if step.start <= part.start < end]
                nodes.append(_Span(step.node, step.start, step.seconds, by, False, inner))
        start = _start(done.seconds, nodes)
        self._export(_Span("answer", start, None, attributes, done.outcome == "failed", nodes))

    def _export(self, span: _Span, parent: Context | None = None) -> None:
        from opentelemetry import trace

        begun = self._epoch + _nanoseconds(span.start)
        exported = self._tracer.start_span(span.name, parent, start_time=begun, attributes=span.attributes)
        if span.is_error:
            exported.set_status(trace.StatusCode.ERROR)
        below = trace.set_span_in_context(exported)
        for child in span.children:
            self._export(child, below)
        exported.end(self._now() if span.seconds is None else begun + _nanoseconds(span.seconds))

    def _now(self) -> int:
        """The time of day by the clock of the steps, so that a child never exceeds its parent."""
        steady = time.perf_counter_ns()
        epoch = time.time_ns() - steady
        if abs(epoch - self._epoch) > DRIFT_NANOSECONDS:
            self._epoch = epoch
        return self._epoch + steady

    def close(self) -> None:
        """Exports the rest. Blocks."""
        self._provider.force_flush(FLUSH_MILLISECONDS)
        self._provider.shutdown()


def open_spans(exporter: SpanExporter | None = None) -> Spans:
    """Exports in batches in the background to ``exporter``; without one, over OTLP as the variables say."""
    try:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
    except ImportError as error:
        raise MissingExtra("opentelemetry-sdk", "otel") from error

    class TraceIds(RandomIdGenerator):
        """A request that begins a trace has the same id in spans, logs and headers."""

        def generate_trace_id(self) -> int:
            return int(trace_id() or "0", 16) or super().generate_trace_id()

    named = Resource({"service.name": SERVICE}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named, id_generator=TraceIds(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Spans(provider)


def _is_recording() -> bool:
    from opentelemetry import trace

    return trace.get_current_span().is_recording()


def _remote(parent: Parent) -> Span:
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

    return NonRecordingSpan(
        SpanContext(
            trace_id=int(parent.trace_id, 16),
            span_id=int(parent.span_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(parent.flags),
            trace_state=TraceState.from_header([parent.state]) if parent.state else None,
        )
    )


@dataclass(frozen=True, slots=True)
class _Span:
    """A span that has ended. ``start`` is of `time.perf_counter`; without ``seconds`` it ends now."""

    name: str
    start: float
    seconds: float | None
    attributes: dict[str, Any]
    is_error: bool = False
    children: Sequence[_Span] = ()


def _step(step: StepTime) -> _Span:
    return _Span(step.name, step.start, step.seconds, {"rag.count": step.count})


def _start(seconds: float, children: Sequence[_Span]) -> float:
    """So many seconds ago, and not after any of its children."""
    return min([time.perf_counter() - seconds, *(child.start for child in children)])


def _parts(degraded: Iterable[Degraded]) -> tuple[str, ...]:
    return tuple(sorted({missing.part for missing in degraded}))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
