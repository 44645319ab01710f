"""Homophone correction: 糖尿丙 for 糖尿病. The texts of the base decide, not a list of errors.

Such an error leaves a pair of characters that does not occur in the base, in a word that does not occur in it. Where a
character of the same sound makes a word that does, that word is the correction.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final, TypeAlias

from qianxun.core.types import TermCounts, Terms
from qianxun.text.chinese import LEXICON, STOP_WORDS, Analyser, fold

Count: TypeAlias = Callable[[Terms], Awaitable[TermCounts]]

CHANGES: Final = 2  # characters put right in one query: with more, guessing begins
_LONGEST: Final = 100  # Han characters; a longer query has other words to be found by
_SUSPECTS: Final = 8
_WORDS: Final = 400  # counted at most
_REACH: Final = 4  # characters either side that the segmenter is shown
_HAN_RUN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]{2,}")


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring Han characters of the query, folded, and the words that the segmenter sees in them."""

    start: int
    text: str
    words: tuple[str, ...]

    def pairs(self, first: int = 0, end: int | None = None) -> list[str]:
        part = self.text[max(first, 0) : end]
        return [part[at : at + 2] for at in range(len(part) - 1)]


@dataclass(frozen=True, slots=True)
class _Change:
    """``character`` in place of the one at ``at``: ``word`` then begins at ``first``."""

    run: _Run
    at: int
    character: str
    first: int
    word: str

    @property
    def end(self) -> int:
        return self.first + len(self.word)

    @property
    def replaced(self) -> str:
        return self.run.text[self.first : self.end]

    def outer_pairs(self) -> list[str]:
        """The pairs that the word makes with its neighbours."""
        text = self.run.text
        before = [text[self.first - 1] + self.word[0]] if self.first else []
        return before + ([self.word[-1] + text[self.end]] if self.end < len(text) else [])

    def overlaps(self, other: _Change) -> bool:
        return self.run is other.run and self.first < other.end and other.first < self.end


async def corrections(text: str, analyser: Analyser, count: Count) -> str | None:
    """The query with at most two characters replaced by others of the same sound; None where nothing is to be changed.

    Only a word that does not occur in the base is changed, and only into one that does. The result is as long as
    ``text``; ``count`` is called at most three times.
    """
    runs = _runs(text, analyser)
    if not runs or sum(len(run.text) for run in runs) > _LONGEST:
        return None
    counts = await count(_terms((word for run in runs for word in run.words), (p for run in runs for p in run.pairs())))
    suspects = [(run, at) for run in runs for at in _suspects(run, counts)][:_SUSPECTS]
    if not suspects:
        return None
    possible = _possible(suspects, analyser, counts)
    if not possible:
        return None
    words = (await count(_terms((change.word for change in possible), ()))).words
    possible = [change for change in possible if words.get(change.word)]
    if not possible:  # mostly; then their neighbours need not be counted
        return None
    would = replace(await count(_terms((), (p for change in possible for p in change.outer_pairs()))), words=words)
    chosen = _chosen([change for change in possible if _is_better(change, counts, would, analyser)], would)
    return _changed(text, chosen) if chosen else None


def _runs(text: str, analyser: Analyser) -> list[_Run]:
    found = []
    for run in _HAN_RUN.finditer(text):
        folded = fold(run.group())
        if len(folded) == len(run.group()):
            found.append(_Run(run.start(), folded, tuple(dict.fromkeys(analyser.words(folded)))))
    return found


def _terms(words: Iterable[str], grams: Iterable[str]) -> Terms:
    return Terms(tuple(dict.fromkeys(words)), tuple(dict.fromkeys(grams)))


# ── suspects ────────────────────────────────────────────────────────────────────────────


def _suspects(run: _Run, counts: TermCounts) -> Iterator[int]:
    """Characters in no known word, next to one that they are never next to in the base."""
    correct = _correct(run, counts)
    for at in range(len(run.text)):
        if at not in correct and any(not counts.grams.get(pair) for pair in run.pairs(at - 1, at + 2)):
            yield at


def _correct(run: _Run, counts: TermCounts) -> set[int]:
    """Positions of words that are correct."""
    return {at for first, end in _correct_spans(run, counts) for at in range(first, end)}


def _correct_spans(run: _Run, counts: TermCounts) -> list[tuple[int, int]]:
    return [place for word in run.words if _is_correct(word, counts) for place in _places(word, run)]


def _is_correct(word: str, counts: TermCounts) -> bool:
    return len(word) > 1 and (word in STOP_WORDS or counts.words.get(word, 0) > 0)


def _places(word: str, run: _Run) -> Iterator[tuple[int, int]]:
    first = run.text.find(word)
    while first >= 0:
        yield first, first + len(word)
        first = run.text.find(word, first + 1)


# ── possible corrections ─────────────────────────────────────────────────────────────────────


def _possible(suspects: Sequence[tuple[_Run, int]], analyser: Analyser, counts: TermCounts) -> list[_Change]:
    """Every change after which the segmenter sees a word there; as many as may be counted."""
    found: list[_Change] = []
    words: set[str] = set()
    correct = {id(run): _correct_spans(run, counts) for run, _ in suspects}
    for change in _words_around(suspects, analyser):
        if _cuts_a_correct_word(change, correct[id(change.run)]):
            continue
        words.add(change.word)
        if len(words) > _WORDS:
            break
        found.append(change)
    return found


def _words_around(suspects: Sequence[tuple[_Run, int]], analyser: Analyser) -> Iterator[_Change]:
    """The words that the segmenter sees in the place of a suspect, with each of the characters that sound alike."""
    tried: list[tuple[_Run, int, str]] = []
    windows: list[str] = []
    for run, at in suspects:
        before, after = run.text[max(at - _REACH, 0) : at], run.text[at + 1 : at + 1 + _REACH]
        others = _of_the_same_sound(run.text[at])
        tried += [(run, at, other) for other in others]
        windows += [f"{before}{other}{after}" for other in others]
    for number, word in dict.fromkeys(analyser.longer_words(windows)):
        run, at, character = tried[number]
        if character in word:
            window, start = windows[number], max(at - _REACH, 0)
            inside = at - start  # where the character is in its window
            first = window.find(word, max(inside - len(word) + 1, 0))
            while 0 <= first <= inside:
                yield _Change(run, at, character, start + first, word)
                first = window.find(word, first + 1)


def _cuts_a_correct_word(change: _Change, correct: Sequence[tuple[int, int]]) -> bool:
    """Whether a correct word would lose a part of itself, but not all of it."""
    start, stop = change.first, change.end
    return any(first < stop and start < end and not (start <= first and end <= stop) for first, end in correct)


def _spoils_a_word(change: _Change, analyser: Analyser) -> bool:
    """A word of the dictionary that is not in the base (饺子) is no error, nor is a particle (其).

    Only a longer word (心机梗塞, 试用其) or the neighbours on both sides show that it was one.
    """
    if len(change.word) > 2:
        return False
    run = change.run
    around = [w for w in run.words if len(w) > 1 and any(a <= change.at < b for a, b in _places(w, run))]
    return any(map(analyser.has_word, around)) or (not around and run.text[change.at] in STOP_WORDS)


@lru_cache(maxsize=2_048)
def _of_the_same_sound(character: str) -> tuple[str, ...]:
    sounds, characters = _sounds()
    alike = {other for sound in sounds.get(character, ()) for other in characters[sound]}
    return tuple(sorted(alike - {character}))


@cache
def _sounds() -> tuple[dict[str, list[str]], dict[str, str]]:
    """Character → its sounds without tones, and back; the 6,763 characters of GB 2312, in which people type.

    A table of our own (tests/lexicon.py): pypinyin takes .3 s to load and to go through.
    """
    sounds: dict[str, list[str]] = {}
    characters: dict[str, str] = {}
    for line in (LEXICON / "sounds.txt").read_text(encoding="utf-8").splitlines()[1:]:
        sound, alike = line.split()
        characters[sound] = alike
        for character in alike:
            sounds.setdefault(character, []).append(sound)
    return sounds, characters


# ── choice ─────────────────────────────────────────────────────────────────────────────────


def _is_better(change: _Change, counts: TermCounts, would: TermCounts, analyser: Analyser) -> bool:
    """The new word occurs in the base, the old pair of characters does not, and the neighbours support it.

    They do where the base has the word next to one of them, or where they belong to correct words.
    """
    if not would.words.get(change.word):
        return False
    before = change.run.pairs(max(change.at - 1, change.first), min(change.at + 2, change.end))
    if all(counts.grams.get(pair) for pair in before):
        return False
    if len(change.word) > 2:
        return True
    known_pairs = [would.grams.get(pair, 0) > 0 for pair in change.outer_pairs()]
    if _spoils_a_word(change, analyser):
        return known_pairs == [True, True]
    correct = _correct(change.run, counts)
    around = [at for at in (change.first - 1, change.end) if 0 <= at < len(change.run.text)]
    return any(known_pairs) or all(at in correct for at in around)


def _chosen(changes: list[_Change], would: TermCounts) -> list[_Change]:
    def worth(change: _Change) -> tuple[int, int, int, str, int]:
        known_pairs = sum(1 for pair in change.outer_pairs() if would.grams.get(pair))
        return -len(change.word), -known_pairs, -would.words[change.word], change.character, change.at

    chosen: list[_Change] = []
    for change in sorted(changes, key=worth):
        if not any(change.overlaps(other) or _same_place(change, other) for other in chosen):
            chosen.append(change)
    return chosen[:CHANGES]


def _same_place(change: _Change, other: _Change) -> bool:
    return change.run is other.run and change.at == other.at


def _changed(text: str, changes: Iterable[_Change]) -> str:
    characters = list(text)
    for change in changes:
        characters[change.run.start + change.at] = change.character
    return "".join(characters)
