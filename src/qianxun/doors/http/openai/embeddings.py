"""OpenAI's embeddings: the vectors that the engine itself would make of these texts."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from qianxun.core.model_types import is_ref
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vectors
from qianxun.doors.http.context import TenantEngine, answer_slot
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.openai.models import NAME_LENGTH, TAG, embedder
from qianxun.doors.http.request_models import AskedElsewhere, Number
from qianxun.doors.http.responses import InvalidField, as_json, error_responses
from qianxun.engine.engine import Engine
from qianxun.models.checks import unit_rows
from qianxun.models.embedding import EMBED_SLICE, embed
from qianxun.text.tokens import tokens_of_all

TEXTS_LIMIT: Final = 2048  # as OpenAI has it
TEXT_LIMIT: Final = 32_000  # characters of one text
QUERYING: Final = ("query", "search_query")


def _texts(value: Any) -> Any:
    """Ids of tokens are those of one tokenizer, which is not that of our models: they would embed as other words."""
    if isinstance(value, list) and value and isinstance(value[0], int | list) and not isinstance(value[0], bool):
        raise PydanticCustomError("token_ids", "texts, not ids of tokens")
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT)]
TEXT: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
TEXTS: Final[dict[str, Any]] = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": TEXTS_LIMIT}
Texts = Annotated[
    list[Text],
    Field(min_length=1, max_length=TEXTS_LIMIT),
    BeforeValidator(_texts),
    WithJsonSchema({"anyOf": [TEXT, TEXTS]}),
]


class EmbeddingRequest(AskedElsewhere):
    model: str = Field(
        min_length=1,
        max_length=NAME_LENGTH,
        description="嵌入模型的名称，见 GET /v1/models；或知识库的名称、编号，即它的模型",
        examples=["bge-small-zh-v1.5"],
    )
    input: Texts = Field(description="一段文字，或文字的列表；不接受 token 编号", examples=[["住院报销比例"]])
    encoding_format: Literal["float", "base64"] = Field(default="float", description="base64：小端 float32")
    dimensions: Annotated[int, Field(ge=1), Number] | None = Field(
        default=None, description="只能等于模型自己的维度；不写就是它"
    )
    input_type: Literal["query", "document", "search_query", "search_document", "passage"] = Field(
        default="document", description="query：作为问题，用模型为问题准备的前缀；默认作为文档"
    )


class EmbeddingTold(BaseModel):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="单位向量；encoding_format 为 base64 时是一串字符")


class EmbeddingUsage(BaseModel):
    """估计的数目：中文每字一个。"""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    object: Literal["list"] = "list"
    data: list[EmbeddingTold]
    model: str = Field(description="实际使用的模型")
    usage: EmbeddingUsage


EXAMPLES: Final[dict[str, Any]] = {
    "texts": {"summary": "用知识库的模型", "value": {"model": "医保", "input": ["住院报销比例", "门诊报销材料"]}},
    "query": {
        "summary": "一个问题，base64",
        "value": {
            "model": "bge-small-zh-v1.5",
            "input": "住院报销多少",
            "encoding_format": "base64",
            "input_type": "query",
        },
    },
}


def routes() -> APIRouter:
    router = APIRouter(tags=[TAG])
    router.post(
        "/v1/embeddings",
        summary="文字变为向量",
        response_model=EmbeddingList,
        responses=error_responses(400, 404, 413, 422, form=OpenAIProblem),
    )(create)
    return router


async def create(
    request: Request, engine: TenantEngine, body: Annotated[EmbeddingRequest, Body(openapi_examples=EXAMPLES)]
) -> Response:
    """与引擎放入文档、检索时所用的向量相同。长过模型上限的文字按模型的办法截断。"""
    async with answer_slot(request):  # which may take as long as an answer, and keeps no search waiting
        chosen = await embedder(engine, body.model)
        if body.dimensions not in (None, chosen.model.dimension):
            reason = f"模型 {chosen.name} 的维度是 {chosen.model.dimension}，不能改"
            raise InvalidField("dimensions", reason, hint="去掉这个字段")
        rows = await _embedded(engine, chosen.model, body.input, as_query=body.input_type in QUERYING)
    return as_json(_written(rows, chosen.name, body))


async def _embedded(engine: Engine, model: EmbeddingModel, texts: Sequence[str], *, as_query: bool) -> Vectors:
    """In threads of their own, so that no search waits for them; slice by slice, so that who leaves ends it soon."""
    lane = engine.model_threads.lane("texts", repr((engine.tenant, model.name)) if is_ref(model.name) else "")
    work = _of_queries if as_query else embed
    loop = asyncio.get_running_loop()
    slices = [texts[start : start + EMBED_SLICE] for start in range(0, len(texts), EMBED_SLICE)]
    return np.concatenate([await loop.run_in_executor(lane, work, part, model) for part in slices])


def _of_queries(texts: Sequence[str], model: EmbeddingModel) -> Vectors:
    rows = np.stack([np.asarray(model.embed_query(text)) for text in texts])
    return unit_rows(rows, len(texts), model.dimension, model.name)


def _written(rows: Vectors, model: str, body: EmbeddingRequest) -> dict[str, Any]:
    used = tokens_of_all(body.input)
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": at, "embedding": _row(row, body.encoding_format)}
            for at, row in enumerate(rows)
        ],
        "model": model,
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def _row(row: np.ndarray[Any, np.dtype[np.float32]], encoding: str) -> list[float] | str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") if encoding == "base64" else row.tolist()
