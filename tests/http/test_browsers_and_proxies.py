"""Web pages of other origins, proxies in between, and what whoever opens the address in a browser sees."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from qianxun.core.errors import BadSettings
from qianxun.doors.http.middleware.client_address import client_address, trust
from tests.http.asking import asking
from tests.http.served import BASES, issue

PAGE = "https://app.example.com"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),  # anybody can write that
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.2.3.4, 198.51.100.1"], "198.51.100.1"),  # the first was sent by the client
        ("10.0.0.1", ["198.51.100.1, 10.0.0.2"], "198.51.100.1"),  # two proxies
        ("10.0.0.1", ["198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["<script>"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3"], "10.0.0.3"),
        ("::ffff:10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
    ],
)
def test_the_client_is_the_last_that_no_trusted_proxy_is(peer: str, forwarded: Sequence[str], client: str) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    assert client_address({"client": (peer, 1), "headers": headers}, trust(["10.0.0.0/8"])) == client


def test_what_is_no_address_is_refused_as_a_proxy() -> None:
    with pytest.raises(BadSettings, match="trusted_proxies"):
        trust(["代理"])


def test_the_log_names_the_client_behind_the_proxy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with asking(tmp_path, {"service.trusted_proxies": "127.0.0.1"}) as asked:
            await asked.http.get("/healthz", headers={"x-forwarded-for": "198.51.100.1"})

    with caplog.at_level(logging.INFO, "qianxun.doors.http.requests"):
        asyncio.run(story())
    (line,) = [record for record in caplog.records if record.getMessage() == "request"]
    assert line.about["client"] == "198.51.100.1"  # type: ignore[attr-defined]


def test_pages_of_the_set_origins_may_call_with_a_key_and_no_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path, {"service.cors_origins": PAGE}) as asked:
            _, key = issue(asked.engine)
            mine, other = {"origin": PAGE}, {"origin": "https://evil.example"}
            allowed = await asked.http.options(BASES, headers={**mine, **PREFLIGHT})
            assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
            assert (await asked.http.options(BASES, headers={**other, **PREFLIGHT})).status_code == 400
            client_headers = {"access-control-request-headers": "authorization,x-stainless-lang,x-principal"}
            by_client = await asked.http.options(BASES, headers={**mine, **PREFLIGHT, **client_headers})
            assert (by_client.status_code, by_client.headers.get("access-control-allow-credentials")) == (200, None)
            listed = await asked.http.get(BASES, headers={**mine, "authorization": f"Bearer {key}"})
            assert (listed.status_code, listed.headers["access-control-allow-origin"]) == (200, PAGE)
            refused = await asked.http.get(BASES, headers=mine)  # a page may read why
            assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)
            foreign = await asked.http.get(BASES, headers={**other, "authorization": f"Bearer {key}"})
            assert "access-control-allow-origin" not in foreign.headers

    asyncio.run(story())


@pytest.mark.parametrize(("origins", "status"), [(PAGE, 200), ("*", 403), ("", 403)])
def test_without_keys_a_page_has_to_be_named(tmp_path: Path, origins: str, status: int) -> None:
    async def story() -> None:
        async with asking(tmp_path, {"service.cors_origins": origins} if origins else {}) as asked:
            assert (await asked.http.get(BASES, headers={"origin": PAGE})).status_code == status
            preflight = await asked.http.options(BASES, headers={"origin": PAGE, **PREFLIGHT})
            assert ("access-control-allow-origin" in preflight.headers) == bool(origins)

    asyncio.run(story())


def test_the_root_says_what_this_is_and_where_to_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as asked:
            issue(asked.engine)
            told = (await asked.http.get("/")).json()["data"]
            assert told["name"] == "qianxun"
            assert {told["docs"], told["healthz"]} == {"/docs", "/healthz"}
            page = await asked.http.get("/", headers={"accept": "text/html,*/*;q=0.8"})
            assert (page.status_code, page.headers["location"]) == (303, "console/bench")
            assert (await asked.http.get("/console")).headers["location"] == "console/bench"

    asyncio.run(story())
