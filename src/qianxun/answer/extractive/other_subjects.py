"""Lines about another subject than the question's: 糖尿病 is not 糖尿病足, a contract is not the law of contracts.

Chinese compounds end in their head: a line with all of a name but its end names something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from qianxun.answer.extractive.passage_lines import Line
from qianxun.question.evidence_query import EvidenceQuery, compared_apart
from qianxun.question.words import entries, lay_words, listed
from qianxun.text.chinese import plain_analyser

SHORTEST = 3  # characters of a name with a modifier
_SKIPPED: Final = "[\\u4e00-\\u9fff]{0,3}"  # characters that a short form leaves out at one place


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The lines that may be about the question's subject; ``subject`` is "" if all may."""

    lines: list[Line]
    subject: str = ""


def narrowed(query: EvidenceQuery, offered: Sequence[Line]) -> Narrowed:
    """Without the lines that name only what the question's subject is called after. What is around the others is then
    without them, too."""
    if query.kind in ("comparison", "summary"):
        return Narrowed(list(offered))
    for subject in _subjects(query, offered):
        other = {line.at for line in offered if _is_other(subject, line)}
        if other:
            return Narrowed(_without(offered, other), subject)
    return Narrowed(list(offered))


def _subjects(query: EvidenceQuery, offered: Sequence[Line]) -> list[str]:
    """Nouns of the question that end in one character of their own weight: 足 of 糖尿病足, not 者 of 患者. A name that
    no dictionary has (电池 and 盒) is one where a line has it."""
    tagged = plain_analyser().tagged(compared_apart(query.folded))
    nouns = dict.fromkeys(word for word, tag in tagged if tag == "n")  # in its order
    no_heads = listed("filler.slight") | listed("filler.grammar")
    written = [
        *nouns,
        *(
            run[0] + run[1]
            for run in query.runs
            if len(run) > 1 and len(run[1]) == 1 and run[1] not in no_heads and run[0] not in query.proper
        ),
    ]
    return [
        word
        for word in dict.fromkeys(written)
        if len(word) >= SHORTEST and not word.isascii() and word[-1] not in listed("subject.light_heads")
        if word not in lay_words() and word not in entries("subject.role").replace("\n", "").split("|")
        if word in nouns or any(word in line.folded for line in offered)
        if not _is_done_to(word)
    ]


def _is_done_to(word: str) -> bool:
    """Returns True if a word is a verb and its object, whose head is more than its end: 衣服 of 洗衣服, not 服."""
    analyser = plain_analyser()
    return analyser.has_word(word[1:]) and all(tag.startswith("v") for _, tag in analyser.tagged(word[0]))


def _is_other(subject: str, line: Line) -> bool:
    if line.row is not None or subject[:-1] not in line.folded:
        return False
    titles = [line.name, line.before, line.heading]
    return subject[-1] not in line.folded and not any(_is_in(subject, title) for title in titles)


def _is_in(subject: str, title: str) -> bool:
    """Itself, or what it is short for: 意外险 for 意外伤害保险."""
    if subject in title or not all(mark in title for mark in subject):
        return subject in title
    return re.search(_SKIPPED.join(map(re.escape, subject)), title) is not None


def _without(offered: Sequence[Line], other: set[int]) -> list[Line]:
    left: list[Line] = []
    for _, group in groupby(offered, key=lambda line: line.passage.number):
        own = [line for line in group if line.at not in other]
        around = "\n".join(line.folded for line in own)
        first = next((line.folded for line in own if line.row is None), "")
        for line in own:
            before = "" if line.at - 1 in other else line.before
            left.append(line._replace(before=before, first=first if line.first else "", around=around))
    return left
