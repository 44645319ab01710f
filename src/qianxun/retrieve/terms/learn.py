"""Learns the words of a base, for the related words of queries: which it uses, and their vectors under its model.

    chunks of record ──► significant words ──► those without a vector are embedded, the most frequent first ──► records

In the background and within a bound of time; what is left over is learnt the next time. A search never waits for it,
and no write fails by it. Read `learn` first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from qianxun.bases.base import OpenBase, in_preparing_thread
from qianxun.core.errors import NotFound, QianxunError
from qianxun.core.ports import EmbeddingModel
from qianxun.core.vectors import embed
from qianxun.records import bases, terms
from qianxun.retrieve.terms.related import can_have_neighbours
from qianxun.text.chinese import Analyser

log = logging.getLogger(__name__)

TERMS: Final = 5_000  # of one base: ten megabytes at 512 numbers each, and 7 s of bge-small on two cores, once
CHUNKS: Final = 20_000  # that are read for their words; of a larger base every so-many-th
READING_SECONDS: Final = 0.0003  # for the words of one chunk, at most: with less time it is not begun
LONGEST_WORD: Final = 8  # characters
SMALL: Final = 50  # chunks: in a base with fewer a word may occur in one alone
WIDE_SPREAD: Final = 0.2  # of the chunks of a base that is not small: what occurs in more distinguishes nothing
TOGETHER: Final = 64  # embedded at once, and then stored
SECONDS: Final = 60.0
SHARE: Final = 0.1  # of the time that taking files in has taken
SHORTEST: Final = 0.5
QUIET_SECONDS: Final = 5.0  # without a write, before what was written is learnt from
LOOK_SECONDS: Final = 2.0
RESTING: Final = 20.0  # times as long as learning has taken, before the same base is learnt from again


@dataclass(frozen=True, slots=True)
class Learnt:
    """What one run over a base's words did."""

    terms: int  # that it has now
    added: int
    removed: int
    left: int | None  # that there was no time for; None: not even to find out


async def learn(base: OpenBase, seconds: float = SECONDS) -> Learnt:
    """Learns the words of the base under its model, as far as the time goes. Raises ModelError or NotFound.

    Without a model there is nothing to learn. Words that the base no longer uses are removed.
    """
    model = base.model
    if model is None:
        return Learnt(0, 0, 0, 0)
    until = time.monotonic() + seconds
    async with base.terms.learning:
        base.terms.begin()
        chunks, stored = await asyncio.to_thread(_stored, base, model)
        if time.monotonic() + min(chunks, CHUNKS) * READING_SECONDS > until:
            base.terms.note_write()
            return Learnt(len(stored), 0, 0, None)
        words = await asyncio.to_thread(_words, base, -(-chunks // CHUNKS))
        unused = stored - words.keys()
        new = [term for term in words if term not in stored]
        if unused:
            await asyncio.to_thread(_remove, base, model.name, unused)
        added = 0
        try:
            while added < len(new) and time.monotonic() < until and base.model is model:
                part = new[added : added + TOGETHER]
                vectors = await in_preparing_thread(base, embed, part, model)
                await asyncio.to_thread(_store, base, model, part, vectors)
                added += len(part)
        finally:
            if added or unused:
                base.terms.forget()
                await asyncio.to_thread(_note, base)
        left = len(new) - added
        if left:
            base.terms.note_write()
    return Learnt(len(stored) - len(unused) + added, added, len(unused), left)


# ── which words ──────────────────────────────────────────────────────────────────────────────────


def _stored(base: OpenBase, model: EmbeddingModel) -> tuple[int, set[str]]:
    """How many chunks there are, and the words that have a vector."""
    with base.records.reading() as tx:
        return terms.chunk_count(tx, base.id), terms.stored(tx, base.id, model.name, model.dimension)


def _words(base: OpenBase, every: int) -> dict[str, int]:
    """The words to learn, the most frequent first, by each so-many-th chunk."""
    counts: Counter[str] = Counter()
    read = after = 0
    while True:
        with base.records.reading() as tx:  # a page at a time: writers do not wait
            page = terms.texts(tx, base.id, after, every=every)
        if not page:
            return chosen(counts, read)
        for _, text in page:
            counts.update(significant_words(text, base.analyser))
        read += len(page)
        after = page[-1][0]


def significant_words(text: str, analyser: Analyser) -> set[str]:
    """The words of a text that others may be related to. What the segmenter merely guesses to be a word is none."""
    return {
        word
        for word in set(analyser.words(text))
        if len(word) <= LONGEST_WORD and can_have_neighbours(word) and analyser.has_word(word)
    }


def chosen(counts: Mapping[str, int], chunks: int, limit: int = TERMS) -> dict[str, int]:
    """Words with the number of chunks they occur in, the most frequent first, ties in the order of the words."""
    least, most = (1, chunks) if chunks < SMALL else (2, int(WIDE_SPREAD * chunks))
    usable = [(word, count) for word, count in counts.items() if least <= count <= most]
    return dict(sorted(usable, key=lambda row: (-row[1], row[0]))[:limit])


def _store(base: OpenBase, model: EmbeddingModel, words: Sequence[str], vectors: Any) -> None:
    with base.records.writing() as tx:
        if base.model is model:  # else a rebuild has changed the model and removed the words of this one
            terms.store(tx, base.id, model.name, words, vectors)


def _note(base: OpenBase) -> None:
    with base.records.writing() as tx:
        bases.note_learnt(tx, base.id)


def _remove(base: OpenBase, model: str, unused: set[str]) -> None:
    with base.records.writing() as tx:
        terms.remove(tx, base.id, model, unused)


# ── in the background ────────────────────────────────────────────────────────────────────────────


async def learn_quietly(base: OpenBase, seconds: float = SECONDS) -> None:
    """`learn` for callers that must not fail by it: an error is logged, and the next write tries again."""
    try:
        async with asyncio.timeout(seconds + SECONDS):  # a model may hang
            await learn(base, seconds)
    except NotFound:
        log.info("base %s was deleted while its words were learnt", base.id)
    except (QianxunError, TimeoutError) as error:
        log.warning("the words of base %s are not learnt now: %s", base.id, error or "timeout")
    except Exception:  # any model may raise anything
        log.exception("the words of base %s are not learnt after an unexpected failure", base.id)


async def learn_after(base: OpenBase, seconds: float) -> None:
    """For a caller whose process may end now: learns from what it wrote, for a tenth of the time that it took."""
    if base.model is not None and base.terms.is_due(0.0):
        await learn_quietly(base, max(SHORTEST, seconds * SHARE))


async def keep_learning(open_bases: Callable[[], Iterable[OpenBase]]) -> None:
    """Learns from the bases that were written to, one at a time, once each has been left alone for a while.

    However often a large base is written to, a twentieth of the time at most goes to the learning of its words.
    """
    resting: dict[int, float] = {}
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = time.monotonic()
        resting = {base: until for base, until in resting.items() if until > now}
        for base in open_bases():
            if base.model is None or base.id in resting or not base.terms.is_due(QUIET_SECONDS):
                continue
            started = time.monotonic()
            await learn_quietly(base)
            resting[base.id] = time.monotonic() + RESTING * (time.monotonic() - started)
