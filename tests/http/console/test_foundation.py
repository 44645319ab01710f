"""What every page of the console shares: who may see it, forged forms, headers, languages, files, errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from qianxun.doors.http.console import assets, render
from qianxun.doors.http.console.attempts import FROM_ONE_ADDRESS, IN_ALL, WITHIN_SECONDS, Attempts
from qianxun.doors.http.console.forms import SESSION_COOKIE, UploadRoute
from qianxun.doors.http.console.routes import PAGES
from qianxun.engine.admin.sessions import SESSION_SECONDS
from tests.http.console.browsing import Browser, browsing, new_browser, token_of
from tests.http.served import issue, revoke

BENCH = "/console/bench"


def run(folder: Path, story: Callable[[Browser], Awaitable[None]]) -> None:
    async def run_story() -> None:
        async with browsing(folder) as browser:
            await story(browser)

    asyncio.run(run_story())


def console_routes(browser: Browser) -> list[APIRoute]:
    def every(routes: list[object]) -> list[APIRoute]:
        found = [route for route in routes if isinstance(route, APIRoute)]
        for route in routes:
            inner = getattr(route, "original_router", None)
            if inner is not None:
                found += every(inner.routes)
        return found

    return [route for route in every(list(browser.service.app.router.routes)) if route.path.startswith("/console/")]


def test_the_root_leads_browsers_to_the_console_and_tells_programs_where_it_is(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        page = await browser.open("/")
        assert page.url.path == BENCH
        assert "检索台" in page.text
        told = (await browser.http.get("/", headers={"accept": "*/*"})).json()["data"]
        assert told["console"] == BENCH

    run(tmp_path, story)


def test_every_page_shows_and_is_reached_from_every_other(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        for page in PAGES:
            shown = await browser.open(page.path)
            assert shown.status_code == 200, (page.path, shown.text[:2000])
            assert [other.path for other in PAGES if f'console/{other.name}"' not in shown.text] == []
            english = await browser.open(page.path, lang="en")
            assert f"<h1>{page.title.en}" in english.text
            assert page.title.zh not in english.text.replace(">中文<", "")
            await browser.open(page.path, lang="zh")

    run(tmp_path, story)


def test_a_page_lets_in_nothing_from_elsewhere_and_nothing_inline(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        for path in (*(page.path for page in PAGES), "/console/none", "/console/static/console.css"):
            headers = (await browser.open(path)).headers
            policy = headers["content-security-policy"]
            assert "unsafe" not in policy
            assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"

    run(tmp_path, story)


@pytest.mark.parametrize("template", sorted(path.name for path in render.TEMPLATES.glob("*.html")))
def test_a_template_has_nothing_that_the_policy_forbids(template: str) -> None:
    text = (render.TEMPLATES / template).read_text("utf-8")
    assert not re.findall(r"<style|\sstyle=|\son[a-z]+=|hx-on|hx-vals=.js:|javascript:|https?://|\|\s*safe", text)
    assert not [tag for tag in re.findall(r"<script[^>]*>", text) if "src=" not in tag]


def test_htmx_is_the_file_that_was_published() -> None:
    content = (assets.FOLDER / "htmx.min.js").read_bytes()
    number, digest = assets.HTMX
    assert sha256(content).hexdigest() == digest
    assert f'version:"{number}"'.encode() in content


def test_files_are_compressed_and_cached_by_their_content(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        page = (await browser.open(BENCH)).text
        address = re.search(r'"\.\./console/(static/console\.css\?v=[0-9a-f]+)"', page)
        assert address is not None
        named = await browser.open(f"/console/{address[1]}")
        assert "immutable" in named.headers["cache-control"]
        assert named.headers["content-encoding"] == "gzip"
        assert named.content == (assets.FOLDER / "console.css").read_bytes()
        assert (await browser.open("/console/static/console.css")).headers["cache-control"] == "no-cache"
        for name in ("nothing.css", "..%2fassets.py", "%2e%2e/assets.py"):
            assert (await browser.open(f"/console/static/{name}")).status_code == 404

    run(tmp_path, story)


def test_an_error_is_a_page_that_says_what_to_do(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        missing = await browser.open("/console/none")
        assert missing.status_code == 404
        assert "没有这个地址" in missing.text
        assert "Not found" in (await browser.open("/console/none", lang="en")).text
        part = await browser.http.get("/console/none", headers={"hx-request": "true"})
        assert "<html" not in part.text

    run(tmp_path, story)


# ── forged forms ─────────────────────────────────────────────────────────────────────────────────


def test_no_form_is_taken_without_the_token_of_its_browser(tmp_path: Path) -> None:
    """Every route of the console that takes a form, whichever come to be."""

    async def story(browser: Browser) -> None:
        foreign = "0" * 64
        posts = [route for route in console_routes(browser) if route.methods & {"POST", "PUT", "DELETE"}]
        assert "/console/sign-in" in {route.path for route in posts}
        base = await browser.service.base()
        await browser.open(BENCH)
        for route in posts:
            address = re.sub(r"\{[^}]+\}", str(base), route.path)
            for fields in ({}, {"token": ""}, {"token": foreign}):
                if not isinstance(route, UploadRoute):
                    refused = await browser.http.post(address, data=fields)
                    assert refused.status_code == 403, (address, fields, refused.text[:500])
                upload = await browser.http.post(address, data=fields, files={"file": ("a.txt", b"a")})
                assert upload.status_code == 403, (address, fields, upload.text[:500])
        assert await browser.service.engine.documents(base) == []

    run(tmp_path, story)


def test_a_form_of_another_site_is_refused_even_with_a_token(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        issue(browser.service.engine)
        token = token_of((await browser.open("/console/sign-in")).text)
        sent = {"data": {"token": token, "key": "qx_"}}
        cross = await browser.http.post("/console/sign-in", **sent, headers={"sec-fetch-site": "cross-site"})
        assert cross.status_code == 403
        own = await browser.http.post("/console/sign-in", **sent, headers={"sec-fetch-site": "same-origin"})
        assert own.status_code == 401

    run(tmp_path, story)


# ── signing in ───────────────────────────────────────────────────────────────────────────────────


def test_without_keys_the_console_is_for_this_machine_alone(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        assert (await browser.open(BENCH)).status_code == 200
        assert (await browser.http.get(BENCH, headers={"host": "rebound.example"})).status_code == 403
        assert (await browser.open("/console/sign-in")).url.path == BENCH

    run(tmp_path, story)


def test_a_key_signs_in_and_its_revocation_signs_out_at_once(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        number, key = issue(browser.service.engine, "甲")
        wanted = await browser.open(BENCH, question="报销")
        assert wanted.url.path == "/console/sign-in"
        assert "jiǎ" not in wanted.text
        inside = await browser.http.post(
            "/console/sign-in",
            data={"token": token_of(wanted.text), "key": key, "next": "/console/bench?question=报销"},
        )
        assert inside.url.path == BENCH
        assert inside.url.params["question"] == "报销"
        assert "<b>甲</b>" in inside.text
        cookie = inside.history[0].headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", f"Max-Age={SESSION_SECONDS}"} <= set(cookie.split("; "))
        assert key not in cookie
        revoke(browser.service.engine, number)
        assert (await browser.open(BENCH)).url.path == "/console/sign-in"

    run(tmp_path, story)


def test_a_cookie_opens_pages_and_no_door(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        _, key = issue(browser.service.engine)
        await browser.sign_in(key)
        assert (await browser.open("/docs")).status_code == 200
        assert (await browser.open("/v1/knowledge-bases")).status_code == 401
        assert (await browser.http.post("/v1/knowledge-bases", json={"name": "甲"})).status_code == 401

    run(tmp_path, story)


def test_signing_out_ends_the_session_for_copies_of_its_cookie_too(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        _, key = issue(browser.service.engine)
        await browser.sign_in(key)
        copied = browser.http.cookies[SESSION_COOKIE]
        await browser.submit(BENCH, "/console/sign-out")
        assert SESSION_COOKIE not in browser.http.cookies
        async with new_browser(browser.service) as other:
            other.http.cookies.set(SESSION_COOKIE, copied, domain="127.0.0.1")
            assert (await other.open(BENCH)).url.path == "/console/sign-in"

    run(tmp_path, story)


def test_a_session_is_over_after_its_time_and_a_changed_cookie_is_none(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        sessions = browser.service.app.state.service.sessions
        _, key = issue(browser.service.engine)
        _, other = issue(browser.service.engine, "乙")
        session = await sessions.begin(key)
        assert (await sessions.resume(session.token)).holder.tenant == "local"
        number, rest = session.token.split(".", 1)
        for changed in (
            f"{int(number) + 1}.{rest}",
            session.token[:-1],
            session.token + "0",
            "",
            "1.2.3.4",
            "é",
            "9" * 99,
        ):
            assert await sessions.resume(changed) is None, changed
        sessions.clock = lambda: session.expires
        assert await sessions.resume(session.token) is None
        assert other

    run(tmp_path, story)


def test_attempts_to_sign_in_are_limited(tmp_path: Path) -> None:
    async def story(browser: Browser) -> None:
        _, key = issue(browser.service.engine)
        for _ in range(FROM_ONE_ADDRESS):
            assert (await browser.sign_in("qx_wrong")).status_code == 401
        refused = await browser.sign_in(key)
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= WITHIN_SECONDS
        browser.service.app.state.attempts.clock = lambda: 1e12
        assert (await browser.sign_in(key)).status_code == 200

    run(tmp_path, story)


def test_attempts_count_by_address_and_in_all() -> None:
    now = 0.0
    attempts = Attempts(lambda: now)
    for number in range(IN_ALL):
        assert attempts.wait_seconds(str(number)) == 0
        attempts.failed(str(number))
    assert attempts.wait_seconds("new") == WITHIN_SECONDS
    now = WITHIN_SECONDS
    assert attempts.wait_seconds("new") == 0


@pytest.mark.parametrize(
    "wanted",
    ["https://evil.example/", "//evil.example/", "/console/../v1", "/\\evil", "/console/sign-out", "javascript:1"],
)
def test_signing_in_leads_to_pages_of_the_console_alone(tmp_path: Path, wanted: str) -> None:
    async def story(browser: Browser) -> None:
        _, key = issue(browser.service.engine)
        token = token_of((await browser.open("/console/sign-in", next=wanted)).text)
        sent = {"token": token, "key": key, "next": wanted}
        answer = await browser.http.post("/console/sign-in", data=sent, follow_redirects=False)
        assert answer.headers["location"].startswith("../console/")

    run(tmp_path, story)
