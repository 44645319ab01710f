"""运行状态: whether indexes are up to date and sound, what is stored, how searches went; verify and rebuild."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from qianxun.core.errors import BadInput
from qianxun.doors.http.console.forms import ConsoleRoute, form, query
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.pages.logs import count_series
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import TenantEngine, Writer, service_of
from qianxun.engine.across_tenants import pending_writes, storage_use
from qianxun.engine.admin.background import start_rebuild, start_verify
from qianxun.engine.admin.doctor import Health, examine
from qianxun.engine.engine import Engine

PAGE: Final = Page(
    "health",
    Text("运行状态", "Health"),
    Text("索引跟上了没有，检索快不快，哪里要修", "Whether indexes keep up, how fast searches are, what needs care"),
)
SHOWN_BASES: Final = 100
HOURS: Final = 24
KINDS: Final = {
    "verify": Text("核对", "verify"),
    "rebuild": Text("重建", "rebuild"),
    "evaluate": Text("评测", "evaluation"),
}
STATUSES: Final = {
    "queued": (Text("等着", "queued"), "busy"),
    "running": (Text("进行中", "running"), "busy"),
    "done": (Text("完成", "done"), "done"),
    "failed": (Text("失败", "failed"), "bad"),
    "cancelled": (Text("已取消", "cancelled"), "idle"),
}

router = APIRouter(route_class=ConsoleRoute)


def _runs_the_service(request: Request) -> bool:
    """Without any key whoever is on this machine runs it; a key is of one tenant."""
    return request.state.key_id is None


@router.get(PAGE.path)
async def health_page(request: Request, engine: TenantEngine) -> Response:
    bases = await engine.knowledge_bases(limit=SHOWN_BASES)
    names = {base.id: base.name for base in bases}
    values: dict[str, Any] = {"operations": engine.operations.list(engine.tenant)[:20], "names": names}
    values |= {"kinds": KINDS, "statuses": STATUSES}
    if request.headers.get("hx-target") == "operations":
        return render(request, "_operations.html", **values)
    counts = await asyncio.gather(*(engine.statistics(base.id) for base in bases))
    now = datetime.now(UTC)
    starts = [now - timedelta(hours=HOURS - at) for at in range(HOURS)]
    searched = await engine.logs.counts(starts, until=now)
    is_operator = _runs_the_service(request)
    values |= {
        "rows": list(zip(bases, counts, strict=True)),
        "unusable": engine.unusable_bases(),
        "pending": sum(count.get("pending", 0) + count.get("retrying", 0) for count in counts),
        "queue": await pending_writes(engine) if is_operator else None,
        "storage": await storage_use(engine) if is_operator else None,
        "series": count_series(request, searched, "%H:%M"),
        "times": [(f"{one.start.astimezone():%H:%M}", one.mean_ms if one.searches else None) for one in searched],
        "searches": sum(one.searches for one in searched),
        "to_open": service_of(request).readiness.to_open,
        "is_operator": is_operator,
        "doctor": await _doctor(engine) if is_operator and query(request).flag("doctor") else None,
    }
    return render(request, "health.html", **values)


async def _doctor(engine: Engine) -> Health:
    return await asyncio.to_thread(examine, engine.settings)


@router.post("/console/health/start", dependencies=[Writer])
async def start(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    base, kind = fields.whole("base", "知识库") or 0, fields.text("kind")
    if kind not in ("verify", "rebuild"):
        raise BadInput(f"没有这种工作：{kind[:40]!r}", hint="verify 或 rebuild")
    await (start_verify if kind == "verify" else start_rebuild)(engine, base)
    return redirect(request, PAGE.path, translate(request, "开始了，进度在下面", "Started; its progress is below"))


@router.post("/console/health/cancel", dependencies=[Writer])
async def cancel(request: Request, engine: TenantEngine) -> Response:
    engine.operations.cancel((await form(request)).whole("id", "编号") or 0, engine.tenant)
    return redirect(request, PAGE.path, translate(request, "取消了", "Cancelled"))
