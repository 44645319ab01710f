"""The words of an open base that belong together, in memory: its user's synonyms, made ready once per configuration;
its own words with their vectors, read once after they were learnt; vectors of words in queries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Vector, Vectors
from qianxun.text.synonyms import NO_SYNONYMS, Thesaurus, user_thesaurus

ModelKey: TypeAlias = tuple[str, int]  # name and dimension: vectors of one kind
WORDS: Final = 2_000  # of queries, whose vectors are cached: at 512 numbers each four megabytes


class WriteWatch:
    """When the index last changed, for work that follows writes once they have paused."""

    def __init__(self) -> None:
        self._written: float | None = None

    def note_write(self) -> None:
        self._written = time.monotonic()

    def is_due(self, quiet_seconds: float) -> bool:
        """Whether something was written since `begin`, and nothing for so long since."""
        return self._written is not None and time.monotonic() - self._written >= quiet_seconds

    def begin(self) -> None:
        """What is written from now on is left to the next time."""
        self._written = None


@dataclass(frozen=True, slots=True, eq=False)
class LearntTerms:
    """Words of one base, in order, and a row for each under one model."""

    model: ModelKey
    terms: tuple[str, ...]
    vectors: Vectors


class KnownTerms(WriteWatch):
    """One for each open base, never shared: a word of one base cannot come up in another. Used on the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.learning = asyncio.Lock()  # one task learns at a time; searches do not take it
        self._config: Mapping[str, Any] | None = None
        self._own = NO_SYNONYMS
        self._learnt: LearntTerms | None = None
        self._vectors = LRUCache[tuple[ModelKey, str], Vector](WORDS)
        self._has_begun = False
        self.version = 0  # another number whenever other words were learnt

    def synonyms_of(self, config: Mapping[str, Any]) -> Thesaurus:
        """The synonyms of this configuration; a changed one is another value, and is read again."""
        if config is not self._config:
            groups = config.get("synonyms")
            self._own, self._config = (user_thesaurus(groups) if groups else NO_SYNONYMS), config
        return self._own

    # ── learnt words ─────────────────────────────────────────────────────────────────────────────

    def learnt(self, model: ModelKey) -> LearntTerms | None:
        """The words under this model; None while they have not been loaded."""
        return self._learnt if self._learnt is not None and self._learnt.model == model else None

    def store(self, learnt: LearntTerms, version: int) -> None:
        """Stores what was loaded at ``version``, unless words were learnt since, which would be missing from it."""
        if version == self.version:
            self._learnt = learnt

    def forget(self) -> None:
        """Other words were learnt: the next search loads them."""
        self._learnt = None
        self.version += 1

    def note_lack(self) -> None:
        """A search found nothing learnt: the base may be older than the learning of words."""
        if not self._has_begun:
            self.note_write()

    def begin(self) -> None:
        super().begin()
        self._has_begun = True

    # ── words of queries ─────────────────────────────────────────────────────────────────────────

    def vector(self, model: ModelKey, word: str) -> Vector | None:
        return self._vectors.get((model, word))

    def store_vectors(self, model: ModelKey, words: Sequence[str], vectors: Vectors) -> None:
        for word, vector in zip(words, vectors, strict=True):
            self._vectors.put((model, word), vector)
