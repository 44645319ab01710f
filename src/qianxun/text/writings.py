"""Other writings of a word: 10年 for 十年, nianjia for 年假, 保销 for 报销."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

from qianxun.core.system.cache import cached_texts
from qianxun.text.chinese import LEXICON, plain_analyser
from qianxun.text.figures import Day, Figure, Number, figures, same_amount

_LATIN: Final = re.compile("[a-z]{4,24}")
_FIGURED: Final = re.compile(r"[\d零〇一二两三四五六七八九十百千万亿]")
_NUMBERED: Final = re.compile(r"[\d.,]+[^\d\s]{0,3}|[零〇一二两三四五六七八九十百千万亿]+[^\s，。；、]{0,2}")


def is_written_otherwise(word: str, folded: str) -> bool:
    """Returns True if a folded text has a word by its value or by its sound. A word of the dictionary is no misspelling
    of another."""
    kind = _kind(word)
    if kind == "figure":
        return _has_value(word, folded)
    if kind == "latin":
        return any(_has_sounds(sounds, folded) for sounds in _syllables(word))
    return kind == "unknown" and _is_misspelt(word, folded)


def may_be_written_otherwise(word: str, joined: str) -> bool:
    """Returns False if `is_written_otherwise` is False for every line of a text. The values of figures are told for
    each line alone: what stands before the end of a line may go on after it."""
    return _kind(word) == "figure" or is_written_otherwise(word, joined)


@cached_texts(1_024)
def _kind(word: str) -> Literal["figure", "latin", "unknown", "word"]:
    """What other writings a word may have; "unknown" is none of the dictionary, "word" has no other."""
    if _FIGURED.search(word):
        return "figure"
    if _LATIN.fullmatch(word):
        return "latin"
    is_short = 2 <= len(word) <= 4 and not word.isascii()
    return "unknown" if is_short and not plain_analyser().has_word(word) else "word"


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────


@cached_texts(2_048)
def _numbers(text: str) -> tuple[Number, ...]:
    return tuple(figure for figure in figures(text) if isinstance(figure, Number) and figure.unit)


def _has_value(word: str, folded: str) -> bool:
    wanted = _numbers(word)
    if len(wanted) != 1 or wanted[0].written != word:
        return False
    if word in ("一天", "1天") and any(_is_one_day(figure) for figure in figures(folded)):
        return True
    return any(same_amount(wanted[0], known) for known in _numbers(folded))


def _is_one_day(figure: Figure) -> bool:
    """一日 without a month is no date: 一日剂量不超过4克."""
    return isinstance(figure, Day) and (figure.year, figure.month, figure.day) == (None, None, 1)


# ── sounds ───────────────────────────────────────────────────────────────────────────────────────


@cache
def _sounds() -> dict[str, str]:
    """Syllable → its characters."""
    lines = (LEXICON / "sounds.txt").read_text(encoding="utf-8").splitlines()
    return {sound: marks for sound, _, marks in (line.partition(" ") for line in lines if not line.startswith("#"))}


@cached_texts(1_024)
def _syllables(latin: str) -> tuple[tuple[str, ...], ...]:
    """The ways in which letters are the sounds of two to four characters: nian jia."""
    known = _sounds()
    found: list[tuple[str, ...]] = []
    begun: list[tuple[tuple[str, ...], str]] = [((), latin)]
    while begun:
        sounds, rest = begun.pop()
        if not rest:
            found += [sounds] if 2 <= len(sounds) <= 4 else []
        elif len(sounds) < 4:
            begun += [((*sounds, rest[:size]), rest[size:]) for size in range(1, 7) if rest[:size] in known]
    return tuple(found)


def _has_sounds(sounds: tuple[str, ...], folded: str) -> bool:
    """nianjia is also heard in 年休假."""
    known = _sounds()
    pattern = "[^\\W\\d_]?".join(f"[{re.escape(known[sound])}]" for sound in sounds)
    return re.search(pattern, folded) is not None


@cache
def _alike() -> dict[str, frozenset[str]]:
    """Character → those of the same sound."""
    alike: dict[str, frozenset[str]] = {}
    for marks in _sounds().values():
        for mark in marks:
            alike[mark] = alike.get(mark, frozenset()).union(marks)
    return alike


def _is_misspelt(word: str, folded: str) -> bool:
    """One character is another of the same sound."""
    return any(plain_analyser().has_word(found) for at in range(len(word)) for found in _with_another(word, at, folded))


def _with_another(word: str, at: int, folded: str) -> Iterator[str]:
    """What a text has in place of a word, but for the character at one place, which is another of the same sound.

    By looking for the rest of the word: a pattern of all such characters takes longer to make than a text to read.
    """
    before, after = word[:at], word[at + 1 :]
    alike, lead = _alike().get(word[at], frozenset()), 0 if before else 1
    place = folded.find(before or after, lead)
    while place >= 0:
        start, end = place - lead, place - lead + len(word)
        if folded[start + at : start + at + 1] in alike and folded.startswith(after, start + at + 1):
            yield folded[start:end]
            place = end + lead - 1
        place = folded.find(before or after, place + 1)
