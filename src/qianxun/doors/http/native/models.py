"""The registry of users' models. API keys are write-only: responses show a mask."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_type_hints

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, ConfigDict, Field, SecretStr, create_model
from pydantic_core import PydanticCustomError

from qianxun.core.codec.wire import to_wire, written_model
from qianxun.core.errors import BadInput
from qianxun.core.limits import API_KEY_LIMIT, MAX_ID
from qianxun.core.model_types import ModelTest, NewModel, UserModel, check_key
from qianxun.doors.http.concurrency import cancelled_with_client
from qianxun.doors.http.context import TenantEngine, service_of
from qianxun.doors.http.field_errors import InvalidField, blaming
from qianxun.doors.http.native.routes import Deleted, body_examples, write_route
from qianxun.doors.http.openapi import returns
from qianxun.doors.http.request_models import Number, RequestModel
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import Envelope, success
from qianxun.engine.models_by_name import check_base_url

ModelType = Literal["embedding", "chat", "qa", "rewrite", "rerank", "vision"]
ModelId = Annotated[int, Path(description="模型的编号", ge=1, le=MAX_ID, examples=[17])]

router = APIRouter(prefix="/user/api/{user_id}", tags=["模型"])


def _check_visible(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise PydanticCustomError("visible", "must be of visible characters, without blanks at its ends")
    return text


UserId = Annotated[
    str, Path(description="用户的编号", min_length=1, max_length=128, examples=["7"]), AfterValidator(_check_visible)
]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S"), AfterValidator(_check_visible)]
Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2048,
        description="服务的地址，连同版本；须为公网地址，或管理员在 outbound.allow 里准许的地址",
        examples=["https://api.example.com/v1"],
    ),
]
Key = Annotated[SecretStr, Field(max_length=API_KEY_LIMIT, description="只写：加密保存，答复里只有掩码")]
Dimension = Annotated[int, Field(ge=0, le=65_536, description="向量的维度；embedding 必填"), Number]
Tokens = Annotated[int, Field(ge=0, le=10_000_000, description="回复的上限；0 为不限"), Number]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False), Number]
TopP = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), Number]
Timeout = Annotated[int, Field(ge=1, le=600, description="秒"), Number]
Switch = Annotated[int, Field(ge=0, le=1), Number]

DIMENSION_REQUIRED: Final[dict[str, Any]] = {
    "if": {"properties": {"model_type": {"const": "embedding"}}},
    "then": {"properties": {"model_dim": {"minimum": 1}}, "required": ["model_dim"]},
}


class ModelRegistration(RequestModel):
    model_config = ConfigDict(protected_namespaces=(), json_schema_extra=DIMENSION_REQUIRED)

    config_name: Name = Field(examples=["我的嵌入模型"])
    base_url: Url
    model_name: Name = Field(examples=["bge-m3"])
    model_type: ModelType
    api_key: Key | None = None
    model_dim: Dimension = 0
    max_tokens: Tokens = 0
    temperature: Temperature = 0.0
    top_p: TopP = 1.0
    timeout: Timeout = 30
    status: Switch = Field(default=1, description="1 启用，0 停用")
    is_default: Switch = Field(default=0, description="1 为这个用户这一类型的默认；每类至多一个")


_OPTIONAL: Final[dict[str, Any]] = {
    name: (kind | None, None)
    for name, kind in get_type_hints(ModelRegistration, include_extras=True).items()
    if name in ModelRegistration.model_fields and name != "model_type"
}


class ModelChanges(create_model("ModelChanges", **_OPTIONAL)):  # type: ignore[misc]
    """只写要改的；类型不能改。改 base_url 时须同时给出 api_key。"""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


ModelInfo: Final = response("ModelInfo", UserModel, user_id=int | str, model_type=ModelType)
UserModels: Final = response("UserModels", total=int, list=listed(ModelInfo))


class ModelList(Envelope[UserModels]):  # type: ignore[valid-type]  # made at run time
    """Also without the envelope: ``total`` and ``list`` beside ``data``."""

    total: int
    list: listed(ModelInfo)  # type: ignore[valid-type]


@router.get("/{model_type}", summary="一个用户某一类型的模型", **returns(ModelList, 422))
async def list_models(engine: TenantEngine, user_id: UserId, model_type: ModelType) -> Response:
    """`api_key` 是掩码，真正的密钥不会出现在任何答复里。"""
    models = await engine.registry.list(user_id, model_type)
    found: dict[str, Any] = {"total": len(models), "list": [written_model(model) for model in models]}
    return success(found, **found)


@router.post("", **write_route("登记模型", ModelInfo, 400, 413, 422, 507, status=201))
async def register(
    engine: TenantEngine, user_id: UserId, body: Annotated[ModelRegistration, body_examples("new_model")]
) -> Response:
    """之后凡是写模型名的地方，写 `user-model:<id>` 就是它；检索的 `rerank_model_id` 直接写编号。"""
    if body.model_type == "embedding" and not body.model_dim:
        raise InvalidField("model_dim", "嵌入模型须给出维度", hint="例如 1024")
    with blaming("base_url", BadInput):
        check_base_url(engine, body.base_url)
    new = NewModel(**body.model_dump(exclude={"api_key"}), api_key=_checked_key(body.api_key))
    return success(written_model(await engine.registry.add(user_id, new)), 201)


@router.patch("/{id}", **write_route("修改模型", ModelInfo, 400, 404, 413, 422, 507))
async def change(
    engine: TenantEngine, user_id: UserId, id: ModelId, body: Annotated[ModelChanges, body_examples("model_changes")]
) -> Response:
    """下一次请求就按改过的来。"""
    changes = body.model_dump(exclude={"api_key"}, exclude_none=True)
    if body.base_url is not None:
        with blaming("base_url", BadInput):
            check_base_url(engine, body.base_url)
    if body.api_key is not None:
        changes["api_key"] = _checked_key(body.api_key)
    registry = engine.registry
    model = await (registry.change(user_id, id, changes) if changes else registry.get(user_id, id))
    return success(written_model(model))


@router.delete("/{id}", **write_route("删去模型", Deleted, 404, 422, 507))
async def remove(engine: TenantEngine, user_id: UserId, id: ModelId) -> Response:
    """用它的知识库照常检索，但少了它这一路，`degraded` 会说明。"""
    await engine.registry.remove(user_id, id)
    return success({"deleted": True})


@router.post("/{id}/test", **write_route("试一次模型", ModelTest, 404, 422))
async def test(request: Request, engine: TenantEngine, user_id: UserId, id: ModelId) -> Response:
    """向它的服务发一次请求；密钥不对、维度不对、超时、连不上，都在 `reason` 里说明。"""
    async with cancelled_with_client(request, service_of(request).settings.service.request_seconds):
        trial = await engine.registry.test(user_id, id)
    return success(to_wire(trial))


def _checked_key(key: SecretStr | None) -> str:
    with blaming("api_key", BadInput):
        return check_key(key.get_secret_value()) if key is not None else ""
