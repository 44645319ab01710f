"""Engines that share one database, each as a replica has it: in one process here, of which they know nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from qianxun import Engine
from qianxun.engine.settings import Settings, load
from qianxun.testing.scripted import HashEmbedding

MODEL = "hash"
DIMENSION = 16


def settings(folder: Path, url: str, **chosen: object) -> Settings:
    given = {
        "data": str(folder),
        "records.url": url,
        "index.backend": "postgres",
        "vectorization.model": MODEL,
        "records.pool_size": 6,
        **chosen,
    }
    return load(environment={}, arguments=given, folder=folder)


@asynccontextmanager
async def replicas(
    folder: Path, url: str, count: int = 2, *, background: bool = False, **chosen: object
) -> AsyncIterator[tuple[Engine, ...]]:
    """All in one folder: nothing in it belongs to one of them."""
    models = {MODEL: HashEmbedding(DIMENSION, MODEL)}
    async with AsyncExitStack() as stack:
        yield tuple(
            [
                await stack.enter_async_context(
                    Engine.open(settings=settings(folder, url, **chosen), models=models, background=background)
                )
                for _ in range(count)
            ]
        )


async def found(engine: Engine, base: int, query: str, **choices: object) -> set[str]:
    recall = await engine.retrieve(base, query, **choices)  # type: ignore[arg-type]
    assert recall.degraded == ()
    return {result.chunk.doc_id for result in recall.results}
