"""Reranking in the form of Cohere and Jina: a query and passages in, the same passages in a better order out."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field, StrictBool

from qianxun.doors.http.context import MAX_ID, TenantEngine, recall_slot, trace_id
from qianxun.doors.http.error_formats import RerankProblem
from qianxun.doors.http.request_models import DOC_ID_LIMIT, AskedElsewhere, Number, QueryText
from qianxun.doors.http.rerank.models import chosen, scored
from qianxun.doors.http.responses import InvalidField, as_json, error_responses
from qianxun.text.tokens import tokens_of_all

DOCUMENTS_LIMIT: Final = 1000
DOCUMENT_LIMIT: Final = 32_000  # characters of one

# ── asked ────────────────────────────────────────────────────────────────────────────────────────

Passage = Annotated[str, Field(max_length=DOCUMENT_LIMIT)] | dict[str, Any]


class Reranking(AskedElsewhere):
    """Other fields of these protocols (rank_fields, max_chunks_per_doc …) mean nothing here."""

    model: Annotated[str, Field(max_length=DOC_ID_LIMIT)] | Annotated[int, Field(ge=1, le=MAX_ID, strict=True)] = Field(
        default="",
        description="maxsim、本地交叉编码器的名称、设置里的重排模型，或登记的模型的编号、名称",
        examples=["maxsim"],
    )
    query: QueryText
    documents: list[Passage] = Field(
        min_length=1,
        max_length=DOCUMENTS_LIMIT,
        description="文字，或带 text 的对象；没有 text 的对象，各字段逐行写出",
    )
    top_n: Annotated[int, Field(ge=1), Number] | None = Field(default=None, description="最多几条；不写则全部")
    return_documents: StrictBool = Field(default=True, description="结果里要不要原文")

    def texts(self) -> list[str]:
        """Raises InvalidField for what cannot be read."""
        return [_text(each, f"documents.{place}") for place, each in enumerate(self.documents)]


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


# ── answered ─────────────────────────────────────────────────────────────────────────────────────


class PassageTold(BaseModel):
    text: str


class RerankedTold(BaseModel):
    index: int = Field(description="在 documents 里的位置，从 0 起")
    relevance_score: float = Field(description="0–1", examples=[0.92])
    document: PassageTold | None = Field(default=None, description="return_documents 为 false 时没有")


class Usage(BaseModel):
    total_tokens: int = Field(description="问题与文字的词元数，估计值")


class Version(BaseModel):
    version: str = "1"


class Meta(BaseModel):
    api_version: Version


class Reranked(BaseModel):
    id: str = Field(description="这次请求的 X-Trace-Id")
    model: str = Field(description="同请求里写的")
    results: list[RerankedTold] = Field(description="分数高的在前；同分的按原来的先后")
    usage: Usage
    meta: Meta


EXAMPLES: Final[dict[str, Any]] = {
    "texts": {
        "summary": "按与问题的关系排序",
        "value": {
            "model": "maxsim",
            "query": "住院报销比例是多少",
            "documents": ["门诊报销需要发票原件。", "住院费用报销比例为85%。"],
            "top_n": 1,
            "return_documents": False,
        },
    },
    "objects": {
        "summary": "登记的模型，带 text 的对象",
        "value": {
            "model": "我的重排",
            "query": "住院报销比例是多少",
            "documents": [{"text": "住院费用报销比例为85%。"}, {"标题": "门诊", "内容": "需要发票原件。"}],
        },
    },
}

# ── the route ────────────────────────────────────────────────────────────────────────────────────


def routes() -> APIRouter:
    router = APIRouter(tags=["重排"])
    router.post(
        "/v1/rerank",
        summary="重排",
        response_model=Reranked,
        responses=error_responses(400, 404, 413, 422, form=RerankProblem),
    )(rerank)
    return router


async def rerank(
    request: Request, engine: TenantEngine, body: Annotated[Reranking, Body(openapi_examples=EXAMPLES)]
) -> Response:
    """Cohere 与 Jina 的形式；分数与检索时同一个模型给出的相同。"""
    async with recall_slot(request):
        texts = await asyncio.to_thread(body.texts)  # megabytes may be read here, and others want to be served
        scores = await scored(engine, await chosen(engine, str(body.model)), body.query, texts)
    best = sorted(range(len(texts)), key=lambda place: (-scores[place], place))[: body.top_n]
    return as_json(
        {
            "id": trace_id(request),
            "model": str(body.model),
            "results": [_result(place, scores[place], texts[place], body.return_documents) for place in best],
            "usage": {"total_tokens": tokens_of_all((body.query, *texts))},
            "meta": {"api_version": {"version": "1"}},
        }
    )


def _result(place: int, score: float, text: str, with_text: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"index": place, "relevance_score": score}
    return {**told, "document": {"text": text}} if with_text else told
