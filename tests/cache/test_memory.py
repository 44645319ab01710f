"""The cache keeps to its bounds, forgets in time, and stands threads."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qianxun.cache.memory import ENTRY_BYTES, MemoryCache


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def put(cache: MemoryCache, key: str, value: bytes = b"x", seconds: float = 60) -> None:
    asyncio.run(cache.put(key, value, seconds))


def get(cache: MemoryCache, key: str) -> bytes | None:
    return asyncio.run(cache.get(key))


def test_a_value_is_there_until_its_time_is_over() -> None:
    clock = Clock()
    cache = MemoryCache(clock=clock)
    put(cache, "甲", b"1", 10)
    clock.now += 9.9
    assert get(cache, "甲") == b"1"
    clock.now += 0.1
    assert get(cache, "甲") is None
    assert (len(cache), cache.size) == (0, 0)


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_a_value_without_a_time_to_live_is_not_kept_and_ends_the_one_before(seconds: float) -> None:
    cache = MemoryCache()
    put(cache, "甲", b"1")
    put(cache, "甲", b"2", seconds)
    assert get(cache, "甲") is None


def test_the_least_recently_used_goes_first() -> None:
    cache = MemoryCache(entries=2)
    put(cache, "甲")
    put(cache, "乙")
    get(cache, "甲")
    put(cache, "丙")
    assert [get(cache, key) for key in "甲乙丙"] == [b"x", None, b"x"]


def test_bytes_are_bounded_and_a_giant_is_not_kept() -> None:
    cache = MemoryCache(bytes_limit=3 * (ENTRY_BYTES + 104))
    for key in "甲乙丙丁":
        put(cache, key, b"x" * 100)
    assert [get(cache, key) is None for key in "甲乙丙丁"] == [True, False, False, False]
    put(cache, "戊", b"x" * 10_000)
    assert get(cache, "戊") is None
    assert len(cache) == 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("甲乙丙丁"), st.binary(max_size=200), st.sampled_from([0.0, 1.0, 60.0]))))
def test_the_count_of_bytes_is_always_that_of_what_is_held(steps: list[tuple[str, bytes, float]]) -> None:
    cache = MemoryCache(entries=3, bytes_limit=900)
    for key, value, seconds in steps:
        put(cache, key, value, seconds)
        assert len(cache) <= 3
        assert cache.size <= 900
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)
    put(cache, "甲", b"1")
    assert cache.size == ENTRY_BYTES + 5


def test_threads_leave_it_whole() -> None:
    cache = MemoryCache(entries=50, bytes_limit=50 * (ENTRY_BYTES + 60))

    async def work(seed: int) -> None:
        for at in range(400):
            key = str((at * seed) % 90)
            await cache.put(key, key.encode() * (at % 20), 60)
            value = await cache.get(str((at + seed) % 90))
            assert value is None or value.replace(str((at + seed) % 90).encode(), b"") == b""

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: asyncio.run(work(seed)), range(1, 9)))
    held = sum(len(value) + 4 * len(key) + ENTRY_BYTES for key, (_, value) in cache._held.items())
    assert cache.size == held
    assert len(cache) <= 50
