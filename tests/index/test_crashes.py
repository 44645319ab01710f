"""An index survives kill -9 at any step: what was acknowledged is there, and nothing is there by halves."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qianxun.testing.index_conformance import STAMP, keys_of, unit
from qianxun.types import Eq, IndexBatch, Range, Terms
from tests.index import writer

SCRIPT = Path(writer.__file__)
ROOT = SCRIPT.parents[2]


async def new_index(folder: Path) -> None:
    backend = writer.backend(folder)
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    await index.close()


def start(folder: Path, batches: int, die_at: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(folder), str(batches), str(die_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


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


def test_killed_at_chosen_steps(tmp_path: Path) -> None:
    asyncio.run(new_index(tmp_path))
    chance, watermark, deaths = random.Random(11), 0, 0
    for _ in range(11):
        process = start(tmp_path, 3, die_at=chance.randrange(1, 1500))
        printed = process.communicate(timeout=60)[0].split()
        deaths += process.returncode == -signal.SIGKILL
        assert process.returncode in (0, -signal.SIGKILL)
        watermark = asyncio.run(assert_whole(tmp_path, int(printed[-1]) if printed else watermark))
    assert deaths >= 4, "too few of the steps lay inside the work: nothing was tested"


def test_killed_at_random_moments(tmp_path: Path) -> None:
    asyncio.run(new_index(tmp_path))
    chance, watermark = random.Random(12), 0
    for _ in range(4):
        process = start(tmp_path, 10_000)
        assert process.stdout is not None
        printed = [process.stdout.readline()]
        time.sleep(chance.random() * 0.3)
        process.kill()
        printed += process.communicate(timeout=60)[0].split("\n")
        acknowledged = max(int(line) for line in printed if line.strip())
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
    import qianxun.index.embedded as embedded

    async def fail_and_go_on() -> None:
        index = await writer.backend(tmp_path).open(1, STAMP)
        await index.apply(writer.batch(1))
        with monkeypatch.context() as patch:
            patch.setattr(embedded, "save_state", _no_space)
            with pytest.raises(OSError, match="no space"):
                await index.apply(writer.batch(2))
        assert await index.watermark() == 1
        assert sorted(keys_of(await index.match(Terms(("共",)), 100))) == [10, 11, 12, 13]
        await index.apply(IndexBatch(1))
        for number in range(2, 12):
            await index.apply(writer.batch(number))
        await index.close()

    asyncio.run(new_index(tmp_path))
    asyncio.run(fail_and_go_on())
    asyncio.run(assert_whole(tmp_path, 11))


def _no_space(*_: object) -> None:
    raise OSError(28, "no space left on device")
