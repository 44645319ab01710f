"""Whether passages can answer a question: what it names must be spoken of, and what it asks for must be there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.extractive.relations import asked_of, tied
from qianxun.answer.extractive.row_subject import of_subject
from qianxun.answer.extractive.sentence_scores import Line, Weighed, held, lines, taken_up, weigh
from qianxun.core.answer_types import Passage, StatedTie
from qianxun.question.evidence_query import AnswerKind, EvidenceQuery
from qianxun.question.question import read as read_question

ENOUGH: Final[dict[AnswerKind, float]] = {"fact": 0.6, "explain": 0.37, "comparison": 0.24, "summary": 0.35}

ENOUGH_OF_SIDE: Final = 0.5  # where the same is asked of several
SPEAKS: Final = 0.72  # of a subject's words that a line has to take up: not by the sentence before it alone

BEST: Final = 4  # passages that may be ahead of the others
FAR: Final = 0.25  # in score
AHEAD: Final = 0.6  # what each point of score beyond that is worth


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """True where the passages can answer; ``fit`` of their best sentences to the question, in [0, 1]; why not."""

    is_enough: bool
    fit: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.is_enough


@dataclass(frozen=True, slots=True)
class Aside:
    """A subject among several, the question as it is asked of it, and what answers that."""

    name: str
    asked: EvidenceQuery
    weighed: tuple[Weighed, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidenced:
    """A question, and the sentences of the passages weighed by it. ``sides``: where it asks the same of several
    subjects, each with the sentences that speak of it; of some there may be none."""

    asked: EvidenceQuery
    weighed: tuple[Weighed, ...]
    sides: tuple[Aside, ...] = ()


def read(query: str, passages: Sequence[Passage], tie: StatedTie | None = None) -> Evidenced:
    names = [each.doc_name for each in passages]
    offered = lines(passages)
    if tie is not None:
        asked = asked_of(tie, query)
        return Evidenced(asked, tied(tie, weigh(asked, offered)))
    asked = read_question(query).for_evidence(names)
    sides = () if len(asked.names) > 1 else _sides(query, names, asked, offered)
    weighed = tuple(of_subject(asked, weigh(asked, offered)))
    return Evidenced(asked, weighed, sides if any(each.weighed for each in sides) else ())


def _sides(query: str, doc_names: Sequence[str], whole: EvidenceQuery, offered: Sequence[Line]) -> tuple[Aside, ...]:
    found = []
    for name, own, question in read_question(query).subjects:
        asked = replace(read_question(question).for_evidence(doc_names), kind="fact", wants=whole.wants)
        words = [word.text for word in read_question(own).for_evidence().terms] or [own]
        speaking = [
            each
            for each in of_subject(asked, weigh(asked, offered))
            if each.is_own and sum(taken_up(word, each.line) for word in words) >= SPEAKS * len(words)
        ]
        enough = max((each.fit for each in speaking), default=0.0) >= ENOUGH_OF_SIDE
        found.append(Aside(name, replace(asked, kind="comparison"), tuple(speaking) if enough else ()))
    return tuple(found)


def enough(evidenced: Evidenced) -> Sufficiency:
    """Whether the passages can answer the question."""
    asked = evidenced.asked
    if not evidenced.weighed:
        return Sufficiency(False, 0.0, "没有检索到资料")
    if evidenced.sides:
        best = max(each.fit for side in evidenced.sides for each in side.weighed)
        return Sufficiency(True, best, _lacking(evidenced))
    fit = _fit(asked, evidenced.weighed)
    if fit >= ENOUGH[asked.kind]:
        return Sufficiency(True, fit)
    lacking = [
        word.text for word in asked.terms if all(held(word.text, w.line.folded) < 0.8 for w in evidenced.weighed)
    ]
    told = "、".join(lacking[:5])
    return Sufficiency(False, fit, f"资料没有讲到：{told}" if told else "资料讲到了这些，但没有讲到所问的内容")


def _lacking(evidenced: Evidenced) -> str:
    told = "、".join(each.name for each in evidenced.sides if not each.weighed)
    return f"资料没有讲到：{told}" if told else ""


def _fit(asked: EvidenceQuery, weighed: Sequence[Weighed]) -> float:
    """Of the best sentence; of the best of every side, where several are compared."""
    if len(asked.names) > 1:
        sides = [max((each.fit for each in weighed if _is_of(each, name)), default=0.0) for name in asked.names]
        return sum(sides) / len(sides)
    usual = _usual_score(weighed)
    return min(1.0, max((each.fit + _stands_out(each, usual) for each in weighed if each.is_own), default=0.0))


def _usual_score(weighed: Sequence[Weighed]) -> float:
    """Of the passages that were found beside the best ones; the best possible where there are too few to tell."""
    scores = sorted({each.line.passage.number: each.line.passage.score for each in weighed}.values(), reverse=True)
    return scores[BEST] if len(scores) > BEST else 1.0


def _stands_out(weighed: Weighed, usual: float) -> float:
    """A search that found one passage far ahead of the others has found what was meant, in whatever words."""
    return AHEAD * max(0.0, weighed.line.passage.score - usual - FAR) if weighed.is_timely else 0.0


def _is_of(weighed: Weighed, name: str) -> bool:
    return name in weighed.line.name or name in weighed.line.around
