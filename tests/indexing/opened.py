"""An engine over a temporary folder, with one base and a model that obeys the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from qianxun.core.options import Mode
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import EVERYTHING, Document, Filter, Recall, Vectors
from qianxun.engine.engine import Engine
from qianxun.testing.scripted import HashEmbedding

T = TypeVar("T")

NAME = "医保"
MODEL = "fake-64"


@asynccontextmanager
async def opened(
    folder: Path, *models: EmbeddingModel, model: str = MODEL, background: bool = False
) -> AsyncIterator[tuple[Engine, int]]:
    """(engine, base); the base is made by the first who opens the folder."""
    held = {each.name: each for each in models or (HashEmbedding(),)}
    async with Engine.open(folder, models=held, background=background) as engine:
        known = [base.id for base in await engine.knowledge_bases()]
        yield engine, known[0] if known else (await engine.create_knowledge_base(NAME, model=model)).id


class OpenedLibrary:
    """A base with documents, opened once for the tests of a module that only read."""

    def __init__(self, folder: Path, library: Sequence[Document], *models: EmbeddingModel, model: str = MODEL) -> None:
        self.loop = asyncio.new_event_loop()
        self.context = opened(folder, *models, model=model)
        self.engine, self.kb = self.run(self.context.__aenter__())
        self.run(self.engine.add_documents(self.kb, library))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.run(self.context.__aexit__(None, None, None))
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()

    def ask(self, query: str, **options: Any) -> Recall:
        return self.run(self.engine.retrieve(self.kb, query, **options))


async def found(
    engine: Engine, kb: int, query: str, where: Filter = EVERYTHING, *, mode: Mode = "fulltext"
) -> dict[str, str]:
    """Document → the text of its best chunk."""
    recall = await engine.retrieve(kb, query, mode=mode, where=where, top_k=100)
    return {each.chunk.doc_id: each.chunk.text for each in reversed(recall.found)}


def doc(doc_id: str, content: str, **labels: object) -> Document:
    return Document(doc_id, content, name=doc_id, **labels)  # type: ignore[arg-type]


class GatedEmbedding(HashEmbedding):
    """Stops at a gate whenever a passage holds ``word``, until the test opens it."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word
        self.entered = threading.Event()
        self.gate = threading.Event()

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if any(self.word in text for text in texts):
            self.entered.set()
            assert self.gate.wait(60), "nobody opened the gate"
        return super().embed_passages(texts)


class FailingEmbedding(HashEmbedding):
    """Raises ``error`` for passages that hold ``word``; ``error`` may be taken away."""

    def __init__(self, word: str, error: Exception | None) -> None:
        super().__init__()
        self.word = word
        self.error = error
        self.failures = 0
        self.failed_twice = threading.Event()

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if self.error is not None and any(self.word in text for text in texts):
            self.failures += 1
            if self.failures == 2:
                self.failed_twice.set()
            raise self.error
        return super().embed_passages(texts)
