"""What enters the index together: much at a time, but never more than some seconds of a model's work."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qianxun.core.types import Document, Vectors
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.indexing import add
from qianxun.testing.scripted import HashEmbedding
from tests import preloaded
from tests.indexing.opened import doc, opened

KILLED_AT, COUNT = 1_100, 1_200


def documents(count: int) -> list[Document]:
    return [doc(f"d{number}", f"第{number}号通知：报销比例为{number}%。") for number in range(count)]


class CountingEmbedding(HashEmbedding):
    """Calls ``work`` with how many passages it has embedded, whenever it is given more."""

    def __init__(self, work: Callable[[int], object] = lambda _: None) -> None:
        super().__init__()
        self.count, self._work = 0, work

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.count += len(texts)
        self._work(self.count)
        return super().embed_passages(texts)


class Clock:
    """The clock of `add`, which only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(add, "time", SimpleNamespace(monotonic=lambda: self.now))

    def move(self, seconds: float) -> None:
        self.now += seconds


def batches(folder: Path, model: HashEmbedding, count: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches in which so many documents enter the index."""
    sizes = []
    apply = EmbeddedIndex.apply

    async def counted(self: EmbeddedIndex, batch: Any) -> None:
        sizes.append(len(batch.entries))
        await apply(self, batch)

    async def story() -> None:
        async with opened(folder, model) as (engine, kb):
            monkeypatch.setattr(EmbeddedIndex, "apply", counted)
            await engine.add_documents(kb, documents(count))

    asyncio.run(story())
    return sizes


def test_a_busy_machine_does_not_make_batches_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    prepare = add.prepare_for

    def slowly(*given: Any, **named: Any) -> Any:
        clock.move(4.0)  # before anything is embedded
        return prepare(*given, **named)

    monkeypatch.setattr(add, "prepare_for", slowly)
    assert batches(tmp_path, HashEmbedding(), 1_200, monkeypatch) == [1_200]


def test_what_waits_long_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    prepare = add.prepare_for

    def slowly(*given: Any, **named: Any) -> Any:
        clock.move(add.BATCH_AGE)
        return prepare(*given, **named)

    monkeypatch.setattr(add, "prepare_for", slowly)
    assert batches(tmp_path, HashEmbedding(), 1_200, monkeypatch) == [500, 500, 200]


def test_a_slow_model_has_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    model = CountingEmbedding(lambda _: clock.move(1.0))
    assert batches(tmp_path, model, 1_200, monkeypatch) == [500, 500, 200]


CHILD = """
import asyncio, os, signal, sys, time
from pathlib import Path
from qianxun.indexing import add
from tests.indexing.opened import opened
from tests.indexing.test_batches import COUNT, KILLED_AT, CountingEmbedding, documents

add.BATCH_SECONDS = 0.0

def work(count):
    if count > KILLED_AT:
        os.kill(os.getpid(), signal.SIGKILL)

async def story():
    async with opened(Path(sys.argv[1]), CountingEmbedding(work)) as (engine, kb):
        await engine.add_documents(kb, documents(COUNT))

asyncio.run(story())
"""


def test_a_killed_ingest_goes_on_with_the_last_batch(tmp_path: Path) -> None:
    killed = preloaded.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr

    async def story() -> int:
        model = CountingEmbedding()
        async with opened(tmp_path, model) as (engine, kb):
            await engine.drain(kb)
            assert (await engine.statistics(kb))["chunks"] == COUNT
            assert (await engine.admin.verify(kb)).is_clean
        return model.count

    assert asyncio.run(story()) == COUNT - 2 * add.GROUP_DOCUMENTS  # two batches were stored
