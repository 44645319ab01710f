"""The console asked in this process as a browser would ask it, cookies and form tokens included."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from tests.http.asking import Asking, asking

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')


@dataclass(frozen=True)
class Browser:
    """One browser: follows redirects, sends its cookies, and submits forms with the token of the page they are on."""

    service: Asking
    http: httpx.AsyncClient

    async def open(self, path: str, **parameters: Any) -> httpx.Response:
        return await self.http.get(path, params=parameters or None)

    async def submit(self, page: str, action: str, fields: Mapping[str, Any] | None = None) -> httpx.Response:
        """Sends a form of ``page``."""
        token = token_of((await self.open(page)).text)
        return await self.http.post(action, data={"token": token, **(fields or {})})

    async def sign_in(self, key: str) -> httpx.Response:
        return await self.submit("/console/sign-in", "/console/sign-in", {"key": key})


def token_of(page: str) -> str:
    found = TOKEN.search(page) or re.search(r'"X-Form-Token":"([0-9a-f]{64})"', unescape(page))
    assert found is not None, page[:2000]
    return found[1]


def text_of(page: str) -> str:
    """What a reader sees, roughly: without tags, in one line."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


@asynccontextmanager
async def new_browser(service: Asking) -> AsyncIterator[Browser]:
    transport = httpx.ASGITransport(service.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8000", headers=HTML, follow_redirects=True
    ) as http:
        yield Browser(service, http)


@asynccontextmanager
async def browsing(folder: Path, told: Mapping[str, Any] | None = None) -> AsyncIterator[Browser]:
    """``told`` are settings by their dotted names."""
    async with asking(folder, told) as service, new_browser(service) as browser:
        yield browser
