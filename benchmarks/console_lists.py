"""Server CPU of a page of the console's list over 100,000 documents: ``python -m benchmarks.console_lists``."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from qianxun.core.types import Document, Submission
from qianxun.doors.http.app import create_app
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.records import documents

DOCUMENTS = 100_000
BATCH = 2_000
LISTS = {
    "by id": "",
    "by id, far in": "?after=doc-080000",
    "newest first": "?order=newest",
    "a name": "?name=99999",
    "a value of the metadata": '?order=newest&field=["年份",2025]',
    "a state": "?status=pending&order=newest",
}


def stored(number: int) -> Submission:
    text = f"第 {number} 篇文档，讲的是医保报销的第 {number % 97} 种情形。" * 8
    metadata = {"年份": 2000 + number % 26}
    kind = "guide" if number % 2 else "law"
    document = Document(f"doc-{number:06}", text, name=f"文档{number}.md", content_type=kind, metadata=metadata)
    return Submission(document, f"f{number}")


async def measure(folder: Path) -> None:
    settings = load(environment={}, arguments={"data": str(folder)}, folder=folder)
    async with Engine.open(settings=settings, background=False) as engine:
        base = (await engine.create_knowledge_base("大", model="none")).id
        for first in range(0, DOCUMENTS, BATCH):
            with engine.records.writing() as tx:
                documents.accept(tx, base, [stored(number) for number in range(first, first + BATCH)])
        transport = httpx.ASGITransport(create_app(engine, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            for name, query in LISTS.items():
                await http.get(f"/console/bases/{base}{query}")
                started = time.process_time()
                page = await http.get(f"/console/bases/{base}{query}")
                spent = time.process_time() - started
                assert page.status_code == 200, page.text[:500]
                print(f"{name:26} {spent * 1e3:6.0f} ms of CPU, {len(page.content) / 1024:.0f} KB")


def main() -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
