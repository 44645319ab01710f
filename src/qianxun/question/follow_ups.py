"""A follow-up question (它呢？) made complete by the conversation before it, by rules.

The questions of the conversation are completed in turn, so that a chain of short ones stays with its subject.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from qianxun.core.conversation import Turn
from qianxun.core.limits import QUERY_LIMIT
from qianxun.question.words import cue, entries, joined, listed
from qianxun.text.chinese import STOP_WORDS, Analyser, fold


@dataclass(frozen=True, slots=True)
class Name:
    """An entity's name, and where it is in a text."""

    text: str
    type: str
    start: int
    end: int


Names: TypeAlias = Callable[[str], Sequence[Name]]

_PRONOUN: Final = re.compile(
    rf"(?P<noun>(?:这|那|该|此|上述|前述)(?:{joined('follow_up.measure')})?(?:{joined('follow_up.generic')}))|"
    rf"(?P<thing>(?<![\w])(?:这|那)(?:{joined('follow_up.measure')})(?=[的有是在会能和与，]|$)|它们?|(?<!其)他们?(?!人)|她们?|"
    r"(?<![与尤极及])其(?![他它中实余次间后前])|该者|前者|后者|\b(?:it|its|he|him|his|she|her|they|them|their)\b)",
    re.IGNORECASE,
)
_TYPES: Final = tuple((type_, re.compile(words)) for type_, words in entries("follow_up.types").items())
_KNOWN_TYPES: Final = frozenset(type_ for type_, _ in _TYPES)
_QUESTION_WORD: Final = cue("which.follow_up")
_YEAR: Final = cue("when.year")
_WHAT_ABOUT: Final = re.compile(r"那么?\s*([^的它他她其这那]{2,16})呢")  # another one in its place, also 那单位呢
_BARE_LENGTH: Final = 8  # characters
_LONGEST_QUESTION: Final = 500  # characters of an earlier one: a pasted page is none
_LONGEST_REPLY: Final = 2000
_QUOTED: Final = re.compile(r"《([^》\n]{1,40})》|“([^”\n]{1,30})”|「([^」\n]{1,30})」|\"([^\"\n]{1,30})\"")


def complete_question(query: str, history: Sequence[Turn], names: Names, analyser: Analyser) -> str:
    """The question with pronouns and omissions filled in from ``history``; unchanged where it has none."""
    last, reply = "", ""
    for turn in history:
        if turn.role == "assistant":
            reply = turn.content[:_LONGEST_REPLY]
        else:
            last, reply = (
                _resolved(turn.content[:_LONGEST_QUESTION], last, reply, names, analyser)[:_LONGEST_QUESTION],
                "",
            )
    complete = _resolved(query, last, reply, names, analyser)
    return complete if len(complete) <= QUERY_LIMIT else query


def _resolved(query: str, last: str, reply: str, names: Names, analyser: Analyser) -> str:
    if not last:
        return query
    text = query.strip().rstrip("?？!！。. ")
    if (other := _WHAT_ABOUT.fullmatch(text)) and other[1] not in last:
        return _instead(other[1], last, names, analyser)
    if (pronoun := _pronoun(text, names, analyser)) is not None:
        subject = _subject(last, reply, pronoun.group(), names, analyser)
        return _put(text, pronoun, subject) if subject else query
    if cue("follow_up.is_and_what").fullmatch(text) and (found := cue("follow_up.and_what").fullmatch(text)):
        return _instead(found.group(1).removesuffix("呢"), last, names, analyser)
    if (count := _bare(text, names, analyser)) is not None:
        subject = (
            _subject(last, reply, "", names, analyser) if count else cue("which.ending").sub("", last).strip("?？。 ")
        )
        return f"{subject} {text}" if subject and subject not in text else query
    return query


def _pronoun(text: str, names: Names, analyser: Analyser) -> re.Match[str] | None:
    """The first word that refers to something not named before it in the question itself."""
    found = next((found for found in _PRONOUN.finditer(text) if not _is_inside(found, text, analyser)), None)
    if found is None or any(name.end <= found.start() for name in names(text)):
        return None
    return None if _QUOTED.search(text[: found.start()]) else found


def _put(text: str, pronoun: re.Match[str], subject: str) -> str:
    """其 and its ilk mean 它的: 其代表作 is 李白的代表作."""
    after = text[pronoun.end() :]
    owns = pronoun.group() == "其" or pronoun.group().lower() in ("its", "his", "her", "their")
    is_owned = owns and after and not after.startswith(("的", "是", "在", "有", "于"))
    link = ("的" if not subject.isascii() else "'s") if is_owned else ""
    return f"{text[: pronoun.start()]}{subject}{link}{after}"


def _subject(last: str, reply: str, pronoun: str, names: Names, analyser: Analyser) -> str:
    """The last topic: the name that was asked for and given, else what the question was about."""
    own = list(names(last))
    given: list[Name] = []
    if reply and cue("which.for_name").search(last):
        given = [name for name in names(reply) if fold(name.text) not in fold(last)]
    pronoun_type = next((type_ for type_, words in _TYPES if words.search(pronoun)), "")
    if pronoun_type:
        fitting = [name for name in (*given, *own) if name.type == pronoun_type]
        given = [*fitting, *(name for name in given if name.type not in _KNOWN_TYPES)]
    named = [name.text for name in (*given, *own)] or [
        next(filter(None, found.groups())) for found in _QUOTED.finditer(last)
    ]
    return named[0] if named else next((text for text, _ in _runs(last, analyser)), "")


def _instead(other: str, last: str, names: Names, analyser: Analyser) -> str:
    """The last question about something else: a year for a year, a name for a name of its type, else for as many of the
    question's first terms as it has words itself: 门诊 for 住院 of 住院报销比例."""
    if not other or _QUESTION_WORD.search(other):
        return f"{last.rstrip('?？。 ')} {other}".strip()
    if _YEAR.search(other):
        return _YEAR.sub(other, last, count=1) if _YEAR.search(last) else f"{other}{last}"
    known = [name for name in names(last) if name.type in _KNOWN_TYPES]
    kinds = {name.type for name in names(other)}
    same = [name for name in known if name.type in kinds] or known
    start, end = (
        (same[0].start, same[0].end)
        if same
        else _of_kind(other, last, analyser) or _opposed(other, last) or _as_long(other, last, analyser)
    )
    return f"{last[:start]}{other}{last[end:]}"


def _of_kind(other: str, last: str, analyser: Analyser) -> tuple[int, int] | None:
    """The words that end as the other does: 一线城市 of 去一线城市出差, for 省会城市."""
    own = [word for word, is_term in _segments(other, analyser) if is_term]
    if len(own) < 2 or len(own[-1]) < 2:
        return None
    at, before = 0, -1  # where the term right before this word begins
    for word, is_term in _segments(last, analyser):
        if word == own[-1] and before >= 0:
            return before, at + len(word)
        before = at if is_term else -1
        at += len(word)
    return None


def _opposed(other: str, last: str) -> tuple[int, int] | None:
    """The word that the other takes the place of: 在职 for 退休."""
    own = other.removesuffix("的")
    for group in entries("follow_up.instead").splitlines():
        words = group.split()
        if own in words:
            found = [(last.find(word), word) for word in words if word != own and word in last]
            if found:
                at, word = min(found)
                return at, at + len(word)
    return None


def _as_long(other: str, last: str, analyser: Analyser) -> tuple[int, int]:
    """The first words of the first run of terms, about as long as what takes their place; years stay."""
    years = [found.span() for found in _YEAR.finditer(last)]
    at, start, ends = 0, 0, list[int]()
    for word, is_term in _segments(last, analyser):
        end = at + len(word)
        if is_term and not any(at < stop and begin < end for begin, stop in years):
            start = start if ends else at
            ends.append(end)
        elif ends:
            break
        at = end
    best = min(reversed(ends), key=lambda end: abs(end - start - len(other)), default=0)
    return start, best


def _bare(text: str, names: Names, analyser: Analyser) -> int | None:
    """How many terms a question has that hardly names its topic: none in 为什么？, one in 怎么办理？"""
    if len(text) > _BARE_LENGTH or not _QUESTION_WORD.search(text) or names(text):
        return None
    count = sum(is_term for _, is_term in _segments(text, analyser))
    return count if count <= 1 else None


def _runs(text: str, analyser: Analyser) -> Iterator[tuple[str, int]]:
    """Neighbouring terms together, and where they begin: 住院报销比例."""
    run, at = "", 0
    for word, is_term in (*_segments(text, analyser), ("", False)):
        if is_term:
            run += word
        elif run:
            yield run.strip(), at - len(run)
            run = ""
        at += len(word)


def _segments(text: str, analyser: Analyser) -> Iterator[tuple[str, bool]]:
    """The words of a text as written, and whether one is more than grammar."""
    folded = fold(text)
    shown = text if len(folded) == len(text) else folded
    at = 0
    for segment in analyser.segments(folded):
        word = shown[at : at + len(segment)]
        at += len(segment)
        yield (
            word,
            segment not in STOP_WORDS | listed("follow_up.idle")
            and any(map(str.isalnum, segment))
            and not _QUESTION_WORD.fullmatch(segment),
        )


def _is_inside(found: re.Match[str], text: str, analyser: Analyser) -> bool:
    """Returns True if it is part of a longer word: 吉他 has no 他. What the segmenter only guesses is none: 他出."""
    at = 0
    for word, _ in _segments(text, analyser):
        end = at + len(word)
        if at < found.end() and found.start() < end and not (found.start() <= at and end <= found.end()):
            return analyser.has_word(word)
        at = end
    return False
