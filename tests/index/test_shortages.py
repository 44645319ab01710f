"""A system that runs out of descriptors or space damages nothing: it is told as it is, and goes on when it has some."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.ports import Index
from qianxun.core.system.shortages import NO_DESCRIPTORS, NO_SPACE, shortage, shortage_of_rust
from qianxun.core.types import IndexBatch, Terms
from qianxun.testing.index_material import STAMP, entry
from tests.index import writer


@contextmanager
def limited(kind: int, most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def without_descriptors() -> AbstractContextManager[None]:
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    return limited(resource.RLIMIT_NOFILE, free)


async def opened(folder: Path) -> Index:
    return await writer.backend(folder).open(1, STAMP)


async def small(folder: Path) -> Index:
    backend = writer.backend(folder)
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    await index.apply(IndexBatch(1, entries=(entry(1, 1, "住院 报销"),)))
    return index


async def failure_of(work: Coroutine[Any, Any, Any]) -> OSError:
    with pytest.raises(OSError, match=r"open files|too large") as failure:
        await work
    return failure.value


def test_without_descriptors_nothing_counts_as_damaged(tmp_path: Path) -> None:
    async def story() -> None:
        await (await small(tmp_path)).close()
        index, more = await opened(tmp_path), IndexBatch(2, entries=(entry(2, 2, "住院 门诊"),))
        with without_descriptors():
            for fails in (opened(tmp_path), index.match(Terms(("住院",)), 5), index.apply(more)):
                assert (await failure_of(fails)).errno in NO_DESCRIPTORS
        assert (await index.match(Terms(("住院",)), 5)).keys.tolist() == [1]
        with without_descriptors():
            await failure_of(index.apply(more))  # now that keywords are open, too
        await index.apply(more)
        assert (await index.match(Terms(("住院",)), 5)).keys.tolist() == [1, 2]
        await index.close()

    asyncio.run(story())


def test_a_full_disk_is_told_by_its_number_and_the_next_write_finds_no_lock(tmp_path: Path) -> None:
    many = " ".join(map(chr, range(0x4E00, 0x5E00)))  # for tantivy's files to be the largest

    async def story() -> None:
        index, more = await small(tmp_path), IndexBatch(2, entries=(entry(2, 2, f"住院 {many}"),))
        with limited(resource.RLIMIT_FSIZE, 5_000):
            failures = [await failure_of(index.apply(more)) for _ in range(2)]
        assert {failure.errno for failure in failures} <= set(NO_SPACE)
        assert str(tmp_path) not in str(failures)
        assert (await index.match(Terms(("住院",)), 5)).keys.tolist() == [1]
        await index.apply(more)
        await index.close()
        again = await opened(tmp_path)
        assert (await again.match(Terms(("住院",)), 5)).keys.tolist() == [1, 2]
        await again.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("An IO error occurred: 'No space left on device (os error 28) at path \"/data/index/1/.tmp\"'", errno.ENOSPC),
        ("Failed to acquire Lockfile: IoError(Os { code: 24, kind: TooManyOpenFiles, message: \"…\" })", errno.EMFILE),
        ("IoError { io_error: Custom { kind: TooManyOpenFiles, error: PathError { path: \"/data\" } } }", errno.EMFILE),
    ],
)  # fmt: skip
def test_the_words_of_tantivy_are_numbers_again_and_lose_their_paths(words: str, number: int) -> None:
    found = shortage_of_rust(ValueError(words))
    assert found is not None
    assert (found.errno, "/data" in str(found)) == (number, False)


def test_a_process_that_uvloop_has_no_descriptors_for_is_a_shortage() -> None:
    found = shortage(OSError(-1, "Unknown error -1"))
    assert found is not None
    assert found.errno in NO_DESCRIPTORS


def test_other_errors_are_no_shortage() -> None:
    assert shortage_of_rust(ValueError("Data corrupted: 'code: 2' (os error 5)")) is None
    assert shortage(ValueError("住院 (os error 28)")) is None
