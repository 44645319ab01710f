"""An answer of the passages' own sentences: whole ones, each cited, nothing rewritten or cut short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from qianxun.answer.extractive.passage_lines import Line
from qianxun.answer.extractive.sentence_scores import ScoredLine, coverage
from qianxun.answer.extractive.tiers import bounds_quantity
from qianxun.answer.verify.plain_text import quotable
from qianxun.core.answer_types import Passage
from qianxun.core.system.cache import cached_texts
from qianxun.question.evidence_query import AnswerKind, EvidenceQuery
from qianxun.question.words import cue, listed
from qianxun.text.chinese import fold, pairs
from qianxun.text.chinese import words as words_of
from qianxun.text.figures import figures
from qianxun.text.line_breaks import in_one_line

MOST: Final[dict[AnswerKind, int]] = {
    "fact": 4,
    "explain": 6,
    "comparison": 2,
    "summary": 14,
}  # of a side, where compared
_NEAR: Final = {"fact": 0.65, "explain": 0.25, "comparison": 0.65, "summary": 0.13}  # of the best line's fit
_NEAR_ROW: Final = 0.85  # of that of a row for a fact: other rows are about something else
_NEAR_BOUND: Final = 0.7
_MOST_BOUNDS: Final = 2
_NEAR_WHY: Final = 0.5
_MOST_WHY: Final = 3
NO_CAUSE: Final = 0.75  # what a line is worth that names no cause, where one is asked for
_CAUSE: Final = re.compile(
    "因|由于|原因|导致|致使|造成|引起|为了|所以|从而|以便|解释|缘|出于|源于|取决于|使得|鉴于|because|due to|since"
)
CLAIMED: Final = 0.85  # what a line is worth that only reports what somebody claims or asks for
MOST_ROWS: Final = 6  # of a table
_BY_SCORE: Final = 0.15  # of a line's worth: of lines that fit alike, the one that the search found better
_MOST_ITEMS: Final = 12  # of a list that is quoted with what opens it
_MOST_MEMBERS: Final = 6  # of a list, a sentence each
_STATED: Final = 0.8  # of a word, in a line that has it
_REPEATS: Final = 0.7  # of a sentence's pairs of characters are in one that is chosen: it has nothing new
CARRIED: Final = 0.95  # of what a line is worth, the next one is, too
_CARRIES: Final = 0.95  # of the best line's fit, that of one which the next goes on with: others only touch the topic
FIGURE: Final = 0.3  # what each figure adds
PLAIN: Final[dict[AnswerKind, float]] = {"explain": 0.4, "summary": 0.25}  # what a line without figures is worth
FRAMING: Final = 0.5  # … of that, what one is that only frames the others
_FRAMES: Final = re.compile("综上|总之|总的来说|总体|总而言之|未来|通过对|本报告|我们将|展望|in summary|overall")
_OPENING: Final = 12  # characters that tell it
MOST_FIGURES: Final = 4
ON_TOPIC: Final[dict[AnswerKind, float]] = {"explain": 0.55, "summary": 0.3}  # of the best line's topic
ON_NAMED: Final = 0.6  # of that, where all lines are of the document that the question names
REFERS_BACK: Final = re.compile(
    "(?:因此|同时|此外|然而|但|而)?[，,]?(?:这|该|此(?!外)|上述|以上|前[款项条]|其中|他|她|它|其(?!次|他))"
)
_NUMBER: Final = re.compile(
    r"(?:第?[一二三四五六七八九十\d]{1,3}[章节条、.．)）]?|[(（][一二三四五六七八九十\d]{1,3}[)）])\s{0,4}"
)
_WHOLE: Final = re.compile(
    "([\\u4e00-\\u9fff]{2,10}?)(?:情况|内容)?[,，]?(?:分别|各自|各)?"
    "(?:是什么|有哪些|包括哪些|是怎样的|如何)[\\s?？。]{0,9}$"
)
_DEFINES: Final = (
    r"[\d.、()（）\s]{{0,12}}[“\"《*]{{0,2}}{name}[”\"》*]{{0,2}}"
    r"(?:[(（][^()（）]{{0,40}}[)）])?[,，]?(?:[:：]|是?指|系指)"
)
_DECISION: Final = 6  # characters of 不行。 and 可以的。
_MOST_DEFINITIONS: Final = 2  # of documents that differ
_SHORT_SECTION: Final = 6  # lines of one that answers a question for a fact
_CANDIDATES: Final = 80  # lines that are compared with each other
_EITHER: Final = re.compile("有没有|是不是|能不能|会不会|要不要|可不可以|了没")  # no negation
_DENIED: Final = re.compile("[未没不无否非]")
_LONGEST: Final = 600  # characters of a line that is shown: more is not a sentence


@dataclass(frozen=True, slots=True)
class Quoted:
    """A sentence of a passage, word for word; ``subject``: whom it is about, where it does not name that itself."""

    sentence: str
    passage: Passage
    subject: str = ""
    is_item: bool = False
    is_row: bool = False

    @property
    def shown(self) -> str:
        text = quotable(in_one_line(self.sentence))
        text = f"{quotable(self.subject)}：{text}" if self.subject else text
        return f"- {text}" if self.is_item else text


def extract(query: EvidenceQuery, scored: Sequence[ScoredLine]) -> tuple[Quoted, ...]:
    """The sentences that answer best: for a fact the one that states it, for a comparison those of every side, for a
    summary the informative ones in their order."""
    usable = _usable(scored)
    before = {one.line.at + 1: one for one in usable}
    if query.kind == "comparison" and len(query.names) > 1:
        about = [[one for one in usable if name in one.line.name or name in one.line.folded] for name in query.names]
        sides = [_section(query, own) or _picked(query, own) for own in about]
        chosen = [one for side in sides for one in _understood(side, before)]
        chosen = list({one.line.at: one for one in chosen}.values())
    else:
        picked = (
            _definition(query, usable) or _section(query, usable) or _with_list(query, _picked(query, usable), usable)
        )
        chosen = _understood([*picked, *_bounds(query, picked, usable)], before)
        if query.kind == "fact" and picked and not picked[0].line.is_row and picked[0].line.list_at < 0:
            best = _understood([*_decision(picked[0], chosen), picked[0]], before)
            chosen = [*best, *(one for one in chosen if one not in best)]
    if query.kind == "fact" and _disregard_negation(query.folded, chosen):
        return ()
    return _quoted(chosen, query.kind in ("summary", "comparison"))


def _disregard_negation(folded: str, chosen: Sequence[ScoredLine]) -> bool:
    """Returns True if rows of a table are all that is found for 哪些工单还没处理完, and not all of them say
    that it is not: these have the words, whether it is so or not."""
    rows = [one for one in chosen if one.line.is_row]
    negated = listed("negation.alone").intersection(words_of(_EITHER.sub("", folded)))
    return bool(negated) and 1 < len(rows) == len(chosen) and not all(_DENIED.search(one.line.text) for one in rows)


def extract_sides(sides: Iterable[tuple[EvidenceQuery, Sequence[ScoredLine]]]) -> tuple[Quoted, ...]:
    """The sentences that answer best for each of several subjects, in the question's order."""
    chosen: dict[int, ScoredLine] = {}
    for query, scored in sides:
        usable = _usable(scored)
        before = {one.line.at + 1: one for one in usable}
        picked = _understood(_section(query, usable) or _picked(query, usable), before)
        chosen.update((one.line.at, one) for one in picked if one.line.at not in chosen)
    return _quoted(list(chosen.values()), may_list=True)


def _decision(best: ScoredLine, chosen: Sequence[ScoredLine]) -> list[ScoredLine]:
    """A word of yes or no that the best line goes on from: 不行。普通机油容易结焦。"""
    earlier = [one for one in chosen if one.line.at + 1 == best.line.at and one.line.folded == best.line.before]
    return [one for one in earlier if len(one.line.text) <= _DECISION and not one.line.is_row]


def _bounds(query: EvidenceQuery, picked: Sequence[ScoredLine], usable: Sequence[ScoredLine]) -> list[ScoredLine]:
    """Lines that set bounds for what the question states how much it is of: 15万元 may be more than is allowed."""
    if query.kind != "fact" or not query.figures or not picked or picked[0].line.is_row:
        return []
    least = _NEAR_BOUND * picked[0].choice
    near = [one for one in usable if one not in picked and one.choice >= least and not one.line.is_row]
    found = [one for one in near if bounds_quantity(query.folded, one.line.folded)]
    return sorted(found, key=lambda one: -one.choice)[:_MOST_BOUNDS]


def _with_list(query: EvidenceQuery, picked: list[ScoredLine], usable: Sequence[ScoredLine]) -> list[ScoredLine]:
    """Where every member is asked for and the best line is an item of a list, all of that list."""
    if not query.is_list or not picked or picked[0].line.list_at < 0:
        return picked
    return [one for one in usable if one.line.list_at == picked[0].line.list_at][:_MOST_ITEMS]


def _section(query: EvidenceQuery, usable: Sequence[ScoredLine]) -> list[ScoredLine]:
    """Where what a section is called is asked for as a whole, all of that section: 总结…的出院医嘱, 诉讼请求是什么."""
    wanted = query.folded if query.kind == "summary" else "".join(_WHOLE.findall(query.folded))
    if not wanted:
        return []
    of_all = [one for one in usable if all(map(one.line.is_of, query.names))] or usable
    own = [one for one in of_all if _is_called(one.line, wanted)]
    return own[: MOST["summary"]] if query.kind == "summary" or len(own) <= _SHORT_SECTION else []


def _definition(query: EvidenceQuery, usable: Sequence[ScoredLine]) -> list[ScoredLine]:
    """Where it is asked what something is, or how it is worked out, the line that says so: 可用率：…, 可用率是指…; of
    somebody, what the section says that is called so."""
    found = cue("kind.defined").search(query.folded)
    name = (found["after"] or found["before"]).strip() if found else ""
    if not name:
        return []
    defining = re.compile(_DEFINES.format(name=re.escape(name)))
    own = [one for one in usable if not one.line.is_row and defining.match(one.line.folded)]
    return own[:_MOST_DEFINITIONS] or [one for one in usable if _bare_heading(one.line) == name][:_SHORT_SECTION]


def _bare_heading(line: Line) -> str:
    """Of the innermost section, without its number."""
    heading = line.heading.rpartition("\n")[2]
    number = _NUMBER.match(heading)
    return heading[number.end() :] if number else heading


def _is_called(line: Line, folded: str) -> bool:
    """Returns True if the section or the paragraph that a line stands in has its name in a question."""
    names = (_bare_heading(line), line.label)
    return any(len(name) > 1 and name in folded for name in names)


def _usable(scored: Sequence[ScoredLine]) -> list[ScoredLine]:
    return [one for one in scored if one.is_own and len(one.line.text) <= _LONGEST]


def _quoted(chosen: Sequence[ScoredLine], may_list: bool) -> tuple[Quoted, ...]:
    several = len({one.line.passage.doc_name for one in chosen}) > 1
    has_rows = any(one.line.is_row for one in chosen)
    is_list = len(chosen) > (1 if several or has_rows else 2) and (may_list or has_rows)
    return tuple(
        Quoted(one.line.text, one.line.passage, _subject(one) if several else "", is_list, one.line.is_row)
        for one in chosen
    )


def _understood(chosen: Sequence[ScoredLine], before: Mapping[int, ScoredLine]) -> list[ScoredLine]:
    """In their order; 这一举措… only after the sentence that it refers to, an item of a list after what opens it, and
    what opens a list with its items."""
    found = {one.line.at: one for one in chosen}
    at_place = {at - 1: one for at, one in before.items()}
    for one in chosen:
        if one.line.opening in at_place:
            found[one.line.opening] = at_place[one.line.opening]
        else:
            items = [item for item in before.values() if item.line.opening == one.line.at]
            found.update((item.line.at, item) for item in items[:_MOST_ITEMS])
        earlier = before.get(one.line.at)
        if REFERS_BACK.match(one.line.text) and earlier and earlier.line.passage is one.line.passage:
            found[earlier.line.at] = earlier
    return [found[at] for at in sorted(found)]


def _picked(query: EvidenceQuery, offered: Sequence[ScoredLine]) -> list[ScoredLine]:
    """The best line, then what adds most to those chosen, as long as it comes near the best."""
    worth = _worth(query, offered)
    left = sorted(offered, key=lambda one: (-worth[one.line.at], one.line.at))[:_CANDIDATES]
    if query.is_list and left and len(members := _members(query, left)) > 1 and members[0] is left[0]:
        return members
    chosen: list[ScoredLine] = []
    least = _least(query, left, worth)
    while left and len(chosen) < _most(query, chosen):
        news = {pick.line.at: worth[pick.line.at] * _news(pick, chosen, query) for pick in left}
        best = max(left, key=lambda pick: (news[pick.line.at], -pick.line.at))
        if chosen and news[best.line.at] < least:
            break
        chosen.append(best)
        # Being new adds nothing to what a line is worth: one that is worth less is not chosen any more.
        left = [pick for pick in left if worth[pick.line.at] >= least and pick is not best and not _repeats(pick, best)]
    return chosen


def _members(query: EvidenceQuery, ordered: Sequence[ScoredLine]) -> list[ScoredLine]:
    """The lines that state one member each of what is asked for: all that have every word of the question themselves.
    A single word beside no document's name is no statement; rows of tables are chosen otherwise."""
    words = [term.text for term in query.terms if term.is_main and not term.parts and len(term.text) > 1]
    found: list[ScoredLine] = []
    for one in ordered if words and len(words) + len(query.names) > 1 else ():
        states = not one.line.is_row and all(coverage(word, one.line.folded) >= _STATED for word in words)
        if states and len(found) < _MOST_MEMBERS and not any(_repeats(one, known) for known in found):
            found.append(one)
    return found


def _least(query: EvidenceQuery, ordered: Sequence[ScoredLine], worth: Mapping[int, float]) -> float:
    """What a line must be worth to come after the best. A summary also has lines on its topic without figures."""
    best = worth[ordered[0].line.at] if ordered else 0.0
    if query.kind == "summary":
        return _NEAR["summary"] * min(best, max((one.fit for one in ordered), default=0.0))
    if query.kind == "fact" and ordered and ordered[0].line.is_row:
        return best * _NEAR_ROW
    return best * (_NEAR_WHY if query.is_why else _NEAR[query.kind])


def _most(query: EvidenceQuery, chosen: Sequence[ScoredLine]) -> int:
    if chosen and chosen[0].line.is_row:
        return MOST_ROWS
    return _MOST_WHY if query.is_why else MOST[query.kind]


def _worth(query: EvidenceQuery, offered: Sequence[ScoredLine]) -> dict[int, float]:
    """By its place among the lines. Where more is asked for than one fact, a line goes on with what the
    one before it was about, and the most informative lines are those with figures."""
    if query.is_why:
        return {one.line.at: one.fit * (1.0 if _CAUSE.search(one.line.folded) else NO_CAUSE) for one in offered}
    if query.kind in ("fact", "comparison"):
        claim = 1.0 if cue("claim.any").search(query.folded) else CLAIMED
        return {
            one.line.at: one.choice
            * (1 - _BY_SCORE * (1 - one.line.passage.score))
            * (claim if _is_claim(one.line) else 1.0)
            for one in offered
        }
    topics: dict[int, float] = {}
    topic, passage, heading = 0.0, 0, ""  # the heading: a question, where the lines are a list of questions
    carries = _CARRIES * max((one.fit for one in offered), default=0.0) if query.kind == "explain" else 0.0
    for one in offered:
        is_next_question = one.line.heading != heading and one.line.heading.endswith(("?", "？"))
        goes_on = one.line.passage.number == passage and not one.line.is_row and not is_next_question
        topic = max(one.fit, CARRIED * topic if goes_on and topic >= carries else 0.0)
        passage, heading = one.line.passage.number, one.line.heading
        topics[one.line.at] = topic
    least = ON_TOPIC[query.kind] * (ON_NAMED if query.names else 1.0) * max(topics.values(), default=0.0)
    return {
        one.line.at: topics[one.line.at] * _informative(one, query.kind) if topics[one.line.at] >= least else 0.0
        for one in offered
    }


def _is_claim(line: Line) -> bool:
    """Returns True if a line only reports what somebody claims or asks for: it says so, or its section is called so."""
    return _claims(line.heading.rpartition("\n")[2], line.label, line.folded)


@cached_texts(8_192)
def _claims(heading: str, label: str, folded: str) -> bool:
    """Cached: what is asked has no part in it."""
    called = "\n".join((heading, label, folded))
    return bool(cue("claim.any").search(called)) and not cue("claim.found").search(folded)


def _informative(scored: ScoredLine, kind: AnswerKind) -> float:
    count = min(len(figures(scored.line.text)), MOST_FIGURES)
    if count:
        return 1 + FIGURE * count
    return PLAIN[kind] * (FRAMING if _FRAMES.search(scored.line.folded[:_OPENING]) else 1.0)


def _news(scored: ScoredLine, chosen: Iterable[ScoredLine], query: EvidenceQuery) -> float:
    """How much of what a line covers of the question is new: 1 for the first."""
    covered = " ".join(one.line.folded for one in chosen)
    if not covered or scored.line.is_row:
        return 1.0
    own = [term.text for term in query.terms if coverage(term.text, scored.line.folded) >= 0.8]
    new = [word for word in own if coverage(word, covered) < 0.8 and word not in scored.line.name]
    return 0.7 + 0.3 * len(new) / max(len(own), 1)


def _repeats(scored: ScoredLine, chosen: ScoredLine) -> bool:
    """Returns True if a line has nothing new. Rows of a table are alike, and differ in their values."""
    if scored.line.is_row or chosen.line.is_row:
        return scored.line.text == chosen.line.text
    own = _pairs(scored.line.text)
    return len(own & _pairs(chosen.line.text)) >= _REPEATS * len(own)


@cached_texts(512)
def _pairs(text: str) -> frozenset[str]:
    """Its pairs of characters, and its runs of letters and digits. Cached: a line is compared with every one that is
    chosen before it."""
    return pairs(text)


def _subject(scored: ScoredLine) -> str:
    name = PurePath(scored.line.passage.doc_name).stem
    bare = re.sub(r"\s+", "", fold(name))
    return "" if not bare or bare in re.sub(r"\s+", "", scored.line.folded) else name
