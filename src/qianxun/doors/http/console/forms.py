"""Forms: the token that each carries against forged requests, and their fields as the handlers read them.

The token is a digest of a secret cookie of the same browser: a foreign page can send a form, but knows neither. Routes
of `ConsoleRoute` check it before their handler runs; those of `UploadRoute`, whose form is read while it arrives, call
`check_token` themselves. A browser's word that the request comes from another site (``Sec-Fetch-Site``) counts as well.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import FormData

from qianxun.core.errors import BadInput, Forbidden

SESSION_COOKIE: Final = "qianxun_session"
VISIT_COOKIE: Final = "qianxun_visit"  # of a browser that has not signed in, or need not
TOKEN_FIELD: Final = "token"
TOKEN_HEADER: Final = "x-form-token"
SAFE: Final = ("GET", "HEAD")


def token_of(secret: str) -> str:
    """The token of forms in a browser whose cookie is ``secret``."""
    return sha256(f"qianxun form {secret}".encode()).hexdigest()


def browser_secret(request: Request) -> str:
    """The cookie that tokens are made of; "" for a browser that has none yet."""
    return request.cookies.get(SESSION_COOKIE, "") or request.cookies.get(VISIT_COOKIE, "")


def new_visit() -> str:
    return secrets.token_urlsafe(24)


def check_token(request: Request, fields: Mapping[str, Any]) -> None:
    """Raises Forbidden for a form that this browser was not given."""
    sent, secret = request.headers.get(TOKEN_HEADER) or fields.get(TOKEN_FIELD), browser_secret(request)
    if not (isinstance(sent, str) and secret and hmac.compare_digest(sent.encode(), token_of(secret).encode())):
        raise Forbidden("这张表单已失效，没有做任何改动", hint="回到上一页，刷新后再提交")


class ConsoleRoute(APIRoute):
    """A route of the console: what changes something, or costs something, is asked for by our own pages alone."""

    reads_form_itself = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_checked(request: Request) -> Response:
            if request.method not in SAFE:
                if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                    raise Forbidden("不接受别的网站发来的表单", hint="在控制台的页面上提交")
                if not self.reads_form_itself or TOKEN_HEADER in request.headers:
                    check_token(request, {} if TOKEN_HEADER in request.headers else await request.form())
            return await handle(request)

        return handle_checked


class UploadRoute(ConsoleRoute):
    """A route whose handler reads its form while that arrives, and calls `check_token` before it does anything."""

    reads_form_itself = True


class Fields:
    """The fields of a form or of an address, read as what they should be. Raises BadInput with the field's label."""

    def __init__(self, values: FormData | Mapping[str, Any]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        value = self._values.get(name)
        return value.strip() if isinstance(value, str) and value.strip() else default

    def raw(self, name: str) -> str:
        """As it was sent, with its white space."""
        value = self._values.get(name)
        return value if isinstance(value, str) else ""

    def all(self, name: str) -> list[str]:
        """Every value of a name: of checkboxes, of several choices."""
        values = self._values.getlist(name) if hasattr(self._values, "getlist") else [self._values.get(name)]
        return [value for value in values if isinstance(value, str) and value]

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "on", "true")

    def whole(self, name: str, label: str) -> int | None:
        """None where the field is empty."""
        text = self.text(name)
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise BadInput(f"{label}应为整数，不是 {text[:40]!r}", hint="改成数字再试") from None

    def number(self, name: str, label: str) -> float | None:
        """None where the field is empty."""
        text = self.text(name)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            raise BadInput(f"{label}应为数字，不是 {text[:40]!r}", hint="改成数字再试") from None


async def form(request: Request) -> Fields:
    """The fields of a submitted form; its token has been checked by `ConsoleRoute`."""
    return Fields(await request.form())


def query(request: Request) -> Fields:
    """The fields of an address."""
    return Fields(request.query_params)
