"""The application, put together: routes, errors, guard. Nothing happens before `create_app` is called."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from qianxun.core.errors import QianxunError
from qianxun.doors.http import error_formats as door_forms
from qianxun.doors.http import mcp
from qianxun.doors.http import responses as answers
from qianxun.doors.http.concurrency import ClientDisconnected, Turns
from qianxun.doors.http.context import Service
from qianxun.doors.http.dify import retrieval as dify
from qianxun.doors.http.middleware.guard import OPEN, Guard
from qianxun.doors.http.middleware.instrumentation import watch
from qianxun.doors.http.middleware.spans import Spans
from qianxun.doors.http.native import api_docs as pages
from qianxun.doors.http.native import bases, documents, events, explain, health, logs, models, query, retrieval
from qianxun.doors.http.native import layered as recall
from qianxun.doors.http.openai import chat as openai_chat
from qianxun.doors.http.openai import embeddings as openai_embeddings
from qianxun.doors.http.openai import models as openai_models
from qianxun.doors.http.openai import vector_stores
from qianxun.doors.http.rerank import rerank
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings

ABOUT: Final = """千寻的召回服务：知识库与文档的管理，向量、全文与混合检索，注明出处的问答，排序的解释，
模型登记，检索日志。

- 每个回答都是 `{code, msg, data}`；出错时多一个不会改变的 `error`，字段不对时还有 `fields`。
- 可以不写的字段，写成 null 等于没写；没有的字段会被拒绝。
- 密钥写在 `Authorization: Bearer qx_…` 或 `X-API-Key` 里；一个密钥都没有时，只服务本机。
- 每个回答都带 `X-Trace-Id`；请求头 `traceparent` 会被沿用。

建一个知识库，放入一份文件，检索（有密钥时各加 `-H 'Authorization: Bearer qx_…'`）：

    curl $URL/v1/knowledge-bases -H 'Content-Type: application/json' -d '{"name": "医保"}'
    curl $URL/v1/knowledge-bases/1001/documents -F file=@手册.md
    curl $URL/v1/retrieval/1001 -H 'Content-Type: application/json' -d '{"query": "住院报销比例是多少"}'"""


KEYS: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "qianxun keys create 签发的密钥：qx_…"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "同一个密钥，另一种写法"},
}


# They are looked through in this order for every request: what is asked most stands first.
PARTS: Final = (
    retrieval, recall, query, dify, rerank, vector_stores, openai_chat, openai_embeddings, health, bases, documents,
    explain, events, logs, models, openai_models, mcp, pages,
)  # fmt: skip


class Application(FastAPI):
    """FastAPI, with the keys in its document: the guard asks for them before any route is looked for."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            api = super().openapi()
            api.setdefault("components", {})["securitySchemes"] = KEYS
            api["security"] = [{"bearer": []}, {"key": []}, {}]  # the last: while there is no key at all
            for path in OPEN & api["paths"].keys():
                for operation in api["paths"][path].values():
                    operation["security"] = []
            for path in (path for path in api["paths"] if door_forms.form_of(path) is door_forms.openai):
                for operation in api["paths"][path].values():
                    operation["responses"].pop("422", None)  # FastAPI documents it where there is anything to check
        return self.openapi_schema or {}


def create_app(engine: Engine, settings: Settings, spans: Spans | None = None) -> FastAPI:
    """The service over an engine that is open. It neither opens nor closes anything itself."""
    service = Service(engine, settings, _recalls(settings), _writes(settings), _answers(settings))
    app = Application(
        title="千寻 Qianxun",
        version=version("qianxun"),
        summary="中文优先的 RAG 召回服务 · Chinese-first recall for RAG",
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Not FastAPI's own spans and records, which hold query strings and refused bodies: see spans.py.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    for raised in (QianxunError, RequestValidationError, HTTPException):
        app.add_exception_handler(raised, answers.told)
    for left in (ClientDisconnected, ClientDisconnect):
        app.add_exception_handler(left, _nobody)
    for router in _routers():
        app.include_router(router)
    app.add_middleware(Guard, service=service)
    watch(app, engine, spans)  # last, and so before the guard: it sees what that turns away
    return app


@cache
def _routers() -> tuple[APIRouter, ...]:
    """The routes know their application by the request alone: made once, they serve every one of this process."""
    return tuple(part.routes() for part in PARTS)


def _recalls(settings: Settings) -> Turns:
    service = settings.service
    at_once = service.recalls_at_once or 4 * (os.cpu_count() or 1)
    return Turns(at_once, service.recalls_waiting, service.request_seconds)


def _writes(settings: Settings) -> Turns:
    """Fewer than there are threads for the records and the index, so that searches find one while documents come in."""
    return Turns(max(2, os.cpu_count() or 1), settings.service.recalls_waiting, None)


def _answers(settings: Settings) -> Turns:
    service = settings.service
    return Turns(service.answers_at_once, service.recalls_waiting, service.answer_seconds)


async def _nobody(_request: Request, _error: Exception) -> Response:
    """For the log alone: the client has left."""
    return Response(status_code=499)
