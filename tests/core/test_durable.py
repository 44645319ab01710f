"""Files are forced to disk side by side, by threads that last."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from qianxun.core.system import durable


def _files(folder: Path) -> list[Path]:
    paths = [folder / f"{number}" for number in range(3 * durable.THREADS)]
    for path in paths:
        path.write_bytes(b"1")
    return paths


def test_all_batches_share_a_few_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread for every file of every batch was more than half of all threads of a service: their stacks and what the
    C library keeps for each come and go with them."""
    paths, synced = _files(tmp_path), set[tuple[threading.Thread, Path]]()
    monkeypatch.setattr(durable, "_sync_one", lambda path: synced.add((threading.current_thread(), path)))
    for _ in range(3):
        durable.sync(paths)
    assert {path for _, path in synced} == set(paths)
    assert len({thread for thread, _ in synced}) <= durable.THREADS


def test_a_file_that_cannot_be_synced_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        durable.sync([*_files(tmp_path), tmp_path / "missing"])


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    paths = _files(tmp_path)
    durable.sync(paths)
    if (child := os.fork()) == 0:
        forked = threading.Thread(target=durable.sync, args=(paths,), daemon=True)
        forked.start()
        forked.join(60)
        os._exit(1 if forked.is_alive() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
