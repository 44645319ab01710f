"""Dify's external knowledge API: a knowledge base as Dify asks for it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field

from qianxun.core.codec.results import written_metadata
from qianxun.core.limits import NAME_LIMIT, QUERY_LIMIT, TOP_K_LIMIT
from qianxun.core.types import Found
from qianxun.doors.http.context import MAX_ID, TenantEngine, recall_slot, trace_id
from qianxun.doors.http.dify.conditions import MetadataCondition, where_of
from qianxun.doors.http.error_formats import DifyProblem
from qianxun.doors.http.named_bases import find_base
from qianxun.doors.http.request_models import AskedElsewhere, Number
from qianxun.doors.http.responses import InvalidField, as_json, error_responses

# ── asked ────────────────────────────────────────────────────────────────────────────────────────


class RetrievalSetting(AskedElsewhere):
    top_k: Annotated[int, Field(ge=1, le=TOP_K_LIMIT), Number] | None = Field(
        default=None, description="最多几条；不写则用知识库或服务的配置", examples=[5]
    )
    score_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), Number] | None = Field(
        default=None, description="分数不低于它；与 /v1/retrieval 的分数相同", examples=[0.5]
    )


class KnowledgeSearch(AskedElsewhere):
    """What Dify sends; where it only looks whether somebody is there, nothing at all or nothing but empty texts."""

    knowledge_id: Annotated[str, Field(max_length=NAME_LIMIT)] | Annotated[int, Field(ge=1, le=MAX_ID, strict=True)] = (
        Field(default="", description="知识库的编号或名称", examples=["1001"])
    )
    query: str = Field(default="", max_length=QUERY_LIMIT, examples=["住院报销比例是多少"])
    retrieval_setting: RetrievalSetting = Field(default=RetrievalSetting())
    metadata_condition: MetadataCondition | None = None

    @property
    def is_probe(self) -> bool:
        return self.knowledge_id == "" and not self.query

    def options(self) -> dict[str, Any]:
        """The arguments of `Engine.retrieve`. Raises InvalidField."""
        if self.knowledge_id == "":
            raise InvalidField("knowledge_id", "缺少这个字段", hint="填知识库的编号或名称")
        if not self.query.strip():
            raise InvalidField("query", "不能为空，写出要找的内容")
        setting = self.retrieval_setting
        where = where_of(self.metadata_condition)
        return {"top_k": setting.top_k, "threshold": setting.score_threshold or 0.0, "where": where}


# ── answered ─────────────────────────────────────────────────────────────────────────────────────


class Record(BaseModel):
    """一块。"""

    content: str = Field(examples=["住院费用报销比例为85%。"])
    score: float = Field(examples=[0.85])
    title: str = Field(description="文档名", examples=["医保手册.pdf"])
    metadata: dict[str, Any] = Field(
        description="文档的元数据，以及 doc_id、document_id（同一个）、chunk_id、headings 与 page（有页码才有）",
        examples=[{"年份": 2024, "doc_id": "123", "document_id": "123", "chunk_id": "c_1001_123_0", "headings": []}],
    )


class Records(BaseModel):
    records: list[Record]


EXAMPLES: Final[dict[str, Any]] = {
    "search": {
        "summary": "Dify 的检索",
        "value": {
            "knowledge_id": "1001",
            "query": "住院报销比例是多少",
            "retrieval_setting": {"top_k": 5, "score_threshold": 0.5},
        },
    },
    "conditions": {
        "summary": "按元数据筛选",
        "value": {
            "knowledge_id": "1001",
            "query": "住院报销比例是多少",
            "retrieval_setting": {"top_k": 3, "score_threshold": 0.0},
            "metadata_condition": {
                "logical_operator": "and",
                "conditions": [
                    {"name": "年份", "comparison_operator": "≥", "value": 2020},
                    {"name": ["部门", "tags"], "comparison_operator": "contains", "value": "医保"},
                ],
            },
        },
    },
    "probe": {"summary": "登记时的探询", "value": {"knowledge_id": "", "query": ""}},
}

# ── the route ────────────────────────────────────────────────────────────────────────────────────


def routes() -> APIRouter:
    router = APIRouter(tags=["Dify"])
    router.post(
        "/retrieval",
        summary="Dify 的外部知识库",
        response_model=Records,
        responses=error_responses(400, 404, 413, 422, form=DifyProblem),
    )(retrieve)
    return router


async def retrieve(
    request: Request,
    engine: TenantEngine,
    body: Annotated[KnowledgeSearch | None, Body(openapi_examples=EXAMPLES)] = None,
) -> Response:
    """与 `/v1/retrieval` 相同的检索与分数。没有请求体，或编号与问题都空着，就是登记时的探询：答没有记录。"""
    if body is None or body.is_probe:
        return as_json({"records": []})
    options = {**body.options(), "trace_id": trace_id(request)}
    async with recall_slot(request):
        base = await find_base(engine, str(body.knowledge_id))
        found = await engine.retrieve(base.id, body.query, **options)
    return as_json({"records": [_record(each) for each in found.found]})


def _record(found: Found) -> dict[str, Any]:
    chunk = found.chunk
    metadata = {
        **written_metadata(chunk.attributes.metadata),
        "doc_id": chunk.doc_id,
        "document_id": chunk.doc_id,  # which Dify shows as the source's
        "chunk_id": chunk.chunk_id,
        "headings": list(chunk.headings),
    }
    if chunk.page is not None:
        metadata["page"] = chunk.page
    return {"content": chunk.text, "score": found.score, "title": chunk.doc_name, "metadata": metadata}
