"""``/``: the console for browsers; for programs, what this is and where to go from here. Needs no key."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from qianxun.core.system.version import installed_version
from qianxun.doors.http.responses import success

router = APIRouter()

LINKS: Final = {
    "console": "/console/bench",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "healthz": "/healthz",
    "readyz": "/readyz",
}


@router.get("/", include_in_schema=False)
async def landing(request: Request) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return success({"name": "qianxun", "version": installed_version(), **LINKS})
    return await console()


@router.get("/console", include_in_schema=False)
async def console() -> Response:
    """The first page. The link is relative: a proxy may have put the service below a path."""
    return Response(status_code=303, headers={"location": LINKS["console"].removeprefix("/")})
