"""Errors as pages: what went wrong and what to do next; who has to sign in is led there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from starlette.types import Scope

from qianxun.doors.http.console.headers import HEADERS
from qianxun.doors.http.console.page import ROOT
from qianxun.doors.http.console.render import relative, render

SIGN_IN = f"{ROOT}/sign-in"


def is_for_page(scope: Scope) -> bool:
    """Returns True for an address of the console, whose errors people read; its scripts ask for JSON."""
    if not scope["path"].startswith(f"{ROOT}/"):
        return False
    accepted: bytes = dict(scope["headers"]).get(b"accept", b"")
    return not accepted.startswith(b"application/json")


def error_page(request: Request, content: Mapping[str, Any]) -> Response:
    """``content`` is the error in our own format (`error_formats.Problem`)."""
    status: int = content["code"]
    if status == 401:
        return _to_sign_in(request)
    template = "_error.html" if "hx-request" in request.headers else "error.html"
    message, _, hint = str(content["msg"]).partition("　")
    values = {"message": message, "hint": hint, "trace_id": content.get("trace_id", "")}
    return render(request, template, status, **values, code=status)


def _to_sign_in(request: Request) -> Response:
    """A page that was asked for is shown after signing in; a form is not sent again."""
    path, query = request.scope["path"], request.scope.get("query_string", b"").decode("latin-1")
    is_part = "hx-request" in request.headers
    wanted = path + (f"?{query}" if query else "") if request.method in ("GET", "HEAD") and not is_part else ""
    to = relative(request, SIGN_IN, next=wanted)
    if is_part:
        return Response(status_code=401, headers={**HEADERS, "hx-redirect": to})
    return Response(status_code=303, headers={**HEADERS, "location": to})
