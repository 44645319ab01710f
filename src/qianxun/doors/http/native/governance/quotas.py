"""What the tenant may have and do at most. Set by who runs the service, on its own machine."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field

from qianxun.core.codec.wire import to_wire
from qianxun.core.errors import Forbidden
from qianxun.core.governance.quotas import LARGEST, Quota, QuotaUse
from qianxun.doors.http.context import TenantEngine
from qianxun.doors.http.native.routes import route, write_route
from qianxun.doors.http.request_models import RequestModel
from qianxun.doors.http.response_models import of
from qianxun.doors.http.responses import success

router = APIRouter(tags=["配额"])

Limit = Annotated[int, Field(ge=0, le=LARGEST)]
QuotaInfo: Final = of(QuotaUse)
TenantName = Annotated[str, Path(min_length=1, max_length=64, description="租户", examples=["acme"])]


class NewQuota(RequestModel):
    """Limits; what is left out or null has none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"documents": 100000, "searches_per_minute": 6000}]})

    documents: Limit | None = Field(default=None, description="文档数")
    chunks: Limit | None = Field(default=None, description="块数：达到之后不再收文档")
    bytes: Limit | None = Field(default=None, description="正文的字节数（UTF-8）")
    searches_per_minute: Limit | None = Field(default=None, description="每分钟检索与提问的次数")


@router.get("/v1/quota", **route("这个租户的配额与用量", QuotaInfo))
async def get(engine: TenantEngine) -> Response:
    return success(to_wire(await engine.governance.quotas.get()))


@router.put("/v1/quotas/{tenant}", **write_route("设置一个租户的配额", QuotaInfo, 400, 413, 422, 507))
async def put(engine: TenantEngine, request: Request, tenant: TenantName, body: NewQuota) -> Response:
    """只有在本机、还没有密钥时可以；有了密钥之后用 `qianxun quotas set`：租户不能改自己的配额。"""
    if request.state.key_id is not None:
        raise Forbidden("密钥不能改配额", hint="在服务所在的机器上运行 qianxun quotas set")
    return success(to_wire(await engine.of(tenant).governance.quotas.set(Quota(**body.model_dump()))))
