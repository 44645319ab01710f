"""The cache keeps to its bounds, forgets in time, and stands threads."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import pkgutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

import qianxun
from qianxun.core.system.cache import LONGEST_TEXT, MemoryCache, cached_texts, forget_texts, size_of, sized_texts
from qianxun.core.types import Recall
from tests.hypothesis_settings import examples


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def put(cache: MemoryCache, key: str, query: str = "x", seconds: float = 60) -> None:
    asyncio.run(cache.put(key, answer(query), seconds))


def get(cache: MemoryCache, key: str) -> str | None:
    found = asyncio.run(cache.get(key))
    return found.query if found is not None else None


def answer(query: str) -> Recall:
    return Recall(query, "hybrid", ())


def size(key: str, query: str) -> int:
    return size_of(key, answer(query))


def test_a_value_is_there_until_its_time_is_over() -> None:
    clock = Clock()
    cache = MemoryCache(clock=clock)
    put(cache, "甲", "1", 10)
    clock.now += 9.9
    assert get(cache, "甲") == "1"
    clock.now += 0.1
    assert get(cache, "甲") is None
    assert (len(cache), cache.size) == (0, 0)


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_a_value_without_a_time_to_live_is_not_kept_and_ends_the_one_before(seconds: float) -> None:
    cache = MemoryCache()
    put(cache, "甲", "1")
    put(cache, "甲", "2", seconds)
    assert get(cache, "甲") is None


def test_the_least_recently_used_goes_first() -> None:
    cache = MemoryCache(entries=2)
    put(cache, "甲")
    put(cache, "乙")
    get(cache, "甲")
    put(cache, "丙")
    assert [get(cache, key) for key in "甲乙丙"] == ["x", None, "x"]


def test_bytes_are_bounded_and_a_giant_is_not_kept() -> None:
    cache = MemoryCache(bytes_limit=3 * size("甲", "x" * 100))
    for key in "甲乙丙丁":
        put(cache, key, "x" * 100)
    assert [get(cache, key) is None for key in "甲乙丙丁"] == [True, False, False, False]
    put(cache, "戊", "x" * 10_000)
    assert get(cache, "戊") is None
    assert len(cache) == 3


@examples(60)
@given(st.lists(st.tuples(st.sampled_from("甲乙丙丁"), st.text(max_size=200), st.sampled_from([0.0, 1.0, 60.0]))))
def test_the_count_of_bytes_is_always_that_of_what_is_held(steps: list[tuple[str, str, float]]) -> None:
    limit = 2 * size("甲", "x" * 90)
    cache = MemoryCache(entries=3, bytes_limit=limit)
    for key, value, seconds in steps:
        put(cache, key, value, seconds)
        assert len(cache) <= 3
        assert cache.size <= limit
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)
    put(cache, "甲", "1")
    assert cache.size == size("甲", "1")


def test_threads_leave_it_whole() -> None:
    cache = MemoryCache(entries=50, bytes_limit=50 * size("89", "89" * 10))

    async def work(seed: int) -> None:
        for at in range(400):
            key = str((at * seed) % 90)
            await cache.put(key, answer(key * (at % 20)), 60)
            found = await cache.get(str((at + seed) % 90))
            assert found is None or found.query.replace(str((at + seed) % 90), "") == ""

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: asyncio.run(work(seed)), range(1, 9)))
    assert cache.size == sum(size_of(key, found) for key, (_, _, found) in cache._cache._stored.items())
    assert len(cache) <= 50


def test_what_is_remembered_of_texts_is_bounded_in_number_and_in_length() -> None:
    computed: list[str] = []

    @cached_texts(10)
    def length(word: str, text: str) -> int:
        computed.append(text)
        return len(word + text)

    for number in range(100):
        assert length("甲", f"{number:02}") == 3
    lru = length.lru  # type: ignore[attr-defined]
    assert lru.cache_info().currsize == 10
    assert (length("甲", "99"), len(computed)) == (3, 100)
    long = "长" * (LONGEST_TEXT + 1)
    assert (length("甲", long), length("甲", long), computed[-2:]) == (len(long) + 1, len(long) + 1, [long, long])
    forget_texts()
    assert lru.cache_info().currsize == 0


def test_what_is_made_of_texts_is_bounded_in_bytes() -> None:
    computed: list[str] = []

    @sized_texts(1_000, len)
    def doubled(text: str) -> str:
        computed.append(text)
        return 2 * text

    for number in range(100):
        assert doubled(f"{number:050}") == 2 * f"{number:050}"
    known = doubled.known  # type: ignore[attr-defined]
    assert (len(known), known.size) == (10, 1_000)
    assert (doubled(f"{99:050}"), len(computed)) == (2 * f"{99:050}", 100)
    assert (len(doubled("长" * 600)), len(doubled("长" * 600)), len(computed)) == (1_200, 1_200, 102)  # never stored
    forget_texts()
    assert len(known) == 0


def test_nothing_else_remembers_texts_of_documents_without_a_bound_in_bytes() -> None:
    """Thousands of entries by the text of a line or a passage were most of what a busy service grew by."""
    by_text = {"text", "clause", "folded", "line", "passage"}
    assert not _remembering_more_than(256, by_text), "use cached_texts"


def test_what_is_remembered_of_the_words_of_questions_is_soon_as_much_as_it_will_be() -> None:
    """A word is looked for in hundreds of lines, for one question. 4,096 of them were there after 50,000 calls of all
    kinds: until then a service grew."""
    found = _remembering_more_than(1_024, {"word", "name"})
    assert not [name for name in found if not name.startswith("qianxun.question.words.")]  # those are of the lexicon


def _remembering_more_than(most: int, names: set[str]) -> list[str]:
    """The functions whose cache has room for more values of a parameter with one of these names."""
    found = []
    for module in pkgutil.walk_packages(qianxun.__path__, "qianxun."):
        if module.name.startswith(("qianxun.answer", "qianxun.question", "qianxun.text", "qianxun.retrieve")):
            for name, function in vars(importlib.import_module(module.name)).items():
                if not hasattr(function, "cache_info") or function.__module__ != module.name:
                    continue
                given = inspect.signature(function).parameters
                entries = function.cache_info().maxsize
                if names & given.keys() and not (entries or 10**9) <= most:
                    found.append(f"{module.name}.{name}")
    return found
