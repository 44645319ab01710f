"""Answers kept for an hour, under all they depend on: the question, how it was asked, and the library's state."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from qianxun.examples.formatting import RetrievedExample


def key_of(query_text: str, keywords: Sequence[str], *depends: Any) -> str:
    """The parts are told apart: “高血压” with the keyword “用药” is not “高血压 用药” without one."""
    return sha256(repr((query_text, tuple(keywords), *depends)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class KeptAnswers:
    """The least recently used goes first. Safe under threads; what is given out may be changed by whoever has it."""

    seconds: float = 3600.0
    entries: int = 1000
    clock: Callable[[], float] = time.monotonic
    _held: OrderedDict[str, tuple[float, list[RetrievedExample]]] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self, key: str) -> list[RetrievedExample] | None:
        with self._lock:
            until, answer = self._held.get(key, (0.0, None))
            if answer is None or self.clock() >= until:
                self._held.pop(key, None)
                return None
            self._held.move_to_end(key)
        return deepcopy(answer)

    def put(self, key: str, answer: list[RetrievedExample]) -> None:
        kept = deepcopy(answer)
        with self._lock:
            self._held[key] = self.clock() + self.seconds, kept
            self._held.move_to_end(key)
            while len(self._held) > self.entries:
                self._held.popitem(last=False)

    def __len__(self) -> int:
        return len(self._held)
