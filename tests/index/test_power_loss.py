"""An index survives power loss where a name is durable only once its folder has been synced.

Names are what is tested here, in Python's calls; `tests.torture.power` records all system calls, tantivy's too.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.errors import IndexUnusable
from qianxun.core.system import durable
from qianxun.core.types import IndexBatch, Terms
from qianxun.testing.index_material import STAMP, keys_of
from tests.index import writer

BATCHES = 9  # enough for codes, and for a compaction


class Disk:
    """The names that syncs made durable, folder by folder, and the content that each stood for."""

    def __init__(self, root: Path, ignored: str = "") -> None:
        self.root = root
        self.ignored = ignored  # a folder whose syncs do nothing
        self._synced: dict[int, bytes] = {}  # by the number of a file
        self._entries: dict[Path, dict[str, tuple[int, bytes] | None]] = {}  # None: a folder

    def sync(self, path: Path) -> None:
        if path.is_file():
            self._synced[path.stat().st_ino] = path.read_bytes()
        elif path.name != self.ignored:
            self._entries[path] = {
                entry.name: (entry.stat().st_ino, entry.read_bytes()) if entry.is_file() else None
                for entry in path.iterdir()
            }

    def lay_out(self, target: Path, folder: Path | None = None) -> None:
        """What is left after the power failed; tantivy syncs what is in its files itself."""
        folder = folder or self.root
        target.mkdir()
        for name, file in self._entries.get(folder, {}).items():
            if file is None:
                self.lay_out(target / name, folder / name)
            else:
                (target / name).write_bytes(self._synced.get(file[0], file[1]))


async def lose_power_after_each_batch(place: Path, disk: Disk) -> None:
    backend = writer.backend(disk.root)
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    for number in range(1, BATCHES + 1):
        await index.apply(writer.batch(number))
        disk.lay_out(place / f"after-{number}")
        await expect(place / f"after-{number}", number)
    await index.apply(IndexBatch(BATCHES + 1, removed=tuple(range(writer.DOCUMENTS))))
    disk.lay_out(place / "emptied")
    left = await writer.backend(place / "emptied").open(1, STAMP)
    assert len(await left.match(Terms(("共",)), 10)) == 0
    await index.close()


async def expect(folder: Path, watermark: int) -> None:
    """The index opens as it is, and has all that was acknowledged."""
    index = await writer.backend(folder).open(1, STAMP)
    assert await index.watermark() == watermark
    expected = [10 * number + at for number in writer.living(watermark) for at in range(4)]
    assert sorted(keys_of(await index.match(Terms(("共",)), 1000))) == expected
    await index.check()
    await index.close()


def test_what_was_acknowledged_is_there_after_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = _watched(tmp_path / "index", monkeypatch)
    asyncio.run(lose_power_after_each_batch(tmp_path, disk))


@pytest.mark.parametrize("ignored", ["keywords", "build-1"])
def test_the_check_finds_a_folder_that_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: str
) -> None:
    disk = _watched(tmp_path / "index", monkeypatch, ignored)
    with pytest.raises(IndexUnusable):
        asyncio.run(lose_power_after_each_batch(tmp_path, disk))


def _watched(root: Path, monkeypatch: pytest.MonkeyPatch, ignored: str = "") -> Disk:
    disk, honest = Disk(root, ignored), durable._sync_one

    def observed(path: Path) -> None:
        honest(path)
        disk.sync(path)

    monkeypatch.setattr(durable, "_sync_one", observed)
    return disk


def test_a_folder_is_made_together_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable, "_sync_one", synced.append)
    durable.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path / "a", tmp_path]
    durable.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2
