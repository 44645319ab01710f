"""密钥与租户: the keys of a tenant, issued, shown once, and revoked; on this machine those of all tenants."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from qianxun.core.errors import BadInput, NotFound
from qianxun.doors.http.console.forms import ConsoleRoute, form
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import TenantEngine, Writer
from qianxun.engine.admin.keys import KeyRow, Scope, issue_key, list_keys, revoke_key
from qianxun.engine.engine import Engine

PAGE: Final = Page(
    "keys",
    Text("密钥与租户", "Keys"),
    Text("谁能用这个服务，能读还是能写", "Who may use this service, to read or to write"),
    needs_write=True,
)

SCOPES: Final[dict[str, Scope]] = {"read": "read", "write": "write"}

router = APIRouter(route_class=ConsoleRoute)


def _sees_all(request: Request) -> bool:
    """Without any key the service is for this machine alone, and whoever is there runs it."""
    return request.state.key_id is None


async def _keys(request: Request, engine: Engine) -> list[KeyRow]:
    found = await asyncio.to_thread(list_keys, engine.settings)
    return [key for key in found if _sees_all(request) or key.tenant == engine.tenant]


@router.get(PAGE.path, dependencies=[Writer])
async def keys_page(request: Request, engine: TenantEngine) -> Response:
    return await _page(request, engine)


async def _page(request: Request, engine: Engine, issued: str = "", row: KeyRow | None = None) -> Response:
    values: dict[str, Any] = {"keys": await _keys(request, engine), "sees_all": _sees_all(request)}
    return render(request, "keys.html", issued=issued, row=row, own=request.state.key_id, **values)


@router.post(PAGE.path, dependencies=[Writer])
async def issue(request: Request, engine: TenantEngine) -> Response:
    """The key is in this response and nowhere else."""
    fields = await form(request)
    scope = SCOPES.get(fields.text("scope"))
    if scope is None:
        raise BadInput(f"权限 {fields.text('scope')[:20]!r} 不对", hint="read 或 write")
    tenant = fields.text("tenant", engine.tenant) if _sees_all(request) else engine.tenant
    row, key = await asyncio.to_thread(issue_key, engine.settings, tenant, scope, fields.text("name"))
    return await _page(request, engine, key, row)


@router.post("/console/keys/revoke", dependencies=[Writer])
async def revoke(request: Request, engine: TenantEngine) -> Response:
    """Sessions that were signed in with it end at once."""
    number = (await form(request)).whole("id", "密钥的编号") or 0
    if number not in {key.id for key in await _keys(request, engine)}:
        raise NotFound(f"没有编号为 {number} 的密钥", hint="从列表里选")
    await asyncio.to_thread(revoke_key, engine.settings, number)
    return redirect(request, PAGE.path, translate(request, "吊销了，立刻失效", "Revoked, with effect at once"))
