"""An answer of the passages' own sentences: whole ones, each cited, nothing rewritten or cut short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from qianxun.answer.extractive.sentence_scores import Weighed, held
from qianxun.answer.verify.plain_text import quotable
from qianxun.core.answer_types import Passage
from qianxun.question.evidence_query import AnswerKind, EvidenceQuery
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import figures

MOST: Final[dict[AnswerKind, int]] = {
    "fact": 3,
    "explain": 6,
    "comparison": 2,
    "summary": 14,
}  # of a side, where compared
_NEAR: Final = {"fact": 0.85, "explain": 0.25, "comparison": 0.85, "summary": 0.13}  # of the best line's fit
_NEAR_WHY: Final = 0.5
_MOST_WHY: Final = 3
NO_CAUSE: Final = 0.75  # what a line is worth that names no cause, where one is asked for
_CAUSE: Final = re.compile(
    "因|由于|原因|导致|致使|造成|引起|为了|所以|从而|以便|解释|缘|出于|源于|取决于|使得|鉴于|because|due to|since"
)
_MOST_ROWS: Final = 6  # of a table
_REPEATS: Final = 0.7  # of a sentence's pairs of characters stand in one that is chosen: it says nothing new
CARRIED: Final = 0.95  # of what a line is worth, the next one is, too
FIGURE: Final = 0.3  # what each figure adds
PLAIN: Final[dict[AnswerKind, float]] = {"explain": 0.4, "summary": 0.25}  # what a line without figures is worth
FRAMING: Final = 0.5  # … of that, what one is that only frames the others
_FRAMES: Final = re.compile("综上|总之|总的来说|总体|总而言之|未来|通过对|本报告|我们将|展望|in summary|overall")
_OPENING: Final = 12  # characters that tell it
MOST_FIGURES: Final = 4
ON_TOPIC: Final[dict[AnswerKind, float]] = {"explain": 0.55, "summary": 0.3}  # of the best line's topic
ON_NAMED: Final = 0.6  # of that, where all lines are of the document that the question names
REFERS_BACK: Final = re.compile(
    "(?:因此|同时|此外|然而|但|而)?[，,]?(?:这|该|此(?!外)|上述|以上|其中|他|她|它|其(?!次|他))"
)
_CANDIDATES: Final = 80  # lines that are compared with each other
_LONGEST: Final = 600  # characters of a line that is shown: more is not a sentence


@dataclass(frozen=True, slots=True)
class Quoted:
    """A sentence of a passage, word for word; ``subject``: whom it speaks of, where it does not say so itself."""

    sentence: str
    passage: Passage
    subject: str = ""
    is_item: bool = False

    @property
    def shown(self) -> str:
        told = quotable(self.sentence).replace("\n", " ")
        told = f"{quotable(self.subject)}：{told}" if self.subject else told
        return f"- {told}" if self.is_item else told


def extract(asked: EvidenceQuery, weighed: Sequence[Weighed]) -> tuple[Quoted, ...]:
    """The sentences that answer best: for a fact the one that tells it, for a comparison those of every side, for a
    summary the telling ones in their order."""
    usable = _usable(weighed)
    before = {each.line.at + 1: each for each in usable}
    if asked.kind == "comparison" and len(asked.names) > 1:
        sides = [_picked(asked, [each for each in usable if _speaks_of(each, name)]) for name in asked.names]
        chosen = [each for side in sides for each in _understood(side, before)]
        chosen = list({each.line.at: each for each in chosen}.values())
    else:
        chosen = _understood(_picked(asked, usable), before)
    return _quoted(chosen, asked.kind in ("summary", "comparison"))


def extract_each(sides: Iterable[tuple[EvidenceQuery, Sequence[Weighed]]]) -> tuple[Quoted, ...]:
    """The sentences that answer best for each of several subjects, in the question's order."""
    chosen: dict[int, Weighed] = {}
    for asked, weighed in sides:
        usable = _usable(weighed)
        picked = _understood(_picked(asked, usable), {each.line.at + 1: each for each in usable})
        chosen.update((each.line.at, each) for each in picked if each.line.at not in chosen)
    return _quoted(list(chosen.values()), may_list=True)


def _usable(weighed: Sequence[Weighed]) -> list[Weighed]:
    return [each for each in weighed if each.is_own and len(each.line.text) <= _LONGEST]


def _quoted(chosen: Sequence[Weighed], may_list: bool) -> tuple[Quoted, ...]:
    several = len({each.line.passage.doc_name for each in chosen}) > 1
    has_rows = any(each.line.is_row for each in chosen)
    is_list = len(chosen) > (1 if several or has_rows else 2) and (may_list or has_rows)
    return tuple(
        Quoted(each.line.text, each.line.passage, _subject(each) if several else "", is_list) for each in chosen
    )


def _understood(chosen: Sequence[Weighed], before: Mapping[int, Weighed]) -> list[Weighed]:
    """In their order; 这一举措… only behind the sentence that it speaks of."""
    found = {each.line.at: each for each in chosen}
    for each in chosen:
        earlier = before.get(each.line.at)
        if REFERS_BACK.match(each.line.text) and earlier and earlier.line.passage is each.line.passage:
            found[earlier.line.at] = earlier
    return [found[at] for at in sorted(found)]


def _speaks_of(weighed: Weighed, name: str) -> bool:
    return name in weighed.line.name or name in weighed.line.folded


def _picked(asked: EvidenceQuery, offered: Sequence[Weighed]) -> list[Weighed]:
    """The best line, then what adds most to those chosen, as long as it comes near the best."""
    worth = _worth(asked, offered)
    left = sorted(offered, key=lambda each: (-worth[each.line.at], each.line.at))[:_CANDIDATES]
    chosen: list[Weighed] = []
    least = _least(asked, left, worth)
    while left and len(chosen) < _most(asked, chosen):
        news = {each.line.at: worth[each.line.at] * _news(each, chosen, asked) for each in left}
        best = max(left, key=lambda each: (news[each.line.at], -each.line.at))
        if chosen and news[best.line.at] < least:
            break
        chosen.append(best)
        left = [each for each in left if each is not best and not _repeats(each, best)]
    return chosen


def _least(asked: EvidenceQuery, ordered: Sequence[Weighed], worth: Mapping[int, float]) -> float:
    """What a line must be worth beside the best. A summary also has lines on its topic that tell no figure."""
    best = worth[ordered[0].line.at] if ordered else 0.0
    if asked.kind == "summary":
        return _NEAR["summary"] * min(best, max((each.fit for each in ordered), default=0.0))
    return best * (_NEAR_WHY if asked.is_why else _NEAR[asked.kind])


def _most(asked: EvidenceQuery, chosen: Sequence[Weighed]) -> int:
    if chosen and chosen[0].line.is_row:
        return _MOST_ROWS
    return _MOST_WHY if asked.is_why else MOST[asked.kind]


def _worth(asked: EvidenceQuery, offered: Sequence[Weighed]) -> dict[int, float]:
    """By its place among the lines. Where more is asked for than one fact, a line goes on with what the
    one before it spoke of, and the lines that tell most are those with figures."""
    if asked.is_why:
        return {each.line.at: each.fit * (1.0 if _CAUSE.search(each.line.folded) else NO_CAUSE) for each in offered}
    if asked.kind in ("fact", "comparison"):
        return {each.line.at: each.fit for each in offered}
    topics: dict[int, float] = {}
    topic, passage = 0.0, 0
    for each in offered:
        goes_on = each.line.passage.number == passage and not each.line.is_row
        topic = max(each.fit, CARRIED * topic if goes_on else 0.0)
        passage = each.line.passage.number
        topics[each.line.at] = topic
    least = ON_TOPIC[asked.kind] * (ON_NAMED if asked.names else 1.0) * max(topics.values(), default=0.0)
    return {
        each.line.at: topics[each.line.at] * _telling(each, asked.kind) if topics[each.line.at] >= least else 0.0
        for each in offered
    }


def _telling(weighed: Weighed, kind: AnswerKind) -> float:
    count = min(len(figures(weighed.line.text)), MOST_FIGURES)
    if count:
        return 1 + FIGURE * count
    return PLAIN[kind] * (FRAMING if _FRAMES.search(weighed.line.folded[:_OPENING]) else 1.0)


def _news(weighed: Weighed, chosen: Iterable[Weighed], asked: EvidenceQuery) -> float:
    """How much of what a line says of the question has not been said: 1 for the first."""
    said = " ".join(each.line.folded for each in chosen)
    if not said or weighed.line.is_row:
        return 1.0
    own = [word.text for word in asked.terms if held(word.text, weighed.line.folded) >= 0.8]
    fresh = [word for word in own if held(word, said) < 0.8 and word not in weighed.line.name]
    return 0.7 + 0.3 * len(fresh) / max(len(own), 1)


def _repeats(weighed: Weighed, chosen: Weighed) -> bool:
    """Whether a line says nothing new. Rows of a table are alike, and differ in their values."""
    if weighed.line.is_row or chosen.line.is_row:
        return weighed.line.text == chosen.line.text
    own = {gram for gram in grams(weighed.line.text) if len(gram) > 1}
    return len(own & frozenset(grams(chosen.line.text))) >= _REPEATS * len(own)


def _subject(weighed: Weighed) -> str:
    name = PurePath(weighed.line.passage.doc_name).stem
    bare = re.sub(r"\s+", "", fold(name))
    return "" if not bare or bare in re.sub(r"\s+", "", weighed.line.folded) else name
