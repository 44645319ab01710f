"""Chunks in memory: a question looks at hundreds, and the next wording of it at most of them again.

All open bases share one bounded `ChunkMemory`. A chunk that is read here is what the records had at one state: with the
first search after any write to the base, what it had there goes. Whether a chunk is still there is looked up again
after any write to the database: versions that were replaced go without a new state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Final, TypeVar

from sqlalchemy import Connection

from qianxun.core.limits import MIB
from qianxun.core.system.cache import RESULT_BYTES, LRUCache
from qianxun.core.types import Chunk
from qianxun.records import chunks
from qianxun.records.database.change_mark import ChangeMark, change_mark
from qianxun.text.chinese import fold

Stored = TypeVar("Stored")

MOST_BYTES: Final = 24 * MIB  # of all bases: what some questions and their other wordings look at
MOST_SEEN: Final = 2_000  # keys of a base


class ChunkMemory:
    """What the caches of all bases have, each under a number of its own."""

    def __init__(self, most_bytes: float = MOST_BYTES) -> None:
        self.chunks: LRUCache[tuple[int, int], Chunk] = LRUCache(bytes_limit=most_bytes * 2 / 3, size=_chunk_bytes)
        self.folded: LRUCache[tuple[int, int], str] = LRUCache(bytes_limit=most_bytes / 3, size=_text_bytes)
        self.numbers = count()

    def remove(self, number: int) -> None:
        """What one cache has. Left to be displaced, texts of all ages lay between whatever else was in memory, and kept
        it from being given back: a fourth of the calls being writes, nearly all of them were outdated."""
        self.chunks.remove(lambda key, _: key[0] == number)
        self.folded.remove(lambda key, _: key[0] == number)

    def clear(self) -> None:
        self.chunks.clear()
        self.folded.clear()


class ChunkCache:
    """The chunks of one base at one state of its records."""

    def __init__(self, memory: ChunkMemory | None = None, state: int = -1) -> None:
        self._state = state  # of the records, as `records.bases.generation` counts it
        self._memory = memory or ChunkMemory()
        self._number = next(self._memory.numbers)
        self._is_outdated = False
        self._there: tuple[ChangeMark | None, set[int]] = (None, set())  # keys that were there at this mark

    def for_state(self, state: int) -> ChunkCache:
        """This one, if it is of that state of the records; else an empty one to take its place, and nothing of this one
        is left in memory, also of what searches that are under way still read."""
        if state == self._state:
            return self
        self._is_outdated = True
        self._memory.remove(self._number)
        return ChunkCache(self._memory, state)

    def emptied(self) -> ChunkCache:
        """One to take its place, with nothing left in memory of this base or any other: a purge is rare."""
        self._is_outdated = True
        self._memory.clear()
        return ChunkCache(self._memory)

    def get(self, key: int) -> Chunk | None:
        return self._memory.chunks.get((self._number, key))

    def put(self, key: int, chunk: Chunk) -> None:
        self._store(self._memory.chunks, key, chunk)

    def read(self, tx: Connection, knowledge_base: int, keys: Sequence[int]) -> dict[int, Chunk]:
        """`records.chunks.by_keys`; what it finds is here from then on."""
        there = self._there_at(change_mark(tx))
        found = chunks.by_keys(tx, knowledge_base, keys)
        for key, chunk in found.items():
            self.put(key, chunk)
        there.update(found)
        return found

    def existing(self, tx: Connection, knowledge_base: int, keys: Sequence[int]) -> Collection[int]:
        """`records.chunks.existing_keys`; those that were there when something was last written are not looked up."""
        there = self._there_at(change_mark(tx))
        if unseen := [key for key in keys if key not in there]:
            there.update(chunks.existing_keys(tx, knowledge_base, unseen))
        return [key for key in keys if key in there]

    def _there_at(self, mark: ChangeMark | None) -> set[int]:
        if mark is None:
            return set()
        known, there = self._there
        if known != mark or len(there) > MOST_SEEN:
            self._there = (mark, there := set())
        return there

    def folded(self, chunk: Chunk) -> str:
        """The chunk's text as words are looked for in it."""
        found = self._memory.folded.get((self._number, chunk.key))
        if found is None:
            found = fold(chunk.text)
            self._store(self._memory.folded, chunk.key, found)
        return found

    def _store(self, cache: LRUCache[tuple[int, int], Stored], key: int, value: Stored) -> None:
        """Nothing, once this one is outdated: nobody would look for it, and it would stay until it was displaced."""
        cache.put((self._number, key), value)
        if self._is_outdated:  # looked at afterwards: whoever sets it empties the cache after that
            cache.put((self._number, key), value, seconds=0)


def _chunk_bytes(_: tuple[int, int], chunk: Chunk) -> int:
    return 4 * len(chunk.text) + RESULT_BYTES


def _text_bytes(_: tuple[int, int], text: str) -> int:
    return 4 * len(text) + 200
