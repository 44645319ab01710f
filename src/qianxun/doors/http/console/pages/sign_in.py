"""Signing in with a key, and out. As long as there is no key nobody has to: the service is for this machine alone."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from qianxun.doors.http.console.attempts import Attempts
from qianxun.doors.http.console.forms import SESSION_COOKIE, VISIT_COOKIE, ConsoleRoute, form, query
from qianxun.doors.http.console.page import ROOT
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import service_of
from qianxun.doors.http.middleware.client_address import client_address, trust
from qianxun.engine.admin.sessions import SESSION_SECONDS

router = APIRouter(route_class=ConsoleRoute)

FIRST_PAGE: Final = f"{ROOT}/bench"


@router.get("/console/sign-in")
async def sign_in_page(request: Request) -> Response:
    if not await service_of(request).keys.was_any_created():
        return redirect(request, FIRST_PAGE)
    return _page(request, wanted=query(request).text("next"))


@router.post("/console/sign-in")
async def sign_in(request: Request) -> Response:
    service, fields = service_of(request), await form(request)
    attempts = _attempts(request)
    address = client_address(request.scope, trust(service.settings.service.trusted_proxies))
    wanted = fields.text("next")
    if seconds := attempts.wait_seconds(address):
        message = translate(request, f"试得太多了，{seconds} 秒后再试", f"Too many attempts; try again in {seconds} s")
        response = _page(request, message, wanted, 429)
        response.headers["retry-after"] = str(seconds)
        return response
    session = await service.sessions.begin(fields.text("key"))
    if session is None:
        attempts.failed(address)
        message = translate(request, "密钥无效或已吊销", "This key is not valid, or was revoked")
        return _page(request, message, wanted, 401)
    path, _, parameters = _own(wanted).partition("?")
    response = redirect(request, path)
    if parameters:
        response.headers["location"] += "?" + quote(parameters, safe="=&%+")
    # Browsers name the page that sends a form: with https, the cookie is for https alone.
    secure = request.headers.get("origin", "").startswith("https://") or request.scope["scheme"] == "https"
    response.set_cookie(
        SESSION_COOKIE, session.token, SESSION_SECONDS, path="/", secure=secure, httponly=True, samesite="strict"
    )
    response.delete_cookie(VISIT_COOKIE, path="/", httponly=True, samesite="strict")
    return response


@router.post("/console/sign-out")
async def sign_out(request: Request) -> Response:
    service_of(request).sessions.end(request.cookies.get(SESSION_COOKIE, ""))
    response = redirect(request, f"{ROOT}/sign-in")
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
    return response


def _page(request: Request, message: str = "", wanted: str = "", status: int = 200) -> Response:
    return render(request, "sign_in.html", status, message=message, wanted=_own(wanted))


def _own(wanted: str) -> str:
    """A page of the console to go on to: never another site, nor signing in again."""
    is_own = wanted.startswith(f"{ROOT}/") and not wanted.startswith(f"{ROOT}/sign-")
    return wanted if is_own and wanted.isprintable() and "\\" not in wanted else FIRST_PAGE


def _attempts(request: Request) -> Attempts:
    """Those of this application."""
    if not hasattr(request.app.state, "attempts"):
        request.app.state.attempts = Attempts()
    found: Attempts = request.app.state.attempts
    return found
