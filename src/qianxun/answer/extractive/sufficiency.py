"""Whether passages can answer a question: what it names must be there, of the right subject, and what it asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress
from typing import Final

from qianxun.answer.extractive.calculation import Calculation, calculation
from qianxun.answer.extractive.extractive import REFERS_BACK
from qianxun.answer.extractive.meaning import (
    Likeness,
    candidates,
    closest,
    is_of_alternative,
    is_of_other_number,
    likeness_without_names,
)
from qianxun.answer.extractive.other_subjects import narrowed
from qianxun.answer.extractive.passage_lines import Line, folded_text, lines
from qianxun.answer.extractive.record_heads import people, record_subjects
from qianxun.answer.extractive.sentence_scores import (
    AROUND,
    BEFORE,
    SHORT,
    ScoredLine,
    WordReach,
    coverage,
    has_wanted_kind,
    line_coverage,
    score_lines,
    term_coverage,
    term_coverages,
)
from qianxun.answer.extractive.tiers import is_in_tier
from qianxun.core.answer_types import Passage, StatedTie
from qianxun.question.evidence_query import AnswerKind, EvidenceQuery, Term
from qianxun.question.question import read as read_question
from qianxun.question.words import cue
from qianxun.text.chinese import fold

ENOUGH: Final[dict[AnswerKind, float]] = {"fact": 0.6, "explain": 0.37, "comparison": 0.24, "summary": 0.35}
ENOUGH_OF_SIDE: Final = 0.5  # where a question asks the same of several subjects
COVERED: Final = 0.72  # of a subject's words in a line: more than by the sentence before it alone
BEST: Final = 4  # passages that may be ahead of the others
FAR: Final = 0.25  # in score
AHEAD: Final = 0.6  # what a point of score beyond that is worth
PROBABLE: Final = 0.75  # of what is enough: such a line is probably the place
BARELY_ALIKE, RATHER_ALIKE = 0.55, 0.6  # cosines of a question and a line, without names: where the words fit
# The chance that a question has its answer here, by how well the best line fits (as a share of what is enough) and by
# how alike line and question are in meaning; fitted with one domain left out in turn
# (docs/decisions/0025-answers-across-domains.md).
BY_FIT, BY_MEANING, OFFSET = 3.9, 2.9, -5.9
SURE: Final = 0.6
CLEARLY: Final = 1.4  # of what is enough: no meaning is so unlike that it would be doubted
_JUDGED: Final[tuple[AnswerKind, ...]] = ("fact", "explain")  # others rest on several lines
NEAR_BEST: Final = 0.85  # of the best line's fit: such lines may be quoted with it
NAME_ALONE: Final = 0.5  # what a line is worth that has only the name of whom is asked about
NAMED_ELSEWHERE: Final = 0.95  # … for its choice, if the name is only in its document's name or around it
STATED: Final = 0.6  # the least fit of a line that states the relation; the rest is how well it fits
_NAME_COVERED: Final = 0.9  # of a name, in a line about it
_ENDING: Final = re.compile("(?<=..)(?:[省市区县]|公司|集团)$")  # 北京市 may be called 北京, 华为公司 华为技术
_OF: Final = "的"
_OWNED: Final = re.compile(
    r"(?:^|[,，])(?P<owner>[^\W的]{2,16})的(?P<owned>[^\W的]{2,8}?)"
    r"(?:大概|一般)?(?:现在)?(?:是|叫|为|有)?(?:谁|什么|多少|哪里|几)[呢啊]?[\s?？。]*$"
)


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """True if the passages can answer; ``fit`` of their best lines to the question, in [0, 1]; ``reason`` if not."""

    is_enough: bool
    fit: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.is_enough


@dataclass(frozen=True, slots=True)
class Side:
    """A subject among several, the question about it alone, and the lines that answer that."""

    name: str
    query: EvidenceQuery
    scored: tuple[ScoredLine, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadEvidence:
    """A question, and the lines of the passages scored by it; ``sides`` where it asks the same of several subjects, of
    some of which there may be no lines."""

    query: EvidenceQuery
    scored: tuple[ScoredLine, ...]
    reach: WordReach  # of words to the same lines
    sides: tuple[Side, ...] = ()
    calculation: Calculation | None = None  # of two figures that the lines state
    subject: str = ""  # where lines about something else that is named alike were left out (`other_subjects`)
    people: tuple[str, ...] = ()  # whom the question names, and the passages introduce

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.query.names, *self.people)


def read(text: str, passages: Sequence[Passage], tie: StatedTie | None = None) -> ReadEvidence:
    subjects = record_subjects(text, passages)
    offered = lines(passages, subjects)
    if tie is not None:
        query, reach = _relation_query(tie, text), WordReach(offered)
        return ReadEvidence(query, _stating(tie, score_lines(query, reach)), reach)
    names = [*(passage.doc_name for passage in passages), *chain.from_iterable(subjects.values())]
    persons = people(text, passages)
    query = read_question(text).for_evidence(names, persons)
    sides = _sides(text, names, persons, query, offered)
    own = narrowed(query, offered)
    reach = WordReach(own.lines)
    scored = tuple(_about_people(persons, query, _about_subject(query, score_lines(query, reach)), reach))
    sides = sides if any(side.scored for side in sides) else ()
    return ReadEvidence(query, scored, reach, sides, calculation(query, scored), own.subject, persons)


def _sides(
    text: str, doc_names: Sequence[str], persons: Sequence[str], whole: EvidenceQuery, offered: Sequence[Line]
) -> tuple[Side, ...]:
    found = []
    if len(whole.names) > 1 and whole.kind == "comparison":  # a side to a document (`extract`)
        return ()
    subjects = read_question(text).subjects
    reach = WordReach(offered if subjects else ())
    for name, own, question in subjects:
        query = replace(read_question(question).for_evidence(doc_names, persons), kind="fact", needs=whole.needs)
        words = [term.text for term in read_question(own).for_evidence((), persons).terms] or [own]
        named = [sum(shares) >= COVERED * len(words) for shares in zip(*map(reach.of, words), strict=True)]
        scored = _about_subject(query, score_lines(query, reach))
        about = [one for one, is_named in zip(scored, named, strict=True) if one.is_own and is_named]
        is_enough = max((scored.fit for scored in about), default=0.0) >= ENOUGH_OF_SIDE
        found.append(Side(name, replace(query, kind="comparison"), tuple(about) if is_enough else ()))
    return tuple(found)


def enough(evidence: ReadEvidence, likeness: Likeness | None = None) -> Sufficiency:
    """Returns whether the passages can answer the question: by its words, and by its meaning where these fit barely."""
    query = evidence.query
    if not evidence.scored:
        return Sufficiency(False, 0.0, f"资料没有讲到：{evidence.subject}" if evidence.subject else "没有检索到资料")
    if evidence.calculation is not None:
        return Sufficiency(True, 1.0)
    if evidence.sides:
        best = max(scored.fit for side in evidence.sides for scored in side.scored)
        missing = "、".join(side.name for side in evidence.sides if not side.scored)
        unknown = [side.name for side in evidence.sides if not side.scored and not _is_known(side.name, evidence)]
        if unknown and cue("comparison.which").search(query.folded):  # there is nothing to compare with
            return Sufficiency(False, best, f"资料没有讲到：{'、'.join(unknown)}")
        return Sufficiency(True, best, f"资料没有讲到：{missing}" if missing else "")
    fit = _fit(query, evidence.scored)
    # What only lines about something else say is not said of the subject.
    is_of_subject = not evidence.subject or not _absent(evidence)
    is_enough = fit >= ENOUGH[query.kind] and is_of_subject and not _is_row_without(evidence)
    is_enough = is_enough and not _lacks_attribute(evidence) and _offers_kind(evidence) and not _is_of_other(evidence)
    is_enough = is_enough and not _lacks_action(evidence) and not _is_of_other_owner(evidence)
    lacks_result = query.is_computed and not _states_result(evidence.scored)
    if is_enough and not lacks_result and (likeness is None or _chance(evidence, fit, likeness) >= SURE):
        return Sufficiency(True, fit)
    if is_enough and lacks_result:
        return Sufficiency(False, fit, "资料写了有关的数，没有写出所问的结果")
    missing = "、".join(_absent(evidence)[:5])
    return Sufficiency(False, fit, f"资料没有讲到：{missing}" if missing else "资料讲到了这些，但没有讲到所问的内容")


def _absent(evidence: ReadEvidence) -> list[str]:
    """The words of a question that no line has, of those about its subject."""
    own = [at for at, one in enumerate(evidence.scored) if not evidence.subject or one.line.is_of(evidence.subject)]
    shares = {term.text: evidence.reach.own(term.text) for term in evidence.query.terms}
    return [word for word, share in shares.items() if all(share[at] < SHORT for at in own)]


def _is_known(name: str, evidence: ReadEvidence) -> bool:
    return any(one.line.is_of(folded_text(name)) for one in evidence.scored)


def _states_result(scored: Sequence[ScoredLine]) -> bool:
    """Returns True if the best line says what a question wants to have worked out: 合计, 相差."""
    best = max((one for one in scored if one.is_own), key=lambda one: one.fit, default=None)
    return best is not None and any(cue(f"aggregate.{name}").search(best.line.folded) for name in ("sum", "difference"))


def _chance(evidence: ReadEvidence, fit: float, likeness: Likeness) -> float:
    """That the question has its answer here, where its words were found."""
    query, share = evidence.query, fit / ENOUGH[evidence.query.kind]
    own = [one for one in evidence.scored if one.is_own]
    if query.kind not in _JUDGED or len(query.names) > 1 or share >= CLEARLY or not own:
        return 1.0
    usual = _usual_score(evidence.scored)
    best = max(own, key=lambda one: one.fit + _lead(one, usual))
    alike = likeness_without_names(likeness, query.text, [best.line], evidence.names)[0]
    return 1 / (1 + math.exp(-(BY_FIT * share + BY_MEANING * alike + OFFSET)))


def probable(evidence: ReadEvidence, likeness: Likeness | None = None) -> ScoredLine | None:
    """The line that probably answers, where none surely does: it lacks little of the question, or means the same.

    None where the question's time is another, the figure that it asks for is missing, or it is about something else.
    """
    query, least = evidence.query, ENOUGH[evidence.query.kind]
    offered = [
        one
        for one in candidates(evidence.scored)
        if not is_of_alternative(query, one.line) and not is_of_other_number(query, one.line)
    ]
    if evidence.subject or not offered:
        return None
    first = offered[0]  # fits best
    is_near = first.fit >= PROBABLE * least and _names_all(query, first.line) and has_wanted_kind(query, first.line)
    if likeness is None:
        return first if is_near else None
    bare = partial(likeness_without_names, likeness, query.text, names=evidence.names)
    meant, alike = closest(bare, offered, evidence.scored)
    if meant.is_meant and has_wanted_kind(query, meant.scored.line):
        return meant.scored
    return first if is_near and alike[0] >= (BARELY_ALIKE if first.fit >= least else RATHER_ALIKE) else None


def _is_row_without(evidence: ReadEvidence) -> bool:
    """Returns True if the best line for a fact is a row, and lacks a thing that the question names: its own name may be
    most of the question, and it must have all the rest as well."""
    own = [one for one in evidence.scored if one.is_own]
    best = max(own, key=lambda one: one.fit, default=None)
    is_row = evidence.query.kind == "fact" and best is not None and best.line.is_row
    return is_row and best is not None and not _names_all(evidence.query, best.line)


def _names_all(query: EvidenceQuery, line: Line) -> bool:
    """Returns True if every thing that the question names, and what is done with it, is in the line or around it."""
    things = [term for term in query.terms if term.is_main and not term.parts]
    return all(term_coverage(term, line, query) >= AROUND for term in things)


def _offers_kind(evidence: ReadEvidence) -> bool:
    """Returns True if a line that would be quoted for a fact has something of the kind that is asked for."""
    own = [one for one in evidence.scored if one.is_own]
    if evidence.query.kind != "fact" or not own:
        return True
    least = NEAR_BEST * max(one.fit for one in own)
    return any(has_wanted_kind(evidence.query, one.line, by_measure=False) for one in own if one.fit >= least)


def _is_of_other(evidence: ReadEvidence) -> bool:
    """Returns True if the best line for a fact is about another grade or edition than the question's. A row of a table
    has its own in its cells."""
    own = [one for one in evidence.scored if one.is_own]
    if evidence.query.kind != "fact" or not own:
        return False
    best = max(own, key=lambda one: one.fit).line
    return not best.is_row and is_of_other_number(evidence.query, best)


def _things(query: EvidenceQuery) -> list[Term]:
    """The terms that a document would call so, too: no actions, and no everyday words for which it has others."""
    main = [term for term in query.terms if term.is_main and not term.parts and not term.is_verb]
    return [term for term in main if not term.is_lay]


def _has_attribute(query: EvidenceQuery, line: Line) -> bool:
    """Returns True if what a subject is asked to have is around a line, as people or documents call it: 毛病, 故障."""
    formal = (word for term in query.terms if term.text == query.attribute for word in term.formal)
    around = "\n".join((line.heading, line.around))
    return any(mark in line.around for mark in query.attribute.removesuffix("子")) or any(map(around.count, formal))


def _lacks_attribute(evidence: ReadEvidence) -> bool:
    """Returns True if what is asked of a subject is not spoken of: the best line says no 牌子; no line has a thing that
    the question names; or only the rest of a compound: 检查结果, where that of a 胃镜 is asked for."""
    query = evidence.query
    own = [one for one in evidence.scored if one.is_own]
    if not own:
        return False
    best = max(own, key=lambda one: one.fit).line
    if query.attribute and not _has_attribute(query, best):
        return True
    shares = {term.text: term_coverages(term, query, evidence.reach) for term in _things(query) if len(term.text) > 1}
    is_own = [one.is_own for one in evidence.scored]
    unknown = {word for word, share in shares.items() if max(compress(share, is_own)) < AROUND}
    if query.kind != "explain":
        return query.kind == "fact" and bool(unknown)
    compounds = (term.parts for term in query.terms if term.parts)
    return any(
        part in unknown and any(line_coverage(word, best) >= SHORT for word in parts[at + 1 :])
        for parts in (() if query.is_why else compounds)
        for at, part in enumerate(parts)
    )


def _lacks_action(evidence: ReadEvidence) -> bool:
    """Returns True if a figure is asked for of what is done, and no line of the document that would be quoted speaks of
    doing it: how much a scholarship is, where it is asked in which year it was founded."""
    query = evidence.query
    actions = [term for term in query.terms if term.is_verb and not term.parts]
    own = [one for one in evidence.scored if one.is_own]
    if query.kind != "fact" or not query.needs or not actions or not own:
        return False
    best = max(own, key=lambda one: one.fit).line
    here = [one.line for one in own if one.line.passage.doc_id == best.passage.doc_id]
    return not best.is_row and all(max(term_coverages(term, query, WordReach(here))) < AROUND for term in actions)


def _is_of_other_owner(evidence: ReadEvidence) -> bool:
    """Returns True if what is asked of a named thing (乙公司的法定代表人) is written only of another: the lines with it
    do not name that thing, nor what they stand under, and those that name it do not have it."""
    query = evidence.query
    found = _OWNED.search(query.folded)
    if query.kind != "fact" or found is None or not any(name in found["owner"] for name in query.proper):
        return False  # a common noun may be called otherwise
    own = [one.line for one in evidence.scored if one.is_own and line_coverage(found["owned"], one.line) >= SHORT]
    names = [name for name in query.proper if name in found["owner"]]
    return bool(own) and not any(
        line.is_row or any(name in line.name or line_coverage(name, line) >= BEFORE for name in names) for line in own
    )


def nearest(evidence: ReadEvidence) -> ScoredLine | None:
    """The line that comes nearest to an answer, however far that is."""
    return max(
        evidence.scored, key=lambda one: (one.is_own, one.fit, one.line.passage.score, -one.line.at), default=None
    )


def _fit(query: EvidenceQuery, scored: Sequence[ScoredLine]) -> float:
    """Of the best line; of the best of every side, where several are compared."""
    if len(query.names) > 1:
        sides = [max((one.fit for one in scored if one.line.is_of(name)), default=0.0) for name in query.names]
        return sum(sides) / len(sides)
    usual = _usual_score(scored)
    return min(1.0, max((one.fit + _lead(one, usual) for one in scored if one.is_own), default=0.0))


def _usual_score(scored: Sequence[ScoredLine]) -> float:
    """Of the passages after the best ones; the best possible score where there are too few."""
    scores = sorted({one.line.passage.number: one.line.passage.score for one in scored}.values(), reverse=True)
    return scores[BEST] if len(scores) > BEST else 1.0


def _lead(scored: ScoredLine, usual: float) -> float:
    """A search that found one passage far ahead of the others has found what is asked for, in whatever words; not where
    a figure is asked for, and the line has none."""
    may_lead = scored.is_timely and scored.has_figure
    return AHEAD * max(0.0, scored.line.passage.score - usual - FAR) if may_lead else 0.0


def _is_kind_of_answer(term: Term, query: EvidenceQuery) -> bool:
    """部门 of 哪个部门: an answer has the name of one, and need not call it so."""
    return re.search(f"哪一?[个家所种位]{re.escape(term.text)}", query.folded) is not None


def _about_people(
    people: Sequence[str], query: EvidenceQuery, scored: Sequence[ScoredLine], reach: WordReach
) -> list[ScoredLine]:
    """The same, less for lines that have only the name of somebody in the question, and nothing that is asked of them;
    a line that has the name itself comes before one that has it by its document."""
    rest = [term for term in query.terms if term.text not in people and not term.parts]
    rest = [term for term in rest if term.is_main or not _is_kind_of_answer(term, query)]
    if not people or not rest or query.kind in ("comparison", "summary"):
        return list(scored)
    found = []
    shares = zip(*(term_coverages(term, query, reach) for term in rest), strict=True)
    for one, covered in zip(scored, shares, strict=True):
        share = 1.0 if max(covered) >= SHORT else NAME_ALONE
        choice = one.choice * (1.0 if all(name in one.line.folded for name in people) else NAMED_ELSEWHERE)
        found.append(replace(one, fit=one.fit * share, choice=choice * share))
    return found


# ── rows about another subject ───────────────────────────────────────────────────────────────────


def _about_subject(query: EvidenceQuery, scored: Sequence[ScoredLine]) -> list[ScoredLine]:
    """The same, with rows about something else not its own. All rows of a table share its headers: a row answers by its
    cells. A comparison or a summary asks of several rows, each of which has only its part."""
    if query.kind in ("comparison", "summary"):
        return list(scored)
    return [replace(one, is_own=False) if _is_of_another(query, one.line) else one for one in scored]


@dataclass(frozen=True, slots=True)
class _Table:
    """A row as a question is matched with it, folded: names of its columns, its cells, the text around the table."""

    header: str
    cells: tuple[str, ...]
    setting: str

    def in_header(self, word: str) -> bool:
        return _has(word, self.header)

    def in_cells(self, word: str) -> bool:
        return any(_has(word, cell) for cell in self.cells)

    def is_without(self, word: str) -> bool:
        return not (self.in_header(word) or self.in_cells(word) or _has(word, self.setting))


def _is_of_another(query: EvidenceQuery, line: Line) -> bool:
    if line.row is None:
        return False
    names, cells = zip(*((folded_text(name), folded_text(cell)) for name, cell in line.row.named), strict=True)
    is_tier = is_in_tier(query.folded, cells) if query.figures else None
    if is_tier is not None:
        return not is_tier
    table = _Table("\n".join(names), cells, line.setting)
    words = {word for run in query.runs for word in run if word != _OF}
    if any(table.is_without(word) for word in words & query.proper):
        return True
    own = [word for word in words if not table.in_header(word) and not _has(word, table.setting)]
    if own and not any(map(table.in_cells, own)):
        return True  # all that it has of the question is in its headers: any other row would do as well
    return any(_differs(name, begin, end, table) for run in query.runs for name, begin, end in _in_cells(run, table))


def _in_cells(run: Sequence[str], table: _Table) -> Iterator[tuple[str, bool, bool]]:
    """The words that are in cells, and whether the question's name begins before them, or goes on after them, in words
    that the table does not have: 南京 of 南京分公司, 建材 of 节能建材的成本."""
    padded = ("", *run, "", "")
    for at, word in enumerate(run, start=1):
        before, after, then = padded[at - 1], padded[at + 1], padded[at + 2]
        if word == _OF or not table.in_cells(word):
            continue
        begins = before not in ("", _OF) and table.is_without(before)
        is_closed = then == _OF or (then != "" and table.in_header(then))
        yield word, begins, after not in ("", _OF) and is_closed and table.is_without(after)


def _differs(word: str, begins: bool, goes_on: bool, table: _Table) -> bool:
    """Returns True if every cell with the word has another name there: 北京分公司 begins otherwise, too."""
    if not begins and not goes_on:
        return False
    places = [(cell, cell.find(word)) for cell in table.cells if word in cell]
    return bool(places) and all(
        (begins and cell[:at][-1:].isalnum()) or (goes_on and cell[at + len(word) :][:1].isalnum())
        for cell, at in places
    )


def _has(word: str, text: str) -> bool:
    return coverage(word, text) >= SHORT or _ENDING.sub("", word) in text


# ── questions for a relation: 甲和乙是什么关系, 甲的妹妹是谁 ─────────────────────────────────────────


def _relation_query(tie: StatedTie, text: str) -> EvidenceQuery:
    """The question with its names as whole terms, however a segmenter cuts them: 顾清和和顾清辞."""
    folded = rest = fold(text)
    for name in sorted(tie.names, key=len, reverse=True):
        rest = rest.replace(name, "，")
    query = read_question(rest).for_evidence()
    terms = (*map(Term, dict.fromkeys(tie.names)), *query.terms)
    return replace(query, text=text, folded=folded, kind="fact", needs=frozenset(), terms=terms, label=None)


def _stating(tie: StatedTie, scored: Sequence[ScoredLine]) -> tuple[ScoredLine, ...]:
    """Only lines that state the relation answer; where none does, those that have every name."""
    stating = {one.line.at for one in scored if _states(one.line, tie)}
    if stating:
        fits = {one.line.at: STATED + (1 - STATED) * one.fit if one.line.at in stating else 0.0 for one in scored}
    else:
        fits = {one.line.at: one.fit if _has_names(one.line, tie) else 0.0 for one in scored}
    return tuple(replace(one, fit=fits[one.line.at], choice=fits[one.line.at]) for one in scored)


def _states(line: Line, tie: StatedTie) -> bool:
    passage = line.passage
    if passage.end <= passage.start:  # an attachment of the question, in no document
        return False
    start = passage.end - len(passage.text) + line.start
    return any(
        passage.doc_id == doc_id and start < end and begin < start + len(line.text) for doc_id, begin, end in tie.places
    )


def _has_names(line: Line, tie: StatedTie) -> bool:
    """By itself, by the sentence that it goes on with, or because its document is called so."""
    before = line.before if REFERS_BACK.match(line.text) else ""
    return all(coverage(name, f"{line.name}\n{before}\n{line.folded}") >= _NAME_COVERED for name in tie.names)
