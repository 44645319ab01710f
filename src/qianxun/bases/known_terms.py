"""What an open base has at hand of words that belong together.

Its user's synonyms, made ready once per configuration; its own words with their vectors, read once after they were
learnt; vectors of words that queries asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from qianxun.core.cache import LRUCache
from qianxun.core.types import Vector, Vectors
from qianxun.text.synonyms import NO_SYNONYMS, Thesaurus, of_user

ModelKey: TypeAlias = tuple[str, int]  # name and dimension: vectors of one kind
WORDS: Final = 2_000  # of queries, whose vectors are kept: at 512 numbers each four megabytes


@dataclass(frozen=True, slots=True, eq=False)
class LearntTerms:
    """Words of one base, in order, and a row for each under one model."""

    model: ModelKey
    terms: tuple[str, ...]
    vectors: Vectors


class KnownTerms:
    """One for each open base, and never shared: a word of one base cannot come up in another.

    Used on the event loop alone, so that it needs no lock of its own.
    """

    def __init__(self) -> None:
        self.learning = asyncio.Lock()  # one learns at a time; searches do not take it
        self._config: Mapping[str, Any] | None = None
        self._own = NO_SYNONYMS
        self._learnt: LearntTerms | None = None
        self._vectors = LRUCache[tuple[ModelKey, str], Vector](WORDS)
        self._written: float | None = None  # when the index last changed since the words were learnt
        self._has_begun = False
        self._version = 0

    # ── synonyms ─────────────────────────────────────────────────────────────────────────────────

    def own(self, config: Mapping[str, Any]) -> Thesaurus:
        """The synonyms of this configuration; a changed one is another value, and is read anew."""
        if config is not self._config:
            groups = config.get("synonyms")
            self._own, self._config = (of_user(groups) if groups else NO_SYNONYMS), config
        return self._own

    # ── what was learnt ──────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int:
        """Another number whenever other words were learnt."""
        return self._version

    def learnt(self, model: ModelKey) -> LearntTerms | None:
        """The words under this model; None while they have not been read."""
        return self._learnt if self._learnt is not None and self._learnt.model == model else None

    def remember(self, learnt: LearntTerms, version: int) -> None:
        """Keeps what was read when ``version`` was asked for; what has been learnt since would be missing from it."""
        if version == self._version:
            self._learnt = learnt

    def forget(self) -> None:
        """Other words were learnt: the next search reads them."""
        self._learnt = None
        self._version += 1

    # ── when to learn ────────────────────────────────────────────────────────────────────────────

    def note_write(self) -> None:
        """The index changed: there may be words to learn."""
        self._written = time.monotonic()

    def note_lack(self) -> None:
        """A search found nothing learnt: the base may be of before there was anything to learn."""
        if not self._has_begun:
            self.note_write()

    def is_due(self, quiet_seconds: float) -> bool:
        """Whether something was written and nothing for so long since."""
        return self._written is not None and time.monotonic() - self._written >= quiet_seconds

    def begin(self) -> None:
        """What is written from now on is to be learnt another time."""
        self._written = None
        self._has_begun = True

    # ── words of queries ─────────────────────────────────────────────────────────────────────────

    def vector(self, model: ModelKey, word: str) -> Vector | None:
        return self._vectors.get((model, word))

    def keep_vectors(self, model: ModelKey, words: Sequence[str], vectors: Vectors) -> None:
        for word, vector in zip(words, vectors, strict=True):
            self._vectors.put((model, word), vector)
