"""Liveness and readiness, which need no key; and opening the indexes that exist when the service starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from qianxun.core.errors import NotFound
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.context import Service, service_of
from qianxun.doors.http.error_formats import Problem
from qianxun.doors.http.responses import STATUSES, Envelope, problem, success
from qianxun.engine.across_tenants import pending_writes

log = logging.getLogger(__name__)

RECORDS_SECONDS: Final = 1.0
OPENED_AT_START: Final = 200  # bases; the others are opened by their first request

router = APIRouter(tags=["运行"])


class Alive(BaseModel):
    status: str = Field(examples=["alive"])


class Ready(BaseModel):
    status: Literal["ready", "degraded"] = Field(description="degraded：有知识库不能用，或少了已确认的写入；其余照常")
    queue_depth: int = Field(description="等待建索引的写入", examples=[0])
    missing_writes: int = Field(description="打开时发现少了的、已确认过的写入，见 qianxun doctor", examples=[0])
    unusable: int = Field(description="打不开的、索引坏了正在重建的知识库的数目", examples=[0])


@router.get("/healthz", summary="进程活着；不要密钥", response_model=Envelope[Alive])
async def alive() -> Response:
    return success({"status": "alive"})


@router.get(
    "/readyz",
    summary="可以接受请求：记录可读、索引已打开、没有在停止；不要密钥",
    response_model=Envelope[Ready],
    responses={503: {"model": Problem, "description": STATUSES[503][1]}},
)
async def ready(request: Request) -> Response:
    service = service_of(request)
    if service.recalls.is_closed or service.readiness.is_draining:
        return problem(503, "服务正在停止", "closing")
    if service.readiness.to_open:
        return problem(503, f"还有 {service.readiness.to_open} 个知识库的索引没有打开", "opening")
    try:
        async with asyncio.timeout(RECORDS_SECONDS):
            pending = await pending_writes(service.engine)
    except TimeoutError:
        log.warning("not ready: the records do not answer")
        pending = None
    if pending is None:
        return problem(503, "读不到记录", "records_unavailable", hint="检查数据库与磁盘")
    unusable = len(service.engine.unusable_bases())
    loss = service.engine.records.loss
    missing = loss.commits if loss is not None else 0
    status = "degraded" if unusable or missing else "ready"
    return success({"status": status, "queue_depth": pending, "missing_writes": missing, "unusable": unusable})


async def indexes_to_open(service: Service) -> Sequence[KnowledgeBase]:
    """The bases that exist; the service is not ready until `open_indexes` has opened them."""
    bases = (await service.engine.admin.knowledge_bases())[:OPENED_AT_START]
    service.readiness.to_open = len(bases)
    return bases


async def open_indexes(service: Service, bases: Sequence[KnowledgeBase]) -> None:
    """Opens the indexes of these bases, so that their first request does not wait for it."""
    for base in bases:
        try:
            await service.engine.of(base.tenant).base(base.id)
        except NotFound:
            pass  # it has been deleted meanwhile
        except Exception:  # a background task: the other bases are opened all the same
            log.exception("base %s cannot be opened", base.id)
        finally:
            service.readiness.to_open -= 1
