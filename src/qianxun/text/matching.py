"""Where a text meets a question: the places of its words, and the stretch of text that has most of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from qianxun.text.chinese import STOP_WORDS, analyse_query, cuts_run, fold, grams

Span: TypeAlias = tuple[int, int]


def query_terms(query: str) -> tuple[str, ...]:
    """The words of a question that are worth pointing at; single characters only where there are no longer words."""
    words = [word for word in analyse_query(query).words if word not in STOP_WORDS]
    longer = [word for word in words if len(word) > 1]
    return tuple(longer or words)


def spans(text: str, words: Sequence[str], folded: str | None = None) -> list[Span]:
    """Every place of every word, merged where they touch; 發票 is found as 发票, ＡＢＣ as abc."""
    if not words:
        return []
    folded, offsets = _aligned(text, fold(text) if folded is None else folded)
    found = _whole(words, folded)
    return _merged(found if offsets is None else [(offsets[start], offsets[end]) for start, end in found])


def snippet(text: str, places: Sequence[Span], width: int) -> Span:
    """The stretch of at most ``width`` characters in which most matched characters stand; the beginning without any."""
    if len(text) <= width:
        return 0, len(text)
    lead = width // 5  # some context before the first match
    starts = [max(0, min(start - lead, len(text) - width)) for start, _ in places] or [0]

    def covered(start: int) -> int:
        return sum(end - begin for begin, end in places if begin >= start and end <= start + width)

    best = max(starts, key=lambda start: (covered(start), -start))
    return best, best + width


def weights(lines: Sequence[str], query: str) -> list[float]:
    """How much of the question each line takes up, in [0, 1]: by pairs of characters and whole runs of letters or
    digits, each counting by how rare it is among these lines."""
    grams_of_query = [gram for gram in grams(query) if len(gram) > 1] or grams(query)
    shared = [set(grams(line)).intersection(grams_of_query) for line in lines]
    counts = {gram: sum(gram in one for one in shared) for gram in dict.fromkeys(grams_of_query)}
    rarity = {gram: math.log1p(len(lines) / max(count, 1)) for gram, count in counts.items()}
    most = sum(rarity.values()) or 1.0
    return [sum(rarity[gram] for gram in sorted(one)) / most for one in shared]


def _whole(words: Iterable[str], folded: str) -> list[Span]:
    """Places of words, but no letters or digits out of the middle of a longer run: 12 is not in 2012. From left to
    right, the longest word of those that begin at a place, none inside another.

    To compile a pattern for the words of one question would take ten times as long as to look for them; and every
    result of every search is looked through, so that all of it is one loop."""
    places = []
    for word in words:
        may_cut = word[:1].isascii() or word[-1:].isascii()  # a Chinese word is part of no run
        at = folded.find(word)
        while at >= 0:
            places.append((at, -len(word), may_cut))
            at = folded.find(word, at + 1)
    places.sort()
    found, last = [], 0
    for start, length, may_cut in places:
        if start >= last:
            last = start - length
            if not may_cut or not cuts_run(folded, start, last):
                found.append((start, last))
    return found


def _aligned(text: str, folded: str) -> tuple[str, Sequence[int] | None]:
    """The folded text, and for each of its offsets the one in ``text``; None: the same."""
    if len(folded) == len(text):
        return folded, None
    parts = [fold(character) for character in text]
    offsets = [at for at, part in enumerate(parts) for _ in part]
    return "".join(parts), [*offsets, len(text)]


def _merged(found: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
