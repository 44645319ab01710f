"""The log of searches: which found nothing, which were slow, and feedback on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from qianxun.core.codec.wire import written_log
from qianxun.core.limits import CHUNK_ID_LIMIT, FEEDBACK_CHUNKS_LIMIT, FEEDBACK_COMMENT_LIMIT, MAX_ID, NAME_LIMIT
from qianxun.core.log_types import Feedback, LogEntry
from qianxun.doors.http.context import TenantEngine, Writer
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.response_models import enveloped, listed, response
from qianxun.doors.http.responses import success

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


@router.get("", summary="检索记录，新的在前", **returns(enveloped(LogPage), 404, 422))
async def list_logs(
    engine: TenantEngine,
    knowledge_base_id: Annotated[
        str | None, Query(min_length=1, max_length=NAME_LIMIT, description="只看这个知识库的：编号或名称")
    ] = None,
    zero: Annotated[bool, Query(description="只看没找到或没能回答的")] = False,
    slow_ms: Annotated[float | None, Query(ge=0, allow_inf_nan=False, description="只看比这更慢的，毫秒")] = None,
    trace_id: Annotated[
        str | None, Query(min_length=1, max_length=64, description="只看这次请求的：检索的回答里写着 trace_id")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="最多几条；内容太多时一页会少一些，看 next")] = PAGE,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="上一页的 next")] = None,
) -> Response:
    """用来找出没有结果的（`zero=true`）和慢的（`slow_ms=200`）检索；`trace_id` 找到刚才那一次，以便评价它。"""
    base = None if knowledge_base_id is None else await engine.base_id(knowledge_base_id)
    entries = await engine.logs.list(
        knowledge_base=base, zero=zero, slow_ms=slow_ms, trace_id=trace_id, limit=limit, before=before
    )
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


@router.get("/{log_id}", summary="一条检索记录", **returns(enveloped(LogInfo), 404, 422))
async def get(engine: TenantEngine, log_id: LogId) -> Response:
    """参数、结果与各步的用时。"""
    return success(written_log(await engine.logs.get(log_id)))


@router.post(
    "/{log_id}/feedback",
    summary="评价一次检索",
    dependencies=[Writer],
    **returns(enveloped(LogInfo), 400, 404, 413, 422, 507),
)
async def feedback(
    engine: TenantEngine,
    log_id: LogId,
    body: Annotated[NewFeedback, Body(openapi_examples=request_examples("feedback"))],
) -> Response:
    """好或坏，可指明片段、写上原因；供事后分析。"""
    given = Feedback(body.rating, tuple(body.chunk_ids or ()), body.comment or "")
    return success(written_log(await engine.logs.rate(log_id, given)))
