"""Texts as a model reads them: a document put together of its chunks, a passage among its neighbours, an excerpt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from qianxun.core.types import Chunk, Found

EXCERPT: Final = 300  # characters
BEFORE: Final = 60  # of them that stand before the words that were looked for
AROUND: Final = 800  # characters on either side of a passage, in whole chunks


def joined(chunks: Sequence[Chunk]) -> str:
    """The text that the chunks were cut from: nothing twice where they overlap, and of a table's header, which stands
    before all of its later rows, only the first. Between two chunks the splitter leaves out white space alone."""
    parts = [chunk.text for chunk in chunks[:1]]
    at = chunks[0].end if chunks else 0
    for chunk in chunks[1:]:
        body = chunk.text if chunk.is_edited else chunk.text[len(chunk.text) - (chunk.end - chunk.start) :]
        if chunk.start > at:
            parts.append("\n" if chunk.start == at + 1 else "\n\n")
        parts.append(body[max(0, at - chunk.start) :])
        at = max(at, chunk.end)
    return "".join(parts)


def surroundings(chunks: Sequence[Chunk], at: int) -> Sequence[Chunk]:
    """The chunk at this position with the whole ones around it."""
    first, last = at, at
    while first > 0 and chunks[at].start - chunks[first - 1].start <= AROUND:
        first -= 1
    while last + 1 < len(chunks) and chunks[last + 1].end - chunks[at].end <= AROUND:
        last += 1
    return chunks[first : last + 1]


def excerpt(found: Found) -> str:
    """A few lines of a passage, those that speak of the question."""
    text = found.chunk.text
    if len(text) <= EXCERPT:
        return text
    places = (text.find(words) for words in found.highlights)
    start = max(0, next((place for place in places if place >= 0), 0) - BEFORE)
    start = min(start, len(text) - EXCERPT)
    end = start + EXCERPT
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
