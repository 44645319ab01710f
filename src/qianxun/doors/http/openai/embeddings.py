"""OpenAI's embeddings: the vectors that the engine itself makes of these texts."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from qianxun.core.types import Vectors
from qianxun.doors.http.context import TenantEngine, answer_slot
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.field_errors import InvalidField
from qianxun.doors.http.openai.models import NAME_LENGTH, TAG
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.request_models import ForeignRequest, Number
from qianxun.doors.http.responses import json_response
from qianxun.engine.models_by_name import count_tokens, embed_texts, find_embedding

TEXTS_LIMIT: Final = 2048  # as OpenAI has it
TEXT_LIMIT: Final = 32_000  # characters of one text
QUERY_TYPES: Final = ("query", "search_query")

router = APIRouter(tags=[TAG])


def _texts(value: Any) -> Any:
    """Refuses token ids: they are those of OpenAI's tokenizer, and would embed as other words."""
    if isinstance(value, list) and value and isinstance(value[0], int | list) and not isinstance(value[0], bool):
        raise PydanticCustomError("token_ids", "texts, not ids of tokens")
    return [value] if isinstance(value, str) else value


TEXT: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
TEXTS: Final[dict[str, Any]] = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": TEXTS_LIMIT}
Texts = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT)]],
    Field(min_length=1, max_length=TEXTS_LIMIT),
    BeforeValidator(_texts),
    WithJsonSchema({"anyOf": [TEXT, TEXTS]}),
]


class EmbeddingRequest(ForeignRequest):
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


class EmbeddingItem(BaseModel):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="单位向量；encoding_format 为 base64 时是一串字符")


class EmbeddingUsage(BaseModel):
    """估计的数目：中文每字一个。"""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    object: Literal["list"] = "list"
    data: list[EmbeddingItem]
    model: str = Field(description="实际使用的模型")
    usage: EmbeddingUsage


@router.post("/v1/embeddings", summary="文字变为向量", **returns(EmbeddingList, 400, 404, 413, 422, form=OpenAIProblem))
async def create(
    request: Request,
    engine: TenantEngine,
    body: Annotated[EmbeddingRequest, Body(openapi_examples=request_examples("embeddings"))],
) -> Response:
    """与引擎放入文档、检索时所用的向量相同。长过模型上限的文字按模型的办法截断。"""
    async with answer_slot(request):  # it may take as long as an answer, and must not keep searches waiting
        chosen = await find_embedding(engine, body.model)
        if body.dimensions not in (None, chosen.model.dimension):
            reason = f"模型 {chosen.name} 的维度是 {chosen.model.dimension}，不能改"
            raise InvalidField("dimensions", reason, hint="去掉这个字段")
        rows = await embed_texts(engine, chosen.model, body.input, as_query=body.input_type in QUERY_TYPES)
    used = count_tokens(body.input)
    items = [
        {"object": "embedding", "index": index, "embedding": embedding}
        for index, embedding in enumerate(_encoded(rows, body.encoding_format))
    ]
    usage = {"prompt_tokens": used, "total_tokens": used}
    return json_response({"object": "list", "data": items, "model": chosen.name, "usage": usage})


def _encoded(rows: Vectors, encoding: str) -> Iterable[Any]:
    if encoding == "base64":
        return [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in rows]
    return (row.tolist() for row in rows)
