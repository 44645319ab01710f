"""OpenAI's list of models: the tenant's knowledge bases, which chat, and the models that embed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.limits import NAME_LIMIT
from qianxun.core.model_types import is_ref
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import KnowledgeBase
from qianxun.core.unicode import storable
from qianxun.doors.http.context import TenantEngine
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.named_bases import find_base
from qianxun.doors.http.responses import as_json, error_responses
from qianxun.engine.engine import Engine
from qianxun.models import CARDS

TAG: Final = "OpenAI 兼容"
OWNER: Final = "qianxun"
LISTED: Final = "用 GET /v1/models 查看可用的"
NAME_LENGTH: Final = 255

ModelName = Annotated[str, Path(description="模型的 id", max_length=NAME_LENGTH, examples=["医保"])]


class ModelTold(BaseModel):
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
    data: list[ModelTold]


def routes() -> APIRouter:
    router = APIRouter(tags=[TAG])
    router.get(
        "/v1/models",
        summary="列出知识库与嵌入模型",
        response_model=ModelList,
        responses=error_responses(form=OpenAIProblem),
    )(listed)
    router.get(
        "/v1/models/{model:path}",
        summary="查看一个知识库或嵌入模型",
        response_model=ModelTold,
        responses=error_responses(400, 404, 422, form=OpenAIProblem),
    )(told)
    return router


async def listed(engine: TenantEngine) -> Response:
    """知识库在前，用它的名称对话；其后是 `/v1/embeddings` 可用的模型。"""
    bases = [_of_base(each) for each in await engine.knowledge_bases()]
    names = {each["id"] for each in bases}
    models = [_of_model(each) for each in await embedding_names(engine) if each not in names]
    return as_json({"object": "list", "data": [*bases, *models]})


async def told(model: ModelName, engine: TenantEngine) -> Response:
    try:
        return as_json(_of_base(await find_base(engine, model)))
    except NotFound:
        if (known := _card_name(model)) in await embedding_names(engine):
            return as_json(_of_model(known))
        raise _unknown(model) from None


async def embedding_names(engine: Engine) -> Sequence[str]:
    """What is at hand for everybody, then what users of this tenant registered and have not switched off."""
    registered = await engine.registry.list(model_type="embedding")
    offered = await asyncio.to_thread(engine.embeddings.offered)
    return (*offered, *(each.ref for each in registered if each.status))


@dataclass(frozen=True, slots=True)
class Embedder:
    """A model that embeds, and under which name it was asked for and answers."""

    name: str
    model: EmbeddingModel


async def embedder(engine: Engine, told: str) -> Embedder:
    """The embedding model of this name, or that of the base of this name or number. Raises NotFound or BadInput."""
    known = _card_name(told)
    if is_ref(known):
        chosen = known, await asyncio.to_thread(lambda: engine.registry.embedding(known).dimension)
    elif known in await asyncio.to_thread(engine.embeddings.offered):
        chosen = await asyncio.to_thread(engine.embeddings.choose, known, engine.registry)
    else:
        chosen = await _of_named_base(engine, told)
    model = engine.embeddings.get(*chosen, engine.registry)
    if model is None:
        raise BadInput(f"知识库“{told}”没有向量，只按词语检索", hint=LISTED)
    return Embedder(chosen[0], model)


async def _of_named_base(engine: Engine, told: str) -> tuple[str, int]:
    try:
        base = await find_base(engine, told)
    except NotFound:
        raise _unknown(told) from None
    return base.embedding_model, base.dimension


def _card_name(told: str) -> str:
    """A card may be called by its names on the model hubs, too: BAAI/bge-small-zh-v1.5."""
    return next((each.name for each in CARDS if told in each.aliases), told)


def _unknown(told: str) -> NotFound:
    return NotFound(f"没有名为“{storable(told)[:NAME_LIMIT]}”的知识库或嵌入模型", hint=LISTED)


def _of_base(base: KnowledgeBase) -> dict[str, Any]:
    created = int(datetime.fromisoformat(base.created_at).timestamp())
    return _written(base.name, "knowledge_base", created, base.id)


def _of_model(name: str) -> dict[str, Any]:
    return _written(name, "embedding")


def _written(name: str, kind: str, created: int = 0, base: int | None = None) -> dict[str, Any]:
    told = {"id": name, "object": "model", "created": created, "owned_by": OWNER}
    return {**told, "kind": kind, "knowledge_base_id": base}
