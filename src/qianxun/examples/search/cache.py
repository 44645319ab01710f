"""Answers cached for an hour, under all they depend on: the question, how it was asked, and the library's state."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from hashlib import sha256
from typing import Any

from qianxun.core.cache import LRUCache
from qianxun.examples.formatting import RetrievedExample


def key_of(query_text: str, keywords: Sequence[str], *depends: Any) -> str:
    """The parts are told apart: “高血压” with the keyword “用药” is not “高血压 用药” without one."""
    return sha256(repr((query_text, tuple(keywords), *depends)).encode("utf-8", "surrogatepass")).hexdigest()


class KeptAnswers:
    """The least recently used goes first. Safe under threads; callers may change what they are given."""

    def __init__(
        self, seconds: float = 3600.0, entries: int = 1000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._cache = LRUCache[str, list[RetrievedExample]](entries, clock=clock)

    def get(self, key: str) -> list[RetrievedExample] | None:
        return deepcopy(self._cache.get(key))

    def put(self, key: str, answer: list[RetrievedExample]) -> None:
        self._cache.put(key, deepcopy(answer), self._seconds)

    def __len__(self) -> int:
        return len(self._cache)
