"""Three tenants, every route, every kind of id: what belongs to another tenant does not exist, and nobody gets past
the guard. Routes and bodies are taken from the OpenAPI document; a route or field that this page does not know fails.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request as FastRequest
from fastapi import Response
from pydantic import BaseModel, ConfigDict
from sqlalchemy import select, text

from qianxun.doors.http.context import TenantEngine, service_of
from qianxun.doors.http.responses import problem, success
from qianxun.engine.engine import Engine
from qianxun.records.database.counters import allocate
from qianxun.records.schema import Base
from tests.http.asking import MODEL, Asking, asking, word_of
from tests.http.operations import Operation, operations
from tests.http.served import issue, revoke
from tests.http.vendor import vendor
from tests.sampling import sampled

TENANTS = ("jia", "yi", "bing")
BASES = "/v1/knowledge-bases"
OPEN = {"/healthz", "/readyz"}  # for whoever asks
# GET: not for keys that only read.
FOR_WRITERS = re.compile(r"/v1/(audit|receipts|webhooks|quota|knowledge-bases/[^/]+/(access|export))\b.*")
PURGE = "/v1/subjects/{subject_id}/purge"  # deletes what the others are compared by
EXPORT = f"{BASES}/{{knowledge_base_id}}/export"  # is noted in the audit log
CHAIN = "/v1/audit/verify"  # of all tenants: for whoever runs the service
READING = re.compile(  # with POST
    r"/v1/((retrieval|recall|query|explain|vector_stores)/|chat/completions$|responses$|embeddings$|rerank$)"
    r"|/v2/rerank$|/retrieval$"
)

# What a parameter or a field of a body names. "" names nothing that belongs to anybody.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("knowledge_base_id", "knowledge_id"), "base"),
    **dict.fromkeys(("doc_id", "document_id", "doc_ids"), "document"),
    **dict.fromkeys(("chunk_id", "chunk_ids"), "chunk"),
    "log_id": "log",
    "set_id": "set",
    "case_id": "case",
    **dict.fromkeys(("run_id", "other_run_id"), "run"),
    "operation_id": "operation",
    "correction_id": "correction",
    "receipt_id": "receipt",
    "webhook_id": "webhook",
    "subject_id": "user",
    "tenant": "tenant",
    "relevant.doc_id": "",
    "trace_id": "trace",
    "id": "model",
    "retrieval_config.hybrid_strategy.rerank_model_id": "model",
    "embedding_model": "model_name",
    **dict.fromkeys(("model", "vector_store_id"), "store"),
    "file_id": "file",
    "user_id": "user",
}
# … of one route.
KINDS_AT: Mapping[tuple[str, str], str] = {
    ("/v1/rerank", "model"): "model",
    ("/v2/rerank", "model"): "model",
    (f"{BASES}/import", "model"): "model_name",
}
PLAIN = {
    "after", "before", "limit", "zero", "slow_ms", "wait", "model_type", "query", "retrieval_mode", "retrieval_config",
    "top_k", "filters", "name", "kind", "config", "content_type", "project_id", "tags", "metadata", "content", "format",
    "source", "pairs", "type", "event_id", "generation", "rating", "comment", "config_name", "base_url", "model_name",
    "answer", "api_key", "model_dim", "max_tokens", "temperature", "top_p", "timeout", "status", "is_default", "mode",
    "stream", "history", "multimodal_content", "messages", "stream_options", "n", "response_format", "tool_choice",
    "input", "encoding_format", "dimensions", "input_type", "max_num_results", "ranking_options", "rewrite_query",
    "retrieval_setting", "metadata_condition", "documents", "top_n", "return_documents",
    "file_missing",
    "keep_labels",
    "restore",
    "score_threshold", "fuzzy", "previous_response_id",
    "degraded", "since", "until", "stretches", "slow_at_ms", "metric", "question", "expected", "set_name", "cases",
    "choices", "as_of", "check",
    "events", "url", "action", "label", "labels", "prefix", "purge", "sort", "order", "folder", "valid_on", "logs",
    "suffix", "chunks", "bytes", "searches_per_minute", "offset", "access", "head",
    "state", "author", "file", "text", "parts", "keywords", "questions", "note", "like", "corrections",
}  # fmt: skip
# Ids that are named in free text inside a field.
WITHIN: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "config": lambda own: {"rewrite_model": own["model_name"], "search": {"rerank": own["model_name"]}},
    "filters": lambda own: {"or": [{"doc_id": own["document"]}, {"metadata.of": own["document"]}]},
}
# … where the same field is written in another program's way.
WITHIN_AT: Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Any]] = {
    ("/v1/vector_stores/{vector_store_id}/search", "filters"): lambda own: {
        "type": "or",
        "filters": [{"type": "eq", "key": key, "value": own["document"]} for key in ("doc_id", "of")],
    },
}
MUST_BE_THERE = (
    "base",
    "store",
    "document",
    "log",
    "set",
    "case",
    "run",
    "operation",
    "correction",
    "model",
)  # or it is a 404, where it stands in an address


@dataclass(frozen=True)
class Tenant:
    """What one of them has, and what may never be seen by the others."""

    name: str
    key: str
    reading: str
    things: Mapping[str, Any]  # kind → id
    exported: bytes  # its base, as a file

    @property
    def secret(self) -> str:
        return f"secret-of-{self.name}"


@dataclass(frozen=True)
class Quarter:
    """The service and its tenants."""

    asked: Asking
    tenants: Mapping[str, Tenant]
    fresh: Iterator[int] = field(default_factory=lambda: itertools.count(100_000))

    async def ask(self, who: Tenant, method: str, url: str, body: Any = None, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {who.key}"}
        if url == f"{BASES}/import":
            files = {"file": ("base", who.exported)}
            return await self.asked.http.post(url, data=body, files=files, headers=headers, **more)
        return await self.asked.http.request(method, url, json=body, headers=headers, **more)


@asynccontextmanager
async def quarter(folder: Path) -> AsyncIterator[Quarter]:
    with vendor() as sold:
        told = {"vectorization.model": MODEL, "outbound.allow": [sold.address]}
        async with asking(folder, told) as asked:
            with asked.engine.records.writing() as tx:  # ids that no other number in an answer is
                allocate(tx, "user_model", 40_000)
                allocate(tx, "log", 50_000)
                allocate(tx, "evaluation_set", 60_000)
                allocate(tx, "evaluation_case", 70_000)
                allocate(tx, "evaluation_run", 80_000)
                allocate(tx, "correction", 90_000)
                allocate(tx, "webhook", 30_000)
            yield Quarter(asked, {name: await _settle(asked, name, sold.url) for name in TENANTS})


async def _settle(asked: Asking, name: str, url: str) -> Tenant:
    (_, key), (_, reading) = (issue(asked.engine, name, scope) for scope in ("write", "read"))
    secret, own = f"secret-of-{name}", {"authorization": f"Bearer {key}"}

    async def made(path: str, body: Any) -> Any:
        answer = await asked.http.post(path, json=body, headers=own)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    base = (await made(BASES, {"name": f"{secret}-base"}))["id"]
    for doc_id in ("shared", f"doc-{name}"):
        about = {"doc_id": doc_id, "name": f"{secret}.md", "metadata": {"of": secret}}
        await made(f"{BASES}/{base}/documents", {**about, "content": f"{secret}：住院报销比例为85%。"})
    table = f"| 类别 | 报销比例 |\n| --- | --- |\n| 住院 | {secret} |\n| 门诊 | 70% |\n"
    about = {"doc_id": "table", "name": f"{secret}.md", "format": "markdown"}
    await made(f"{BASES}/{base}/documents", {**about, "content": f"# {secret} 住院的报销比例\n\n{table}"})
    trace = (await made(f"/v1/retrieval/{base}", {"query": f"{secret} 报销"}))["trace_id"]
    question = {"question": f"{secret} 报销", "doc_ids": [f"doc-{name}"], "set_name": secret, "expected": secret}
    saved = await made(f"{BASES}/{base}/evaluation-cases", question)
    run = await made(f"/v1/evaluation-sets/{saved['set']['id']}/runs", {"mode": "fulltext", "name": secret})
    pinned = {"kind": "pin", "chunk_ids": [f"c_{base}_shared_0"], "question": secret, "note": secret, "author": secret}
    correction = await made(f"{BASES}/{base}/corrections", pinned)
    trace = (await made(f"/v1/retrieval/{base}", {"query": f"{secret} 报销"}))["trace_id"]  # keeps the rule's vector
    hook = await made("/v1/webhooks", {"url": f"{url}/{secret}", "events": ["document.failed"]})
    await made(f"{BASES}/{base}/documents", {"doc_id": f"gone-{name}", "name": secret, "content": secret})
    gone = (await asked.http.delete(f"{BASES}/{base}/documents/gone-{name}", headers=own)).json()["data"]
    models = {}
    for user in ("7", f"user-{name}"):  # the first is a user of every tenant
        about = {"config_name": secret, "base_url": f"{url}/{secret}", "api_key": f"{secret}-api-key"}
        rest = {"model_name": secret, "model_type": "rerank", "is_default": 1}
        models[user] = (await made(f"/user/api/{user}", {**about, **rest}))["id"]
    log = (await asked.http.get("/v1/retrieval-logs", headers=own)).json()["data"]["list"][0]["id"]
    things = {
        "base": base,
        "store": str(base),  # as other programs name it
        "document": f"doc-{name}",
        "file": f"{base}/doc-{name}",  # as other programs name it
        "chunk": f"c_{base}_doc-{name}_0",
        "log": log,
        "set": saved["set"]["id"],
        "case": saved["case"]["id"],
        "run": run["id"],
        "correction": correction["id"],
        "receipt": gone["receipt"],
        "webhook": hook["id"],
        "tenant": name,
        "operation": asked.engine.operations.list(name)[0].id,
        "trace": trace,
        "model": models["7"],
        "model_name": f"user-model:{models['7']}",
        "user": f"user-{name}",
    }
    exported = (await asked.http.get(f"{BASES}/{base}/export", headers=own)).content
    return Tenant(name, key, reading, things, exported)


def never(asker: Tenant, owner: Tenant) -> dict[str, Any]:
    """Ids of what never was; those that somebody could have made in the meantime are nobody else's."""
    pair = f"never-{asker.name}-{owner.name}"
    return {
        "base": 999_999,
        "store": "999999",
        "document": f"doc-{pair}",
        "file": f"999999/doc-{pair}",
        "chunk": f"c_999999_doc-{pair}_0",
        "log": 999_999,
        "set": 999_999,
        "case": 999_999,
        "run": 999_999,
        "correction": 999_999,
        "receipt": "9" * 32,
        "webhook": 999_999,
        "tenant": f"tenant-{pair}",
        "operation": 999_999,
        "trace": "9" * 32,
        "model": 999_999,
        "model_name": "user-model:999999",
        "user": f"user-{pair}",
    }


def run(folder: Path, story: Callable[[Quarter], Awaitable[None]]) -> None:
    async def told() -> None:
        async with quarter(folder) as made:
            await story(made)

    asyncio.run(told())


def run_empty(folder: Path, story: Callable[[Asking], Awaitable[None]]) -> None:
    """Over a service that nobody has anything in."""

    async def told() -> None:
        async with asking(folder) as asked:
            await story(asked)

    asyncio.run(told())


# ── requests with somebody else's ids ────────────────────────────────────────────────────────────


def ids(operation: Operation) -> dict[str, str]:
    """Every place of a request that names something → its kind. Fails for a place that this page does not know."""
    found = {}
    for name, place in operation.parameters.items():
        if name not in PLAIN:
            assert name in KINDS, f"{operation}: say in KINDS or PLAIN what its parameter {name} is"
            found[f"{place}:{name}"] = KINDS[name]
    for name in operation.fields:
        if kind := _kind(operation, name):
            found[f"body:{name}"] = kind
            continue
        outermost, *inner = name.split(".")
        assert outermost in PLAIN, f"{operation}: say in KINDS or PLAIN what its field {name} is"
        if name in WITHIN:
            found[f"body:{name}"] = "within"
        elif outermost not in WITHIN and inner:
            assert not name.endswith(("_id", "_ids")), f"{operation}: say in KINDS what its field {name} is"
    return found


def _kind(operation: Operation, field: str) -> str:
    return KINDS_AT.get((operation.path, field), KINDS.get(field, ""))


@dataclass(frozen=True)
class Request:
    method: str
    url: str
    query: Mapping[str, Any]
    body: Any


def request(
    operation: Operation, places: Mapping[str, str], own: Mapping[str, Any], other: Mapping[str, Any], number: int
) -> Request:
    """One that is right, with the ids of ``other`` in these places."""
    path = {name: own[KINDS[name]] for name in operation.in_path if name in KINDS}
    path |= {"model_type": "rerank"} | ({"user_id": "7"} if "user_id" in operation.in_path else {})
    body = operation.body() if operation.has_body else {"name": ""} if operation.is_form else None
    for name in body or ():
        if kind := _kind(operation, name):
            _put(body, name, own[kind])
    for name in set(body or ()) & {"name", "event_id"}:
        body[name] = f"name-{number}"
    query = {}
    for place, kind in places.items():
        where, _, name = place.partition(":")
        if where == "path":
            path[name] = other[kind]
        elif where == "query":
            query[name] = other[kind]
        else:
            within = WITHIN_AT.get((operation.path, name), WITHIN.get(name))
            _put(body, name, within(other) if kind == "within" and within else other[kind])
    return Request(operation.method, operation.url(path), query, body)


def _put(body: Any, name: str, value: Any) -> None:
    *above, last = name.split(".")
    for each in above:
        body = body.setdefault(each, {}) if body.get(each) is not None else body.update({each: {}}) or body[each]
    body[last] = [value] if last.endswith("_ids") else value
    if last == "rerank_model_id":
        body["type"] = "rerank"


# What differs from one request to the next that is answered well, whoever asks.
CHANGING = re.compile(
    r'"(seconds|time_cost_ms|trace_id|created|created_at|updated_at|start|until|generation|id|doc_id|records|index)":("[^"]*"|[\d.e-]+)'
    r"|name-\d+"
)


def told(answer: httpx.Response, *things: Mapping[str, Any]) -> tuple[int, str, dict[str, str]]:
    """An answer with no name for what was asked for, and, if it was answered well, without what changes by itself."""
    content = CHANGING.sub("", answer.text) if answer.is_success else answer.text
    for thing in sorted((str(each) for held in things for each in held.values()), key=len, reverse=True):
        content = re.sub(rf"(?<![\w-]){re.escape(thing)}(?![\w-])", "…", content)
    headers = {name: value for name, value in answer.headers.items() if name not in ("x-trace-id", "content-length")}
    return answer.status_code, content, headers


def combinations(operation: Operation) -> Iterator[Mapping[str, str]]:
    """One place after another, and all of them at once."""
    found = ids(operation)
    for place, kind in found.items():
        yield {place: kind}
    if len(found) > 1:
        yield found


async def leaks(made: Quarter, asker: Tenant, owner: Tenant, chosen: list[Operation]) -> list[str]:
    """What the one could find out of the other, or do to it."""
    found = []
    others = (owner.things, never(asker, owner))
    for operation in chosen:
        for places in combinations(operation):
            answers = []
            for other in others:
                asked = request(operation, places, asker.things, other, next(made.fresh))
                answers.append(await made.ask(asker, asked.method, asked.url, asked.body, params=asked.query))
            if operation.method in ("POST", "PUT"):  # a document of this name may have been made
                for other in others:
                    await made.asked.engine.of(asker.name).delete_document(asker.things["base"], other["document"])
            foreign, absent = answers
            about = f"{operation} by {asker.name} with {list(places)} of {owner.name}: {foreign.status_code} "
            if told(foreign, *others) != told(absent, *others):
                found.append(f"{about}{foreign.text[:600]}\n  never: {absent.status_code} {absent.text[:600]}")
            if _must_be_there(operation, places) and foreign.status_code != 404:
                found.append(f"{about}is not a 404: {foreign.text[:200]}")
            if owner.secret in foreign.text or owner.secret in absent.text:
                found.append(f"{about}tells {owner.secret}")
    return found


def _must_be_there(operation: Operation, places: Mapping[str, str]) -> bool:
    named = {kind for place, kind in places.items() if place.startswith(("path:", "query:"))}
    if operation.method == "PUT":
        named.discard("document")  # it is made where it is not
    return bool(named & set(MUST_BE_THERE))


# ── what somebody has ────────────────────────────────────────────────────────────────────────────


async def rows(engine: Engine, tenant: Tenant) -> dict[str, list[Any]]:
    """Everything in the records that is this tenant's, or of its base; but its words, learnt whenever there is time.

    What its texts tell the graph is read whenever there is time, too: here, before it is looked at.
    """
    await engine.of(tenant.name).admin.build_graph(tenant.things["base"])
    found = {}
    with engine.records.reading() as tx:
        for name, table in Base.metadata.tables.items():
            if name == "terms":
                continue
            by = {"tenant": tenant.name, "knowledge_base_id": tenant.things["base"]}
            own = [table.c[column] == value for column, value in by.items() if column in table.c]
            if own:
                found[name] = [tuple(row) for row in tx.execute(select(table).where(own[0])).all()]
    return found


NUMBERS = ("/v1/retrieval-logs/counts", "/v1/operations", "/v1/quota", "/v1/receipts")  # no word of anybody in them
EMPTY = re.compile(r".*/(access(/rules)?|deliveries|export)")  # nobody has any here, or it is packed


async def seen(made: Quarter, tenant: Tenant) -> dict[str, str]:
    """What every GET tells its owner, by address."""
    found = {}
    for operation in operations(made.asked.app.openapi()):
        if operation.method == "GET" and operation.path not in {*OPEN, "/metrics", CHAIN, EXPORT}:
            asked = request(operation, {}, tenant.things, {}, 0)
            answer = await made.ask(tenant, "GET", asked.url)
            assert answer.status_code == 200, (asked.url, answer.text)
            found[asked.url] = CHANGING.sub("", answer.text) if operation.path in NUMBERS else answer.text
    return found


def test_nothing_of_another_tenant_can_be_seen_changed_or_told_from_what_never_was(tmp_path: Path) -> None:
    async def story(made: Quarter) -> None:
        every = [operation for operation in operations(made.asked.app.openapi()) if operation.path != PURGE]
        tenants = list(made.tenants.values())
        pairs = list(zip(tenants, tenants[1:] + tenants[:1], strict=True))
        for owner, asker in sampled(pairs, 2):  # a younger one asks, and an older one
            before, held = await seen(made, owner), await rows(made.asked.engine, owner)
            assert sum(map(len, held.values())) > 8
            found = await leaks(made, asker, owner, every)
            assert not found, "\n".join(found)
            assert await seen(made, owner) == before
            assert await rows(made.asked.engine, owner) == held
        for owner, asker in pairs:
            held = await rows(made.asked.engine, owner)
            url = PURGE.format(subject_id=owner.things["user"])
            assert (await made.ask(asker, "POST", url)).status_code == 200
            assert await rows(made.asked.engine, owner) == held

    run(tmp_path, story)


def test_lists_show_what_is_ones_own_and_nothing_else(tmp_path: Path) -> None:
    async def story(made: Quarter) -> None:
        for tenant in made.tenants.values():
            pages = await seen(made, tenant)
            told = {
                path: page for path, page in pages.items() if not path.startswith(NUMBERS) and not EMPTY.fullmatch(path)
            }
            assert [path for path, page in told.items() if tenant.secret not in page] == []
            for other in made.tenants.values():
                if other != tenant:
                    assert not any(other.secret in page for page in pages.values())
        numbers = await made.ask(made.tenants["jia"], "GET", "/metrics")
        assert numbers.status_code == 200
        assert "secret-of-" not in numbers.text

    run(tmp_path, story)


# ── the guard ────────────────────────────────────────────────────────────────────────────────────

BAD_KEYS = (
    "Bearer", "Bearer ", "bearer  ", "Bearer qx_", "Bearer null", "Basic cXg6cXg=", "qx_{right}", "Bearer {right}x",
    "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJsb2NhbCJ9.", "Bearer {upper}", f"Bearer qx_{'A' * 43}",
    "Bearer qx_' OR 1=1 --", "Bearer {right},{right}",
)  # fmt: skip


async def untouched() -> AsyncIterator[bytes]:
    """A body that must not be read."""
    raise AssertionError("the body was read")
    yield b""


async def knock(made: Quarter, operation: Operation, headers: Mapping[str, str]) -> httpx.Response:
    """A request that would be a 413, if only for what it says of itself, and a 422 for what it holds."""
    asked = request(operation, {}, made.tenants["jia"].things, {}, 0)
    about = {"content-type": "application/json", "content-length": str(10**12), **headers}
    if operation.method == "GET":
        about = dict(headers)
        return await made.asked.http.get(asked.url, headers=about)
    return await made.asked.http.request(operation.method, asked.url, content=untouched(), headers=about)


def test_nobody_gets_in_without_a_key_that_is_valid_now(tmp_path: Path) -> None:
    async def story(made: Quarter) -> None:
        number, revoked = issue(made.asked.engine, "jia")
        revoke(made.asked.engine, number)
        right = made.tenants["jia"].key
        told = [each.format(right=right, upper=right.swapcase()) for each in BAD_KEYS]
        wrong = [*({"authorization": each} for each in told), {"authorization": f"Bearer {revoked}"}]
        wrong += [{"x-api-key": revoked}, {"x-api-key": ""}, {"authorization": "", "x-api-key": right}]
        held = {name: await rows(made.asked.engine, tenant) for name, tenant in made.tenants.items()}
        for number, operation in enumerate(operations(made.asked.app.openapi())):
            for headers in ({}, *sampled(wrong, 4, number)):
                answer = await knock(made, operation, headers)
                if operation.path in OPEN:
                    assert answer.status_code == 200
                    continue
                assert (answer.status_code, word_of(answer)) == (401, "unauthorized"), (str(operation), headers)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert {401, 403} <= operation.statuses, str(operation)
        assert {name: await rows(made.asked.engine, tenant) for name, tenant in made.tenants.items()} == held

    run(tmp_path, story)


def test_a_read_key_reads_and_does_nothing_else(tmp_path: Path) -> None:
    async def story(made: Quarter) -> None:
        jia = made.tenants["jia"]
        headers = {"authorization": f"Bearer {jia.reading}"}
        held = await rows(made.asked.engine, jia)
        for operation in operations(made.asked.app.openapi()):
            if FOR_WRITERS.fullmatch(operation.path):
                answer = await knock(made, operation, headers)
                assert (answer.status_code, word_of(answer)) == (403, "forbidden"), str(operation)
            elif operation.method == "GET" or (operation.method == "POST" and READING.match(operation.path)):
                asked = request(operation, {}, jia.things, {}, 0)
                answer = await made.asked.http.request(asked.method, asked.url, json=asked.body, headers=headers)
                # The service of the tenant's model has no such address: a rerank comes as far as that.
                wanted = 503 if operation.path.endswith("/rerank") else 200
                assert answer.status_code == wanted, (str(operation), answer.text)
            else:
                answer = await knock(made, operation, headers)
                assert (answer.status_code, word_of(answer)) == (403, "forbidden"), str(operation)
        now = await rows(made.asked.engine, jia)
        assert {name: kept for name, kept in now.items() if "log" not in name} == {
            name: kept for name, kept in held.items() if "log" not in name
        }

    run(tmp_path, story)


def test_what_no_route_serves_wants_a_key_too(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        issue(asked.engine, "jia")
        for path in (
            "/nowhere",
            "/v1",
            "/v2/x",
            "/openapi.json",
            "/docs",
            "/metrics",
            "/healthz/",
            "//healthz",
            "/healthz/../metrics",
        ):
            url = asked.http.base_url.copy_with(raw_path=path.encode())
            assert (await asked.http.get(url)).status_code == 401, path

    run_empty(tmp_path, story)


# ── the negative controls ────────────────────────────────────────────────────────────────────────


async def careless(knowledge_base_id: int, request: FastRequest) -> Response:
    """Asks the records for the base, whosever it is."""
    with service_of(request).engine.records.reading() as tx:
        found = tx.execute(text("SELECT name FROM knowledge_bases WHERE id = :id"), {"id": knowledge_base_id}).first()
    return problem(404, "没有") if found is None else success({"name": found.name})


async def talkative(knowledge_base_id: int, request: FastRequest, engine: TenantEngine) -> Response:
    """Tells nothing of a foreign base but that it is there."""
    with service_of(request).engine.records.reading() as tx:
        found = tx.execute(text("SELECT name FROM knowledge_bases WHERE id = :id"), {"id": knowledge_base_id}).first()
    return problem(404, "没有" if found is None else "不是你的")


async def destructive(knowledge_base_id: int, request: FastRequest) -> Response:
    """Answers as it should, and does what it should not."""
    with service_of(request).engine.records.writing() as tx:
        tx.execute(text("UPDATE knowledge_bases SET name = name || '!' WHERE id = :id"), {"id": knowledge_base_id})
    return problem(404, "没有")


def test_a_route_that_forgets_the_tenant_is_caught(tmp_path: Path) -> None:
    async def story(made: Quarter) -> None:
        jia, yi, _ = made.tenants.values()
        for handler in (careless, talkative, destructive):
            made.asked.app.get(f"/planted/{handler.__name__}/{{knowledge_base_id}}")(handler)
        made.asked.app.openapi_schema = None
        planted = {each.path: each for each in operations(made.asked.app.openapi()) if "/planted/" in each.path}
        for name, words in {"careless": "tells secret-of-yi", "talkative": "不是你的"}.items():
            found = await leaks(made, jia, yi, [planted[f"/planted/{name}/{{knowledge_base_id}}"]])
            assert any(words in each for each in found), found
        held = await rows(made.asked.engine, yi)
        await leaks(made, jia, yi, [planted["/planted/destructive/{knowledge_base_id}"]])
        assert await rows(made.asked.engine, yi) != held

    run(tmp_path, story)


class Session(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"session_id": 1}]})

    session_id: int


def test_a_route_with_ids_that_nobody_thought_of_is_caught(tmp_path: Path) -> None:
    async def of_path(session_id: int) -> Response:
        return success(session_id)

    async def of_field(body: Session) -> Response:
        return success(body.session_id)

    async def story(asked: Asking) -> None:
        asked.app.get("/planted/{session_id}")(of_path)
        asked.app.post("/planted")(of_field)
        planted = [each for each in operations(asked.app.openapi()) if each.path.startswith("/planted")]
        assert len(planted) == 2
        for each in planted:
            with pytest.raises(AssertionError, match="session_id"):
                ids(each)

    run_empty(tmp_path, story)
