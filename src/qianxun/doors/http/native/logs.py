"""The log of searches over HTTP: what found nothing, what took long, and what people think of the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from qianxun.core.codec.results import written_log
from qianxun.core.limits import CHUNK_ID_LIMIT, FEEDBACK_CHUNKS_LIMIT, FEEDBACK_COMMENT_LIMIT
from qianxun.core.log_types import Feedback, LogEntry
from qianxun.doors.http.context import MAX_ID, TenantEngine, Writer
from qianxun.doors.http.native.retrieval import DegradedTold, StepTold
from qianxun.doors.http.responses import Envelope, error_responses, success

PAGE: Final = 50
LARGEST_PAGE: Final = 100
PAGE_CHARACTERS: Final = 500_000  # of parameters: a search may name a thousand documents

LogId = Annotated[int, Path(description="检索记录的编号", ge=1, le=MAX_ID, examples=[42])]
BaseParameter = Annotated[int | None, Query(ge=1, le=MAX_ID, description="只看这个知识库的")]
ZeroParameter = Annotated[bool, Query(description="只看没找到或没能回答的")]
SlowParameter = Annotated[float | None, Query(ge=0, allow_inf_nan=False, description="只看比这更慢的，毫秒")]
TraceParameter = Annotated[
    str | None, Query(min_length=1, max_length=64, description="只看这次请求的：检索的回答里写着 trace_id")
]
LimitParameter = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="最多几条；内容太多时一页会少一些，看 next")]
BeforeParameter = Annotated[int | None, Query(ge=1, le=MAX_ID, description="上一页的 next")]


class FeedbackAsked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rating: Literal["good", "bad"]
    chunk_ids: list[Annotated[str, Field(min_length=1, max_length=CHUNK_ID_LIMIT)]] | None = Field(
        default=None, max_length=FEEDBACK_CHUNKS_LIMIT, description="评价所指的片段，或本该找到的片段"
    )
    comment: str | None = Field(default=None, max_length=FEEDBACK_COMMENT_LIMIT)


class FeedbackTold(BaseModel):
    rating: Literal["good", "bad"]
    chunk_ids: list[str]
    comment: str


class ResultTold(BaseModel):
    chunk_id: str
    score: float


class LogTold(BaseModel):
    id: int
    knowledge_base_id: int
    query: str
    retrieval_params: dict[str, Any] = Field(description="当时的参数，足以原样再检索一次")
    retrieval_mode: str
    tier: str | None
    chunk_count: int
    zero: bool
    time_cost_ms: float
    from_cache: bool
    degraded: list[DegradedTold]
    steps: list[StepTold]
    results: list[ResultTold]
    trace_id: str
    generation: str
    digest: str
    created_at: datetime
    feedback: FeedbackTold | None


class LogPage(BaseModel):
    list: list[LogTold]
    next: int | None = Field(description="下一页的 before；为空则没有更早的了")


EXAMPLES: Final[dict[str, Any]] = {
    "bad": {
        "summary": "没有找到该找到的",
        "value": {"rating": "bad", "chunk_ids": ["c_1001_123_0"], "comment": "应当返回这一块"},
    },
    "good": {"summary": "答得好", "value": {"rating": "good"}},
}


def routes() -> APIRouter:
    router = APIRouter(tags=["检索记录"])
    router.get(
        "/v1/retrieval-logs",
        summary="检索记录，新的在前",
        response_model=Envelope[LogPage],
        responses=error_responses(404, 422),
    )(listed)
    router.get(
        "/v1/retrieval-logs/{log_id}",
        summary="一条检索记录",
        response_model=Envelope[LogTold],
        responses=error_responses(404, 422),
    )(one)
    router.post(
        "/v1/retrieval-logs/{log_id}/feedback",
        summary="评价一次检索",
        response_model=Envelope[LogTold],
        responses=error_responses(400, 404, 413, 422, 507),
        dependencies=[Writer],
    )(feedback)
    return router


async def listed(
    engine: TenantEngine,
    knowledge_base_id: BaseParameter = None,
    zero: ZeroParameter = False,
    slow_ms: SlowParameter = None,
    trace_id: TraceParameter = None,
    limit: LimitParameter = PAGE,
    before: BeforeParameter = None,
) -> Response:
    """用来找出没有结果的（`zero=true`）和慢的（`slow_ms=200`）检索；`trace_id` 找到刚才那一次，以便评价它。"""
    found = await engine.logs.list(
        knowledge_base=knowledge_base_id, zero=zero, slow_ms=slow_ms, trace_id=trace_id, limit=limit, before=before
    )
    page = list(_fitting(found))
    is_last = len(page) == len(found) < limit
    return success({"list": page, "next": None if is_last or not page else page[-1]["id"]})


def _fitting(found: Sequence[LogEntry]) -> Iterator[dict[str, Any]]:
    """As many as an answer should hold; at least one."""
    room = PAGE_CHARACTERS
    for entry in found:
        room -= len(json.dumps(dict(entry.params)))
        if room < 0 and entry is not found[0]:
            return
        yield written_log(entry)


async def one(engine: TenantEngine, log_id: LogId) -> Response:
    """参数、结果与各步的用时。"""
    return success(written_log(await engine.logs.get(log_id)))


async def feedback(
    engine: TenantEngine, log_id: LogId, body: Annotated[FeedbackAsked, Body(openapi_examples=EXAMPLES)]
) -> Response:
    """好或坏，可指明片段、写上原因；供事后分析。"""
    said = Feedback(body.rating, tuple(body.chunk_ids or ()), body.comment or "")
    return success(written_log(await engine.logs.rate(log_id, said)))
