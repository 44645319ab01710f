"""What a handler is given: its tenant's engine, its turn, and the types of what stands in a path."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from qianxun.core.errors import Forbidden
from qianxun.doors.http.concurrency import Turns, attended
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings

MAX_ID = 2**63 - 1  # what the records can hold

DOC_ID_LIMIT = 255

BaseId = Annotated[int, Path(description="知识库的编号", ge=1, le=MAX_ID, examples=[1001])]


@dataclass
class Readiness:
    """How far the service is with opening the indexes that were there when it started."""

    to_open: int = 0
    unusable: int = 0  # that could not be opened; a request for one of them says why


@dataclass(frozen=True)
class Service:
    """What the application holds for all requests: ``app.state.service``."""

    engine: Engine  # as it was opened: of the local tenant
    settings: Settings
    turns: Turns  # of recalls
    writes: Turns  # of documents on their way in
    answers: Turns  # which take as long as their model takes
    readiness: Readiness = field(default_factory=Readiness)


def service_of(request: Request) -> Service:
    held: Service = request.app.state.service
    return held


async def tenant_engine(request: Request) -> Engine:
    """The engine of the tenant that the guard found the key to belong to."""
    return service_of(request).engine.of(request.state.tenant)


TenantEngine = Annotated[Engine, Depends(tenant_engine)]


async def require_write(request: Request) -> None:
    """The guard has refused a read key already, before the body was read; this says so in the route."""
    if request.state.access != "write":
        raise Forbidden("这个密钥只能检索与查看", hint="换用可写的密钥：qianxun keys create --scope write")


Writer: Any = Depends(require_write)  # for a route's dependencies=[Writer]


def recall_slot(request: Request) -> AbstractAsyncContextManager[None]:
    """``async with recall_slot(request):`` around a recall: bounded, and cancelled when its client leaves."""
    return service_of(request).turns.turn(request)


def answer_slot(request: Request) -> AbstractAsyncContextManager[None]:
    """The same around an answer: those who wait for a model keep no search waiting."""
    return service_of(request).answers.turn(request)


def attention(request: Request) -> AbstractAsyncContextManager[None]:
    """Around other work that a client waits for: cancelled when it leaves or takes too long, but bound to no turn."""
    return attended(request, service_of(request).settings.service.request_seconds)


def trace_id(request: Request) -> str:
    """Of this request; "" where nothing traces it, and the engine makes one."""
    return getattr(request.state, "trace_id", "")
