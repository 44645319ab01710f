"""The log of searches: which found nothing, which were slow, and feedback on them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from qianxun.core.codec.log_export import ExportForm, exported_header, exported_line
from qianxun.core.codec.wire import to_wire, written_log
from qianxun.core.limits import (
    CHUNK_ID_LIMIT,
    FEEDBACK_CHUNKS_LIMIT,
    FEEDBACK_COMMENT_LIMIT,
    MAX_ID,
    NAME_LIMIT,
    SLOW_MS,
)
from qianxun.core.log_types import Feedback, LogChoices, LogCount, LogEntry
from qianxun.doors.http.context import TenantEngine
from qianxun.doors.http.field_errors import InvalidField
from qianxun.doors.http.native.routes import body_examples, route, write_route
from qianxun.doors.http.openapi import error_responses
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import success
from qianxun.engine.engine import Engine
from qianxun.engine.facades import MOST_STRETCHES

EXPORTED: Final = {"jsonl": "application/jsonl", "csv": "text/csv"}
MOST_EXPORTED: Final = 100_000
PAGE: Final = 50
MAX_PAGE: Final = 100
PAGE_CHARACTERS: Final = 500_000  # of parameters: a search may name a thousand documents

LogId = Annotated[int, Path(description="检索记录的编号", ge=1, le=MAX_ID, examples=[42])]

router = APIRouter(prefix="/v1/retrieval-logs", tags=["检索记录"])


class NewFeedback(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rating: Literal["good", "bad"]
    chunk_ids: list[Annotated[str, Field(min_length=1, max_length=CHUNK_ID_LIMIT)]] | None = Field(
        default=None, max_length=FEEDBACK_CHUNKS_LIMIT, description="评价所指的片段，或本该找到的片段"
    )
    comment: str | None = Field(default=None, max_length=FEEDBACK_COMMENT_LIMIT)


LoggedResult: Final = response("LoggedResult", chunk_id=str, score=float)
LogInfo: Final = response(
    "LogInfo", LogEntry, tier=str | None, chunk_count=int, zero=bool, results=listed(LoggedResult)
)
LogPage: Final = response("LogPage", list=listed(LogInfo), next=int | None)
LogCounts: Final = response("LogCounts", list=listed(LogCount), until=str)


async def log_choices(
    engine: TenantEngine,
    knowledge_base_id: Annotated[
        str | None, Query(min_length=1, max_length=NAME_LIMIT, description="只看这个知识库的：编号或名称")
    ] = None,
    zero: Annotated[bool, Query(description="只看没找到或没能回答的")] = False,
    slow_ms: Annotated[float | None, Query(ge=0, allow_inf_nan=False, description="只看比这更慢的，毫秒")] = None,
    degraded: Annotated[bool, Query(description="只看有一部分没能参加的")] = False,
    rating: Annotated[Literal["good", "bad", "any"] | None, Query(description="只看这样评价过的")] = None,
    since: Annotated[AwareDatetime | None, Query(description="只看从这时起的，带时区")] = None,
    until: Annotated[AwareDatetime | None, Query(description="只看这时以前的，带时区")] = None,
) -> LogChoices:
    return {
        "knowledge_base": None if knowledge_base_id is None else await engine.base_id(knowledge_base_id),
        "zero": zero,
        "slow_ms": slow_ms,
        "degraded": degraded,
        "rating": rating,
        "since": since,
        "until": until,
    }


Chosen = Annotated[LogChoices, Depends(log_choices)]


@router.get("", **route("检索记录，新的在前", LogPage, 404, 422))
async def list_logs(
    engine: TenantEngine,
    chosen: Chosen,
    trace_id: Annotated[
        str | None, Query(min_length=1, max_length=64, description="只看这次请求的：检索的回答里写着 trace_id")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="最多几条；内容太多时一页会少一些，看 next")] = PAGE,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="上一页的 next")] = None,
) -> Response:
    """用来找出没有结果的（`zero=true`）和慢的（`slow_ms=200`）检索；`trace_id` 找到刚才那一次，以便评价它。"""
    chosen["trace_id"] = trace_id
    entries = await engine.logs.list(**chosen, limit=limit, before=before)
    page = list(_page(entries))
    is_last = len(page) == len(entries) < limit
    return success({"list": page, "next": None if is_last or not page else page[-1]["id"]})


def _page(entries: Sequence[LogEntry]) -> Iterator[dict[str, Any]]:
    """As many as one response should hold; at least one."""
    room = PAGE_CHARACTERS
    for entry in entries:
        room -= len(json.dumps(dict(entry.params)))
        if room < 0 and entry is not entries[0]:
            return
        yield written_log(entry)


@router.get("/counts", **route("一段段时间里各有多少", LogCounts, 400, 404, 422))
async def counts(
    engine: TenantEngine,
    chosen: Chosen,
    stretches: Annotated[int, Query(ge=1, le=MOST_STRETCHES, description="分成几段")] = 24,
    slow_at_ms: Annotated[float, Query(ge=0, allow_inf_nan=False, description="超过几毫秒算慢")] = SLOW_MS,
) -> Response:
    """从 `since`（不写则一天以前）到 `until`（不写则现在）等分成 `stretches` 段，各段的检索数与用时。"""
    until = chosen.get("until") or datetime.now(UTC)
    since = chosen.get("since") or until - timedelta(days=1)
    if since >= until:
        raise InvalidField("since", "应早于 until", hint="换一段时间")
    chosen["until"] = until
    step = (until - since) / stretches
    starts = [since + step * at for at in range(stretches)]
    found = await engine.logs.counts(starts, slow_at_ms=slow_at_ms, **chosen)
    return success({"list": to_wire(found), "until": until.isoformat()})


@router.get(
    "/export",
    summary="导出检索记录",
    response_class=StreamingResponse,
    responses={200: {"content": {name: {} for name in EXPORTED.values()}}, **error_responses(404, 422)},
)
async def export(
    engine: TenantEngine,
    chosen: Chosen,
    form: Annotated[Literal["jsonl", "csv"], Query(alias="format", description="每行一个 JSON，或表格")] = "jsonl",
) -> Response:
    """新的在前，随读随发；至多十万条。"""
    return exported_logs(engine, chosen, form)


def exported_logs(engine: Engine, chosen: LogChoices, form: ExportForm) -> Response:
    async def lines() -> AsyncIterator[bytes]:
        before, sent = None, 0
        yield exported_header(form).encode()
        while sent < MOST_EXPORTED and (page := await engine.logs.list(**chosen, limit=MAX_PAGE, before=before)):
            for entry in page:
                yield exported_line(entry, form).encode("utf-8", "replace")
            before, sent = page[-1].id, sent + len(page)

    name = {"content-disposition": f'attachment; filename="qianxun-logs.{form}"'}
    return StreamingResponse(lines(), media_type=EXPORTED[form], headers=name)


@router.get("/{log_id}", **route("一条检索记录", LogInfo, 404, 422))
async def get(engine: TenantEngine, log_id: LogId) -> Response:
    """参数、结果与各步的用时。"""
    return success(written_log(await engine.logs.get(log_id)))


@router.post("/{log_id}/feedback", **write_route("评价一次检索", LogInfo, 400, 404, 413, 422, 507))
async def feedback(
    engine: TenantEngine, log_id: LogId, body: Annotated[NewFeedback, body_examples("feedback")]
) -> Response:
    """好或坏，可指明片段、写上原因；供事后分析。"""
    given = Feedback(body.rating, tuple(body.chunk_ids or ()), body.comment or "")
    return success(written_log(await engine.logs.rate(log_id, given)))
