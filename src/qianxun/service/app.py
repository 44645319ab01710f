"""The application, put together: routes, errors, guard. Nothing happens before `create_app` is called."""

from __future__ import annotations

import os
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from qianxun.engine import Engine
from qianxun.errors import QianxunError
from qianxun.service import answers, health
from qianxun.service.context import Service
from qianxun.service.guard import Guard
from qianxun.service.turns import ClientLeft, Turns
from qianxun.settings import Settings


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The service over an engine that is open. It neither opens nor closes anything itself."""
    service = Service(engine, settings, _turns(settings))
    app = FastAPI(
        title="千寻 Qianxun",
        version=version("qianxun"),
        summary="中文优先的 RAG 召回服务 · Chinese-first recall for RAG",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    for kind in (QianxunError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answers.told)
    app.add_exception_handler(ClientLeft, _nobody)
    app.include_router(health.routes())
    app.add_middleware(Guard, service=service)
    return app


def _turns(settings: Settings) -> Turns:
    service = settings.service
    at_once = service.recalls_at_once or 4 * (os.cpu_count() or 1)
    return Turns(at_once, service.recalls_waiting, service.request_seconds)


async def _nobody(_request: Request, _error: Exception) -> Response:
    """For the log alone: the client has left."""
    return Response(status_code=499)
