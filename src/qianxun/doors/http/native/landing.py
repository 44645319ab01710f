"""``/``: what this is, and where to go from here. Needs no key, and tells nothing that does."""

from __future__ import annotations

from html import escape
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from qianxun.doors.http.responses import success

router = APIRouter()

LINKS: Final = {"docs": "/docs", "openapi": "/openapi.json", "healthz": "/healthz", "readyz": "/readyz"}
LABELS: Final = {"docs": "接口说明", "openapi": "接口说明（机器可读）", "healthz": "进程活着", "readyz": "可以接受请求"}
PAGE: Final = """<!doctype html>
<html lang="zh"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>千寻 Qianxun</title>
<h1>千寻 Qianxun {version}</h1>
<p>中文优先的 RAG 召回服务。签发过密钥的，接口说明也要密钥：<code>Authorization: Bearer qx_…</code></p>
<ul>{links}</ul></html>
"""


@router.get("/", include_in_schema=False)
async def landing(request: Request) -> Response:
    """A page for browsers, JSON for others. Its links are relative: a proxy may have put the service below a path."""
    if "text/html" not in request.headers.get("accept", ""):
        return success({"name": "qianxun", "version": version("qianxun"), **LINKS})
    links = "".join(f'<li><a href=".{path}">{escape(LABELS[name])}</a></li>' for name, path in LINKS.items())
    headers = {"content-security-policy": "default-src 'none'"}
    return HTMLResponse(PAGE.format(version=escape(version("qianxun")), links=links), headers=headers)
