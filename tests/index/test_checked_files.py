"""Which files of a large index are compared with their checksums when it is opened."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from qianxun.core.errors import IndexUnusable
from qianxun.index.embedded import checked_files
from qianxun.index.embedded.checked_files import check_in_turns
from qianxun.index.embedded.keywords import checksums
from tests.index.test_damage import ask_again, make

SIZES = {"a": 40, "b": 30, "c": 90, "d": 10}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(checked_files, "BYTES_PER_OPENING", 50)
    for name, size in SIZES.items():
        (tmp_path / name).write_bytes(b"." * size)
    return [tmp_path / name for name in SIZES]


def opened(files: list[Path]) -> str:
    """What one opening checks."""
    found: list[Path] = []
    check_in_turns(files, files[0].parent / "checked", found.append)
    return "".join(sorted(file.name for file in found))


def test_every_file_has_its_turn(files: list[Path]) -> None:
    assert opened(files) == "abcd"
    # 50 bytes with each opening: 40 of a; then b, with the 10 that were left; c waits until there are 90.
    assert [opened(files) for _ in range(5)] == ["a", "b", "", "cd", "ab"]


def test_what_has_changed_is_always_checked(files: list[Path]) -> None:
    opened(files)
    content = files[2].read_bytes()
    files[2].write_bytes(content)  # of the same size
    assert opened(files) == "ac"
    kept = files[3].stat()
    files[3].write_bytes(b"!" * SIZES["d"])
    os.utime(files[3], ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert "d" in opened(files)
    files[1].unlink()
    assert "b" in opened(files)
    (files[0].parent / "e").write_bytes(b"")
    assert "e" in opened([*files, files[0].parent / "e"])


def test_damage_to_what_is_remembered_has_everything_checked(files: list[Path]) -> None:
    opened(files)
    (files[0].parent / "checked").write_bytes(b"00000000\n{}")
    assert opened(files) == "abcd"


def test_a_small_index_is_checked_whole(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_files, "BYTES_PER_OPENING", 170)
    assert [opened(files) for _ in range(2)] == ["abcd", "abcd"]
    assert not (files[0].parent / "checked").exists()


def test_a_large_index_opens_without_reading_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = asyncio.run(make(tmp_path))
    monkeypatch.setattr(checked_files, "BYTES_PER_OPENING", 0)
    read: list[str] = []
    footer_agrees = checksums._footer_agrees

    def counted(path: Path) -> bool:
        read.append(path.name)
        return footer_agrees(path)

    monkeypatch.setattr(checksums, "_footer_agrees", counted)
    assert asyncio.run(ask_again(tmp_path)) == right
    every = set(read)
    assert len(read) == len(every) > 0
    assert asyncio.run(ask_again(tmp_path)) == right
    assert len(read) == len(every)
    file = next(tmp_path.rglob("*.idx"))
    data = file.read_bytes()
    file.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:])
    with pytest.raises(IndexUnusable):
        asyncio.run(ask_again(tmp_path))
