"""OpenAI's list of models: the tenant's knowledge bases, which chat, and the models that embed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from qianxun.core.errors import NotFound
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.context import TenantEngine
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.openapi import returns
from qianxun.doors.http.responses import json_response
from qianxun.engine.models_by_name import card_name, embedding_names, no_such_model

TAG: Final = "OpenAI 兼容"
OWNER: Final = "qianxun"
NAME_LENGTH: Final = 255

router = APIRouter(prefix="/v1/models", tags=[TAG])


class Model(BaseModel):
    """一个可以写在 `model` 里的名称。"""

    id: str = Field(examples=["医保"])
    object: Literal["model"] = "model"
    created: int = Field(description="知识库建立的时间（Unix 秒）；嵌入模型为 0", examples=[1767225600])
    owned_by: str = Field(examples=[OWNER])
    kind: Literal["knowledge_base", "embedding"] = Field(
        description="knowledge_base 用于 /v1/chat/completions 与 /v1/embeddings；embedding 只用于后者"
    )
    knowledge_base_id: int | None = Field(description="知识库的编号", examples=[1001])


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


@router.get("", summary="列出知识库与嵌入模型", **returns(ModelList, form=OpenAIProblem))
async def list_models(engine: TenantEngine) -> Response:
    """知识库在前，用它的名称对话；其后是 `/v1/embeddings` 可用的模型。"""
    bases = [_base(base) for base in await engine.knowledge_bases()]
    names = {base["id"] for base in bases}
    models = [_model(name) for name in await embedding_names(engine) if name not in names]
    return json_response({"object": "list", "data": [*bases, *models]})


@router.get("/{model:path}", summary="查看一个知识库或嵌入模型", **returns(Model, 400, 404, 422, form=OpenAIProblem))
async def get_model(
    model: Annotated[str, Path(description="模型的 id", max_length=NAME_LENGTH, examples=["医保"])],
    engine: TenantEngine,
) -> Response:
    try:
        return json_response(_base(await engine.knowledge_base(model)))
    except NotFound:
        if (name := card_name(model)) in await embedding_names(engine):
            return json_response(_model(name))
        raise no_such_model(model) from None


def _base(base: KnowledgeBase) -> dict[str, Any]:
    created = int(datetime.fromisoformat(base.created_at).timestamp())
    return _model(base.name, "knowledge_base", created, base.id)


def _model(name: str, kind: str = "embedding", created: int = 0, base: int | None = None) -> dict[str, Any]:
    model = {"id": name, "object": "model", "created": created, "owned_by": OWNER}
    return {**model, "kind": kind, "knowledge_base_id": base}
