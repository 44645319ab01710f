"""Reranking in the format of Cohere and Jina: ``POST /v1/rerank``, ``POST /v2/rerank``: a query and
passages in, the passages ranked out."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field, StrictBool

from qianxun.core.errors import BadInput, ModelUnavailable
from qianxun.core.limits import DOC_ID_LIMIT, MAX_ID
from qianxun.doors.http.context import TenantEngine, recall_slot, trace_id
from qianxun.doors.http.error_formats import RerankProblem
from qianxun.doors.http.field_errors import InvalidField, blaming
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.request_models import ForeignRequest, Number, QueryText
from qianxun.doors.http.responses import json_response
from qianxun.engine.engine import Engine
from qianxun.engine.models_by_name import count_tokens, find_reranker, rerank_scores

DOCUMENTS_LIMIT: Final = 1000
DOCUMENT_LIMIT: Final = 32_000  # characters of one

router = APIRouter(tags=["重排"])

Passage = Annotated[str, Field(max_length=DOCUMENT_LIMIT)] | dict[str, Any]


class RerankRequest(ForeignRequest):
    """Other fields of these protocols (rank_fields, max_chunks_per_doc …) have no effect."""

    model: Annotated[str, Field(max_length=DOC_ID_LIMIT)] | Annotated[int, Field(ge=1, le=MAX_ID, strict=True)] = Field(
        default="",
        description="maxsim、本地交叉编码器的名称、设置里的重排模型，或登记的模型的编号、名称",
        examples=["maxsim"],
    )
    query: QueryText
    documents: list[Passage] = Field(
        min_length=1, max_length=DOCUMENTS_LIMIT, description="文字，或带 text 的对象；没有 text 的对象，各字段逐行写出"
    )
    top_n: Annotated[int, Field(ge=1), Number] | None = Field(default=None, description="最多几条；不写则全部")
    return_documents: StrictBool = Field(default=True, description="结果里要不要原文")

    def texts(self) -> list[str]:
        """Raises InvalidField for a document without text."""
        return [_text(document, f"documents.{place}") for place, document in enumerate(self.documents)]


def _text(document: str | dict[str, Any], at: str) -> str:
    if isinstance(document, str):
        return document
    text = document.get("text")
    if not isinstance(text, str):
        lines = (f"{name}: {value}" for name, value in document.items() if isinstance(value, str | int | float))
        text = "\n".join(lines)
        if not text:
            raise InvalidField(at, "里面没有文字", hint="写成文字，或带 text 的对象")
    if len(text) > DOCUMENT_LIMIT:
        raise InvalidField(at, f"最多 {DOCUMENT_LIMIT} 个字符", hint="分成几段")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidField(at, "含有不成对的代理字符", hint="去掉它们") from None
    return text


class RerankV2Request(RerankRequest):
    """Cohere's second version, which returns no documents unless they are asked for."""

    return_documents: StrictBool = Field(default=False, description="结果里要不要原文")


class RerankDocument(BaseModel):
    text: str


class RerankResult(BaseModel):
    index: int = Field(description="在 documents 里的位置，从 0 起")
    relevance_score: float = Field(description="0–1", examples=[0.92])
    document: RerankDocument | None = Field(default=None, description="return_documents 为 false 时没有")


class RerankUsage(BaseModel):
    total_tokens: int = Field(description="问题与文字的词元数，估计值")


class ApiVersion(BaseModel):
    version: str = "1"


class RerankMeta(BaseModel):
    api_version: ApiVersion


class RerankResponse(BaseModel):
    id: str = Field(description="这次请求的 X-Trace-Id")
    model: str = Field(description="同请求里写的")
    results: list[RerankResult] = Field(description="分数高的在前；同分的按原来的先后")
    usage: RerankUsage
    meta: RerankMeta


@router.post("/v1/rerank", summary="重排", **returns(RerankResponse, 400, 404, 413, 422, form=RerankProblem))
async def rerank(
    request: Request,
    engine: TenantEngine,
    body: Annotated[RerankRequest, Body(openapi_examples=request_examples("rerank"))],
) -> Response:
    """Cohere 与 Jina 的形式；分数与检索时同一个模型给出的相同。"""
    return await _ranked(request, engine, body, "1")


@router.post(
    "/v2/rerank", summary="重排（Cohere v2）", **returns(RerankResponse, 400, 404, 413, 422, form=RerankProblem)
)
async def rerank_v2(
    request: Request,
    engine: TenantEngine,
    body: Annotated[RerankV2Request, Body(openapi_examples=request_examples("rerank"))],
) -> Response:
    """Cohere 的 ClientV2 的形式：与 `/v1/rerank` 相同，结果里默认没有原文。"""
    return await _ranked(request, engine, body, "2")


async def _ranked(request: Request, engine: Engine, body: RerankRequest, version: str) -> Response:
    async with recall_slot(request):
        texts = await asyncio.to_thread(body.texts)  # it may be megabytes, and must not block the event loop
        with blaming("model", ModelUnavailable, BadInput):  # not downloaded, disabled, of another type
            reranker = await find_reranker(engine, str(body.model))
        with blaming("model", *(() if reranker.is_remote else (ModelUnavailable,))):
            scores = await rerank_scores(engine, reranker, body.query, texts)
    best = sorted(range(len(texts)), key=lambda place: (-scores[place], place))[: body.top_n]
    results: list[dict[str, Any]] = [{"index": place, "relevance_score": scores[place]} for place in best]
    if body.return_documents:
        results = [{**result, "document": {"text": texts[result["index"]]}} for result in results]
    return json_response(
        {
            "id": trace_id(request),
            "model": str(body.model),
            "results": results,
            "usage": {"total_tokens": count_tokens((body.query, *texts))},
            "meta": {"api_version": {"version": version}},
        }
    )
