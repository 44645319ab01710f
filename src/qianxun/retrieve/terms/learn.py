"""The words of a base, learnt for the related words of queries: which it uses, and their vectors under its model.

    chunks of record ──► words that tell ──► those without a vector are embedded, the most frequent first ──► records

Behind everybody's back and within a bound of time; what is left over is learnt the next time. A search never waits for
it, and no write fails by it.
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
from qianxun.models.embedding import embed
from qianxun.records import terms
from qianxun.retrieve.terms.neighbours import can_have_neighbours
from qianxun.text.chinese import Analyser

log = logging.getLogger(__name__)

TERMS: Final = 5_000  # of one base: ten megabytes at 512 numbers each, and 7 s of bge-small on two cores, once
CHUNKS: Final = 20_000  # that are read for their words; of a larger base every so-many-th
READING_SECONDS: Final = 0.0003  # for the words of one chunk, at most: with less time it is not begun
LONGEST_WORD: Final = 8  # characters
SMALL: Final = 50  # chunks: in a base with fewer a word may stand in one alone
WIDE_SPREAD: Final = 0.2  # of the chunks of a base that is not small: what stands in more tells nothing apart
TOGETHER: Final = 64  # embedded at once, and then kept
SECONDS: Final = 60.0
SHARE: Final = 0.1  # of the time that taking files in has taken
SHORTEST: Final = 0.5
QUIET_SECONDS: Final = 5.0  # without a write, before what was written is learnt from
LOOK_SECONDS: Final = 2.0
RESTING: Final = 20.0  # times as long as learning has taken, before the same base is learnt from again


@dataclass(frozen=True, slots=True)
class Learnt:
    """What one go at a base's words did."""

    terms: int  # that it holds now
    added: int
    removed: int
    left: int | None  # that there was no time for; None: not even to find out


async def learn(base: OpenBase, seconds: float = SECONDS) -> Learnt:
    """Learns the words of the base under its model, as far as the time goes. Raises ModelError or NotFound.

    Without a model there is nothing to learn. Words that the base has no more are forgotten.
    """
    model = base.model
    if model is None:
        return Learnt(0, 0, 0, 0)
    until = time.monotonic() + seconds
    async with base.terms.learning:
        base.terms.begin()
        known = await asyncio.to_thread(_known, base, model)
        if time.monotonic() + min(known.chunks, CHUNKS) * READING_SECONDS > until:
            base.terms.note_write()
            return Learnt(len(known.held), 0, 0, None)
        wanted = await asyncio.to_thread(_wanted, base, -(-known.chunks // CHUNKS))
        held = known.held
        gone = held - wanted.keys()
        new = [term for term in wanted if term not in held]
        if gone:
            await asyncio.to_thread(_forget, base, model.name, gone)
        added = 0
        try:
            while added < len(new) and time.monotonic() < until and base.model is model:
                part = new[added : added + TOGETHER]
                vectors = await in_preparing_thread(base, embed, part, model)
                await asyncio.to_thread(_keep, base, model, part, vectors)
                added += len(part)
        finally:
            if added or gone:
                base.terms.forget()
        left = len(new) - added
        if left:
            base.terms.note_write()
    return Learnt(len(held) - len(gone) + added, added, len(gone), left)


# ── which words ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Known:
    chunks: int
    held: set[str]


def _known(base: OpenBase, model: EmbeddingModel) -> _Known:
    with base.records.reading() as tx:
        held = terms.stored(tx, base.id, model.name, model.dimension)
        return _Known(terms.chunk_count(tx, base.id), held)


def _wanted(base: OpenBase, every: int) -> dict[str, int]:
    """The words to be held, the most frequent first, by each so-many-th chunk."""
    counts: Counter[str] = Counter()
    read = after = 0
    while True:
        with base.records.reading() as tx:  # a page at a time: writers are not kept waiting
            page = terms.texts(tx, base.id, after, every=every)
        if not page:
            return chosen(counts, read)
        for _, text in page:
            counts.update(telling_words(text, base.analyser))
        read += len(page)
        after = page[-1][0]


def telling_words(text: str, analyser: Analyser) -> set[str]:
    """The words of a text that others may be related to. What the segmenter merely guesses to be a word is none."""
    return {
        word
        for word in set(analyser.words(text))
        if len(word) <= LONGEST_WORD and can_have_neighbours(word) and analyser.has_word(word)
    }


def chosen(counts: Mapping[str, int], chunks: int, limit: int = TERMS) -> dict[str, int]:
    """Words with the number of chunks they stand in, the most frequent first, ties in the order of the words."""
    least, most = (1, chunks) if chunks < SMALL else (2, int(WIDE_SPREAD * chunks))
    telling = [(word, count) for word, count in counts.items() if least <= count <= most]
    return dict(sorted(telling, key=lambda each: (-each[1], each[0]))[:limit])


def _keep(base: OpenBase, model: EmbeddingModel, words: Sequence[str], vectors: Any) -> None:
    with base.records.writing() as tx:
        if base.model is model:  # a rebuild has gone over to another, and dropped what was of this one
            terms.store(tx, base.id, model.name, words, vectors)


def _forget(base: OpenBase, model: str, gone: set[str]) -> None:
    with base.records.writing() as tx:
        terms.remove(tx, base.id, model, gone)


# ── behind everybody's back ──────────────────────────────────────────────────────────────────────


async def learn_quietly(base: OpenBase, seconds: float = SECONDS) -> None:
    """`learn` for those who have something else to do: what fails is logged, and tried with the next write."""
    try:
        async with asyncio.timeout(seconds + SECONDS):  # a model that hangs holds nobody for ever
            await learn(base, seconds)
    except NotFound:
        log.info("base %s is gone, and the learning of its words with it", base.id)
    except (QianxunError, TimeoutError) as error:
        log.warning("the words of base %s are not learnt now: %s", base.id, error or "timeout")
    except Exception:  # the door of a model, which may be anybody's, for callers whom this must not fail
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
