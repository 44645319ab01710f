"""Models that do as a test says: no weights, no network, the same on every machine.

    chat = ScriptedChat(["第一次的回答", ModelUnavailable("断了"), lambda messages: messages[-1].content])
    reranker = ScriptedReranker(lambda query, passage: len(passage) / 1000, share=0.5)
    embedding = ScriptedEmbedding(error=ModelUnavailable("连不上"), when=lambda text: "坏" in text)

Each records its calls. A `Gate` stops a call until the test opens it, so that no test waits for a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np

from qianxun.core.errors import ModelUnavailable
from qianxun.core.ports import never
from qianxun.core.types import Message, Vector, Vectors

GATE_SECONDS: Final = 120.0  # after which a test that never opens its gate fails
_POLL_SECONDS: Final = 0.01


@dataclass(slots=True)
class Gate:
    """Calls set ``entered`` and wait until the test sets ``opened``."""

    entered: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def wait(self, stop: Callable[[], bool] = never) -> None:
        """Raises ModelUnavailable once ``stop`` returns True, AssertionError if the gate stays closed."""
        self.entered.set()
        for _ in range(round(GATE_SECONDS / _POLL_SECONDS)):
            if self.opened.wait(_POLL_SECONDS):
                return
            if stop():
                raise ModelUnavailable("调用被中止")
        raise AssertionError("the gate was never opened")


def always(_: str) -> bool:
    return True


# ── embedding ────────────────────────────────────────────────────────────────────────────────────


class HashEmbedding:
    """Characters and character bigrams hashed into signed buckets: texts that share them get similar unit vectors.

    Deterministic across processes and machines. It knows form, not meaning: synonyms have nothing in common.
    """

    def __init__(self, dimension: int = 64, name: str = "") -> None:
        self._dimension = dimension
        self._name = name or f"fake-{dimension}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[:] = self._embed(text)
        return vectors

    def embed_query(self, text: str) -> Vector:
        row: Vector = self.embed_passages([text])[0]
        return row

    def _embed(self, text: str) -> Vector:
        # A bigram says more than a character, so it weighs more; the empty text has a feature of its own.
        row = [0.0] * self._dimension
        for start in range(len(text)):
            for feature, weight in ((text[start], 0.3), (text[start : start + 2], 1.0)):
                digest = _digest(feature)
                row[(digest >> 1) % self._dimension] += weight if digest & 1 else -weight
        features = np.array(row, dtype=np.float32)
        norm = float(np.linalg.norm(features))
        if norm == 0.0:
            features[0] = norm = 1.0
        return features / np.float32(norm)


@lru_cache(maxsize=10_000)  # tests have few characters, and write the same ones again and again
def _digest(feature: str) -> int:
    return int.from_bytes(blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class ScriptedEmbedding(HashEmbedding):
    """`HashEmbedding` that records its calls and, for texts that ``when`` accepts, waits, fails or changes its vectors.

    ``on`` limits that to "passages" or "queries". All of it may be changed while the model is in use.
    """

    def __init__(
        self,
        dimension: int = 64,
        name: str = "",
        *,
        error: Exception | None = None,
        gate: Gate | None = None,
        change: Callable[[Vectors], Any] | None = None,
        when: Callable[[str], bool] = always,
        on: str = "",
    ) -> None:
        super().__init__(dimension, name)
        self.error, self.gate, self.change, self.when, self.on = error, gate, change, when, on
        self.passages: list[str] = []
        self.queries: list[str] = []
        self.batches: list[int] = []  # how many passages each call had
        self.failures = 0

    def embed_passages(self, texts: Sequence[str]) -> Any:
        self.passages.extend(texts)
        self.batches.append(len(texts))
        return self._scripted(texts, "passages", super().embed_passages(texts))

    def embed_query(self, text: str) -> Any:
        self.queries.append(text)
        vectors = self._scripted([text], "queries", super().embed_passages([text]))
        return vectors[0] if isinstance(vectors, np.ndarray) and vectors.ndim == 2 else vectors

    def _scripted(self, texts: Sequence[str], kind: str, vectors: Vectors) -> Any:
        if self.on not in ("", kind) or not any(map(self.when, texts)):
            return vectors
        if self.gate is not None:
            self.gate.wait()
        if self.error is not None:
            self.failures += 1
            raise self.error
        return vectors if self.change is None else self.change(vectors)


# ── rerank ───────────────────────────────────────────────────────────────────────────────────────


class ScriptedReranker:
    """Scores by a function of query and passage, or the same for all; ``reply`` takes the place of all scores."""

    def __init__(
        self,
        score: Callable[[str, str], float] | float = 0.5,
        *,
        name: str = "scripted",
        share: float = 0.5,
        error: Exception | None = None,
        gate: Gate | None = None,
        reply: Callable[[Sequence[str]], Any] | None = None,
    ) -> None:
        self.name, self.share = name, share
        self.error, self.gate, self.reply = error, gate, reply
        self._score = score
        self.calls: list[tuple[str, tuple[str, ...]]] = []

    @property
    def passages(self) -> list[str]:
        """Every passage that was scored, in order."""
        return [passage for _, passages in self.calls for passage in passages]

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> Any:
        self.calls.append((query, tuple(passages)))
        if self.gate is not None:
            self.gate.wait(stop)
        if self.error is not None:
            raise self.error
        if stop():
            raise ModelUnavailable("调用被中止")
        if self.reply is not None:
            return self.reply(passages)
        scores = self._score
        return [scores(query, passage) if callable(scores) else scores for passage in passages]


# ── chat ─────────────────────────────────────────────────────────────────────────────────────────

Reply: TypeAlias = str | Exception | Callable[[Sequence[Message]], Any] | None


class ScriptedChat:
    """Replies in order, the last one for ever. An exception is raised, a function is given the messages."""

    def __init__(
        self, replies: Reply | Sequence[Reply] = "好的。", *, name: str = "scripted", gate: Gate | None = None
    ) -> None:
        self.name, self.gate = name, gate
        self.replies: list[Reply] = list(replies) if isinstance(replies, (list, tuple)) else [replies]  # type: ignore[list-item]
        self.calls: list[tuple[Message, ...]] = []
        self._next = threading.Lock()

    @property
    def prompts(self) -> list[str]:
        """The last message of every call."""
        return [messages[-1].content for messages in self.calls]

    @property
    def systems(self) -> list[str]:
        """The first message of every call."""
        return [messages[0].content for messages in self.calls]

    def complete(self, messages: Sequence[Message]) -> Any:
        return self._reply(messages, never)

    def _reply(self, messages: Sequence[Message], stop: Callable[[], bool]) -> Any:
        with self._next:
            reply = self.replies[min(len(self.calls), len(self.replies) - 1)]
            self.calls.append(tuple(messages))
        if self.gate is not None:
            self.gate.wait(stop)
        if isinstance(reply, Exception):
            raise reply
        return reply(messages) if callable(reply) else reply


class ScriptedStreamingChat(ScriptedChat):
    """Also streams its replies, in pieces of ``size`` characters; with ``fails_after`` so many it raises ``error``."""

    def __init__(
        self,
        replies: Reply | Sequence[Reply] = "好的。",
        size: int = 3,
        *,
        name: str = "scripted",
        gate: Gate | None = None,
        fails_after: int | None = None,
        error: Exception | None = None,
    ) -> None:
        super().__init__(replies, name=name, gate=gate)
        self.size, self.fails_after = size, fails_after
        self.error = error or ModelUnavailable("模型断开了")
        self.is_closed = False  # the last stream has ended, or its reader has left

    def complete(self, messages: Sequence[Message]) -> Any:
        reply = super().complete(messages)
        if self.fails_after is not None:
            raise self.error
        return reply

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        self.is_closed = False
        try:
            reply = self._reply(messages, stop)
            for at in range(0, len(reply), self.size):
                if self.fails_after is not None and at >= self.fails_after:
                    raise self.error
                if stop():
                    raise ModelUnavailable("调用被中止")
                yield reply[at : at + self.size]
        finally:
            self.is_closed = True
