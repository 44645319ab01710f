"""Style sheet, scripts and icon: files of this package, each under an address that changes with its content."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from qianxun.doors.http.console.headers import HEADERS

FOLDER: Final = Path(__file__).parent / "static"
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
A_YEAR: Final = "public, max-age=31536000, immutable"

# htmx.org, as its registry publishes it; `tests/http/console` compares.
HTMX: Final = ("2.0.11", "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717")

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    zipped: bytes
    digest: str
    type: str


@cache
def assets() -> dict[str, Asset]:
    """By name."""
    found = {}
    for path in sorted(path for path in FOLDER.iterdir() if path.suffix in TYPES):
        content = path.read_bytes()
        zipped = gzip.compress(content, 9, mtime=0)
        found[path.name] = Asset(content, zipped, sha256(content).hexdigest()[:12], TYPES[path.suffix])
    return found


@router.get("/console/static/{name}")
async def asset(name: str, request: Request) -> Response:
    """What a browser holds of the version it asks for stays good; of another version it asks again."""
    found = assets().get(name)
    if found is None:
        raise HTTPException(404)
    is_named = request.query_params.get("v") == found.digest
    headers = {**HEADERS, "cache-control": A_YEAR if is_named else "no-cache", "vary": "accept-encoding"}
    takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
    if takes_gzip:
        headers["content-encoding"] = "gzip"
    content = found.zipped if takes_gzip else found.content
    return Response(content, headers=headers, media_type=f"{found.type}; charset=utf-8")
