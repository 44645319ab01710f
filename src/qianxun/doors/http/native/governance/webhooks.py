"""Webhooks: addresses that are told of events."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Response
from pydantic import ConfigDict, Field

from qianxun.core.codec.wire import to_wire
from qianxun.core.governance.webhooks import Delivery, Webhook
from qianxun.core.limits import MAX_ID
from qianxun.doors.http.context import TenantEngine, Writer
from qianxun.doors.http.native.routes import Deleted, route
from qianxun.doors.http.request_models import RequestModel
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import success

router = APIRouter(prefix="/v1/webhooks", tags=["通知"], dependencies=[Writer])

Event = Literal["document.indexed", "document.failed", "document.deleted", "search.zero_results", "search.feedback"]
WebhookId = Annotated[int, Path(ge=1, le=MAX_ID, description="通知地址的编号", examples=[1])]
WebhookInfo: Final = response("WebhookInfo", Webhook, created_at=str)
WebhookList: Final = response("WebhookList", list=listed(WebhookInfo))
NewWebhookInfo: Final = response("NewWebhookInfo", Webhook, created_at=str, secret=str)
DeliveryInfo: Final = response("DeliveryInfo", Delivery, created_at=str, next_at=str)
DeliveryList: Final = response("DeliveryList", list=listed(DeliveryInfo))
TestResult: Final = response("TestResult", arrived=bool, reason=str)


class NewWebhook(RequestModel):
    """An address to tell of events."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.com/hook", "events": ["document.failed"]}]}
    )

    url: str = Field(min_length=8, max_length=2000, description="公网的 http(s) 地址，或 outbound.allow 里的")
    events: list[Event] = Field(min_length=1, max_length=5, description="通知哪些事")
    knowledge_base_id: int = Field(default=0, ge=0, le=MAX_ID, description="只通知这个知识库的；0 为全部")


@router.post("", status_code=201, **route("登记一个通知地址", NewWebhookInfo, 400, 404, 413, 422, 507))
async def add(engine: TenantEngine, body: NewWebhook) -> Response:
    """`secret` 只显示这一次。请求头 `X-Qianxun-Signature: t=时刻,v1=十六进制` 是对“时刻.请求体”的 HMAC-SHA256。"""
    made, secret = await engine.governance.webhooks.add(body.url, body.events, knowledge_base=body.knowledge_base_id)
    return success({**to_wire(made), "secret": secret}, 201)


@router.get("", **route("列出通知地址", WebhookList))
async def list_webhooks(engine: TenantEngine) -> Response:
    return success({"list": to_wire(await engine.governance.webhooks.list())})


@router.delete("/{webhook_id}", **route("删去一个通知地址", Deleted, 404, 422, 507))
async def remove(engine: TenantEngine, webhook_id: WebhookId) -> Response:
    await engine.governance.webhooks.remove(webhook_id)
    return success({"deleted": True})


@router.post("/{webhook_id}/test", **route("发一个试验的事件", TestResult, 404, 422, 507))
async def test(engine: TenantEngine, webhook_id: WebhookId) -> Response:
    reason = await engine.governance.webhooks.test(webhook_id)
    return success({"arrived": not reason, "reason": reason})


@router.get("/{webhook_id}/deliveries", **route("在途的与放弃了的", DeliveryList, 404, 422))
async def deliveries(engine: TenantEngine, webhook_id: WebhookId) -> Response:
    """新的在前；送到了的不再列出，放弃了的列一周。"""
    found: Any = await engine.governance.webhooks.deliveries(webhook_id, limit=100)
    return success({"list": to_wire(found)})
