"""Schemathesis over the whole OpenAPI document: every operation, with right and wrong values in every place.

Two things of its own: requests are answered in the loop that the engine was opened in, and most of them name things
that are there, or nearly every answer would be a 404.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.hooks import HookContext
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.core.types import Document
from qianxun.records.database.counters import allocate
from tests.http.asking import MODEL, Asking, asking, code_of
from tests.http.vendor import DIMENSION, vendor

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
Known = Mapping[str, Sequence[str | int]]  # where in a request → what is there
FORM = "form."
FILE = f"{FORM}file"  # the path of an exported base
IMPORT = "/v1/knowledge-bases/import"


@dataclass(frozen=True)
class Flaw:
    """An answer that the document does not promise."""

    operation: str
    check: str
    told: str

    def __str__(self) -> str:
        return f"{self.operation} · {self.check}\n{self.told}"


@dataclass
class Survey:
    """What was asked and what was wrong with the answers."""

    cases: int = 0
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)

    def take(self, event: events.EngineEvent) -> None:
        if isinstance(event, events.NonFatalError) and MISCOUNTED in str(event.value):
            return  # the operation is tried in the other phases, and the test counts whether it was reached
        if isinstance(event, events.NonFatalError | events.FatalError):
            raise AssertionError(f"the survey itself failed: {event}")
        if isinstance(event, events.ScenarioFinished):
            self._count(event.recorder)
            self._judge(event.recorder)

    def _count(self, told: ScenarioRecorder) -> None:
        for case_id, interaction in told.interactions.items():
            if interaction.response is not None and case_id in told.cases:
                operation = told.cases[case_id].value.operation.label
                self.statuses.setdefault(operation, Counter())[interaction.response.status_code] += 1
                self.cases += 1
                self._look(operation, interaction.response)

    def _look(self, operation: str, answer: schemathesis.Response) -> None:
        """What every answer has, whatever was asked."""
        told = f"{answer.status_code} {answer.headers}"
        if "x-trace-id" not in answer.headers:
            self.flaws.append(Flaw(operation, "X-Trace-Id", told))
        if answer.status_code == 405 and "allow" not in answer.headers:
            self.flaws.append(Flaw(operation, "Allow", told))
        if answer.headers.get("content-type") == ["application/json"]:
            _, path = operation.split(" ", 1)
            if code_of(path, answer.status_code, answer.json()) != answer.status_code:
                self.flaws.append(Flaw(operation, "code", f"{told} {answer.text}"))

    def _judge(self, told: ScenarioRecorder) -> None:
        for case_id, checks in told.checks.items():
            operation = told.cases[case_id].value.operation.label
            for check in checks:
                if check.failure_info is not None:
                    about = f"{check.failure_info.failure}\n{check.failure_info.code_sample}"
                    self.flaws.append(Flaw(operation, check.name, about))


class Relay:
    """An ASGI application that has another one answer, in its own loop."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self.app, self.loop = app, loop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        asked = self._answer({**scope, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000)}, messages)
        for message in await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self.loop)):
            await send(message)

    async def _answer(self, scope: Scope, messages: list[Message]) -> list[Message]:
        answer: list[Message] = []
        coming = iter(messages)
        done = asyncio.Event()

        async def receive() -> Message:
            if (message := next(coming, None)) is not None:
                return message
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            answer.append(message)

        await self.app(scope, receive, send)
        done.set()
        return answer


WHOLE = {"/v1/rerank"}  # its example names a model that is not here: without boundary values it comes to no answer


def survey(
    app: ASGIApp,
    loop: asyncio.AbstractEventLoop,
    document: Mapping[str, Any],
    known: Known,
    examples: int,
    seed: int,
    one_in: int = 1,
) -> Survey:
    """Examples, boundary values, random values and chains of requests; ``examples`` of each operation are random.

    Only one in ``one_in`` paths gets all boundary values, which are most of the work. What is known is deleted last.
    """
    found = Survey()
    told = _config(known, examples, seed)
    deletions = sorted((path for path, of in document["paths"].items() if "delete" in of), key=_rank)
    quick = [path for number, path in enumerate(document["paths"]) if number % one_in and path not in WHOLE]
    only = {"stateful": {"enabled": False}}
    parts: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [({}, {"method": "DELETE", "path": quick}, {})]
    if quick:
        parts.append(({"path": quick}, {"method": "DELETE"}, {"coverage": {"enabled": False}}))
    for _, paths in groupby(deletions, key=_rank):
        parts.append(({"method": "DELETE", "path": list(paths)}, {}, only))
    for included, excluded, phases in parts:
        config = SchemathesisConfig.from_dict(told | {"phases": phases})
        schema = schemathesis.openapi.from_dict(dict(document), config=config)
        schema.app = Relay(app, loop)
        schema.hook(sending(FILE, Path(str(known[FILE][0])).read_bytes()))
        part = schema.include(**included) if included else schema
        for name, value in excluded.items():
            part = part.exclude(**{name: value}) if value else part
        for event in from_schema(part).execute():
            found.take(event)
    return found


def sending(place: str, exported: bytes) -> Callable[[HookContext, schemathesis.Case], schemathesis.Case]:
    """A random file is no exported base: every form to import one has this in its place."""
    name = place.removeprefix(FORM)

    def map_case(context: HookContext, case: schemathesis.Case) -> schemathesis.Case:
        if case.path == IMPORT and isinstance(case.body, dict) and name in case.body:
            case.body[name] = exported
        return case

    return map_case


def _rank(path: str) -> int:
    """A set, then a base, goes last, with all that is in it."""
    return path.endswith("/{set_id}") + 2 * path.endswith("/{knowledge_base_id}")


def brief(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without what is asked twice: fields of a filter that are all alike, a search to be
    explained, what a question or a layered recall has in common with a search, and a chat with a question."""
    made = copy.deepcopy(dict(document))
    schemas = made["components"]["schemas"]
    alike: dict[str, str] = {}
    for name, schema in list(schemas["Filters"]["properties"].items()):
        if alike.setdefault(json.dumps(schema, sort_keys=True), name) != name:
            del schemas["Filters"]["properties"][name]
    for name in schemas["Search"]["properties"].keys() - set(schemas["Search"]["required"]):
        del schemas["ExplainRequest"]["properties"][name]
    for name in ("filters", "doc_ids"):
        del schemas["Question"]["properties"][name]
    for name in ("filters", "doc_ids", "mode", "top_k"):
        del schemas["ChatRequest"]["properties"][name]
        del schemas["ResponsesRequest"]["properties"][name]
    del made["paths"]["/v2/rerank"]  # which is /v1/rerank with another default
    for layered in ("TextsRequest", "TablesRequest"):
        del schemas[layered]["properties"]["filters"]
    return made


MISCOUNTED = "AST constructor recursion depth mismatch"  # of CPython 3.11, where threads compile (gh-106905)


def _config(known: Known, examples: int, seed: int) -> dict[str, Any]:
    known = {place: values for place, values in known.items() if not place.startswith(FORM)}
    names = {place: f"known{number}" for number, place in enumerate(known)}
    return {
        "seed": seed,
        "request-timeout": 300.0,  # of a busy machine
        "base-url": "http://127.0.0.1:8000",
        "generation": {
            "max-examples": examples,
            "deterministic": True,
            "database": "none",
            "no-shrink": True,
            "with-security-parameters": False,  # keys are another matter: see test_tenants
        },
        "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}},
        "dictionaries": {names[place]: {"values": list(values)} for place, values in known.items()},
        "parameters": {place: {"dictionary": name, "probability": 0.8} for place, name in names.items()},
        "suppress-health-check": ["all"],
        "continue-on-failure": True,
    }


# ── what is there ────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def inhabited(folder: Path) -> AsyncIterator[tuple[Asking, Known]]:
    """A service with something of every kind in it."""
    with vendor() as sold:
        told = {"vectorization.model": MODEL, "outbound.allow": [sold.address], "service.body_megabytes": 1}
        async with asking(folder, told) as asked:
            yield asked, await _settle(asked, sold.url)


async def _settle(asked: Asking, url: str) -> Known:
    documents = (
        Document("d1", "住院费用报销比例为85%。", name="须知"),
        Document("d2", "门诊报销需要发票原件。", name="门诊"),
        Document("123", "相似度阈值默认为 0.7。", name="RAG系统设计.md"),  # that the documented examples name
    )
    base = await asked.base(*documents)
    models = []
    for kind, dimension in (("rerank", 0), ("embedding", DIMENSION), ("chat", 0)):
        about = {"config_name": kind, "base_url": url, "model_name": kind, "model_type": kind, "model_dim": dimension}
        models.append((await asked.post("/user/api/u1", about)).json()["data"]["id"])
    await asked.post(f"/v1/retrieval/{base}", {"query": "报销比例"})
    logs = (await asked.http.get("/v1/retrieval-logs")).json()["data"]["list"]
    question = {"question": "报销比例", "doc_ids": ["d1"]}
    saved = (await asked.post(f"/v1/knowledge-bases/{base}/evaluation-cases", question)).json()["data"]
    run = (await asked.post(f"/v1/evaluation-sets/{saved['set']['id']}/runs", {"mode": "fulltext"})).json()["data"]
    await asked.post(f"/v1/knowledge-bases/{base}/documents", {"doc_id": "gone", "name": "旧", "content": "旧的"})
    hook = (await asked.post("/v1/webhooks", {"url": url, "events": ["document.failed"]})).json()["data"]
    gone = (await asked.http.delete(f"/v1/knowledge-bases/{base}/documents/gone")).json()["data"]
    with asked.engine.records.writing() as tx:
        allocate(tx, "correction", 6)  # the documented examples name the seventh
    pinned = {"kind": "pin", "chunk_ids": [f"c_{base}_123_0"], "question": "阈值是多少"}
    correction = (await asked.post(f"/v1/knowledge-bases/{base}/corrections", pinned)).json()["data"]
    exported = asked.engine.settings.folder / "exported"
    exported.write_bytes((await asked.http.get(f"/v1/knowledge-bases/{base}/export")).content)
    return {
        FILE: [str(exported)],
        "path.correction_id": [correction["id"]],
        "path.set_id": [saved["set"]["id"]],
        "path.case_id": [saved["case"]["id"]],
        "path.run_id": [run["id"]],
        "path.other_run_id": [run["id"]],
        "path.operation_id": [1],
        "path.knowledge_base_id": [base],
        "query.knowledge_base_id": [base],
        "body.knowledge_base_id": [base],
        "path.doc_id": ["d1", "d2"],
        "body.document_id": ["d1", "d2", "d3"],
        "body.chunk_id": [f"c_{base}_d1_0", f"c_{base}_d9_0"],
        "path.user_id": ["u1"],
        "path.id": models,
        "body.knowledge_id": [str(base), "医保"],
        "path.model": ["医保", MODEL],
        "body.model": ["医保", str(base), MODEL, f"user-model:{models[0]}"],
        "path.vector_store_id": [str(base), "医保"],
        "path.file_id": [f"{base}/d1", "d2"],
        "path.log_id": [log["id"] for log in logs],
        "path.receipt_id": [gone["receipt"]],
        "path.webhook_id": [hook["id"]],
        "path.tenant": ["acme"],
        "path.subject_id": ["u7"],
    }
