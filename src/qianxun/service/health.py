"""Whether the service is alive, and whether it should be sent requests. Neither wants a key."""

from __future__ import annotations

from fastapi import APIRouter, Response

from qianxun.service.answers import answered


def routes() -> APIRouter:
    router = APIRouter(tags=["运行"])
    router.get("/healthz", summary="进程活着")(alive)
    return router


async def alive() -> Response:
    return answered({"status": "alive"})
