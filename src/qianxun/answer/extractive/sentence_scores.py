"""How well the lines of passages answer a question: by its terms, its time, its figure."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Final

from qianxun.answer.extractive.passage_lines import Line, folded_text
from qianxun.answer.verify.grounding import Evidence, has_day
from qianxun.core.answer_types import Passage
from qianxun.core.system.cache import cached_texts
from qianxun.question.evidence_query import (
    EvidenceQuery,
    Measure,
    Term,
    is_change,
    is_of,
    may_answer,
    stem,
    wanted_measure,
)
from qianxun.question.words import cue, entries, joined
from qianxun.text.chinese import fold
from qianxun.text.figures import Clock, Day, Figure, Number, Share, figures, has_signs
from qianxun.text.synonyms import shipped
from qianxun.text.writings import is_written_otherwise, may_be_written_otherwise

BEFORE: Final = 0.7  # what a term is worth that is in the sentence before
NAMED: Final = 0.9  # … in the name of the document
TOPIC: Final = 0.75  # … in the passage's first sentence
AROUND: Final = 0.4  # … elsewhere in the passage
HEADED: Final = 0.95  # … in the heading of its section
ALIKE: Final = 0.9  # … for which there is a synonym
FORMAL: Final = 0.85  # … that a document writes in other words than people say
SHORT: Final = 0.8  # … for which there is a longer form
FIGURED: Final = 0.85  # … for which there is a figure of its kind: 85% for 比例
_SLIGHT_COUNT, _VERB_COUNT = 0.3, 0.1  # of the lines, at least, count as having such a word
INFORMATIVE: Final = 0.5  # of the worth of the most informative term
OTHER_TIME: Final = 0.55  # what a line about another time is worth
OTHER_UNIT: Final = 0.75  # … of another unit than the question's
OTHER_KIND: Final = 0.5  # … of another kind than the label in the question names: 85% is no 金额
UNLABELLED: Final = 0.85  # of a line's choice, beside one that has the thing that is asked for as its label
DISTINCTIVE: Final = 0.4  # of a line's choice: how it differs from the others of its passage
CLAUSE, NEXT, SENTENCE, NOWHERE = 1.0, 0.98, 0.62, 0.5  # where the figure is that is asked for
_DATED: Final = re.compile(r"(\d[日号年月时]许?)[,，](?=\D)")  # 4月11日，某某到案: when is no clause by itself
_CLAUSE_END: Final = re.compile(r"[;；]|(?<!\d)[,，]|[,，](?!\d{3}(?!\d))")  # not within 1,930,000
_LEAD_MARK: Final = re.compile(r"[()（）]|(?<!\d)[:：]|[:：](?!\d\d(?!\d))")  # a colon, but not within 8:00
_SHORT_CLAUSE: Final = 12  # characters: it goes with the one before it
_DURATION: Final = re.compile(f"(?<!哪)(?:{joined('label.question.time')})")
_DIGIT: Final = re.compile(r"\d")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•·]|\d{1,2}[.、)）])\s*")
_BRACKETED: Final = re.compile(r"[(（][^()（）]{0,20}[)）]")
_SHARE_OF: Final = r"的(?:[百千万]分之|\d[\d.]{0,9}\s?[%‰]|[一二三四五六七八九]成)"
_OCLOCK: Final = "点"  # 几点 asks for a time of day, which no number of hours is
_WORKING_DAYS: Final = ("个工作日", "日")
_HAN_YEAR: Final = re.compile("[〇零一二三四五六七八九]{4}")
_PLAIN_YEAR: Final = re.compile(r"(?<!\d)[12]\d{3}年")
# 2,023, 2.023千, 二千零二十三, 二〇二三: how a year may be written otherwise than as 2023.
_WRITES_OTHERWISE: Final = re.compile("[,.百千万亿]|[〇零一二三四五六七八九]{4}")
_DATE_MARKS: Final = ("-", "/", ".")  # 2023-5-1
_DAY_MARKS: Final = ("日", "号", "天")
_HAN_MONTHS: Final = ("", *"一二三四五六七八九十", "十一", "十二")
_NOT_AS_WRITTEN: Final = ("|", "$", "\\")  # marks of tables and formulas, whose figures are read otherwise
_YEAR_LENGTH: Final = len("2023年")
_NUMERAL: Final = r"[\d一二三四五六七八九十百千万亿两半]"


@dataclass(frozen=True, slots=True)
class ScoredLine:
    """``fit``: the share of the question's terms that a line covers, less where time or figure are missing."""

    line: Line
    fit: float
    is_own: bool  # of a document that the question names, where it names one; a row: of the thing that it names
    is_timely: bool  # not of another time than the question's
    has_figure: bool = True  # of the kind that is asked for, where one is
    choice: float = 0.0  # among the lines of its passage, where what all of them are about tells little


def score_lines(query: EvidenceQuery, reach: WordReach) -> list[ScoredLine]:
    """Every line, in order. A term counts by how rare it is among the lines: what none of them has counts most."""
    offered = reach.lines
    here = {term.text: reach.own(term.text) for term in query.terms}
    worth = _worth(query, here, len(offered))
    whole = sum(worth.values())
    wordless = 1.0 if query.names or query.kind == "summary" else 0.0  # 介绍一下甲公司: everything about it
    evidence = _evidence(offered) if query.days else {}
    covered = {term.text: term_coverages(term, query, reach) for term in query.terms}
    shares = _covered_worth(worth, covered, range(len(offered)))
    sought = _informative(query, worth)
    found = []
    for places in _passages(offered):
        own = _distinctive(query, here, places)
        own_whole = sum(own.values()) or 1.0
        distinctive = _informative(query, own)
        for at, distinct in zip(places, _covered_worth(own, covered, places), strict=True):
            line = offered[at]
            fitting = _fitting(query, line) if query.needs else ()
            figure = _figure(query, fitting, sought) * (OTHER_KIND if _lacks_weekday(query, line) else 1.0)
            when = _when(query, line, evidence)
            fit = (shares[at] / whole if whole else wordless) * figure * when
            choice = fit
            if own:
                distinct = distinct / own_whole * (when * _figure(query, fitting, distinctive))
                choice = (1 - DISTINCTIVE) * fit + DISTINCTIVE * distinct
            choice *= 1.0 if _is_labelled(query, line) else UNLABELLED
            found.append(ScoredLine(line, fit, _is_own(query, line), when > OTHER_TIME, figure > NOWHERE, choice))
    return found


def _passages(offered: Sequence[Line]) -> Iterator[range]:
    """Where the lines of each passage are."""
    start = 0
    for _, group in groupby(offered, key=lambda line: line.passage.number):
        end = start + sum(1 for _ in group)
        yield range(start, end)
        start = end


def _covered_worth(worth: Mapping[str, float], covered: Mapping[str, Sequence[float]], places: range) -> list[float]:
    """By line, how much it covers of what the terms are worth."""
    found = [0.0] * len(places)
    for word, own in worth.items():
        shares = covered[word][places.start : places.stop]
        found = [before + own * share for before, share in zip(found, shares, strict=True)]
    return found


def _is_labelled(query: EvidenceQuery, line: Line) -> bool:
    """Returns True if a line calls what it states by the very thing that is asked for: 乙方：某某公司, for 乙方是谁."""
    if ":" not in line.folded and "：" not in line.folded:
        return False
    label = _BRACKETED.sub("", _LIST_MARK.sub("", _opened(line.folded)[0])).strip()  # 甲方（采购方）：
    return bool(label) and any(term.text == label for term in query.terms if term.is_main)


def _distinctive(query: EvidenceQuery, here: Mapping[str, Sequence[float]], places: range) -> dict[str, float]:
    """What a term is worth among the lines of a passage: what all of them have tells none from the others, and the
    passage is about it whether or not a line repeats it."""
    counts = {
        term: sum([share >= SHORT for share in here[term.text][places.start : places.stop]]) for term in query.terms
    }
    return {
        term.text: term.share * math.log1p(len(places) / count) * (0.6 + 0.2 * min(len(term.text), 4))
        for term, count in counts.items()
        if count
    }


def _worth(query: EvidenceQuery, here: Mapping[str, Sequence[float]], lines: int) -> dict[str, float]:
    found = {}
    for term in query.terms:
        count: float = here[term.text].count(1.0)  # a line that has the very word has all of it, and no other has
        # What is done, and how, is said in many ways, and a lay word is not written: that no line has the word does not
        # make it the rarest of all.
        is_worded_freely = term.is_verb or term.is_lay
        count = max(count, lines * (_SLIGHT_COUNT if term.is_slight else _VERB_COUNT if is_worded_freely else 0.0))
        rarity = math.log1p(lines / max(count, 0.5))
        found[term.text] = term.share * rarity * (0.6 + 0.2 * min(len(term.text), 4))
    return found


class JoinedTexts:
    """Texts that a word is looked for in all at once: most words are in few of them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.joined = "\n".join(texts)
        self._starts = list(accumulate((len(text) + 1 for text in texts), initial=0))

    def with_part(self, part: str) -> Iterator[int]:
        """The places of the texts that have it, in order."""
        joined, starts = self.joined, self._starts
        at = joined.find(part)
        while at >= 0:
            place = bisect_right(starts, at) - 1
            yield place
            at = joined.find(part, starts[place + 1])


class WordReach:
    """How far words reach lines: in these themselves, in what they stand under, in the line before, in their passage.

    Of a passage, a heading and a line that is also the one before the next it is worked out once.
    """

    def __init__(self, offered: Sequence[Line]) -> None:
        self.lines = offered
        self._texts = JoinedTexts([line.folded for line in offered])
        self._places = dict(zip(self._texts.texts, range(len(offered)), strict=True))
        # Where the line before each is; -1: nowhere, as in a list with a zero at its end.
        self._before = [self._places.get(line.before, -1) if line.before else -1 for line in offered]
        pairs = enumerate(zip(offered, self._before, strict=True))
        self._elsewhere = [(at, line.before) for at, (line, before) in pairs if before < 0 and line.before]
        self._sections = list(_sections(offered))
        self._own: dict[str, list[float]] = {}
        self._reach: dict[str, list[float]] = {}

    def own(self, word: str) -> list[float]:
        """How far each line has a word itself."""
        found = self._own.get(word)
        if found is None:
            found = self._own[word] = coverages(word, self._texts)
        return found

    def of(self, word: str) -> list[float]:
        """How far each line has a word: itself, or through its surroundings."""
        found = self._reach.get(word)
        if found is None:
            found = self._reach[word] = self._reached(word, self.own(word))
        return found

    def _reached(self, word: str, own: Sequence[float]) -> list[float]:
        with_zero = [*own, 0.0]
        before = [with_zero[at] for at in self._before]
        for at, text in self._elsewhere:
            before[at] = coverage(word, text)
        reached: list[float] = []
        for start, end in self._sections:
            line, here = self.lines[start], own[start:end]
            if line.heading and self._coverage(word, line.heading, own) >= SHORT:
                reached += [max(share, HEADED) for share in here]
            elif word in line.name or (line.opened and self._coverage(word, line.opened, own) >= SHORT):
                reached += [max(share, NAMED) for share in here]
            else:
                around = AROUND if word in line.around else 0.0
                first = TOPIC * self._coverage(word, line.first, own) if line.first else 0.0
                nothing = max(around, first)
                reached += [
                    _nearest(share, earlier, around, first) if share or earlier else nothing
                    for share, earlier in zip(here, before[start:end], strict=True)
                ]
        return reached

    def _coverage(self, word: str, text: str, own: Sequence[float]) -> float:
        place = self._places.get(text)
        return coverage(word, text) if place is None else own[place]


def _sections(offered: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Where the lines are that stand under the same and go on from the same first line of a passage."""
    start = 0
    for _, group in groupby(offered, key=lambda line: (id(line.passage), line.heading, line.opened, line.first)):
        end = start + sum(1 for _ in group)
        yield start, end
        start = end


def _nearest(share: float, before: float, around: float, first: float) -> float:
    """How far a word reaches a line that has so much of it itself, after a line that has so much ``before``."""
    if share >= NAMED:
        return share
    best = max(share, around)
    if best < BEFORE:  # it counts for no more than its share
        best = max(best, BEFORE * before)
    return max(best, first) if best < TOPIC else best


def line_coverage(word: str, line: Line) -> float:
    """How far a line has a word: itself, or through its surroundings."""
    return WordReach((line,)).of(word)[0]


def term_coverages(term: Term, query: EvidenceQuery, reach: WordReach) -> list[float]:
    """How far each line covers a term of the question: has it, writes it otherwise, or has the figure it labels."""
    found = reach.of(term.text)
    if term.alike:
        found = [
            ALIKE if here < ALIKE and any(other in line.folded for other in term.alike) else here
            for line, here in zip(reach.lines, found, strict=True)
        ]
    if term.formal:
        found = [
            FORMAL if here < FORMAL and _is_formal(term, line) else here
            for line, here in zip(reach.lines, found, strict=True)
        ]
    if term.parts:
        parts = zip(*(term_coverages(one, query, reach) for one in query.terms if one.text in term.parts), strict=True)
        found = [max(here, SHORT * min(own)) if here < SHORT else here for here, own in zip(found, parts, strict=True)]
    if term.measure is not None:
        bare = reach.of(term.bare) if term.bare else [1.0] * len(found)
        found = [
            max(here, FIGURED * rest) if here < FIGURED and _has_figure(term.measure, line, query) else here
            for line, here, rest in zip(reach.lines, found, bare, strict=True)
        ]
    return found


def term_coverage(term: Term, line: Line, query: EvidenceQuery) -> float:
    """`term_coverages` of one line."""
    return term_coverages(term, query, WordReach((line,)))[0]


def _is_formal(term: Term, line: Line) -> bool:
    """Returns True if a line, or its heading, writes an everyday word of the question as documents do."""
    return any(other in text for other in term.formal for text in (line.folded, line.heading, line.opened))


def _has_figure(measure: Measure, line: Line, query: EvidenceQuery) -> bool:
    """Returns True if a line that covers all the rest of a question has a figure of a kind, near some of that."""
    rest = [term for term in query.terms if term.is_main and (term.bare or term.measure is None)]
    if not rest or any(_bare_coverage(term, line.folded) < SHORT and term.text not in line.name for term in rest):
        return False
    return any(
        any(is_of(measure, figure) and figure.written not in query.figures for figure in figures(clause))
        and (is_change(query.folded) or not is_change(clause))
        and any(_bare_coverage(term, near) >= SHORT for term in rest)
        for near, clause in _clauses(line)
    )


def _bare_coverage(term: Term, text: str) -> float:
    if any(other in text for other in (*term.alike, *term.formal)):
        return ALIKE
    return coverage(term.bare or term.text, text)


@cached_texts(8_192)
def coverage(word: str, text: str) -> float:
    """How far a text has a word: itself, its stem, a synonym, another writing (10年 for 十年, nianjia for 年假), or
    parts of it.

    Cached: every line is compared again as the one before the next, and a heading for each line below it.
    """
    if word in text:
        return 1.0
    if is_written_otherwise(word, text) or any(other in text for other in _same_words(word)):
        return ALIKE
    if word.isascii():
        return 0.0
    if len(word) == 2:
        return _marks_covered(word, text, (word[0] in text) + (word[1] in text))
    pairs = [word[at : at + 2] for at in range(len(word) - 1)]
    return 0.8 * sum(pair in text for pair in pairs) / max(len(pairs), 1)


def coverages(word: str, texts: JoinedTexts) -> list[float]:
    """`coverage` of a word by each text."""
    if len(texts.texts) == 1 or may_be_written_otherwise(word, texts.joined):
        return [coverage(word, text) for text in texts.texts]
    found = _parts_covered(word, texts)
    for other in _same_words(word):
        for place in texts.with_part(other):
            found[place] = ALIKE
    for place in texts.with_part(word):
        found[place] = 1.0
    return found


def _parts_covered(word: str, texts: JoinedTexts) -> list[float]:
    """How far each text has a word by its parts."""
    counts = [0] * len(texts.texts)
    if word.isascii():
        return [0.0] * len(counts)
    parts = list(word) if len(word) == 2 else [word[at : at + 2] for at in range(len(word) - 1)]
    for part in parts:
        for place in texts.with_part(part):
            counts[place] += 1
    if len(word) != 2:
        return [0.8 * count / max(len(parts), 1) for count in counts]
    return [_marks_covered(word, text, count) for text, count in zip(texts.texts, counts, strict=True)]


def _marks_covered(word: str, text: str, marks: int) -> float:
    """How far a text has a word of which it has so many of the two characters."""
    return SHORT if marks == 2 and _in_longer(word, text) else 0.25 * marks


@cached_texts(1_024)
def _same_words(word: str) -> tuple[str, ...]:
    """Its stem and its synonyms, folded."""
    return (stem(word), *(fold(synonym.word) for synonym in shipped().of(word)))


def _in_longer(word: str, text: str) -> bool:
    """年假 of 年休假: short for it."""
    at = text.find(word[0])
    while at >= 0:
        if text[at + 2 : at + 3] == word[1] and text[at + 1].isalpha():
            return True
        at = text.find(word[0], at + 1)
    return False


def _informative(query: EvidenceQuery, worth: Mapping[str, float]) -> list[Term]:
    """The terms that a figure must be with."""
    most = max(worth.values(), default=0.0)
    return [term for term in query.terms if worth.get(term.text, 0.0) >= INFORMATIVE * most] or [Term("")]


def _fitting(query: EvidenceQuery, line: Line) -> list[tuple[str, str, float, float]]:
    """What is around each figure that may be the one that is asked for, and its clause (of a row, all around it); how
    far its unit and its kind fit."""
    if not has_signs(line.folded):
        return []
    found = []
    lacks_duration = _DURATION.search(query.folded) is not None and _days(line.folded) == 1  # it takes two dates
    for near, clause in _clauses(line):
        fitting = [figure for figure in figures(clause) if may_answer(figure, query)]
        if fitting:
            is_unit = not query.unit or any(_is_unit(query.unit, figure) for figure in fitting)
            is_kind = query.label is None or _is_kind(query.label, near, clause, fitting)
            is_kind = is_kind and not (lacks_duration and all(isinstance(figure, Day) for figure in fitting))
            is_kind = is_kind and not _is_base(query, clause, fitting)
            here = near if line.is_row else clause
            found.append((near, here, 1.0 if is_unit else OTHER_UNIT, 1.0 if is_kind else OTHER_KIND))
    return found


def _is_base(query: EvidenceQuery, clause: str, found: Sequence[Figure]) -> bool:
    """Returns True if the shares of a clause are of what is asked for, so that none of them is how much it is: 30% of
    合同总价的30%, for 合同总价是多少."""
    if wanted_measure(query) == "share" or not all(isinstance(one, Share) or is_of("time", one) for one in found):
        return False
    return any(
        f"{term.text}的" in clause and re.search(re.escape(term.text) + _SHARE_OF, clause)
        for term in query.terms
        if term.is_main
    )


def has_wanted_kind(query: EvidenceQuery, line: Line, *, by_measure: bool = True) -> bool:
    """Returns True if a line has something of the very kind that is asked for, where that is known: an amount of money
    for 多少钱, a number of 只 for 几只, a firm for 哪家公司. A row has its units and kinds in its headers. Without
    ``by_measure`` a figure may be of any measure: prices are often written without their unit."""
    if line.is_row:
        return True
    if cue("which.body").search(query.folded) and not cue("which.bodies").search(line.folded):
        return False
    if _lacks_weekday(query, line):
        return False
    if not query.needs:
        return True
    text = line.folded.replace(*_WORKING_DAYS)
    return _has_wanted_unit(query, text) and (not by_measure or _has_wanted_figure(query, text))


def _lacks_weekday(query: EvidenceQuery, line: Line) -> bool:
    """Returns True if a day of the week is asked for, and a line has none."""
    is_wanted = cue("label.ending.weekday").search(query.folded)
    return bool(is_wanted) and not cue("label.ending.weekdays").search(line.folded)


def _has_wanted_unit(query: EvidenceQuery, text: str) -> bool:
    if query.unit == _OCLOCK and not cue("label.ending.always").search(text):
        return any(isinstance(figure, Clock) for figure in figures(text))
    found = [cue(name).search(query.folded) for name in ("label.ending.counted", "label.ending.written")]
    units = [unit.group(1) for unit in found if unit]
    same = entries("label.same_unit")
    return all(re.search(rf"{_NUMERAL}\s?(?:{same.get(unit, re.escape(unit))})", text) for unit in units)


def _has_wanted_figure(query: EvidenceQuery, text: str) -> bool:
    stated = [figure for figure in figures(text) if may_answer(figure, query)]
    dates = [figure for figure in stated if isinstance(figure, Day)]
    if _DURATION.search(query.folded) and sum(date.month is not None for date in dates) < 2:  # it takes two dates
        stated = [figure for figure in stated if figure not in dates]
    if query.unit and not any(_is_unit(query.unit, figure) for figure in stated):
        return False
    measure = wanted_measure(query)
    if measure == "time" and cue("label.ending.endless").search(text):
        return True
    if measure == "money" and stated and is_multiple(text):
        return True
    return any(measure is None or is_of(measure, figure) for figure in stated)


def _days(text: str) -> int:
    return sum(isinstance(figure, Day) for figure in figures(text))


def _figure(query: EvidenceQuery, fitting: Sequence[tuple[str, str, float, float]], terms: Sequence[Term]) -> float:
    """Whether the figure that is asked for is with what it is asked of: in one clause, or in the sentence."""
    if not query.needs:
        return 1.0
    best = NOWHERE
    for near, clause, unit, kind in fitting:
        is_near = any(_bare_coverage(term, near) >= SHORT for term in terms)
        is_here = is_near and any(_bare_coverage(term, clause) >= SHORT for term in terms)
        best = max(best, (CLAUSE if is_here else NEXT if is_near else SENTENCE) * unit * kind)
    return best


def _is_unit(unit: str, figure: Figure) -> bool:
    if isinstance(figure, Clock):
        return unit == "点"
    also = entries("label.same_unit").get(unit)
    return figure.written.endswith(unit) or bool(also and re.search(f"(?:{also})$", figure.written))


def _is_kind(label: tuple[str, Measure], near: str, clause: str, found: Sequence[Figure]) -> bool:
    """Returns True if a figure may be of the kind that a question asks for by its label; any may where that is near."""
    word, measure = label
    if word in near:
        return True
    fitting = any(is_of(measure, figure) or (isinstance(figure, Number) and not figure.unit) for figure in found)
    fitting = fitting or (measure == "money" and is_multiple(clause))
    return fitting and (measure != "share" or not is_change(clause))


def is_multiple(text: str) -> bool:
    """Returns True if a text says how much money something is by another sum: 两个月租金, 三倍."""
    return cue("label.ending.multiple").search(text) is not None


def _clauses(line: Line) -> tuple[tuple[str, str], ...]:
    called = (
        "；".join(folded_text(cell) for _, cell in line.row.named if not _DIGIT.search(cell)) + "；" if line.row else ""
    )
    return _clauses_of(line.heading, called, line.folded)


@cached_texts(4_096)
def _clauses_of(heading: str, called: str, folded: str) -> tuple[tuple[str, str], ...]:
    """A clause with its neighbourhood, and itself: what a colon leads to is about what is before it, and a cell about
    what its row is called."""
    return tuple(_clauses_in(folded.split("；") if called else (folded,), heading, called))


def _clauses_in(lines: Iterable[str], heading: str, called: str) -> Iterator[tuple[str, str]]:
    for parts in lines:
        lead, before = heading, ""
        for clause in _CLAUSE_END.split(_DATED.sub(r"\1", parts)):
            opened, rest = _opened(clause)
            lead = called + opened if opened else lead
            yield lead + ("" if len(rest) > _SHORT_CLAUSE else before) + rest, rest.replace(*_WORKING_DAYS)
            before = rest


def _opened(clause: str) -> tuple[str, str]:
    """What a colon leads from, and to; one in brackets leads within them alone: 193万元（大写：壹佰玖拾叁万元整）."""
    at, is_bracketed = None, False
    for mark in _LEAD_MARK.finditer(clause):
        sign = mark.group()
        if sign in ":：":
            at = at if is_bracketed else mark.start()
        else:
            is_bracketed = sign in "(（"
    return ("", clause) if at is None else (clause[:at], clause[at + 1 :])


@dataclass(frozen=True, slots=True)
class _Dated:
    """What a passage or a document tells of times; ``folded``: all of it, in which most times are seen, or seen to be
    missing, before any figure is read."""

    evidence: Evidence
    folded: str

    @staticmethod
    def of(name: str, passages: Sequence[Passage]) -> _Dated:
        texts = [passage.text for passage in passages]
        evidence = _evidence_of(name, texts[0]) if len(texts) == 1 else Evidence.of(texts, (name,))
        return _Dated(evidence, "\n".join(map(folded_text, (name, *texts))))

    def has(self, day: Day) -> bool:
        return _names_year(day, self.folded) or (_may_have(day, self.folded) and has_day(day, self.evidence))

    @property
    def names_years(self) -> bool:
        return _names_some_year(self.folded) or bool(self.evidence.years)


def _evidence(offered: Sequence[Line]) -> dict[int | str, _Dated]:
    """Of the passages, by number, and of the documents, by name."""
    passages = {line.passage.number: line.passage for line in offered}
    found: dict[int | str, _Dated] = {number: _Dated.of(one.doc_name, (one,)) for number, one in passages.items()}
    for name in {passage.doc_name for passage in passages.values()}:
        found[name] = _Dated.of(name, [one for one in passages.values() if one.doc_name == name])
    return found


@cached_texts(1_024, longest=2_000)
def _evidence_of(name: str, text: str) -> Evidence:
    """Cached with its figures: questions about a time are often about the same passages."""
    return Evidence.of((text,), (name,))


@cached_texts(1_024)
def _evidence_of_lines(before: str, folded: str) -> Evidence:
    return Evidence.of((before, folded))


def _when(query: EvidenceQuery, line: Line, evidence: Mapping[int | str, _Dated]) -> float:
    """By the question's time: in the line, in the passage, nowhere, or another time instead. ``evidence`` is that of
    the passages and documents."""
    if not query.days:
        return 1.0
    whole, document = evidence[line.passage.number], evidence[line.passage.doc_name]
    shares = [_at(day, line, whole, document) for day in query.days]
    return max(shares) if query.kind == "comparison" else min(shares)


def _at(day: Day, line: Line, whole: _Dated, document: _Dated) -> float:
    if _is_here(day, line.before, line.folded):
        return 1.0
    if whole.has(day):
        return 0.95 if day.month is None else 0.8
    if day.month is not None or whole.names_years:
        return OTHER_TIME
    if document.has(day):
        return 0.9
    return OTHER_TIME if document.names_years else 0.85


def _is_here(day: Day, before: str, folded: str) -> bool:
    if _names_year(day, before) or _names_year(day, folded):
        return True
    here = f"{before}\n{folded}"
    is_possible = _may_name_year(day, (before, folded)) and _may_have(day, here)
    return is_possible and has_day(day, _evidence_of_lines(before, folded))


def _names_year(day: Day, folded: str) -> bool:
    """Returns True if a day is a year alone, and a text has it as 2023年: no figure need be read for that."""
    if day.year is None or day.month is not None or day.day is not None or not _is_as_written(folded):
        return False
    written = f"{day.year}年"
    at = folded.find(written) if len(written) == _YEAR_LENGTH else -1
    while at > 0 and folded[at - 1].isdecimal():
        at = folded.find(written, at + 1)
    return at >= 0


@cached_texts(256, longest=4_000)
def _names_some_year(folded: str) -> bool:
    return _is_as_written(folded) and _PLAIN_YEAR.search(folded) is not None


def _may_have(day: Day, folded: str) -> bool:
    """Returns False if no writing of a day can be in a text: to read the figures that it has takes long."""
    if not _is_as_written(folded):
        return True
    if day.year is not None and str(day.year) not in folded and not _WRITES_OTHERWISE.search(folded):
        return False
    if any(mark in folded for mark in _DATE_MARKS):
        return True
    if day.month is not None:
        return f"{day.month}月" in folded or f"{_HAN_MONTHS[day.month]}月" in folded
    return day.day is None or any(mark in folded for mark in _DAY_MARKS)


def _is_as_written(folded: str) -> bool:
    return not any(mark in folded for mark in _NOT_AS_WRITTEN)


def _may_name_year(day: Day, texts: Iterable[str]) -> bool:
    """Returns False if none of these texts has a figure for the year of a day."""
    if day.year is None:
        return True
    return any(f"{day.year % 100:02}" in text or _HAN_YEAR.search(text) for text in texts)


def _is_own(query: EvidenceQuery, line: Line) -> bool:
    if query.names:
        return any(map(line.is_of, query.names))
    return query.others.get(line.passage.doc_name, "") in line.around
