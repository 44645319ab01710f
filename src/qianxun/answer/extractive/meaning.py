"""Lines that mean what a question asks, in other words than its own: by the cosines of a local embedding model.

A name makes every line that has it alike to every question that has it: both are compared without the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final, TypeAlias

from qianxun.answer.extractive.passage_lines import Line
from qianxun.answer.extractive.sentence_scores import ScoredLine
from qianxun.core.answer_types import Passage
from qianxun.core.system.cache import cached_texts
from qianxun.question.evidence_query import EvidenceQuery
from qianxun.question.words import entries
from qianxun.text.quantities import han_number

Likeness: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""How alike in meaning a question is to each of some texts, as a cosine."""

BY_WORDS, BY_SEARCH = 8, 16  # lines that are compared: those that fit best, and those of the passages found first
CHOSEN, NAMED, ALIKE = 0.55, 0.66, 0.75  # cosines of lines that mean what is asked: see `Meant.is_meant`
LEAD: Final = 0.1  # of a cosine over that of any line of another document
_SHOWN: Final = 200  # characters of a line that are compared
_BODY: Final = 4  # characters at the end of a body's name, without what kind of body it is
_BODIES: Final = re.compile(r"([^\W\d]{2,30}?)(?:有限责任公司|股份有限公司|有限公司|集团)")
_NUMBERED: Final = re.compile(
    r"(?P<number>[一二三四五六七八九十\d]{1,6})(?P<of>年级|号楼|号线|单元|[级类等档期版届栋幢])"
    r"|(?<![a-z\d])(?P<series>[a-z]{1,8})(?P<model>-?\d{1,6}[a-z]{0,3})(?![a-z\d])"
)
_LEAST_LEFT: Final = 3  # characters of a question without its names
_GRADE: Final = re.compile(
    r"[一二三四五六七八九十\d]{1,6}[级类等档期]|(?=[a-z\d_./\-]{0,40}\d)(?=[a-z\d_./\-]{0,40}[a-z])[a-z\d_./\-]{2,40}"
)


def likeness_without_names(
    likeness: Likeness, question: str, lines: Sequence[Line], names: Iterable[str]
) -> Sequence[float]:
    names = sorted(names, key=len, reverse=True)
    bare = _without(question, names)
    return likeness(
        bare if len(bare) >= _LEAST_LEFT else question, [_without(shown(line), names) or line.text for line in lines]
    )


def shown(line: Line) -> str:
    """A line with the heading of its section."""
    heading = line.heading.rpartition("\n")[2]
    return f"{heading}：{line.text[:_SHOWN]}" if heading and heading not in line.folded else line.text[:_SHOWN]


def candidates(scored: Iterable[ScoredLine]) -> list[ScoredLine]:
    """The lines that may mean what is asked: of its subject, its time and its kind of figure."""
    usable = [one for one in scored if one.is_own and one.is_timely and one.has_figure and one.line.text.strip()]
    by_words = sorted(usable, key=lambda one: -one.fit)[:BY_WORDS]
    by_search = sorted(usable, key=lambda one: (-one.line.passage.score, one.line.at))[:BY_SEARCH]
    return list({one.line.at: one for one in (*by_words, *by_search)}.values())


@dataclass(frozen=True, slots=True)
class Meant:
    """The line that is most alike in meaning; ``leads`` where no line of any other document is nearly as alike: what
    many documents could mean is none of them. ``is_chosen``: lines of other documents could have been it, too; where
    only those of one can, whom or what the question names, the most alike of these need not be alike."""

    scored: ScoredLine
    alike: float
    leads: bool
    is_chosen: bool

    @property
    def is_meant(self) -> bool:
        return self.alike >= ALIKE or (self.leads and self.alike >= (CHOSEN if self.is_chosen else NAMED))


def closest(
    likeness: Callable[[Sequence[Line]], Sequence[float]],
    offered: Sequence[ScoredLine],
    scored: Iterable[ScoredLine],
) -> tuple[Meant, Sequence[float]]:
    """The closest of the lines that are ``offered``, and how alike each of them is. It leads over the lines that the
    search found first in other documents as well, whatever they are about. How sure the search was says little:
    everyday words find nothing surely."""
    alike = likeness([one.line for one in offered])
    best = max(range(len(offered)), key=lambda at: alike[at])
    rivals = _rivals(offered[best].line.passage, scored) if CHOSEN <= alike[best] < ALIKE else []
    leads = bool(rivals) and alike[best] - max(likeness(rivals)) >= LEAD
    is_chosen = len({one.line.passage.doc_id for one in offered}) > 1
    return Meant(offered[best], alike[best], leads, is_chosen), alike


def _rivals(passage: Passage, scored: Iterable[ScoredLine]) -> list[Line]:
    """The lines of other documents that the search found first; of other passages, where there is but this document."""
    elsewhere = [one.line for one in scored if one.line.passage.number != passage.number and one.line.text.strip()]
    others = [line for line in elsewhere if line.passage.doc_id != passage.doc_id]
    return sorted(others or elsewhere, key=lambda line: (-line.passage.score, line.at))[:BY_SEARCH]


def is_of_other_number(query: EvidenceQuery, line: Line) -> bool:
    """Returns True if the question's number of a grade, a building, a model … is nowhere around a line, and another one
    of that is: 五年级 for 六年级, AX-30 for AX-50."""
    wanted = _numbers(query.folded)
    if any(line.is_of_series(f"{kind}{number}") for kind, number in wanted):
        return False
    there = _numbers(f"{line.name}\n{line.heading}\n{line.around}") if wanted else frozenset()
    kinds = {kind for kind, _ in there}
    return any(kind in kinds and (kind, number) not in there for kind, number in wanted)


@cached_texts(256, longest=4_000)
def _numbers(folded: str) -> frozenset[tuple[str, str]]:
    """What is numbered in a text, and its number: 3 of 3栋 and 三栋, -30 of AX-30."""
    found = []
    for one in _NUMBERED.finditer(folded):
        number = han_number(one["number"]) if one["number"] else None
        found.append((one["of"] or one["series"], str(number or one["number"] or one["model"].lstrip("-"))))
    return frozenset(found)


def is_of_alternative(query: EvidenceQuery, line: Line) -> bool:
    """Returns True if a line is about what takes the place of something in the question: another firm, another grade or
    model, another place of that kind (云溪水库 for 青山水库), or 硕士 where 本科生 are asked about. Such lines are
    alike in meaning, and answer another question."""
    around = f"{line.name}\n{line.heading}\n{line.around}"
    if any(grade not in around for grade in _GRADE.findall(query.folded)):
        return True
    if any(body[-_BODY:] not in around for body in _BODIES.findall(query.folded)):
        return True
    near = f"{line.heading}\n{line.folded}"
    called = (pair for run in query.runs for pair in pairwise(run) if pair[0] in query.proper)
    if any(name not in around and kind in near for name, kind in called):
        return True
    for group in _alternatives():
        wanted = [word for word in group if word in query.folded]
        if wanted and not any(word in near for word in wanted) and any(word in near for word in group):
            return True
    return False


@cache
def _alternatives() -> tuple[tuple[str, ...], ...]:
    groups = (tuple(line.split()) for line in entries("follow_up.instead").splitlines())
    return tuple(group for group in groups if group)


def _without(text: str, names: Sequence[str]) -> str:
    for name in names:
        text = re.sub(re.escape(name), "", text, flags=re.IGNORECASE)
    return text.strip(" 的，,：:、")
