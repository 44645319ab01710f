"""Pictures of every page of the console, from the sample library: ``python -m benchmarks.console_pictures``.

They are in ``docs/console`` and shown in the README. Needs chromium and playwright, which the tests need as well.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from qianxun.doors.http.app import create_app
from qianxun.doors.http.console.routes import PAGES
from qianxun.doors.http.listener import bound, url_of
from qianxun.doors.http.serve import Server
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src" / "qianxun" / "samples" / "library"
PICTURES = ROOT / "docs" / "console"
QUESTION = "在职职工在三级医院门诊报销比例是多少？"
SEARCH = "门诊报销比例"
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 780}


@contextmanager
def library(folder: Path) -> Iterator[str]:
    """A service with the sample library in it, some searches in its log and a measured evaluation set."""
    ready, ended = threading.Event(), asyncio.Event()
    found: list[tuple[str, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        settings = load(environment=dict(os.environ), arguments={"data": str(folder)}, folder=folder)
        async with Engine.open(settings=settings) as engine:
            base = await engine.create_knowledge_base("示例库")
            for path in sorted(LIBRARY.iterdir()):
                await engine.add_file(base.id, path, name=path.name, wait=False)
            await engine.drain(base.id)
            for query in (SEARCH, "报销凭证", "异地就医备案", "出差住宿标准", "空间站", "灯塔看守人是谁"):
                await engine.retrieve(base.id, query)
            await engine.admin.build_graph(base.id)
            await measured(engine, base.id)
            app = create_app(engine, settings)
            server = Server(app, settings, lambda _: ready.set())
            with bound("127.0.0.1", 0) as listener:
                found.append((url_of(listener), asyncio.get_running_loop()))
                running = asyncio.create_task(server.serve(sockets=[listener]))
                await ended.wait()
                server.stop()
                await running

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(300)
    try:
        yield found[0][0]
    finally:
        found[0][1].call_soon_threadsafe(ended.set)
        thread.join(60)


async def measured(engine: Engine, base: int) -> None:
    """Two runs over three cases, to be compared."""
    sets = Evaluations(engine)
    for query in (SEARCH, "出差住宿标准", "灯塔看守人是谁"):
        best = (await engine.retrieve(base, query)).results[0].chunk
        one, _ = await sets.save_case(base, query, chunk_ids=[best.chunk_id])
    for mode in ("fulltext", "hybrid"):
        await sets.measure(one.id, mode=mode)


def pictures(page: Page, url: str) -> None:
    base = 1001
    special = {
        "bench": f"/console/bench?base={base}&q={SEARCH}&ab=1&b_mode=fulltext",
        "bases": f"/console/bases/{base}",
        "graph": f"/console/graph?base={base}&name=在职职工",
        "tables": f"/console/tables?base={base}&q={QUESTION}",
    }
    for number, one in enumerate(PAGES, 1):
        page.goto(url + special.get(one.name, f"{one.path}?base={base}"))
        if one.name == "ask":
            page.locator("textarea[name=q]").fill(QUESTION)
            page.keyboard.press("Enter")
            page.locator(".answer .sources").wait_for()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=PICTURES / f"{number:02}-{one.name}.png")
    page.goto(f"{url}/console/bases/{base}?order=newest")
    page.get_by_role("link", name="青禾科技员工手册.md").click()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=PICTURES / "12-document.png")


def main() -> None:
    chromium = shutil.which("chromium") or sys.exit("需要 chromium：apt install chromium")
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, library(Path(folder)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        pictures(browser.new_page(viewport=WIDE), url)
        dark = browser.new_page(viewport=PHONE, color_scheme="dark")
        dark.goto(f"{url}/console/bench?base=1001&q={SEARCH}")
        dark.screenshot(path=PICTURES / "13-phone.png")
        browser.close()


if __name__ == "__main__":
    main()
