"""A request is known by one id in its answer and in every line logged meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun import Document
from qianxun.core.log_types import new_trace_id
from qianxun.doors.http.middleware.connection import HEAD_BYTES
from qianxun.doors.http.middleware.metrics import Metrics
from qianxun.doors.http.middleware.trace_ids import Parent, parent_of, trace_id
from qianxun.doors.http.middleware.tracing import Tracing
from qianxun.records.secrets import keys
from qianxun.testing.scripted import HashEmbedding
from tests.http.served import serving
from tests.http.watched import SPAN, TRACE, TRACEPARENT, client, logged, real_app, small_app

# ── traceparent ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("header", "flags"),
    [
        (TRACEPARENT, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"  {TRACEPARENT}\t", 1),
        (f"01-{TRACE}-{SPAN}-01", 1),
        (f"cc-{TRACE}-{SPAN}-01-what the future will be like", 1),  # a later version may have more to say
    ],
)
def test_a_well_formed_traceparent_is_honoured(header: str, flags: int) -> None:
    assert parent_of([(b"host", b"x"), (b"traceparent", header.encode())]) == Parent(TRACE, SPAN, flags)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"01-{TRACE}-{SPAN}-01more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"00_{TRACE}_{SPAN}_01",
        f"{TRACEPARENT}\n",
        f"00-{'４' * 32}-{SPAN}-01",
    ],
)
def test_any_other_is_not(header: str) -> None:
    assert parent_of([(b"traceparent", header.encode())]) is None


def test_two_of_them_name_nobody() -> None:
    assert parent_of([(b"traceparent", TRACEPARENT.encode())] * 2) is None


def test_what_other_systems_say_is_handed_on() -> None:
    headers = [(b"traceparent", TRACEPARENT.encode()), (b"tracestate", b"a=1"), (b"tracestate", b"b=2")]
    parent = parent_of(headers)
    assert parent is not None
    assert parent.state == "a=1,b=2"


@given(st.lists(st.tuples(st.sampled_from([b"traceparent", b"tracestate"]), st.binary(max_size=80)), max_size=3))
def test_no_header_breaks_the_reading(headers: list[tuple[bytes, bytes]]) -> None:
    parent = parent_of(headers)
    assert parent is None or re.fullmatch("[0-9a-f]{32}", parent.trace_id)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


async def _get(path: str, app: Any = None, **headers: str) -> httpx.Response:
    async with client(app or small_app(), **headers) as asking:
        return await asking.get(path)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/well/a", 200), ("/nowhere", 404), ("/number?at=x", 422), ("/busy", 503), ("/broken", 500), ("/half", 200)],
)
def test_every_answer_names_its_trace(path: str, status: int) -> None:
    told = asyncio.run(_get(path, traceparent=TRACEPARENT))
    assert (told.status_code, told.headers.get_list("x-trace-id")) == (status, [TRACE])


def test_without_a_well_formed_one_every_request_has_its_own() -> None:
    first, second = asyncio.run(_get("/well/a")), asyncio.run(_get("/well/a", traceparent="00-no-no-00"))
    ids = [told.headers["x-trace-id"] for told in (first, second)]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert ids[0] != ids[1]
    assert first.json() == {"trace": ids[0]}


def test_what_nobody_expected_is_told_by_its_trace_alone_and_logged_whole() -> None:
    with logged() as lines:
        told = asyncio.run(_get("/broken", traceparent=TRACEPARENT))
    assert told.json()["trace_id"] == TRACE
    assert told.json()["code"] == 500
    assert "ZeroDivision" not in told.text
    (failure,) = [line for line in lines() if "exception" in line]
    assert failure["trace_id"] == TRACE
    assert "ZeroDivisionError: the secret is qx_******" in failure["exception"]
    assert 'in broken\n    raise ZeroDivisionError("the secret is qx_"' in failure["exception"]


def test_requests_side_by_side_keep_their_own() -> None:
    async def ask() -> None:
        ids = [new_trace_id() for _ in range(40)]
        async with client(small_app()) as asking:
            headers = [{"traceparent": f"00-{each}-{SPAN}-01"} for each in ids]
            told = await asyncio.gather(*(asking.get("/well/a", headers=each) for each in headers))
        assert [each.json()["trace"] for each in told] == ids
        assert trace_id() == ""

    asyncio.run(ask())


def test_a_request_that_is_cancelled_is_counted_as_gone_and_leaves_nothing_behind() -> None:
    metrics = Metrics()

    async def hang(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    async def ask() -> None:
        scope = {"type": "http", "method": "GET", "headers": []}
        task = asyncio.ensure_future(Tracing(hang, metrics)(scope, None, None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert metrics.registry.get_sample_value("http_requests_in_flight") == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with logged() as lines:
        asyncio.run(ask())
    assert [line["status"] for line in lines()] == [499]
    assert metrics.registry.get_sample_value("http_requests_in_flight") == 0
    labels = {"method": "GET", "route": "other", "status": "499"}
    assert metrics.registry.get_sample_value("http_requests_total", labels) == 1


def test_what_is_no_http_passes_untouched() -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    scope = {"type": "lifespan"}
    asyncio.run(Tracing(app, Metrics())(scope, None, None))  # type: ignore[arg-type]
    assert seen == [({"type": "lifespan"}, None, None)]


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def test_one_line_tells_of_a_request_without_its_text() -> None:
    with logged() as lines:
        asyncio.run(_get("/well/医保报销比例?query=糖尿病&key=qx_secret", traceparent=TRACEPARENT))
    (line,) = lines()
    assert line.pop("ms") > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert line == {
        "level": "INFO",
        "logger": "qianxun.doors.http.requests",
        "message": "request",
        "trace_id": TRACE,
        "tenant": "",
        "method": "GET",
        "route": "/well/{name}",
        "client": "127.0.0.1",
        "status": 200,
    }


@pytest.mark.parametrize(
    ("path", "level", "route"),
    [("/nowhere", "INFO", "other"), ("/busy", "WARNING", "/busy"), ("/broken", "ERROR", "/broken")],
)
def test_its_level_says_whose_fault_it_was(path: str, level: str, route: str) -> None:
    with logged() as lines:
        asyncio.run(_get(path))
    (line,) = [line for line in lines() if line["message"] == "request"]
    assert (line["level"], line["route"]) == (level, route)


def test_an_answer_that_breaks_off_is_said_to_be_cut() -> None:
    with logged() as lines:
        asyncio.run(_get("/half"))
    assert [(line["level"], line["status"], line["cut"]) for line in lines() if "status" in line] == [
        ("ERROR", 200, True)
    ]


def test_threads_log_under_the_trace_of_their_request() -> None:
    with logged() as lines:
        told = asyncio.run(_get("/threads"))
    said = {line["message"]: line["trace_id"] for line in lines()}
    assert said == dict.fromkeys(("in a worker thread", "in a model's thread", "request"), told.json())


# ── the real service ─────────────────────────────────────────────────────────────────────────────


class Talkative(HashEmbedding):
    """Says something on a thread of its own lane, and fails when told to."""

    def embed_query(self, text: str) -> Any:
        logging.getLogger("tests.model").warning("a model speaks")
        raise RuntimeError("down")


def test_every_route_is_known_by_its_template_and_every_answer_by_its_trace(tmp_path: Path) -> None:
    asked: list[tuple[str, str, int]] = []

    async def run() -> None:
        async with real_app(tmp_path, HashEmbedding()) as (_, app), client(app, traceparent=TRACEPARENT) as asking:
            for path, methods in app.openapi()["paths"].items():
                for method in methods:
                    told = await asking.request(method, re.sub(r"\{[^}]*\}", "7", path))
                    assert told.headers.get_list("x-trace-id") == [TRACE]
                    asked.append((method.upper(), path, told.status_code))

    with logged() as lines:
        asyncio.run(run())
    seen = [(line["method"], line["route"], line["status"]) for line in lines() if line["message"] == "request"]
    assert len(asked) > 10
    assert seen == asked


@pytest.mark.parametrize(
    ("sent", "status"),
    # No more than is read before the line is cut: what is left unread resets it, and may take the answer along.
    [(b"NONSENSE\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400), (b"G" * 10_000, 400),
     (b"GET / HTTP/1.1\r\nX: ".ljust(HEAD_BYTES + 1, b"x"), 431)],
)  # fmt: skip
def test_what_never_became_a_request_has_a_trace_and_the_shape_of_all_answers(
    tmp_path: Path, sent: bytes, status: int
) -> None:
    async def ask() -> bytes:
        async with serving(tmp_path) as served:
            return await served.raw(sent)

    with logged() as lines:
        head, _, body = asyncio.run(ask()).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    (trace,) = re.findall(r"x-trace-id: ([0-9a-f]{32})\r\n", head.decode() + "\r\n")
    told = json.loads(body)
    assert (told["code"], told["data"]) == (status, None)
    assert [line["trace_id"] for line in lines() if line.get("status") == status] == [trace]


def test_a_request_that_is_turned_away_is_named_and_logged_under_no_tenant(tmp_path: Path) -> None:
    async def run() -> tuple[httpx.Response, httpx.Response]:
        async with real_app(tmp_path, HashEmbedding()) as (engine, app), client(app, traceparent=TRACEPARENT) as asking:
            with engine.records.writing() as tx:
                _, key = keys.create(tx, "acme", "read")
            wrong = await asking.get("/metrics", headers={"authorization": "Bearer qx_" + "x" * 43})
            return wrong, await asking.get("/metrics", headers={"authorization": f"Bearer {key}"})

    with logged() as lines:
        wrong, right = asyncio.run(run())
    assert [(told.status_code, told.headers["x-trace-id"]) for told in (wrong, right)] == [(401, TRACE), (200, TRACE)]
    told = [(line["status"], line["tenant"]) for line in lines() if line["message"] == "request"]
    assert told == [(401, ""), (200, "acme")]
    assert "qx_" not in str(lines())


def test_one_trace_runs_from_the_request_through_the_models_thread_to_the_log_of_searches(tmp_path: Path) -> None:
    async def run() -> tuple[dict[str, Any], str]:
        model = Talkative()
        async with real_app(tmp_path, model) as (engine, app), client(app, traceparent=TRACEPARENT) as asking:
            base = await engine.create_knowledge_base("库", model=model.name)
            await engine.add_documents(base.id, [Document("a", "医保报销比例为百分之七十。")])
            told = await asking.post(f"/v1/retrieval/{base.id}", json={"query": "医保报销比例"})
            await engine.journal.flush()
            (entry,) = await engine.logs.list()
            return told.json()["data"], entry.trace_id

    with logged() as lines:
        data, logged_under = asyncio.run(run())
    assert (data["trace_id"], logged_under) == (TRACE, TRACE)
    assert [each["part"] for each in data["degraded"]] == ["vector"]
    traces = {line["message"]: line.get("trace_id") for line in lines()}
    assert traces["a model speaks"] == TRACE
    assert traces["arm vector failed"] == TRACE
    assert "医保" not in str(lines())
