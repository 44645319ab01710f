"""Whether the service is alive, and whether it should be sent requests. Neither wants a key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import NotFound, Overloaded, RecordsUnavailable
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.context import Service, service_of
from qianxun.doors.http.error_formats import Problem
from qianxun.doors.http.responses import DESCRIPTIONS, Envelope, problem, success
from qianxun.records import bases

log = logging.getLogger(__name__)

TAG: Final = "运行"
RECORDS_SECONDS: Final = 1.0
OPENED_FIRST: Final = 200  # bases whose index is opened at the start; more are opened when they are asked for


class Alive(BaseModel):
    status: str = Field(examples=["alive"])


class Ready(BaseModel):
    status: str = Field(examples=["ready"])
    queue_depth: int = Field(description="等待建索引的写入", examples=[0])
    unusable: int = Field(description="启动时打不开的知识库的数目", examples=[0])


def routes() -> APIRouter:
    router = APIRouter(tags=[TAG])
    router.get("/healthz", summary="进程活着；不要密钥", response_model=Envelope[Alive])(alive)
    router.get(
        "/readyz",
        summary="可以接受请求：记录可读、索引已打开、没有在停止；不要密钥",
        response_model=Envelope[Ready],
        responses={503: {"model": Problem, "description": DESCRIPTIONS[503]}},
    )(ready)
    return router


async def alive() -> Response:
    return success({"status": "alive"})


async def ready(request: Request) -> Response:
    service = service_of(request)
    if service.turns.is_closed:
        return problem(503, "服务正在停止", "closing")
    if service.readiness.to_open:
        return problem(503, f"还有 {service.readiness.to_open} 个知识库的索引没有打开", "opening")
    try:
        async with asyncio.timeout(RECORDS_SECONDS):
            depth = await service.engine.admin.queue_depth()
    except (RecordsUnavailable, Overloaded, SQLAlchemyError, TimeoutError) as error:
        log.warning("not ready: the records do not answer (%s)", type(error).__name__)
        return problem(503, "读不到记录", "records_unavailable", hint="检查数据库与磁盘")
    return success({"status": "ready", "queue_depth": depth, "unusable": service.readiness.unusable})


async def indexes_to_open(service: Service) -> tuple[KnowledgeBase, ...]:
    """The bases that are there; until `open_indexes` has opened them the service is not ready."""
    found = (await asyncio.to_thread(_all_bases, service))[:OPENED_FIRST]
    service.readiness.to_open = len(found)
    return found


async def open_indexes(service: Service, found: Sequence[KnowledgeBase]) -> None:
    """Opens the indexes of these bases, so that the first to ask does not wait for it."""
    for about in found:
        try:
            await service.engine.of(about.tenant).base(about.id)
        except NotFound:
            pass  # somebody has deleted it meanwhile
        except Exception:  # the outer door of a task that nobody waits for: the other bases are opened all the same
            service.readiness.unusable += 1
            log.exception("base %s cannot be opened", about.id)
        finally:
            service.readiness.to_open -= 1


def _all_bases(service: Service) -> tuple[KnowledgeBase, ...]:
    with service.engine.records.reading() as tx:
        return bases.of_all_tenants(tx)
