"""检索台: one question under one or two settings, with where every score comes from."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from qianxun.doors.http.console.forms import ConsoleRoute
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import render
from qianxun.doors.http.context import TenantEngine

PAGE: Final = Page(
    "bench",
    Text("检索台", "Retrieval bench"),
    Text("看一个问题找到什么、为什么，两套设置并排比", "What a question finds and why, two settings side by side"),
)

router = APIRouter(route_class=ConsoleRoute)


@router.get(PAGE.path)
async def bench(request: Request, engine: TenantEngine) -> Response:
    return render(request, "bench.html", bases=await engine.knowledge_bases(limit=500))
