"""Why a chunk was returned, or not, and the request that would return it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import Field

from qianxun.core.codec.wire import written_explained
from qianxun.core.explanation import Decisions, Explanation, Sum
from qianxun.core.limits import CHUNK_ID_LIMIT
from qianxun.core.types import Found
from qianxun.doors.http.context import BaseId, TenantEngine, recall_slot, trace_id
from qianxun.doors.http.native.retrieval import retrieved
from qianxun.doors.http.native.routes import body_examples, route
from qianxun.doors.http.request_models import Search, blaming_reranker
from qianxun.doors.http.response_models import listed, of, response
from qianxun.doors.http.responses import success


class ExplainRequest(Search):
    chunk_id: str | None = Field(
        default=None,
        max_length=CHUNK_ID_LIMIT,
        description="要问的片段；不写则只说明每个结果的分数从何而来",
        examples=["c_1001_123_0"],
    )


FoundExplained: Final = response("FoundExplained", Found, sum=of(Sum), decisions=of(Decisions))
RetrievedExplained: Final = retrieved("RetrievedExplained", chunks=listed(FoundExplained))
ExplanationInfo: Final = response(
    "ExplanationInfo",
    Explanation,
    knowledge_base_id=int,
    query=str,
    trace_id=str,
    chunk_id=str | None,
    returned=(bool, False),
    changes=(dict[str, Any], {}),
    request=dict[str, Any] | None,
    weights=dict[str, float],
    recall=RetrievedExplained,
)


router = APIRouter(tags=["检索"])


@router.post("/v1/explain/{knowledge_base_id}", **route("为什么返回，或没有返回", ExplanationInfo, 400, 404, 413, 422))
async def explain(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[ExplainRequest, body_examples("explain")],
) -> Response:
    """检索一次，说明每个结果的分数，以及指定的片段在哪一步被挡下、最少改动什么就会返回它。"""
    choices = body.choices()
    async with recall_slot(request):
        with blaming_reranker(choices):
            explained = await engine.explain(knowledge_base_id, body.query, body.chunk_id or "", **choices)
    if traced := trace_id(request):
        explained = replace(explained, answer=replace(explained.answer, trace_id=traced))
    return success(written_explained(knowledge_base_id, explained, choices))
