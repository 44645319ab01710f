"""The OpenAPI document keeps its promises: whatever is asked, the answer is one it names, in the shape it shows."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Response
from fastapi.routing import APIRoute

from qianxun.doors.http.native.bases import Deleted
from qianxun.doors.http.responses import Envelope, success
from tests.http.asking import Asking, code_of
from tests.http.operations import FORM, JSON, Operation, operations
from tests.http.survey import Known, Survey, brief, inhabited, survey
from tests.sampling import sampled, share

CONSOLE = "/console"  # pages for people
PAGES = {"/", "/openapi.json", "/docs", "/mcp", "/mcp/"}  # that describe the others, or themselves


def run(folder: Path, story: Callable[[Asking, Known], Awaitable[None]]) -> None:
    async def told() -> None:
        async with inhabited(folder) as (asked, known):
            await story(asked, known)

    asyncio.run(told())


async def surveyed(asked: Asking, document: Mapping[str, Any], known: Known, one_in: int = 1) -> Survey:
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(survey, asked.app, loop, document, known, examples=1, seed=1, one_in=one_in)


# The service answers in a thread of its own and draws when it tries a webhook again: no strategy does that.
OWN_DRAWS = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@OWN_DRAWS
def test_every_answer_is_one_that_the_document_promises(tmp_path: Path) -> None:
    async def story(asked: Asking, known: Known) -> None:
        document = brief(asked.app.openapi())
        found = await surveyed(asked, document, known, one_in=share(1, 10))
        assert not found.flaws, "\n\n".join(map(str, found.flaws))
        assert found.cases > 500
        for operation in operations(document):  # the survey came as far as the thing itself
            statuses = found.statuses[str(operation)]
            reached = [status for status in statuses if 200 <= status < 300 or status == 409]  # 409: it exists
            assert reached, (str(operation), statuses)

    run(tmp_path, story)


@OWN_DRAWS
def test_a_route_that_breaks_its_promise_is_caught(tmp_path: Path) -> None:
    """The negative control: a crash, a status that is not documented, an answer of another shape."""

    async def crash(number: int) -> Response:
        raise RuntimeError(number)

    async def teapot(number: int) -> Response:
        return success({"deleted": True}, 418)

    async def shapeless(number: int) -> Response:
        return success({"deleted": "perhaps"})

    planted = {crash: "not_a_server_error", teapot: "status_code_conformance", shapeless: "response_schema_conformance"}

    async def story(asked: Asking, known: Known) -> None:
        for handler in planted:
            asked.app.get(f"/planted/{handler.__name__}/{{number}}", response_model=Envelope[Deleted])(handler)
        asked.app.openapi_schema = None
        document = asked.app.openapi()
        paths = {path: told for path, told in document["paths"].items() if path.startswith("/planted/")}
        found = await surveyed(asked, {**document, "paths": paths}, known)
        for handler, check in planted.items():
            assert (f"GET /planted/{handler.__name__}/{{number}}", check) in {
                (flaw.operation, flaw.check) for flaw in found.flaws
            }

    run(tmp_path, story)


def test_every_route_is_documented(tmp_path: Path) -> None:
    async def story(asked: Asking, known: Known) -> None:
        documented = {(operation.method, operation.path) for operation in operations(asked.app.openapi())}
        shown = {pair for pair in routes(asked.app) if pair[1] not in PAGES and not pair[1].startswith(CONSOLE)}
        assert shown == documented

    run(tmp_path, story)


def routes(app: FastAPI) -> set[tuple[str, str]]:
    """(method, path) of every route, in whatever router it stands."""
    found = set()
    for route in app.routes:
        inner = getattr(getattr(route, "original_router", None), "routes", [route])
        for each in inner:
            for method in getattr(each, "methods", None) or ():
                found.add((method, each.path_format if isinstance(each, APIRoute) else each.path))
    return found - {("HEAD", page) for page in PAGES}


# ── what no schema can say ───────────────────────────────────────────────────────────────────────

DEEP = 50_000
BODIES: Mapping[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "number": b"1",
    "text": b'"x"',
    "list": b"[]",
    "half": b'{"query": ',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "not UTF-8": b'{"query": "\xff\xfe"}',
    "UTF-16": '{"query": "医保"}'.encode("utf-16"),
    "marked": b"\xef\xbb\xbf{}",
    "zero byte": b"\x00",
    "twice": b'{"query": "a", "query": {"b": 1}}',
    "many fields": json.dumps({f"f{number}": number for number in range(20_000)}).encode(),
}
# In place of a value in a body that is right otherwise. As written: not all of it is what Python's json would write.
VALUES: Mapping[str, str] = {
    "half a pair": r'"\ud800"',
    "half a pair within": r'"医保\udfff险"',
    "zero": r'"\u0000"',
    "controls": r'"\u0001\u001f\u007f\u2028"',
    "not a number": "NaN",
    "endless": "-Infinity",
    "overflow": "1e999",
    "huge": "9" * 400,
    "huger": "9" * 5000,
    "beyond 64 bits": str(2**63),
    "deep": "[" * 500 + "]" * 500,
    "deep within": '{"or":[' * 200 + "{}" + "]}" * 200,
    "long": json.dumps("长" * 20_000),
    "true": "true",
    "null": "null",
    "object": '{"$ne": null, "": [1]}',
    "list": '[null, [], {}, 1e308, "\\ud83d"]',
}
SEGMENTS = (
    "%00", "%FF", "%ED%A0%80", "%2e%2e%2f", "-1", "0", "1e3", "%20", str(2**63), "9" * 5000, "%D9%A3", "1.0",
    "true", "null", "%0A", "a" * 10_000, "%F0%9F%98%80", "1%00", "+1", "１",
)  # fmt: skip


def _changed(operation: Operation) -> Iterator[tuple[str, bytes]]:
    """The right bodies with one value after another taken by a wrong one, in every place, each place once."""
    bodies = {(name,): {**operation.body(), name: None} for name in operation.fields if "." not in name}
    bodies |= {place: example for example in reversed(operation.bodies) for place in _places(example)}
    for number, (place, body) in enumerate(bodies.items()):
        for name, value in sampled(VALUES.items(), 10, number):
            yield f"{'.'.join(map(str, place))} = {name}", _with(body, place, value)


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*above, key)
        yield from _places(each, (*above, key))


def _with(example: Any, place: tuple[Any, ...], raw: str) -> bytes:
    mark = "@@here@@"
    changed = json.loads(json.dumps(example))
    at = changed
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = mark
    return json.dumps(changed).replace(f'"{mark}"', raw).encode()


class Misfits:
    """Answers that are not documented, or errors of ours."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.found: list[str] = []

    def look(self, operation: Operation, asked: str, answer: Any) -> None:
        self.seen[answer.status_code] += 1
        is_promised = answer.status_code in operation.statuses and answer.status_code < 500
        if not is_promised or _code(operation, answer) != answer.status_code:
            self.found.append(f"{operation} · {asked}: {answer.status_code} {answer.text[:300]}")


ENDS = re.compile(r"event: (done|error|response\.(completed|incomplete|failed))\ndata: .*\n\n$|data: \[DONE\]\n\n$")


PLAIN = ("text/plain", "text/csv", "application/jsonl", "application/gzip")  # the text of a document, exports


def _code(operation: Operation, answer: Any) -> int:
    """What an answer says of itself; events say it by their end."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return 200 if ENDS.search(answer.text) else 0
    if answer.headers["content-type"].startswith(PLAIN):
        return 200
    return code_of(operation.path, answer.status_code, answer.json())


def _values(known: Known) -> dict[str, Any]:
    return {place.removeprefix("path."): values[0] for place, values in known.items() if place.startswith("path.")}


@pytest.mark.parametrize("kind", ["bodies", "values"])
def test_a_body_that_no_schema_foresees_is_refused_in_words(tmp_path: Path, kind: str) -> None:
    async def story(asked: Asking, known: Known) -> None:
        misfits, values = Misfits(), {**_values(known), "model_type": "rerank"}
        for number, operation in enumerate(operations(asked.app.openapi())):
            if not operation.has_body and (kind == "values" or not operation.is_form):
                continue
            about = {"content-type": FORM if operation.is_form else JSON}
            for name, raw in sampled(BODIES.items(), 5, number) if kind == "bodies" else _changed(operation):
                url = operation.url(values)
                answer = await asked.http.request(operation.method, url, content=raw, headers=about)
                misfits.look(operation, name, answer)
        assert not misfits.found, "\n".join(misfits.found)
        assert misfits.seen[422] > 50

    run(tmp_path, story)


def test_an_address_that_no_schema_foresees_is_refused_in_words(tmp_path: Path) -> None:
    async def story(asked: Asking, known: Known) -> None:
        misfits, values = Misfits(), {**_values(known), "model_type": "rerank"}
        for number, operation in enumerate(operations(asked.app.openapi())):
            for name, place in operation.parameters.items():
                for segment in sampled(SEGMENTS, 6, number):
                    url = operation.url({**values, **({name: "@here@"} if place == "path" else {})})
                    url = url.replace("%40here%40", segment) if place == "path" else f"{url}?{name}={segment}"
                    answer = await asked.http.request(
                        operation.method, url, json=operation.body() if operation.has_body else None
                    )
                    if answer.status_code != 404 or "没有这个地址" not in answer.text:  # some name another one
                        misfits.look(operation, f"{name} = {segment[:20]}", answer)
        assert not misfits.found, "\n".join(misfits.found)
        assert misfits.seen[422] > 50

    run(tmp_path, story)
