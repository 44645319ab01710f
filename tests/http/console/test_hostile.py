"""Texts, names and questions that would be markup or script: nothing of them runs, and no page breaks."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from qianxun.core.types import Document, QAPair
from tests.http.console.chrome import Running, Visit, needs_browser, running, visiting

pytestmark = needs_browser

RUN = "globalThis.__ran=(globalThis.__ran||0)+1"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror="{RUN}">',
    f"'><svg onload='{RUN}'>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f'<a href="javascript:{RUN}">点我</a>',
    f"javascript:{RUN}",
    f"[点我](javascript:{RUN})",
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f"<details open ontoggle={RUN}>",
    f'<input autofocus onfocus="{RUN}">',
    f'<form action="javascript:{RUN}"><button>甲</button></form>',
    f"<style>@import 'javascript:{RUN}'</style><b style=\"position:fixed;inset:0\">",
    '<base href="https://evil.example/">',
    '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
    '<link rel="stylesheet" href="https://evil.example/a.css">',
    f"{{{{ {RUN} }}}}{{% raw %}}${{{RUN}}}",
    f"<div hx-get=/console/bases hx-trigger=load hx-on::load='{RUN}'>",
    f"\u202e<b onmouseover={RUN}>gnp.exe\u202c\u2066",
    f"--><!--<body onload={RUN}>]]>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;&#x3c;img src=x onerror={RUN}&#x3e;",
    f"<math><mtext><table><mglyph><style><img src onerror={RUN}>",
    f"data:text/html,<script>{RUN}</script>\x1b[31m\u2028",
)
PLACES = ("name", "text", "metadata", "tags", "heading", "cell", "question", "long")
ALL = tuple(product(range(len(PAYLOADS)), PLACES))  # 200
SOME = ALL[::25]  # every place, with a payload of its own


def hostile(number: int, payload: str, place: str) -> Document:
    """A document with the payload in one place."""
    content = "普通的正文。"
    if place == "text":
        content = f"正文 {payload} 之后。"
    elif place == "heading":
        content = f"# {payload}\n\n正文。\n\n## {payload}\n\n更多。"
    elif place == "cell":
        cell = payload.replace("|", "/").replace("\n", " ")
        content = f"| {cell} | 值 |\n| --- | --- |\n| {cell} | {cell} |\n"
    elif place == "long":
        content = payload + "长" * (1_000_000 if number % 40 == 7 else 20_000) + payload  # every fifth of them
    return Document(
        f"d{number}",
        content,
        name=payload[:500] if place == "name" else f"文档 {number}",
        format="markdown" if place in ("heading", "cell") else "text",
        metadata={payload: payload} if place == "metadata" else {},
        tags=(payload,) if place == "tags" else (),
        pairs=(QAPair(payload, payload),) if place == "question" else (),
        content_type=payload[:64] if place == "metadata" else "",
    )


def ran(page: Page) -> bool:
    """Whether any of it ran, in the page or a frame of it."""
    return any(frame.evaluate("Boolean(globalThis.__ran)") for frame in page.frames)


def check(visit: Visit, service: Running, path: str, *, scripts: int = 4) -> None:
    """Opens a page: whole, with no script that is not ours, and nothing asked for elsewhere."""
    page = visit.page
    page.goto(path)
    page.wait_for_timeout(20)  # an event handler would have run by then; the control below does
    assert not ran(page), path
    assert visit.complaints == [], path
    assert page.locator("main").count() == 1, path
    assert page.locator(".side nav a").count() >= 3, path
    assert page.locator("script").count() <= scripts, path
    assert page.locator("img, iframe, base, style, object, embed, [style], [onerror], [onload]").count() == 0, path
    assert page.locator('a[href^="javascript:" i], a[href^="data:" i]').count() == 0, path
    assert visit.hosts <= {service.url.removeprefix("http://")}, path


def walk(browser: Browser, folder: Path, cases: tuple[tuple[int, str], ...]) -> None:
    with running(folder) as service:
        documents = [hostile(at, PAYLOADS[number], place) for at, (number, place) in enumerate(cases)]
        base = service.base(PAYLOADS[3], *documents)
        service.run(service.engine.logs.list())
        with visiting(browser, service.url) as visit:
            after = ""
            while True:
                check(visit, service, f"/console/bases/{base}" + (f"?after={after}" if after else ""))
                more = visit.page.locator('a[rel="next"]')
                if not more.count():
                    break
                after = more.get_attribute("href").rpartition("after=")[2]  # type: ignore[union-attr]
            for at, (number, place) in enumerate(cases):
                check(visit, service, f"/console/bases/{base}/document?doc=d{at}")
                if place in ("text", "name"):
                    asked = quote(PAYLOADS[number])
                    check(visit, service, f"/console/bench?base={base}&q={asked}&ab=1&b_mode={asked}&top_k={asked}")
                    check(visit, service, f"/console/bench?base={base}&q={asked}&why={asked}")
                    check(visit, service, f"/console/why?base={base}&q={asked}&chunk={asked}")
                    check(visit, service, f"/console/ask?base={base}&q={asked}&mode={asked}")
            check(visit, service, "/console/bases")
            answered(visit, service, base, PAYLOADS[2])


def answered(visit: Visit, service: Running, base: int, question: str) -> None:
    """The stream, too: question, answer and sources are text."""
    page = visit.page
    page.goto(f"/console/ask?base={base}")
    page.locator("textarea[name=q]").fill(f"{question} 正文是什么")
    page.get_by_role("button", name="提问").click()
    page.locator(".answer .rate").wait_for()
    assert not ran(page)
    assert visit.complaints == []
    assert page.locator("#turns img, #turns script, #turns [onerror]").count() == 0


def test_the_control_does_run(browser: Browser, tmp_path: Path) -> None:
    """The same payloads where nobody escapes them, and there is no policy: the check would notice."""
    with running(tmp_path) as service, visiting(browser, service.url) as visit:
        page = visit.page
        page.goto("/docs")
        page.set_content(f"<main>{PAYLOADS[2]}</main>")
        page.wait_for_timeout(200)
        caught = visit.complaints  # the policy of /docs holds for this content
        assert caught
        assert not ran(page)
        page.goto("about:blank")
        page.set_content(f"<main>{PAYLOADS[2]}{PAYLOADS[4]}</main>")
        page.wait_for_function("globalThis.__ran >= 2")
        assert ran(page)
        page.route("**/console/bases", lambda route: route.fulfill(body=PAYLOADS[2], content_type="text/html"))
        with pytest.raises(AssertionError):
            check(visit, service, "/console/bases")


def test_nothing_of_a_document_a_name_or_a_question_runs(browser: Browser, tmp_path: Path) -> None:
    walk(browser, tmp_path, SOME)


@pytest.mark.long
def test_nothing_of_two_hundred_hostile_documents_runs(browser: Browser, tmp_path: Path) -> None:
    assert len(ALL) == 200
    walk(browser, tmp_path, ALL)
