"""A question as people say it: in standard words, without what only asks, with its lay entries found whole.

押金退不退呀 asks of 押金 and 退: no document has 退不退.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from qianxun.question.words import cue, in_standard_words, lay_words, listed
from qianxun.text.chinese import STOP_WORDS, plain_analyser
from qianxun.text.synonyms import Thesaurus

BLANK: Final = "，"
_ANYWHERE: Final = 3  # characters of an entry that may cut what the segmenter only guesses to be a word
_OF_LAY: Final = "\0"  # stands for a lay entry while the rest of a question is read
_FORMS: Final = (
    "spoken.whether",
    "spoken.done_or_not",
    "spoken.able",
    "spoken.once",
    "aggregate.operation",
    "spoken.filler",
    "which.evidence",
    "spoken.particle",
    "spoken.speaker",
)
_CLAUSE_END: Final = re.compile(r"[,，。；;!！?？]+")


def standard(folded: str) -> str:
    """A folded question without greeting and thanks, with 怎么, 什么, 什么时候 for 咋, 啥, 几时."""
    folded = in_standard_words(folded)
    bare = cue("spoken.thanks").sub("", cue("spoken.frame").sub("", folded))
    return bare if any(map(str.isalnum, bare)) else folded


def without_question_words(text: str) -> str:
    """The text with what only asks or fills blanked: question words, 是不是, the first half of 退不退, 到底, 我家."""
    for name in _FORMS:
        text = cue(name).sub(_verb_of, text)
    return text


def _verb_of(found: re.Match[str]) -> str:
    named = found.groupdict()
    return named.get("stem") or BLANK + (named.get("verb") or "")


def situation(text: str) -> tuple[str, str]:
    """The clauses that say how things stand, and those that ask: 我工作8年了 and 年假几天. Of 根据判决书，… the first
    says nothing by itself."""
    clauses = [clause for clause in _CLAUSE_END.split(text) if clause.strip()]
    questions = [clause for clause in clauses if cue("spoken.asks").search(clause)]
    stated = [one for one in clauses if one not in questions and cue("spoken.states").search(one)]
    return BLANK.join(stated), BLANK.join(questions)


# ── lay entries ──────────────────────────────────────────────────────────────────────────────────


def parted(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a question, `without_question_words`; True for a lay entry of several words in it."""
    places = list(_lay_places(text))
    rest, at = "", 0
    for start, end in places:
        rest += text[at:start] + _OF_LAY
        at = end
    pieces = without_question_words(rest + text[at:]).split(_OF_LAY)
    for piece, (start, end) in zip(pieces, places, strict=False):
        yield piece, False
        yield text[start:end], True
    yield pieces[-1], False


def _lay_places(text: str) -> Iterator[tuple[int, int]]:
    """Where the entries of more than one word stand, the longest at each place, none overlapping another."""
    edges = word_edges(text)
    whether = [found.span() for found in cue("spoken.whether").finditer(text)]
    at = 0
    while at < len(text):
        ends = (at + len(word) for word in _lay_phrases().starting(text, at))
        fitting = (end for end in ends if _is_whole(text, at, end, edges) and not _cuts(at, end, whether))
        end = next(fitting, at)
        if end > at:
            yield at, end
        at = max(end, at + 1)


@cache
def _lay_phrases() -> Thesaurus:
    """Only looked up in. Of one character, of a question word alone, and of what is one word, an entry is found as a
    word is."""
    idle = STOP_WORDS | listed("filler.evidence") | {""}
    words = (word for word in lay_words() if len(word) > 1 and without_question_words(word).strip(BLANK) not in idle)
    return Thesaurus(([word] for word in words), same=1.0, kin=1.0)


@dataclass(frozen=True, slots=True)
class WordEdges:
    """Where the words of a text begin, each with its end; ``guessed``: places within what no dictionary has as one."""

    ends: Mapping[int, int]
    guessed: frozenset[int]

    def are(self, *places: int) -> bool:
        return all(at in self.ends or at in self.ends.values() for at in places)

    def may_be(self, *places: int) -> bool:
        return all(at in self.guessed or self.are(at) for at in places)


def word_edges(text: str) -> WordEdges:
    analyser = plain_analyser()
    ends: dict[int, int] = {}
    guessed: list[int] = []
    at = 0
    for segment in analyser.segments(text):
        ends[at] = at + len(segment)
        if not analyser.has_word(segment):
            guessed.extend(range(at + 1, at + len(segment)))
        at += len(segment)
    return WordEdges(ends, frozenset(guessed))


def _is_whole(text: str, start: int, end: int, edges: WordEdges) -> bool:
    """没休完 of 没休 and 完能 does; 不要了 of 要, 不要 and 了解 does not. What is one word is left to be found as such,
    unless it would be blanked: 赔不赔."""
    if edges.ends.get(start) == end:
        return without_question_words(text[start:end]) != text[start:end]
    return edges.are(start, end) or (end - start >= _ANYWHERE and edges.may_be(start, end))


def _cuts(start: int, end: int, spans: Iterable[tuple[int, int]]) -> bool:
    """不能吃 is no entry of 能不能吃."""
    return any(first < end and start < last and not start <= first < last <= end for first, last in spans)
