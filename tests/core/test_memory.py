"""Pools of memory: as many threads as there are share a few."""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys

import pytest

from qianxun.core.system import memory
from qianxun.core.system.cache import cached_texts
from qianxun.core.system.memory import ARENAS, trim_regularly

COUNTED = """
import ctypes, sys, threading
from qianxun.core.system.memory import limit_memory_pools
if sys.argv[1] == "limited":
    limit_memory_pools()
together = threading.Barrier(12)
def work():
    ctypes.CDLL(None).free(ctypes.c_void_p(allocate(20_000)))
    together.wait()
allocate = ctypes.CDLL(None).malloc
allocate.restype = ctypes.c_void_p
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(out := libc.fdopen(1, b"w")))
libc.fflush(ctypes.c_void_p(out))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has such pools")
def test_threads_share_few_pools() -> None:
    def heaps(mode: str) -> int:
        command = [sys.executable, "-c", COUNTED, mode]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.count("<heap nr")

    assert heaps("limited") <= ARENAS < heaps("usual")


def test_what_was_computed_from_texts_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """But the names that every question is compared with do."""
    computed: list[str] = []

    def computing(text: str) -> int:
        computed.append(text)
        return len(text)

    length, length_of_name = cached_texts(10)(computing), cached_texts(10, lasting=True)(computing)

    async def story() -> None:
        loop, trimmed = asyncio.get_running_loop(), asyncio.Event()
        monkeypatch.setattr(memory, "trim", lambda: loop.call_soon_threadsafe(trimmed.set))
        assert length("比例") == length("比例") == length_of_name("列名") == 2
        assert computed == ["比例", "列名"]
        running = asyncio.create_task(trim_regularly(seconds=0.001))
        await asyncio.wait_for(trimmed.wait(), 60)
        running.cancel()
        assert length("比例") == length_of_name("列名") == 2
        assert computed == ["比例", "列名", "比例"]

    asyncio.run(story())


def test_what_is_free_is_given_back_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        loop, third = asyncio.get_running_loop(), asyncio.Event()
        steps: list[str] = []

        def trim() -> None:
            steps.append("trim")
            if len(steps) == 6:
                loop.call_soon_threadsafe(third.set)

        monkeypatch.setattr(memory, "trim", trim)
        running = asyncio.create_task(trim_regularly(lambda: steps.append("release"), 0.001))
        await asyncio.wait_for(third.wait(), 60)
        running.cancel()
        assert steps[:6] == ["release", "trim"] * 3

    asyncio.run(story())
