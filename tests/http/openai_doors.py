"""A service on loopback in a thread of its own, for clients that block and clients that await; one for many tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import httpx
import openai

from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Document, KnowledgeBase
from qianxun.testing.scripted import HashEmbedding
from tests.http.served import MODEL, Served, issue, serving

Result = TypeVar("Result")
ALONE = {"connection": "close"}  # a connection that lies idle is closed in the moment in which it is used again


@dataclass
class Doors:
    """The service, and OpenAI's own clients of it."""

    served: Served
    loop: asyncio.AbstractEventLoop
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    clients: dict[str, openai.OpenAI] = field(default_factory=dict)  # by key: to make one takes longer than to ask

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """On the service's loop, from this thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def key(self, tenant: str = "local", scope: Any = "read") -> str:
        if (tenant, scope) not in self.keys:
            self.keys[tenant, scope] = issue(self.served.engine, tenant, scope)[1]
        return self.keys[tenant, scope]

    @property
    def url(self) -> str:
        return f"{self.served.url}/v1"

    def client(self, tenant: str = "local", key: str | None = None) -> openai.OpenAI:
        told = self.key(tenant) if key is None else key
        if told not in self.clients:
            about: dict[str, Any] = {"max_retries": 0, "timeout": 60, "default_headers": ALONE}
            self.clients[told] = openai.OpenAI(base_url=self.url, api_key=told, **about)
        return self.clients[told]

    def plain(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """As a client of nobody's protocol: ``path`` is below /v1, or an address."""
        return self.http.request(method, path, json=body, headers={"authorization": f"Bearer {self.key()}"})

    @cached_property
    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=ALONE, timeout=60, trust_env=False, verify=False)

    def close(self) -> None:
        for each in (*self.clients.values(), self.http):
            each.close()

    def awaited(self, story: Callable[[openai.AsyncOpenAI], Coroutine[Any, Any, Result]]) -> Result:
        """The same with the client that awaits, on a loop of this thread."""

        async def told() -> Result:
            async with openai.AsyncOpenAI(base_url=self.url, api_key=self.key(), max_retries=0, timeout=60) as made:
                return await story(made)

        return asyncio.run(told())

    def base(self, name: str, *documents: Document, tenant: str = "local", model: str = MODEL) -> KnowledgeBase:
        async def made() -> KnowledgeBase:
            engine = self.served.engine.of(tenant)
            base = await engine.create_knowledge_base(name, model=model)
            await engine.add_documents(base.id, documents)
            return base

        return self.run(made())


@contextmanager
def doors(folder: Path, told: Mapping[str, Any] | None = None, *models: EmbeddingModel) -> Iterator[Doors]:
    """``told`` are settings by their dotted names."""
    ready: list[Doors] = []
    opened, closing = threading.Event(), asyncio.Event()

    async def served() -> None:
        async with serving(folder, told, *(models or (HashEmbedding(),))) as made:
            ready.append(Doors(made, asyncio.get_running_loop()))
            opened.set()
            await closing.wait()

    def run() -> None:
        try:
            asyncio.run(served())
        finally:
            opened.set()  # also where it came to nothing

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert opened.wait(120), "the service did not open"
        assert ready, "the service failed"
        yield ready[0]
    finally:
        if ready:
            ready[0].close()
            ready[0].loop.call_soon_threadsafe(closing.set)
        thread.join()
