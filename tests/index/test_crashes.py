"""An index survives kill -9 at any step: what was acknowledged is there, and nothing is there by halves."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.core.types import Eq, IndexBatch, Range, Terms
from qianxun.testing.index_material import STAMP, keys_of, unit
from tests import preloaded
from tests.index import writer

SCRIPT = Path(writer.__file__)
ROOT = SCRIPT.parents[2]


async def new_index(folder: Path) -> None:
    backend = writer.backend(folder)
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    await index.close()


class Writers:
    """One after another, from a process that has loaded everything."""

    def __init__(self, bearing: subprocess.Popen[str]) -> None:
        assert bearing.stdin is not None
        assert bearing.stdout is not None
        self._orders, self._said = bearing.stdin, bearing.stdout

    def start(self, folder: Path, batches: int, die_at: str = "never") -> int:
        """Answers its process."""
        self._orders.write(json.dumps([str(folder), batches, die_at]) + "\n")
        self._orders.flush()
        return int(self.line())

    def line(self) -> str:
        return self._said.readline().strip()

    def rest(self) -> tuple[list[int], int]:
        """What it acknowledges until its end, and its code."""
        acknowledged = []
        while not (line := self.line()).startswith("ended"):
            acknowledged.append(int(line))
        return acknowledged, int(line.split()[1])


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    command = [sys.executable, str(SCRIPT)]
    with preloaded.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as bearing:
        yield Writers(bearing)


async def assert_whole(folder: Path, acknowledged: int) -> int:
    """Opens the index and compares it with what its watermark promises. Returns the watermark."""
    index = await writer.backend(folder).open(1, STAMP)
    watermark = await index.watermark()
    assert acknowledged <= watermark <= acknowledged + 1
    living = writer.living(watermark)
    expected = [10 * number + at for number in living for at in range(4)]
    found = await index.match(Terms(("共",)), 1000)
    assert sorted(keys_of(found)) == expected
    held = await index.inventory()
    assert held.keywords.tolist() == expected
    assert held.vectors["content"].tolist() == expected
    assert held.vectors["question"].tolist() == [10 * number for number in living]
    if living:
        newest = await index.nearest(unit(10 * watermark), 1, Eq("user_id", f"用户{watermark % 3}"))
        assert keys_of(newest) == [10 * watermark]
        later = await index.match(Terms(("共",)), 1000, Range("metadata.批", ge=watermark - 2))
        assert sorted(keys_of(later)) == [key for key in expected if key >= 10 * (watermark - 2)]
    await index.close()
    return watermark


PLACES = (
    "never", "never", "save_state:1", "accept:1", "save_state:2", "append:3", "view:1", "accept_codes:1",
    "copy_vectors:1", "save_state:1", "truncate:1", "700",
)  # fmt: skip


def test_killed_at_chosen_steps(tmp_path: Path, writers: Writers) -> None:
    """One after the other in the same folder, so that each also recovers from the death before it."""
    asyncio.run(new_index(tmp_path))
    watermark, deaths = 0, set()
    for place, following in zip(PLACES, (*PLACES[1:], ""), strict=True):
        writers.start(tmp_path, 4, place)
        acknowledged, code = writers.rest()
        assert code in (0, -signal.SIGKILL)
        if code:
            deaths.add(place)
        watermark = acknowledged[-1] if acknowledged else watermark
        if following != "truncate:1":  # that one is to die while it clears up after this one
            watermark = asyncio.run(assert_whole(tmp_path, watermark))
    assert deaths >= {"save_state:1", "accept:1", "save_state:2", "append:3", "view:1", "copy_vectors:1", "truncate:1"}


def test_killed_at_random_moments(tmp_path: Path, writers: Writers) -> None:
    asyncio.run(new_index(tmp_path))
    chance, watermark = random.Random(12), 0
    for _ in range(4):
        process = writers.start(tmp_path, 10_000)
        first = int(writers.line())
        time.sleep(chance.random() * 0.3)
        os.kill(process, signal.SIGKILL)
        later, code = writers.rest()
        assert code == -signal.SIGKILL
        acknowledged = max([first, *later])
        assert acknowledged > watermark
        watermark = asyncio.run(assert_whole(tmp_path, acknowledged))


def test_a_build_that_was_cut_short_is_removed(tmp_path: Path) -> None:
    asyncio.run(new_index(tmp_path))

    async def abandon() -> None:
        built = await writer.backend(tmp_path).build(1, STAMP)
        await built.apply(writer.batch(1))

    asyncio.run(abandon())
    assert len(list((tmp_path / "1").glob("build-*"))) == 2
    asyncio.run(assert_whole(tmp_path, 0))
    assert len(list((tmp_path / "1").glob("build-*"))) == 1


def test_a_batch_that_fails_midway_leaves_the_index_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up between the commit of the keywords and the switch of the state."""
    import qianxun.index.embedded.index as embedded

    async def fail_and_go_on() -> None:
        index = await writer.backend(tmp_path).open(1, STAMP)
        for number in range(1, 8):
            await index.apply(writer.batch(number))
        before = await index.match(Terms(("共",)), 100)
        with monkeypatch.context() as patch:
            patch.setattr(embedded, "save_state", _no_space)
            with pytest.raises(OSError, match="no space"):
                await index.apply(writer.batch(8))
        assert await index.watermark() == 7
        assert await index.match(Terms(("共",)), 100) == before
        await index.apply(IndexBatch(7))
        for number in range(8, 12):
            await index.apply(writer.batch(number))
        await index.close()

    asyncio.run(new_index(tmp_path))
    asyncio.run(fail_and_go_on())
    asyncio.run(assert_whole(tmp_path, 11))


def _no_space(*_: object) -> None:
    raise OSError(28, "no space left on device")
