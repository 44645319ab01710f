"""Questions for a tie between things: 甲和乙是什么关系, 甲的妹妹是谁. What states it answers, and nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from qianxun.answer.extractive.extractive import REFERS_BACK
from qianxun.answer.extractive.sentence_scores import Line, Weighed, held
from qianxun.core.answer_types import StatedTie
from qianxun.question.evidence_query import EvidenceQuery, Term, evidence_query
from qianxun.text.chinese import fold

STATED: Final = 0.6  # what a line that states the tie is worth at least; the rest is how well it fits
_SPEAKS: Final = 0.9  # how far a line has to have a name


def asked_of(tie: StatedTie, query: str) -> EvidenceQuery:
    """The question with its names as whole words, whatever a segmenter makes of them: 顾清和和顾清辞."""
    folded = rest = fold(query)
    for name in sorted(tie.names, key=len, reverse=True):
        rest = rest.replace(name, "，")
    asked = evidence_query(rest)
    words = (*map(Term, dict.fromkeys(tie.names)), *asked.terms)
    return replace(asked, text=query, folded=folded, kind="fact", wants=frozenset(), terms=words, label=None)


def tied(tie: StatedTie, weighed: Sequence[Weighed]) -> tuple[Weighed, ...]:
    """Only lines that state the tie are worth anything; where none does, those that speak of every name."""
    stating = {each.line.at for each in weighed if _states(each.line, tie)}
    if stating:
        return tuple(replace(each, fit=_worth(each) if each.line.at in stating else 0.0) for each in weighed)
    return tuple(each if _speaks_of_all(each.line, tie) else replace(each, fit=0.0) for each in weighed)


def _worth(stating: Weighed) -> float:
    return STATED + (1 - STATED) * stating.fit


def _states(line: Line, tie: StatedTie) -> bool:
    passage = line.passage
    if passage.end <= passage.start:  # it came with the question and stands nowhere
        return False
    start = passage.end - len(passage.text) + line.start
    return any(
        passage.doc_id == doc_id and start < end and begin < start + len(line.text) for doc_id, begin, end in tie.places
    )


def _speaks_of_all(line: Line, tie: StatedTie) -> bool:
    """By itself, by the sentence that it goes on with, or because its document is called so."""
    before = line.before if REFERS_BACK.match(line.text) else ""
    return all(held(name, f"{line.name}\n{before}\n{line.folded}") >= _SPEAKS for name in tie.names)
