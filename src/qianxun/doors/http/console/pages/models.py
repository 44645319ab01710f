"""模型: those that users registered, tried once, made the default. Their keys go in and never come out."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from qianxun.core.errors import BadInput
from qianxun.core.model_types import MODEL_TYPES, NewModel, check_key
from qianxun.doors.http.concurrency import cancelled_with_client
from qianxun.doors.http.console.forms import ConsoleRoute, Fields, form
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import TenantEngine, Writer, service_of
from qianxun.engine.models_by_name import check_base_url

PAGE: Final = Page(
    "models",
    Text("模型", "Models"),
    Text("登记、试一次、设为默认；密钥只写不读", "Register, try, make the default; keys are write-only"),
)
DEFAULT_USER: Final = "console"
EXAMPLE: Final = "https://api.example.com/v1"
TYPES: Final = {
    "embedding": Text("向量", "embedding"),
    "chat": Text("问答", "chat"),
    "qa": Text("出题", "questions"),
    "rewrite": Text("改写", "rewriting"),
    "rerank": Text("重排", "reranking"),
    "vision": Text("看图", "vision"),
}

router = APIRouter(route_class=ConsoleRoute)


@router.get(PAGE.path)
async def models_page(request: Request, engine: TenantEngine) -> Response:
    return await _page(request, engine, {})


async def _page(request: Request, engine: Any, tested: dict[str, Any]) -> Response:
    values: dict[str, Any] = {"models": await engine.registry.list(), "types": TYPES, "user": DEFAULT_USER}
    values |= {"own": engine.embeddings.offered(), "rerankers": engine.catalog.rerankers(), "tested": tested}
    values["example"] = EXAMPLE
    return render(request, "models.html", **values)


@router.post(PAGE.path, dependencies=[Writer])
async def register(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    kind = fields.text("model_type")
    if kind not in MODEL_TYPES:
        raise BadInput(f"没有模型类型 {kind[:40]!r}", hint=f"可用：{'、'.join(MODEL_TYPES)}")
    dimension = fields.whole("model_dim", "维度") or 0
    if kind == "embedding" and dimension < 1:
        raise BadInput("向量模型须给出维度", hint="例如 1024")
    check_base_url(engine, fields.text("base_url"))
    new = NewModel(
        config_name=fields.text("config_name") or fields.text("model_name"),
        base_url=fields.text("base_url"),
        model_name=fields.text("model_name"),
        model_type=kind,
        api_key=check_key(fields.raw("api_key")),
        model_dim=dimension,
        timeout=fields.whole("timeout", "超时") or 30,
        is_default=int(fields.flag("is_default")),
    )
    made = await engine.registry.add(fields.text("user_id", DEFAULT_USER), new)
    note = translate(request, f"登记了，在配置里写作 {made.ref}", f"Registered: {made.ref} in configurations")
    return redirect(request, PAGE.path, note)


def _which(fields: Fields) -> tuple[str, int]:
    return fields.raw("user_id"), fields.whole("id", "模型的编号") or 0


@router.post("/console/models/test", dependencies=[Writer])
async def test(request: Request, engine: TenantEngine) -> Response:
    user, number = _which(await form(request))
    async with cancelled_with_client(request, service_of(request).settings.service.request_seconds):
        trial = await engine.registry.test(user, number)
    return await _page(request, engine, {"id": number, "trial": trial})


@router.post("/console/models/change", dependencies=[Writer])
async def change(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    changes: dict[str, int] = {}
    if fields.flag("default"):
        changes["is_default"] = 1
    if fields.text("status"):
        changes["status"] = int(fields.flag("status"))
    await engine.registry.change(*_which(fields), changes)
    return redirect(request, PAGE.path, translate(request, "改好了", "Changed"))


@router.post("/console/models/delete", dependencies=[Writer])
async def remove(request: Request, engine: TenantEngine) -> Response:
    await engine.registry.remove(*_which(await form(request)))
    return redirect(request, PAGE.path, translate(request, "删去了", "Deleted"))
