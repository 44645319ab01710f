"""Spans lie where the time went: a request, the search in it, the search's steps, below the caller's own span."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from qianxun import Document, Engine
from qianxun.core.errors import MissingExtra, RecallFailed
from qianxun.doors.http.middleware.metrics import AnswerTime, Metrics
from qianxun.doors.http.middleware.spans import Spans, open_spans
from qianxun.doors.http.middleware.tracing import Tracing
from qianxun.testing.scripted import HashEmbedding, ScriptedEmbedding, ScriptedReranker
from tests.http.served import running
from tests.http.watched import SPAN, TRACE, TRACEPARENT, client, real_app, small_app
from tests.layered.recalls import TEXTS

QUERY = "医保报销比例是多少"


class Kept:
    """Spans, and what became of them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.spans: Spans = open_spans(self._exporter)

    def every(self) -> tuple[ReadableSpan, ...]:
        self.spans.close()
        return self._exporter.get_finished_spans()

    def finished(self) -> dict[str, ReadableSpan]:
        found = self.every()
        by_name = {span.name: span for span in found}
        assert len(by_name) == len(found)
        return by_name


@pytest.fixture
def kept() -> Iterator[Kept]:
    held = Kept()
    yield held
    held.spans.close()


async def _searching(folder: Path, spans: Spans, model: Any, *queries: str, mode: Any = "hybrid") -> None:
    """Each query in one request of its own."""
    async with Engine.open(
        folder, models={model.name: model, "reader": ScriptedReranker(name="reader")}, background=False
    ) as engine:
        base = await engine.create_knowledge_base("库", model=model.name)
        await engine.add_documents(base.id, [Document("a", "医保报销比例为百分之七十。住院另算。")])
        engine.hooks.recalled = spans.recalled

        async def app(scope: Any, receive: Any, send: Any) -> None:
            try:
                await engine.retrieve(base.id, scope["query"], mode=mode, rerank="reader")
            except RecallFailed:
                await send({"type": "http.response.start", "status": 503, "headers": []})

        async def send(message: Any) -> None:
            pass

        async def receive() -> Any:
            raise AssertionError("there is no body")

        for query in queries:
            scope = {
                "type": "http",
                "method": "POST",
                "headers": [(b"traceparent", TRACEPARENT.encode())],
                "query": query,
            }
            await Tracing(app, Metrics(), spans)(scope, receive, send)


def _within(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    begin, first, last, end = outer.start_time, inner.start_time, inner.end_time, outer.end_time
    rounding = 1_000  # nanoseconds: steps are timed in seconds
    return begin - rounding <= first <= last <= end + rounding  # type: ignore[operator]


def test_a_search_lies_in_its_request_and_its_steps_in_the_search(kept: Kept, tmp_path: Path) -> None:
    asyncio.run(_searching(tmp_path, kept.spans, HashEmbedding(), QUERY))
    found = kept.finished()
    steps = {"rewrite", "recall.vector", "recall.keyword", "recall.qa", "fuse", "rerank", "judge"}
    assert {"POST", "retrieve", *steps} <= set(found)
    request, search = found["POST"], found["retrieve"]
    assert request.parent is not None
    assert (f"{request.parent.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, SPAN)
    assert request.parent.is_remote
    assert search.parent is not None
    assert search.parent.span_id == request.context.span_id
    assert _within(search, request)
    for name in steps:
        step = found[name]
        assert step.parent is not None
        assert step.parent.span_id == search.context.span_id
        assert _within(step, search), name
    assert found["rewrite"].end_time <= found["recall.keyword"].start_time  # type: ignore[operator]
    assert found["recall.keyword"].end_time <= found["judge"].start_time  # type: ignore[operator]
    assert {f"{span.context.trace_id:032x}" for span in found.values()} == {TRACE}


def test_they_tell_numbers_and_no_text(kept: Kept, tmp_path: Path) -> None:
    asyncio.run(_searching(tmp_path, kept.spans, HashEmbedding(), QUERY))
    found = kept.finished()
    assert found["retrieve"].attributes == {
        "rag.mode": "hybrid",
        "rag.results": 1,
        "rag.from_cache": False,
        "rag.tier": "fuzzy",
        "rag.degraded": (),
    }
    assert found["recall.keyword"].attributes == {"rag.count": 1}
    assert not any("医保" in span.to_json() for span in found.values())


def test_a_part_that_is_missing_is_named_and_a_failed_search_is_an_error(kept: Kept, tmp_path: Path) -> None:
    asyncio.run(
        _searching(tmp_path / "a", kept.spans, ScriptedEmbedding(error=RuntimeError("down"), on="queries"), QUERY)
    )
    assert kept.finished()["retrieve"].attributes["rag.degraded"] == ("vector",)  # type: ignore[index]
    failing = Kept()
    asyncio.run(
        _searching(
            tmp_path / "b",
            failing.spans,
            ScriptedEmbedding(error=RuntimeError("down"), on="queries"),
            QUERY,
            mode="vector",
        )
    )
    found = failing.finished()
    assert set(found) == {"POST", "retrieve"}
    assert found["retrieve"].status.status_code is StatusCode.ERROR
    assert found["POST"].status.status_code is StatusCode.ERROR


def test_the_layers_that_ran_lie_in_their_search_and_one_that_failed_is_an_error(kept: Kept, tmp_path: Path) -> None:
    async def work() -> None:
        async with Engine.open(tmp_path, models={"fake-64": HashEmbedding()}) as engine:
            base = await engine.create_knowledge_base("医保", model="fake-64")
            await engine.add_documents(base.id, [Document("a", "医保报销比例为八成。")])
            engine.hooks.layered = kept.spans.layered_recalled
            opened = kept.spans.begin(None)
            await engine.search_texts(base.id, QUERY, 7)
            kept.spans.layered_recalled(replace(TEXTS, kind="table", layers=(replace(TEXTS.layers[2], start=1.0),)))
            kept.spans.end(opened, "POST", "/v1/recall/{knowledge_base_id}/texts", 200)

    asyncio.run(work())
    spans = kept.every()
    found = {span.name: span for span in spans if span.status.status_code is not StatusCode.ERROR}
    request, search = found["POST /v1/recall/{knowledge_base_id}/texts"], found["search_texts"]
    layers = [span for name, span in found.items() if name.startswith("layer.")]
    assert {span.name for span in layers} >= {"layer.vector", "layer.keyword"}
    assert _within(search, request)
    for layer in layers:
        assert layer.parent is not None
        assert layer.parent.span_id == search.context.span_id
        assert _within(layer, search)
    assert (search.attributes or {})["rag.wanted"] == 7
    assert (found["search_tables"].attributes or {})["rag.degraded"] == ("expansion",)
    assert [span.name for span in spans if span.status.status_code is StatusCode.ERROR] == ["layer.expansion"]
    assert not any("医保" in span.to_json() or "住院" in span.to_json() for span in spans)


@pytest.mark.parametrize("stream", [False, True])
def test_the_steps_of_an_answer_lie_in_it_and_those_of_a_search_in_theirs(
    kept: Kept, tmp_path: Path, stream: bool
) -> None:
    async def work() -> None:
        async with real_app(tmp_path, HashEmbedding(), kept.spans) as (engine, app), client(app) as asking:
            base = await engine.create_knowledge_base("医保", model="fake-64")
            await engine.add_documents(base.id, [Document("a", "医保报销比例为八成。")])
            told = await asking.post(f"/v1/query/{base.id}", json={"query": QUERY, "stream": stream})
            assert "八成" in told.text

    asyncio.run(work())
    found = kept.finished()
    request, answer = found["POST /v1/query/{knowledge_base_id}"], found["answer"]
    assert (answer.parent and answer.parent.span_id) == request.context.span_id
    assert _within(answer, request)
    for name in ("analyze_query", "route_query", "retrieve", "grade_documents", "generate_answer"):
        assert (found[name].parent and found[name].parent.span_id) == answer.context.span_id  # type: ignore[union-attr]
        assert _within(found[name], answer), name
        assert found[name].attributes == {"rag.by": "rules"}
    searched = found["recall.keyword"]
    assert (searched.parent and searched.parent.span_id) == found["retrieve"].context.span_id
    assert _within(searched, found["retrieve"])
    about = dict(answer.attributes or {})
    assert (about.pop("rag.first_word_ms", None) is not None) == stream
    expected = {"rag.mode": "mix", "rag.outcome": "done", "rag.form": "extractive", "rag.sources": 1, "rag.flags": 0}
    assert about == {**expected, "rag.degraded": ()}
    assert not any("医保" in span.to_json() for span in found.values())


def test_a_question_that_was_never_answered_is_an_error_without_steps(kept: Kept) -> None:
    opened = kept.spans.begin(None)
    kept.spans.answered(AnswerTime("mix", "failed", 0.5))
    kept.spans.end(opened, "POST", "/v1/query/{knowledge_base_id}", 503)
    found = kept.finished()
    assert set(found) == {"POST /v1/query/{knowledge_base_id}", "answer"}
    assert found["answer"].status.status_code is StatusCode.ERROR
    assert found["answer"].attributes == {"rag.mode": "mix", "rag.outcome": "failed"}


def test_an_answer_from_the_cache_took_no_steps(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    spans = open_spans(exporter)
    asyncio.run(_searching(tmp_path, spans, HashEmbedding(), QUERY, QUERY))
    spans.close()
    searches = [span for span in exporter.get_finished_spans() if span.name == "retrieve"]
    assert [span.attributes["rag.from_cache"] for span in searches] == [False, True]  # type: ignore[index]
    assert len([span for span in exporter.get_finished_spans() if span.name == "fuse"]) == 1


async def _get(kept: Kept, path: str, **headers: str) -> str:
    async with client(small_app(spans=kept.spans), **headers) as asking:
        return (await asking.get(path)).headers["x-trace-id"]


def test_a_request_that_begins_a_trace_is_known_by_the_same_id_everywhere(kept: Kept) -> None:
    trace = asyncio.run(_get(kept, "/well/医保?query=糖尿病"))
    (span,) = kept.finished().values()
    assert f"{span.context.trace_id:032x}" == trace
    assert (span.name, span.kind, span.parent) == ("GET /well/{name}", SpanKind.SERVER, None)
    told = {"http.request.method": "GET", "http.response.status_code": 200, "http.route": "/well/{name}"}
    assert span.attributes == told
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("path", "name", "status"),
    [("/nowhere", "GET", StatusCode.UNSET), ("/broken", "GET /broken", StatusCode.ERROR)],
)
def test_only_the_services_own_faults_are_errors(kept: Kept, path: str, name: str, status: StatusCode) -> None:
    asyncio.run(_get(kept, path))
    assert {key: span.status.status_code for key, span in kept.finished().items()} == {name: status}


def test_a_caller_that_keeps_no_spans_is_heeded(kept: Kept) -> None:
    assert asyncio.run(_get(kept, "/well/a", traceparent=f"00-{TRACE}-{SPAN}-00")) == TRACE
    assert kept.finished() == {}


def test_what_other_systems_say_is_handed_on(kept: Kept) -> None:
    asyncio.run(_get(kept, "/well/a", traceparent=TRACEPARENT, tracestate="vendor=1,=bad"))
    (span,) = kept.finished().values()
    assert span.context.trace_state.get("vendor") in ("1", None)


def test_an_odd_method_does_not_make_a_name(kept: Kept) -> None:
    async def ask() -> None:
        async with client(small_app(spans=kept.spans)) as asking:
            await asking.request("WHATEVER", "/nowhere")

    asyncio.run(ask())
    assert set(kept.finished()) == {"HTTP"}


# ── where they go ────────────────────────────────────────────────────────────────────────────────


class Collector(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Collecting)
        self.received: list[tuple[str, ExportTraceServiceRequest]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Collecting(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        self.server.received.append((self.path, sent))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        yield collector
        collector.shutdown()


def _sent(collector: Collector) -> tuple[str, list[str]]:
    """The service's name, and those of the spans."""
    (group,) = collector.received[0][1].resource_spans
    (name,) = (each.value.string_value for each in group.resource.attributes if each.key == "service.name")
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    return name, [span.name for span in group.scope_spans[0].spans]


def test_they_reach_a_collector_under_the_name_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "recall-eu")
        held = Kept()
        held.spans = open_spans()
        asyncio.run(_get(held, "/well/a"))
        held.spans.close()
    assert _sent(collector) == ("recall-eu", ["GET /well/{name}"])


def test_a_service_that_is_stopped_has_sent_its_last_span_and_logged_nothing_but_lines(tmp_path: Path) -> None:
    with collecting() as collector:
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "60",
        }
        with running(tmp_path, environment=environment) as service:
            told = httpx.get(
                f"{service.url}/healthz", headers={"traceparent": TRACEPARENT}, trust_env=False, timeout=60
            )
            _, logged = service.end(signal.SIGTERM)
    assert (told.status_code, service.process.returncode) == (200, 0)
    assert _sent(collector) == ("qianxun", ["GET /healthz"])
    lines = [json.loads(line) for line in logged.splitlines()]
    assert [line["trace_id"] for line in lines if line["message"] == "request"] == [TRACE]


def test_a_collector_that_is_away_costs_the_service_nothing_but_a_line(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
        with running(tmp_path, environment=environment) as service:
            told = httpx.get(f"{service.url}/healthz", trust_env=False, timeout=60)
            _, logged = service.end(signal.SIGTERM)
    assert (told.status_code, service.process.returncode) == (200, 0)
    assert "opentelemetry" in {json.loads(line)["logger"].split(".")[0] for line in logged.splitlines()}


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match=r"qianxun\[otel\]"):
        open_spans()


def test_without_spans_the_sdk_is_not_even_imported() -> None:
    program: Sequence[str] = [
        "import sys, qianxun.doors.http.app",
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
