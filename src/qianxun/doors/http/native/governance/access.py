"""Who may see which documents: their labels, and the rules that folders and sources have."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import Field

from qianxun.core.codec.wire import to_wire
from qianxun.core.governance.access import LABEL_LIMIT, LABELS_LIMIT, PREFIX_LIMIT, AccessRule, DocumentAccess
from qianxun.core.limits import DOC_ID_LIMIT
from qianxun.doors.http.context import BaseId, TenantEngine, Writer
from qianxun.doors.http.native.routes import body_examples, route
from qianxun.doors.http.request_models import RequestModel
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import success

PAGE: Final = 100
MAX_PAGE: Final = 1_000
DOCUMENTS: Final = 1_000  # that one request changes

router = APIRouter(prefix="/v1/knowledge-bases/{knowledge_base_id}/access", tags=["访问标签"], dependencies=[Writer])

AccessPage: Final = response("AccessPage", labels=dict[str, int], documents=listed(DocumentAccess), next=str | None)
AccessChanged: Final = response("AccessChanged", documents=listed(DocumentAccess))
AccessRules: Final = response("AccessRules", rules=listed(AccessRule))
RuleRemoved: Final = response("RuleRemoved", removed=bool)

Label = Annotated[str, Field(min_length=1, max_length=LABEL_LIMIT)]
Labels = Annotated[
    list[Label],
    Field(max_length=LABELS_LIMIT, description="user:、group: 或 role: 开头；有其中一个的人看得到；空的：人人可见"),
]


class LabelChange(RequestModel):
    """Labels of some documents; null takes away their own, so that rules count again."""

    doc_ids: list[Annotated[str, Field(min_length=1, max_length=DOC_ID_LIMIT)]] = Field(
        min_length=1, max_length=DOCUMENTS
    )
    labels: Labels | None = None


class RuleChange(RequestModel):
    """The labels of what is in a folder, or comes from a source."""

    prefix: str = Field(
        min_length=1,
        max_length=PREFIX_LIMIT,
        description="文档的目录、来源或编号的开头，按 / 分段",
        examples=["人事/薪酬"],
    )
    labels: Labels


@router.get("", **route("各访问标签，与有标签的文档", AccessPage, 400, 404, 422))
async def list_labels(
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    label: Annotated[str, Query(max_length=LABEL_LIMIT, description="只看有这个标签的")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="最多几个")] = PAGE,
    after: Annotated[str, Query(max_length=DOC_ID_LIMIT, description="从这个编号之后开始")] = "",
) -> Response:
    access = engine.governance.access
    page = await access.list(knowledge_base_id, label=label, limit=limit + 1, after=after)
    following = page[limit - 1].doc_id if len(page) > limit else None
    labels = await access.labels(knowledge_base_id)
    return success({"labels": labels, "documents": to_wire(page[:limit]), "next": following})


@router.put("", **route("给文档访问标签，立刻生效", AccessChanged, 400, 404, 413, 422, 507))
async def set_labels(
    knowledge_base_id: BaseId, engine: TenantEngine, body: Annotated[LabelChange, body_examples("access_labels")]
) -> Response:
    access = engine.governance.access
    if body.labels is None:
        changed = await access.clear(knowledge_base_id, body.doc_ids)
    else:
        changed = await access.set(knowledge_base_id, body.doc_ids, body.labels)
    return success({"documents": to_wire(changed)})


@router.get("/rules", **route("各目录与来源的访问标签", AccessRules, 404, 422))
async def list_rules(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    return success({"rules": to_wire(await engine.governance.access.rules(knowledge_base_id))})


@router.put("/rules", **route("给一个目录或来源访问标签", AccessRules, 400, 404, 413, 422, 507))
async def set_rule(
    knowledge_base_id: BaseId, engine: TenantEngine, body: Annotated[RuleChange, body_examples("access_rule")]
) -> Response:
    """其中没有自己的标签的文档都随它，已有的与以后来的；几条规则都合适时，最长的一条算数。"""
    await engine.governance.access.set_rule(knowledge_base_id, body.prefix, body.labels)
    return success({"rules": to_wire(await engine.governance.access.rules(knowledge_base_id))})


@router.delete("/rules", **route("去掉一条规则", RuleRemoved, 400, 404, 422))
async def remove_rule(
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    prefix: Annotated[str, Query(min_length=1, max_length=PREFIX_LIMIT, description="那条规则的目录或来源")],
) -> Response:
    return success({"removed": await engine.governance.access.remove_rule(knowledge_base_id, prefix)})
