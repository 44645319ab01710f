"""A real browser at a real service: Debian's chromium, driven by playwright; the service has a thread of its own.

Where there is one without windows, that is taken: pages, scripts and accessibility are the same, and it takes half the
processor time, because the other one keeps a renderer for menus and bubbles at hand. Where there is no chromium, the
tests that need one are skipped and say so. One browser and one service serve all tests of a module: a page is opened in
a fresh context, so that no cookie of one test is there in another.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from tests.http.served import Served, serving

T = TypeVar("T")

NAMES = "chromium-headless-shell", "chromium", "chromium-browser"
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
WAIT_MS = 60_000  # the machine may be busy: a test that passes waits for nothing of this

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt install chromium-headless-shell")


@contextmanager
def launched() -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page in a context of its own, and what the browser complained about meanwhile."""

    page: Page
    complaints: list[str] = field(default_factory=list)  # scripts that failed or were refused, dialogs
    hosts: set[str] = field(default_factory=set)  # that were asked for anything


@contextmanager
def visiting(browser: Browser, url: str, **options: Any) -> Iterator[Visit]:
    context: BrowserContext = browser.new_context(base_url=url, **options)
    context.set_default_timeout(WAIT_MS)
    visit = Visit(context.new_page())
    visit.page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
    visit.page.on("dialog", lambda dialog: (visit.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    context.on("request", lambda request: visit.hosts.add(request.url.split("/")[2] if "//" in request.url else ""))
    visit.page.on(
        "console",
        lambda message: (
            visit.complaints.append(f"{message.type}: {message.text}")
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    try:
        yield visit
    finally:
        context.close()


@dataclass(frozen=True)
class Running:
    """A service in a thread, and its engine, whose calls run in that thread's loop."""

    served: Served
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return self.served.url

    @property
    def engine(self) -> Engine:
        return self.served.engine

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(900)

    def base(self, name: str, *documents: Document, tenant: str = "local", **options: Any) -> int:
        """A new base with these documents in it; without a model, unless one is named."""

        async def made() -> int:
            engine = self.engine.of(tenant)
            base = await engine.create_knowledge_base(name, **{"model": "none", **options})
            await engine.add_documents(base.id, documents)
            return base.id

        return self.run(made())


@contextmanager
def running(
    folder: Path, settings: Mapping[str, Any] | None = None, models: tuple[EmbeddingModel, ...] = ()
) -> Iterator[Running]:
    """The service of `served.serving`, in a thread."""
    ready: threading.Event = threading.Event()
    found: list[Running] = []
    failed: list[BaseException] = []
    ended = asyncio.Event()

    async def serve() -> None:
        async with serving(folder, settings, *models) as served:
            found.append(Running(served, asyncio.get_running_loop()))
            ready.set()
            await ended.wait()

    def target() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=target, name="console service")
    thread.start()
    ready.wait(120)
    if not found:
        thread.join(10)
        raise AssertionError("the service did not start") from (failed[0] if failed else None)
    try:
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(ended.set)
        thread.join(60)
    if failed:
        raise failed[0]
