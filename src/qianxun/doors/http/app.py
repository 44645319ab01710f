"""The application: middleware, routes and error handlers over an open engine. Read `create_app` first."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect

from qianxun.core.errors import QianxunError
from qianxun.core.system.version import installed_version
from qianxun.doors.http import dify, mcp, rerank
from qianxun.doors.http.concurrency import ClientDisconnected, ConcurrencyLimit
from qianxun.doors.http.console import routes as console
from qianxun.doors.http.context import Service
from qianxun.doors.http.middleware import metrics
from qianxun.doors.http.middleware.guard import Guard
from qianxun.doors.http.middleware.spans import Spans
from qianxun.doors.http.middleware.tracing import CLIENT_DISCONNECTED, Tracing
from qianxun.doors.http.native import (
    api_docs,
    bases,
    documents,
    evaluation_sets,
    events,
    explain,
    health,
    landing,
    layered,
    logs,
    models,
    operations,
    query,
    retrieval,
)
from qianxun.doors.http.native.governance import access, audit, corrections, quotas, receipts, transfer, webhooks
from qianxun.doors.http.openai import chat, embeddings, files, vector_stores
from qianxun.doors.http.openai import models as openai_models
from qianxun.doors.http.openai import responses as openai_responses
from qianxun.doors.http.openapi import Application, description
from qianxun.doors.http.responses import handle_error
from qianxun.engine.across_tenants import KeyLookup
from qianxun.engine.admin.sessions import Sessions
from qianxun.engine.engine import Engine
from qianxun.engine.governance.quotas import SearchQuota
from qianxun.engine.governance.tokens import token_verifier
from qianxun.engine.settings import Settings

Event = TypeVar("Event")
WRITES_AT_ONCE: Final = 16  # documents that are read, or wait for that, in memory or on the disk

TRANSFERS_AT_ONCE: Final = 1  # and one more for another tenant

CORS_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")

# Routing tries them in this order for every request: the most frequent come first.
ROUTES: Final = (
    retrieval, layered, query, dify, rerank, vector_stores, chat, embeddings, health, bases, documents,
    explain, events, logs, evaluation_sets, operations, models,
    openai_models, openai_responses, files, mcp, api_docs, metrics, landing, audit, receipts, quotas, webhooks,
    corrections, access, transfer,
    console,
)  # fmt: skip


def create_app(engine: Engine, settings: Settings, spans: Spans | None = None) -> FastAPI:
    """The service over an open engine, which it does not close."""
    app = Application(
        title="千寻 Qianxun",
        version=installed_version(),
        summary="中文优先的 RAG 召回服务 · Chinese-first recall for RAG",
        description=description(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # FastAPI's own spans and records hold query strings and refused bodies: see spans.py.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service = _service(engine, settings)
    app.state.console_pages = console.PAGES
    app.state.metrics = _observe(app, engine, spans)
    for raised in (QianxunError, RequestValidationError, HTTPException):
        app.add_exception_handler(raised, handle_error)
    for left in (ClientDisconnected, ClientDisconnect):
        app.add_exception_handler(left, _client_disconnected)
    for module in ROUTES:
        # Not `include_router`: it would work out every route of a router without options anew, at the first request.
        app.router.routes.extend(module.router.routes)
    app.add_middleware(Guard, service=service)
    if origins := settings.service.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=CORS_METHODS,
            allow_headers=("*",),  # OpenAI's client adds a dozen of its own; cookies are not among them
            expose_headers=("X-Trace-Id", "Retry-After"),
        )
    # Added last, and so the outermost.
    app.add_middleware(Tracing, metrics=app.state.metrics, spans=spans, proxies=settings.service.trusted_proxies)
    return app


def _service(engine: Engine, settings: Settings) -> Service:
    limits, cores = settings.service, os.cpu_count() or 1
    keys = KeyLookup(engine.records, limits.request_seconds)
    return Service(
        engine,
        settings,
        ConcurrencyLimit(limits.recalls_at_once or 4 * cores, limits.recalls_waiting, limits.request_seconds),
        ConcurrencyLimit(WRITES_AT_ONCE, limits.recalls_waiting, None),
        ConcurrencyLimit(limits.answers_at_once, limits.recalls_waiting, limits.answer_seconds),
        ConcurrencyLimit(TRANSFERS_AT_ONCE, limits.recalls_waiting, None),
        keys,
        Sessions(engine, keys),
        SearchQuota(engine.records, settings.folder),
        token_verifier(settings),
    )


def _observe(app: FastAPI, engine: Engine, spans: Spans | None) -> metrics.Metrics:
    """Counts and traces what the engine does from now on."""
    numbers = metrics.Metrics(has_cache=engine.settings.search.cache_entries > 0)
    observers = (numbers,) if spans is None else (numbers, spans)
    engine.hooks.recalled = _call_all([observer.recalled for observer in observers])
    engine.hooks.layered = _call_all([observer.layered_recalled for observer in observers])
    engine.hooks.indexed = numbers.indexed
    app.state.service.quota.refused = numbers.search_refused
    # Called by routes, which know when the first token and the last were sent.
    app.state.on_answer = _call_all([observer.answered for observer in observers])
    return numbers


def _call_all(calls: Sequence[Callable[[Event], None]]) -> Callable[[Event], None]:
    def call_all(event: Event) -> None:
        for call in calls:
            call(event)

    return call_all


async def _client_disconnected(_request: Request, _error: Exception) -> Response:
    """For the log alone: nothing is sent."""
    return Response(status_code=CLIENT_DISCONNECTED)
