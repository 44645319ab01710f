"""A library that is served: the service and its engine on a loop in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from qianxun.core.errors import ModelUnavailable
from qianxun.core.types import Document
from qianxun.engine.blocking import BlockingEngine
from qianxun.testing.scripted import ScriptedEmbedding
from tests.http.served import serving

QUESTION: Final = "住院报销比例是多少"
LIBRARY: Final = (
    Document(
        "手册",
        "# 医保手册\n\n## 住院\n\n住院报销比例为 85%，退休职工为 90%。\n\n## 门诊\n\n门诊报销比例为 60%。",
        name="手册.md",
        format="markdown",
        content_type="chapter",
        metadata={
            "年份": 2024,
            "地区": ("北京", "上海"),
            "score": 5,
            "source": "官网",
            "metadata.score": "甲",
            "公开": True,
        },
    ),
    Document("通知", "住院报销比例自今年起提高，{比例} 见附件。", name="通知", content_type="notice"),
    Document("假期", "年休假为 7 天，工龄满十年为 10 天。", name="假期"),
)


@dataclass(frozen=True)
class Library:
    rag: BlockingEngine
    url: str
    number: int  # of the base “医保”


@contextmanager
def library(folder: Path) -> Iterator[Library]:
    opened: Future[tuple[Library, asyncio.Event]] = Future()

    down = ModelUnavailable("嵌入服务停了", hint="稍后再试")

    async def serve() -> None:
        model = ScriptedEmbedding(error=down, when=lambda text: "坏" in text, on="queries")
        async with serving(folder, {}, model) as served:
            base = await served.engine.create_knowledge_base("医保", model="fake-64")
            await served.engine.add_documents(base.id, LIBRARY)
            stop = asyncio.Event()
            rag = BlockingEngine(served.engine, asyncio.get_running_loop())
            opened.set_result((Library(rag, served.url, base.id), stop))
            await stop.wait()

    def live() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
            raise

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    held, stop = opened.result()
    try:
        yield held
    finally:
        held.rag.loop.call_soon_threadsafe(stop.set)
        thread.join()
