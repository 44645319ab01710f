"""Spans for OpenTelemetry: a request, the search or the answer in it, their steps. No text of anybody is in them.

Where spans go, which are kept and under which service's name is said by OpenTelemetry's own variables, which its SDK
reads: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_TRACES_SAMPLER``, ``OTEL_SERVICE_NAME`` …
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from qianxun.core.errors import MissingExtra
from qianxun.doors.http.middleware.metrics import OTHER, AnswerTime
from qianxun.doors.http.middleware.trace_ids import Parent, trace_id

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    from qianxun.core.answer_types import Answer, TraceStep
    from qianxun.core.layered_types import LayeredRecall
    from qianxun.core.log_types import Recalled

SERVICE: Final = "qianxun"
DRIFT_NANOSECONDS: Final = 50_000_000  # of the wall clock, after which spans follow it
FLUSH_MILLISECONDS: Final = 5_000  # for the last spans when the service stops


class OpenSpan:
    """A request's span while it is the current one."""

    __slots__ = ("span", "token")

    def __init__(self, span: Span, token: Any) -> None:
        self.span, self.token = span, token


class Spans:
    """Made by `open_spans`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(SERVICE)
        self._epoch = 0

    def begin(self, parent: Parent | None) -> OpenSpan:
        """The span of a request, below its caller's. It is the current one until its `end`."""
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
            told = {"http.request.method": "_OTHER" if method == OTHER else method, "http.route": route}
            span.set_attributes({**told, "http.response.status_code": status})
            if status >= 500:
                span.set_status(trace.StatusCode.ERROR)
        span.end(self._now())
        context.detach(opened.token)

    def recalled(self, done: Recalled) -> None:
        """A search and its steps, below the span that is the current one."""
        from opentelemetry import trace

        if not trace.get_current_span().is_recording():
            return
        begun = self._epoch + _nanoseconds(done.started)
        span = self._tracer.start_span("retrieve", start_time=begun, attributes=_attributes(done))
        if done.answer is None:
            span.set_status(trace.StatusCode.ERROR)
        below = trace.set_span_in_context(span)
        for step in done.answer.steps if done.answer is not None else ():
            if step.start:  # unknown for an answer from the cache: it took no steps
                first = self._epoch + _nanoseconds(step.start)
                part = self._tracer.start_span(step.name, below, start_time=first, attributes={"rag.count": step.count})
                part.end(first + _nanoseconds(step.seconds))
        span.end(begun + _nanoseconds(done.seconds))

    def climbed(self, done: LayeredRecall) -> None:
        """A layered search and the layers that ran, below the span that is the current one."""
        from opentelemetry import trace

        if not trace.get_current_span().is_recording():
            return
        ran = [run for run in done.layers if run.ran and run.start]
        started = min([time.perf_counter() - done.seconds, *(run.start for run in ran)])
        begun = self._epoch + _nanoseconds(started)
        span = self._tracer.start_span(f"search_{done.kind}s", start_time=begun, attributes=_about_layers(done))
        below = trace.set_span_in_context(span)
        for run in ran:
            first = self._epoch + _nanoseconds(run.start)
            told = {"rag.layer": run.layer, "rag.count": run.count, "rag.best": run.best}
            part = self._tracer.start_span(f"layer.{run.strategy}", below, start_time=first, attributes=told)
            if run.failed:
                part.set_status(trace.StatusCode.ERROR)
            part.end(first + _nanoseconds(run.seconds))
        span.end(self._now())

    def asked(self, done: AnswerTime) -> None:
        """A question, the steps to its answer and those of the searches, below the span that is the current one."""
        from opentelemetry import trace

        if not trace.get_current_span().is_recording():
            return
        walked = [step for step in done.answer.trace if step.start] if done.answer is not None else []
        started = min([time.perf_counter() - done.seconds, *(step.start for step in walked)])
        begun = self._epoch + _nanoseconds(started)
        span = self._tracer.start_span("answer", start_time=begun, attributes=_about_answer(done))
        if done.outcome == "failed":
            span.set_status(trace.StatusCode.ERROR)
        below = trace.set_span_in_context(span)
        for step in walked:
            self._walked(step, done.answer, below)
        span.end(self._now())

    def _walked(self, step: TraceStep, answer: Answer | None, below: Context) -> None:
        from opentelemetry import trace

        first = self._epoch + _nanoseconds(step.start)
        told = {"rag.by": "rules" if step.form == "rules" else "model"}
        span = self._tracer.start_span(step.node, below, start_time=first, attributes=told)
        inside = trace.set_span_in_context(span)
        for part in answer.steps if answer is not None and step.node == "retrieve" else ():
            if step.start <= part.start < step.start + step.seconds:
                begun = self._epoch + _nanoseconds(part.start)
                told_of_part = {"rag.count": part.count}
                within = self._tracer.start_span(part.name, inside, start_time=begun, attributes=told_of_part)
                within.end(begun + _nanoseconds(part.seconds))
        span.end(first + _nanoseconds(step.seconds))

    def _now(self) -> int:
        """The time of day by the clock of the steps, so that what lies in a span lies in it to the microsecond."""
        steady = time.perf_counter_ns()
        epoch = time.time_ns() - steady
        if abs(epoch - self._epoch) > DRIFT_NANOSECONDS:
            self._epoch = epoch
        return self._epoch + steady

    def close(self) -> None:
        """Sends what is left, and takes no more. Blocks."""
        self._provider.force_flush(FLUSH_MILLISECONDS)
        self._provider.shutdown()


def open_spans(exporter: SpanExporter | None = None) -> Spans:
    """Spans to ``exporter``, in batches, off the request's path; without one, over OTLP to where the variables say."""
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
        """A request that begins a trace is known by one id everywhere."""

        def generate_trace_id(self) -> int:
            return int(trace_id() or "0", 16) or super().generate_trace_id()

    named = Resource({"service.name": SERVICE}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named, id_generator=TraceIds(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Spans(provider)


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


def _attributes(done: Recalled) -> dict[str, Any]:
    told: dict[str, Any] = {"rag.mode": done.mode}
    if (answer := done.answer) is not None:
        told |= {
            "rag.results": len(answer.found),
            "rag.from_cache": answer.from_cache,
            "rag.tier": answer.tier or "",
            "rag.degraded": tuple(sorted({each.part for each in answer.degraded})),
        }
    return told


def _about_answer(done: AnswerTime) -> dict[str, Any]:
    told: dict[str, Any] = {"rag.mode": done.mode, "rag.outcome": done.outcome}
    if done.first_word is not None:
        told["rag.first_word_ms"] = round(done.first_word * 1e3, 2)
    if (answer := done.answer) is not None:
        told |= {
            "rag.mode": answer.mode,
            "rag.form": answer.form,
            "rag.sources": len(answer.sources),
            "rag.flags": len(answer.flags),
            "rag.degraded": tuple(sorted({each.part for each in answer.degraded})),
        }
    return told


def _about_layers(done: LayeredRecall) -> dict[str, Any]:
    told: dict[str, Any] = {
        "rag.engine": done.kind,
        "rag.wanted": done.wanted,
        "rag.results": len(done.results),
        "rag.degraded": tuple(sorted({each.part for each in done.degraded})),
    }
    return told if done.answer is None else {**told, "rag.answered": done.answer.sure}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
