"""Questions for a tie: how two things are tied (甲和乙是什么关系), or what is tied to one (甲的妹妹是谁)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from qianxun.core.graph_types import AskedTie
from qianxun.graph.network.naming import Match
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.graph.network.ties import TOGETHER
from qianxun.question.graph_terms import Question

SURELY: Final = 0.55  # how surely a name must mean an entity: of three that are called the same, each does
NAMES: Final = 4  # of a question that are looked at
SAME: Final = 0.8  # how much of a relation's words the question must have
MOST: Final = 24  # places that are told
_MARK: Final = "\ue000"  # stands for a name
_QUOTES: Final = frozenset("《》〈〉“”「」『』\"'")
_END: Final = "(?:来着|呢|啊|呀)?[?？。!！ ]*"
_WHAT: Final = "(?:什么样?的?|啥|何种?|怎样的?|怎么样的?|哪种)"
_SOMEBODY: Final = "(?:谁|哪位|哪个人|什么人|何人|啥人)"
_PAIRS: Final = tuple(
    re.compile(pattern + _END)
    for pattern in (
        f"{_MARK}(?:和|与|跟|同|、|及|以及){_MARK}(?:[他她它]们)?(?:两人|二人|两个人|俩|之间)?(?:到底|究竟)?"
        f"(?:的|是|有|存在|算)*{_WHAT}?(?:亲属|血缘|亲戚|人物)?关系(?:是?{_WHAT}|如何)?",
        f"{_MARK}(?:到底|究竟)?(?:是|算){_MARK}的?(?:{_SOMEBODY}|{_WHAT}(?:亲戚|关系)?)",
    )
)
_WORD: Final = f"(?P<word>[^的是{_MARK}]{{1,8}}?)"
_ALONG: Final = tuple(
    re.compile(pattern + _END)
    for pattern in (
        f"{_MARK}的{_WORD}(?:到底|究竟)?(?:是|叫|为){_SOMEBODY}",
        f"{_MARK}的{_WORD}(?:叫|名叫)什么(?:名字)?",
        f"{_SOMEBODY}是{_MARK}的{_WORD}",
    )
)
_AGAINST: Final = tuple(
    re.compile(pattern + _END)
    for pattern in (f"{_MARK}(?:到底|究竟)?是{_SOMEBODY}的{_WORD}", f"{_SOMEBODY}的{_WORD}是{_MARK}")
)


@dataclass(frozen=True, slots=True)
class _Named:
    """A name in the question, and the entities that it may mean."""

    start: int
    end: int
    entities: frozenset[int]


def asked_tie(graph: KnowledgeGraph, question: Question, matches: Sequence[Match]) -> tuple[AskedTie | None, list[int]]:
    """What a question for a tie names, with the places that state it, and the ties themselves; None for any other
    question, and for one of a single name of which the graph knows no such tie."""
    named = _named(matches)
    for pair in combinations(named, 2):
        bare, _ = _bare(question.folded, pair)
        if any(pattern.fullmatch(bare) for pattern in _PAIRS):
            ties = list(_between(graph, *pair))
            return _told(graph, question, pair, ties), ties
    for one in named:
        for word, is_along in _worded(question, one):
            if ties := list(_along(graph, question, one, word, is_along)):
                return _told(graph, question, (one,), ties), ties
    return None, []


def _named(matches: Sequence[Match]) -> list[_Named]:
    """The names that stand in no longer one, in the question's order."""
    found: dict[tuple[int, int], set[int]] = {}
    for match in matches:
        if match.weight >= SURELY and not match.is_within:
            found.setdefault((match.start, match.end), set()).add(match.entity)
    return [_Named(*span, frozenset(found[span])) for span in sorted(found)][:NAMES]


def _worded(question: Question, named: _Named) -> Iterator[tuple[int, bool]]:
    """The units of the word that says what is tied to a name, and whether it is the name's: 甲的妹妹, not 谁的妹妹."""
    bare, at = _bare(question.folded, (named,))
    for patterns, is_along in ((_ALONG, True), (_AGAINST, False)):
        for found in filter(None, (pattern.fullmatch(bare) for pattern in patterns)):
            yield question.bits(at[found.start("word")], at[found.end("word") - 1] + 1), is_along


def _bare(folded: str, named: Sequence[_Named]) -> tuple[str, list[int]]:
    """The question with a mark for each name, without quotation marks, and where each of its characters stood."""
    starts = {each.start: each.end for each in named}
    bare, places, at = [], [], 0
    while at < len(folded):
        if folded[at] not in _QUOTES:
            bare.append(_MARK if at in starts else folded[at])
            places.append(at)
        at = starts.get(at, at + 1)
    return "".join(bare), places


def _between(graph: KnowledgeGraph, one: _Named, other: _Named) -> Iterator[int]:
    ties = graph.ties
    for tie in graph.ties_of(sorted(one.entities)).tolist():
        ends = {int(ties.source[tie]), int(ties.target[tie])}
        if ends & one.entities and ends & other.entities and len(ends) == 2 and ties.type[tie] != TOGETHER:
            yield tie


def _along(graph: KnowledgeGraph, question: Question, named: _Named, asked: int, is_along: bool) -> Iterator[int]:
    """The ties that the question's word names: the end of that word says what it is, 妹妹 of 亲妹妹."""
    ends = graph.ties.source if is_along else graph.ties.target
    for tie in graph.ties_of(sorted(named.entities)).tolist():
        kind = int(graph.ties.type[tie])
        if kind == TOGETHER or int(ends[tie]) not in named.entities:
            continue
        fit = question.fit(graph.types[kind])
        if fit.share >= SAME and (fit.bits & asked) >> (asked.bit_length() - 1):
            yield tie


def _told(graph: KnowledgeGraph, question: Question, named: Sequence[_Named], ties: Sequence[int]) -> AskedTie:
    names = tuple(question.folded[each.start : each.end] for each in named)
    places = dict.fromkeys(place for tie in ties for place in graph.relation(tie, MOST).evidence)
    return AskedTie(names, tuple(places)[:MOST])
