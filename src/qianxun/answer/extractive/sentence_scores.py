"""How well the sentences of passages answer a question: what it names, when, and the figure that it wants."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from qianxun.answer.extractive.rows import Row, readable
from qianxun.answer.verify.grounding import Evidence, day_stands
from qianxun.core.answer_types import Passage
from qianxun.question.evidence_query import EvidenceQuery, Measure, Term, is_change, is_of, may_answer, stem
from qianxun.text.chinese import SENTENCE_END, fold
from qianxun.text.figures import Day, Figure, Number, figures
from qianxun.text.synonyms import Thesaurus, shipped

BEFORE: Final = 0.7  # what a word is worth that stands in the sentence before
NAMED: Final = 0.9  # … in the name of the document
TOPIC: Final = 0.75  # … in the passage's first sentence
AROUND: Final = 0.4  # … elsewhere in the passage
ALIKE: Final = 0.9  # … for which a synonym stands
SHORT: Final = 0.8  # … for which a longer form stands
FIGURED: Final = 0.85  # … for which a figure of its kind stands: 85% for 比例
TELLING: Final = 0.5  # of the worth of the word that tells most
OTHER_TIME: Final = 0.55  # what a line is worth that speaks of another time
OTHER_UNIT: Final = 0.75  # … of another unit than the one that is asked for
OTHER_KIND: Final = 0.62  # … of another kind than the label in the question names: 85% is no 金额
CLAUSE, SENTENCE, NOWHERE = 1.0, 0.62, 0.5  # where the figure stands that is asked for
_LONG: Final = 200  # characters
_LONGEST_HEADING: Final = 12
_SHORT_CLAUSE: Final = 12  # characters: it goes with the one before it


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of a passage, and the one before it."""

    text: str
    folded: str
    before: str
    first: str  # of the passage
    around: str  # the whole passage, folded
    name: str  # of its document, folded
    passage: Passage
    start: int  # in the passage's text
    at: int  # its place among all lines
    row: Row | None = None  # of a table: its text says which column each value stands in
    setting: str = ""  # of a row: the document's name and what stands around the table, folded

    @property
    def is_row(self) -> bool:
        return self.row is not None


@dataclass(frozen=True, slots=True)
class Weighed:
    """``share`` of the question's words that a line takes up; ``fit``: the same, less where time or figure lack."""

    line: Line
    share: float
    fit: float
    has_figure: bool
    is_own: bool  # of a document that the question names, where it names one; a row: of the thing that it names
    is_timely: bool  # not of another time than the one that is asked about


def lines(passages: Sequence[Passage]) -> list[Line]:
    """The sentences of the passages; a row of a table is one. Titles say nothing by themselves."""
    found: list[Line] = []
    for passage in passages:
        before = first = ""
        around, name = fold(passage.text), fold(passage.doc_name)
        titles = {name, *(fold(str(each)) for each in passage.metadata.get("headings") or ())}
        sentences = list(_sentences(passage.text))
        setting = "\n".join([*sorted(titles), *(fold(text) for _, text, row in sentences if row is None)])
        for start, text, row in sentences:
            folded = fold(text)
            if folded in titles or (_is_heading(text) and row is None):
                continue
            earlier = "" if row else before  # a row speaks for itself
            around_row = setting if row else ""
            found.append(Line(text, folded, earlier, first, around, name, passage, start, len(found), row, around_row))
            before, first = folded, first or ("" if row else folded)
    return found


def _is_heading(text: str) -> bool:
    return len(text) <= _LONGEST_HEADING and not re.search(r"[\d，。！？；、,.!?;|]", text)


def _sentences(text: str) -> Iterator[tuple[int, str, Row | None]]:
    """Where each begins, itself, and the row of a table that it is, if it is one."""
    at = 0
    whole = text.splitlines(keepends=True)
    for line, row in zip(whole, readable(whole), strict=True):
        if row is None:
            yield from ((at + start, sentence, None) for start, sentence in _parted(line))
        elif row.text:
            yield at + len(line) - len(line.lstrip()), row.text, row
        at += len(line)


def _parted(line: str) -> Iterator[tuple[int, str]]:
    """Whole ones: a semicolon ends one only where it would be too long otherwise."""
    start = 0
    for mark in SENTENCE_END.finditer(line):
        if mark.group()[0] in "；;" and mark.end() - start < _LONG:
            continue
        if sentence := line[start : mark.end()].strip():
            yield line.index(sentence, start), sentence
        start = mark.end()
    if sentence := line[start:].strip():
        yield line.index(sentence, start), sentence


def weigh(asked: EvidenceQuery, offered: Sequence[Line]) -> list[Weighed]:
    """Every line, in order. A word counts by how rare it is among the lines: what none of them has counts most."""
    worth = _worth(asked, offered)
    whole = sum(worth.values())
    all_told = 1.0 if asked.names or asked.kind == "summary" else 0.0  # 介绍一下甲公司: whatever is said of it
    evidence = _evidence(offered)
    found = []
    for line in offered:
        held = sum(worth[word.text] * _told(word, line, asked) for word in asked.terms) / whole if whole else all_told
        figure = _figure(asked, line, worth)
        when = _when(asked, line, evidence[line.passage.number], evidence[line.passage.doc_name])
        found.append(
            Weighed(line, held, held * figure * when, figure > NOWHERE, _is_own(asked, line), when > OTHER_TIME)
        )
    return found


def _worth(asked: EvidenceQuery, offered: Sequence[Line]) -> dict[str, float]:
    found = {}
    for word in asked.terms:
        holding = sum(word.text in line.folded for line in offered)
        rarity = math.log1p(len(offered) / max(holding, 0.5))
        found[word.text] = word.share * rarity * (0.6 + 0.2 * min(len(word.text), 4))
    return found


def taken_up(word: str, line: Line) -> float:
    """How far a line has a word: itself, or through what it stands in."""
    here = held(word, line.folded)
    if here >= NAMED:
        return here
    if word in line.name:
        return NAMED
    around = AROUND if word in line.around else 0.0
    return max(here, around, BEFORE * held(word, line.before), TOPIC * held(word, line.first))


def _told(word: Term, line: Line, asked: EvidenceQuery) -> float:
    """How far a line tells a word of the question: has it, writes it otherwise, or has the figure it labels."""
    here = taken_up(word.text, line)
    if any(other in line.folded for other in word.alike):
        here = max(here, ALIKE)
    if word.measure is None or here >= FIGURED or not _has_figure(word.measure, line, asked):
        return here
    return max(here, FIGURED * (taken_up(word.bare, line) if word.bare else 1.0))


def _has_figure(measure: Measure, line: Line, asked: EvidenceQuery) -> bool:
    """Whether a line that speaks of all the rest of a question has a figure of a kind, beside some of that."""
    rest = [word for word in asked.terms if word.share == 1.0 and (word.bare or word.measure is None)]
    if not rest or any(_stands(word, line.folded) < SHORT and word.text not in line.name for word in rest):
        return False
    return any(
        any(is_of(measure, each) and each.written not in asked.figures for each in figures(clause))
        and (is_change(asked.folded) or not is_change(clause))
        and any(_stands(word, near) >= SHORT for word in rest)
        for near, clause in _clauses(line)
    )


def _stands(word: Term, text: str) -> float:
    if any(other in text for other in word.alike):
        return ALIKE
    return held(word.bare or word.text, text)


def held(word: str, text: str) -> float:
    """How far a text has a word: itself, its stem, a synonym, or parts of it."""
    if word in text:
        return 1.0
    if stem(word) in text or any(other in text for other in _synonyms(word)):
        return ALIKE
    if word.isascii():
        return 0.0
    if len(word) == 2:
        return max(0.25 * sum(mark in text for mark in word), SHORT if _in_longer(word, text) else 0.0)
    pairs = [word[at : at + 2] for at in range(len(word) - 1)]
    return 0.8 * sum(pair in text for pair in pairs) / max(len(pairs), 1)


def _in_longer(word: str, text: str) -> bool:
    """年假 of 年休假: short for it."""
    at = text.find(word[0])
    while at >= 0:
        if text[at + 2 : at + 3] == word[1] and text[at + 1].isalpha():
            return True
        at = text.find(word[0], at + 1)
    return False


def _synonyms(word: str) -> tuple[str, ...]:
    return tuple(fold(each.word) for each in _thesaurus().of(word))


@cache
def _thesaurus() -> Thesaurus:
    return shipped()


def _figure(asked: EvidenceQuery, line: Line, worth: dict[str, float]) -> float:
    """Whether the figure that is asked for stands with what it is asked of: in one clause, or in the sentence."""
    if not asked.wants:
        return 1.0
    most = max(worth.values(), default=0.0)
    telling = [word for word in asked.terms if worth[word.text] >= TELLING * most] or [Term("")]
    best = NOWHERE
    for near, clause in _clauses(line):
        wanted = [each for each in figures(clause) if may_answer(each, asked)]
        if not wanted:
            continue
        here = CLAUSE if any(_stands(word, near) >= SHORT for word in telling) else SENTENCE
        is_unit = not asked.unit or any(each.written.endswith(asked.unit) for each in wanted)
        is_kind = asked.label is None or _is_kind(asked.label, near, clause, wanted)
        best = max(best, here * (1.0 if is_unit else OTHER_UNIT) * (1.0 if is_kind else OTHER_KIND))
    return best


def _is_kind(label: tuple[str, Measure], near: str, clause: str, wanted: Sequence[Figure]) -> bool:
    """Whether a figure may be of the kind that a question asks for by its label; where that stands, whatever does."""
    word, measure = label
    if word in near:
        return True
    fitting = any(is_of(measure, each) or (isinstance(each, Number) and not each.unit) for each in wanted)
    return fitting and (measure != "share" or not is_change(clause))


def _clauses(line: Line) -> Iterator[tuple[str, str]]:
    """What each clause stands with, and itself: what a colon leads to is about what stands before it."""
    lead = before = ""
    for parts in line.folded.split("；") if line.is_row else (line.folded,):
        lead = before = ""
        for clause in re.split("[,，;；]", parts):
            opened, colon, told = clause.rpartition(":") if ":" in clause else clause.rpartition("：")
            lead = opened if colon else lead
            yield lead + ("" if len(told) > _SHORT_CLAUSE else before) + told, told.replace("个工作日", "日")
            before = told


def _evidence(offered: Sequence[Line]) -> dict[int | str, Evidence]:
    """What each passage says, by its number, and what all of a document do, by its name."""
    passages = {each.passage.number: each.passage for each in offered}
    found: dict[int | str, Evidence] = {
        number: Evidence.of((each.text,), (each.doc_name,)) for number, each in passages.items()
    }
    for name in {each.doc_name for each in passages.values()}:
        found[name] = Evidence.of((each.text for each in passages.values() if each.doc_name == name), (name,))
    return found


def _when(asked: EvidenceQuery, line: Line, whole: Evidence, document: Evidence) -> float:
    """The time that is asked about: said here, said in the passage, not said at all, or another one is."""
    if not asked.days:
        return 1.0
    here = Evidence.of((line.before, line.folded))
    told = [_at(day, here, whole, document) for day in asked.days]
    return max(told) if asked.kind == "comparison" else min(told)


def _at(day: Day, here: Evidence, whole: Evidence, document: Evidence) -> float:
    if day_stands(day, here):
        return 1.0
    if day_stands(day, whole):
        return 0.95 if day.month is None else 0.8
    if day.month is not None:
        return OTHER_TIME
    if day_stands(day, document) and not whole.years:
        return 0.9
    return OTHER_TIME if document.years else 0.85


def _is_own(asked: EvidenceQuery, line: Line) -> bool:
    if asked.names:
        return any(name in line.name or name in line.around for name in asked.names)
    return asked.others.get(line.passage.doc_name, "") in line.around
