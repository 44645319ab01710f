"""日志: what was searched, which of it found nothing, was slow or degraded, over time; each opens on the bench."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from qianxun.core.errors import BadInput
from qianxun.core.limits import SLOW_MS
from qianxun.core.log_types import LogChoices, LogCount, LogEntry
from qianxun.doors.http.console.forms import ConsoleRoute, Fields, query
from qianxun.doors.http.console.headers import HEADERS
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import render, translate
from qianxun.doors.http.console.searches import MODES, logged_search
from qianxun.doors.http.context import TenantEngine
from qianxun.doors.http.native.logs import exported_logs

PAGE: Final = Page(
    "logs",
    Text("日志", "Logs"),
    Text("没有结果的、慢的、降级的检索，随时间怎样变", "Searches without results, slow or degraded, over time"),
)
PAGE_SIZE: Final = 50
SHOWN_BASES: Final = 500
KINDS: Final = {
    "": Text("全部", "All"),
    "zero": Text("没有结果", "No results"),
    "slow": Text("慢", "Slow"),
    "degraded": Text("降级", "Degraded"),
    "rated": Text("有评价", "Rated"),
    "bad": Text("评为不好", "Rated bad"),
}
COUNTED: Final = {
    "searches": Text("检索", "searches"),
    "zero": Text("没有结果", "no results"),
    "slow": Text("慢", "slow"),
    "degraded": Text("降级", "degraded"),
}
# name: (days, stretches)
PERIODS: Final = {"1": (1, 24), "7": (7, 28), "30": (30, 30)}
PERIOD_LABELS: Final = {"1": Text("一天", "a day"), "7": Text("七天", "7 days"), "30": Text("三十天", "30 days")}

router = APIRouter(route_class=ConsoleRoute)


@router.get(PAGE.path)
async def logs_page(request: Request, engine: TenantEngine) -> Response:
    fields = query(request)
    period = fields.text("period", "7")
    days, stretches = PERIODS.get(period, PERIODS["7"])
    chosen, slow_ms = _choices(fields, days)
    before = fields.whole("before", "位置")
    entries = await engine.logs.list(**chosen, limit=PAGE_SIZE + 1, before=before)
    until = datetime.now(UTC)
    step = timedelta(days=days) / stretches
    starts = [until - step * (stretches - at) for at in range(stretches)]
    counted: LogChoices = {"knowledge_base": chosen.get("knowledge_base"), "until": until}
    counts = await engine.logs.counts(starts, slow_at_ms=slow_ms, **counted)
    bases = await engine.knowledge_bases(limit=SHOWN_BASES)
    own = {
        "base": fields.text("base"),
        "kind": fields.text("kind"),
        "slow_ms": fields.text("slow_ms"),
        "period": period,
    }
    values: dict[str, Any] = {
        "bases": bases,
        "names": {base.id: base.name for base in bases},
        "own": own,
        "entries": [(entry, _again(entry)) for entry in entries[:PAGE_SIZE]],
        "next": entries[PAGE_SIZE - 1].id if len(entries) > PAGE_SIZE else None,
        "is_first": before is None,
        "slow_ms": slow_ms,
        "kinds": [(name, translate(request, text)) for name, text in KINDS.items()],
        "periods": [(name, translate(request, text)) for name, text in PERIOD_LABELS.items()],
        "series": count_series(request, counts),
        "times": [(f"{one.start.astimezone():%m-%d %H:%M}", one.mean_ms if one.searches else None) for one in counts],
        "totals": _totals(counts),
    }
    return render(request, "logs.html", **values)


@router.get("/console/logs/export")
async def export(request: Request, engine: TenantEngine) -> Response:
    fields = query(request)
    days, _ = PERIODS.get(fields.text("period", "7"), PERIODS["7"])
    chosen, _ = _choices(fields, days)
    response = exported_logs(engine, chosen, "csv" if fields.text("format") == "csv" else "jsonl")
    response.headers.update(HEADERS)
    return response


def _choices(fields: Fields, days: int) -> tuple[LogChoices, float]:
    """What is listed, and from how many milliseconds on a search is slow."""
    kind, slow_ms = fields.text("kind"), fields.number("slow_ms", "毫秒")
    slow_ms = SLOW_MS if slow_ms is None else slow_ms
    if not 0 <= slow_ms < 1e9:
        raise BadInput(f"毫秒为 {slow_ms:g}", hint="写一个不小于 0 的数")
    chosen: LogChoices = {
        "knowledge_base": fields.whole("base", "知识库"),
        "zero": kind == "zero",
        "slow_ms": slow_ms if kind == "slow" else None,
        "degraded": kind == "degraded",
        "rating": "any" if kind == "rated" else "bad" if kind == "bad" else None,
        "since": datetime.now(UTC) - timedelta(days=days),
    }
    return chosen, slow_ms


def _again(entry: LogEntry) -> dict[str, Any] | None:
    """The parameters that search the same on the bench; None for questions and layered searches."""
    if entry.mode not in MODES:
        return None
    return logged_search(entry.knowledge_base_id, entry.query, entry.params).parameters()


def count_series(
    request: Request, counts: Sequence[LogCount], form: str = "%m-%d %H:%M"
) -> list[tuple[str, list[tuple[str, float]]]]:
    """Counts over time as lines of a plot; ``form`` is how a moment is written."""
    labels = [one.start.astimezone().strftime(form) for one in counts]
    found = []
    for name, text in COUNTED.items():
        values = [float(getattr(one, name)) for one in counts]
        found.append((translate(request, text), list(zip(labels, values, strict=True))))
    return found


def _totals(counts: tuple[LogCount, ...]) -> dict[str, int]:
    return {name: sum(getattr(one, name) for one in counts) for name in COUNTED}
