"""Search: ``POST /v1/retrieval/{knowledge_base_id}``."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response

from qianxun.core.codec.wire import written_recall
from qianxun.core.options import Mode
from qianxun.core.types import Recall, Tier
from qianxun.doors.http.context import BaseId, SearchRoute, TenantEngine, trace_id
from qianxun.doors.http.native.routes import body_examples, route
from qianxun.doors.http.request_models import Search, blaming_reranker
from qianxun.doors.http.response_models import Model, response
from qianxun.doors.http.responses import success


def retrieved(name: str, **more: Any) -> Model:
    computed: dict[str, Any] = {
        "knowledge_base_id": int,
        "doc_ids": list[str],
        "time_cost_ms": int,
        "tier": Tier | None,
    }
    return response(name, Recall, retrieval_mode=Mode, **computed, **more)


Retrieved: Final = retrieved("Retrieved")

router = APIRouter(tags=["检索"], route_class=SearchRoute)


@router.post("/v1/retrieval/{knowledge_base_id}", **route("检索知识库", Retrieved, 400, 404, 413, 422))
async def retrieve(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[Search, body_examples("retrieval")],
) -> Response:
    """三路并行检索（片段向量、问答向量、关键词），融合、重排、分层兜底。

    一路失败、超时或答非所问，都写进 `degraded`，其余照常回答。
    """
    choices = body.choices()
    with blaming_reranker(choices):
        found = await engine.retrieve(knowledge_base_id, body.query, **choices, trace_id=trace_id(request))
    return success(written_recall(knowledge_base_id, found))
