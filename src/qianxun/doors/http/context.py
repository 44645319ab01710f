"""What a handler is given: its tenant's engine, its concurrency slot, and the types of path values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from fastapi.routing import APIRoute

from qianxun.core.errors import Forbidden
from qianxun.core.limits import NAME_LIMIT
from qianxun.doors.http.concurrency import ConcurrencyLimit
from qianxun.engine.across_tenants import KeyLookup
from qianxun.engine.admin.sessions import Sessions
from qianxun.engine.engine import Engine
from qianxun.engine.governance.quotas import SearchQuota
from qianxun.engine.governance.tokens import TokenVerifier
from qianxun.engine.settings import Settings


@dataclass
class Readiness:
    """Progress in opening the indexes that existed when the service started; and whether it is about to stop."""

    to_open: int = 0
    is_draining: bool = False


@dataclass(frozen=True)
class Service:
    """What all requests share: ``app.state.service``."""

    engine: Engine  # of the local tenant
    settings: Settings
    recalls: ConcurrencyLimit
    writes: ConcurrencyLimit  # of documents
    answers: ConcurrencyLimit  # separate, since they take as long as their language model
    transfers: ConcurrencyLimit  # of whole bases, each of which takes a thread for long
    keys: KeyLookup
    sessions: Sessions  # of browsers
    quota: SearchQuota  # of searches, for tenants that have one
    tokens: TokenVerifier  # of an OpenID Connect issuer
    readiness: Readiness = field(default_factory=Readiness)


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def tenant_engine(request: Request) -> Engine:
    """The engine of the tenant whose key the guard accepted, on behalf of the principal that it made out."""
    return service_of(request).engine.of(request.state.tenant).on_behalf_of(request.state.principal)


TenantEngine = Annotated[Engine, Depends(tenant_engine)]

BaseName = Annotated[
    str,
    Path(
        description="知识库的编号或名称；名称恰是另一个知识库的编号时，以编号为准",
        min_length=1,
        max_length=NAME_LIMIT,
        examples=["1001"],
    ),
]


async def base_id(knowledge_base_id: BaseName, engine: TenantEngine) -> int:
    return await engine.base_id(knowledge_base_id)


BaseId = Annotated[int, Depends(base_id)]


def read_only_key() -> Forbidden:
    return Forbidden("这个密钥只能检索与查看", hint="换用可写的密钥：qianxun keys create --scope write")


async def require_write(request: Request) -> None:
    """The guard has refused read-only keys already, before the body was read; this documents it in the route."""
    if request.state.access != "write":
        raise read_only_key()


Writer: Any = Depends(require_write)  # for a route's dependencies=[Writer]


@asynccontextmanager
async def recall_slot(request: Request, searches: int = 1) -> AsyncIterator[None]:
    """``async with recall_slot(request):`` around a search: counted, bounded, and cancelled if its client leaves."""
    await _count_searches(request, searches)
    async with service_of(request).recalls.slot(request):
        yield


async def _count_searches(request: Request, searches: int = 1) -> None:
    """Raises QuotaExceeded."""
    await search_count(request)(searches)


def search_count(request: Request) -> Callable[..., Coroutine[Any, Any, None]]:
    """Counts searches of the request's tenant, also when the request is over."""
    return partial(service_of(request).quota.count, getattr(request.state, "tenant", ""))


class SearchRoute(APIRoute):
    """A route whose handler runs in a slot of the searches. It waits for that before its body is parsed and validated:
    of a service that is asked for too much, most of the work would be for requests that are never answered."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_in_slot(request: Request) -> Response:
            await request.body()  # the next message then is the disconnect
            async with recall_slot(request):
                return await handle(request)

        return handle_in_slot


def write_slot(request: Request) -> AbstractAsyncContextManager[Callable[[], None]]:
    """The same around the write of a document whose body has been received: it is done although its client leaves.

    The request's own task does it, so that a service that stops waits for it as for every request. Once the document
    is stored the slot is given back: waiting until it is indexed takes nothing from others.
    """
    return service_of(request).writes.slot_without_client(request)


def transfer_slot(request: Request) -> AbstractAsyncContextManager[Callable[[], None]]:
    """The same around an export or an import."""
    return service_of(request).transfers.slot_without_client(request)


@asynccontextmanager
async def answer_slot(request: Request) -> AsyncIterator[None]:
    """The same around an answer: a slow language model must not keep searches waiting."""
    await _count_searches(request)
    async with service_of(request).answers.slot(request):
        yield


def trace_id(request: Request) -> str:
    """The trace id of this request; "" if it is not traced: the engine then makes one."""
    return getattr(request.state, "trace_id", "")
