"""Chunks of an open base in memory: a question looks at hundreds, and the next wording of it at most of them again.

A chunk that is read here is what the records had at one state: any write to the base empties it. Whether it is still
there is looked up each time (`bases.base.chunks_by_keys`): versions that were replaced go without a new state.
"""

from __future__ import annotations

from typing import Final

from qianxun.core.limits import MIB
from qianxun.core.system.cache import RESULT_BYTES, LRUCache
from qianxun.core.types import Chunk
from qianxun.text.chinese import fold

MOST_BYTES: Final = 4 * MIB  # what a question and its other wordings look at: hundreds of bases may be open


class ChunkCache:
    """One for each open base and state of its records."""

    def __init__(self, state: int = -1) -> None:
        self._state = state  # of the records, as `records.bases.generation` counts it
        self.chunks: LRUCache[int, Chunk] = LRUCache(bytes_limit=MOST_BYTES, size=_chunk_bytes)
        self._folded: LRUCache[int, str] = LRUCache(bytes_limit=MOST_BYTES / 2, size=_text_bytes)

    def at(self, state: int) -> ChunkCache:
        """This one, if it is of that state of the records; else an empty one to take its place."""
        return self if state == self._state else ChunkCache(state)

    def folded(self, chunk: Chunk) -> str:
        """The chunk's text as words are looked for in it."""
        found = self._folded.get(chunk.key)
        if found is None:
            found = fold(chunk.text)
            self._folded.put(chunk.key, found)
        return found


def _chunk_bytes(_: int, chunk: Chunk) -> int:
    return 4 * len(chunk.text) + RESULT_BYTES


def _text_bytes(_: int, text: str) -> int:
    return 4 * len(text) + 200
