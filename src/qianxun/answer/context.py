"""What an answer may draw on, and how what several searches found comes together."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from qianxun.answer.assemble import assemble
from qianxun.answer.state import AnswerState
from qianxun.bases.base import OpenBase
from qianxun.core.answer_types import Answer, AnswerContext
from qianxun.core.errors import NotFound, QianxunError
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.options import QueryMode, SearchOptions
from qianxun.core.types import Degraded, Filter, Found
from qianxun.graph.build import graph_of
from qianxun.graph.modes import ModeRecall
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.ingest.sandbox.pool import ParserPool

log = logging.getLogger(__name__)

REWORDED: Final = 0.9  # of the score of what the question itself did not find, or found worse

Search: TypeAlias = Callable[[str, QueryMode], Awaitable[ModeRecall]]
Graph: TypeAlias = Callable[[], Awaitable[tuple[KnowledgeGraph | None, tuple[Degraded, ...]]]]
Tables: TypeAlias = Callable[[str], Awaitable[LayeredRecall]]
Note: TypeAlias = Callable[[AnswerState, Answer], None]


def _unnoted(_state: AnswerState, _answer: Answer) -> None:
    return None


@dataclass(frozen=True)
class Answering:
    """The base and how it is searched, under the filter of the one who asks."""

    base: OpenBase
    search: Search
    options: SearchOptions = field(default_factory=SearchOptions)
    graph: Graph | None = None
    tables: Tables | None = None
    parsers: ParserPool | None = None  # of pictures and tables that come with a question
    note: Note = _unnoted  # of a question that has its answer
    only_checked: bool = False  # a stream tells a sentence when it has been checked, and none that will not stay
    step_seconds: float = 20.0  # for a model's part in analysing, grading and refining


def merged(before: Sequence[Found], found: Sequence[Found], top_k: int) -> tuple[Found, ...]:
    """What another wording found beside what earlier ones did: each chunk once with its better score, best first.

    A score speaks of the wording that was searched for; how well that says the question nobody knows.
    """
    if not before:
        return tuple(found[:top_k])
    best = {each.chunk.key: each for each in before}
    for each in found:
        held, reworded = best.get(each.chunk.key), replace(each, score=each.score * REWORDED)
        if held is None or reworded.score > held.score:
            best[each.chunk.key] = reworded
    return tuple(sorted(best.values(), key=lambda each: (-each.score, each.chunk.key)))[:top_k]


def context_of(state: AnswerState) -> AnswerContext:
    """What an answer may be made of: what came with the question, then what was found, and what the graph says."""
    return assemble(state.found, graph=state.graph, given=state.given, tie=state.tie)


async def graph_or_reason(base: OpenBase, where: Filter) -> tuple[KnowledgeGraph | None, tuple[Degraded, ...]]:
    """The base's graph as far as the filter lets it be seen; None, with the reason, where it cannot be had."""
    try:
        return await graph_of(base, where), ()
    except NotFound:  # the base itself is gone
        raise
    except QianxunError as error:
        return None, (Degraded("graph", str(error)),)
    except Exception as error:  # derived from what strangers wrote; the question goes on without it
        log.exception("the graph of base %s could not be derived", base.id)
        return None, (Degraded("graph", f"图谱不可用：{type(error).__name__}: {error}"),)
