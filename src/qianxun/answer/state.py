"""What is known between a question and its answer: one frozen value, passed from step to step; and what a step may use.

The fields of `AnswerState` are also the keys of checkpoints of the workflow.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from qianxun.answer.assemble import assemble
from qianxun.answer.generate import ExactParts
from qianxun.bases.base import OpenBase
from qianxun.core.answer_types import TABLE_HINT, Answer, AnswerContext, Passage, QuestionKind, TraceStep
from qianxun.core.conversation import Turn
from qianxun.core.errors import BadQuery, NotFound, QianxunError
from qianxun.core.governance.validity import AsOf
from qianxun.core.graph_types import NO_CONTEXT, GraphContext, RequestedRelation
from qianxun.core.layered_types import Cited, LayeredRecall
from qianxun.core.options import QUERY_MODES, CheckMode, QueryMode, SearchOptions
from qianxun.core.types import Chunk, Degraded, Filter, Found, StepTime
from qianxun.graph.build import current_graph
from qianxun.graph.modes import ModeRecall
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.ingest.sandbox.pool import ParserPool

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A question made complete, its kind, the entities it names, and how it is best looked up."""

    question: str  # 它呢 and the like completed
    kind: QuestionKind = "fact"
    entities: tuple[str, ...] = ()
    strategy: QueryMode = "mix"
    is_broad: bool = False  # it asks for everything: 总结一下这些资料

    @property
    def is_simple(self) -> bool:
        """Returns True if it can be answered without looking anything up."""
        return self.strategy == "bypass"


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of what was found: whether it can answer the question."""

    is_enough: bool
    relevance: float = 0.0  # of the best passage, in [0, 1]
    coverage: float = 0.0  # the share of the question that the passages cover, in [0, 1]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TableReply:
    """The exact answer of a table's cells; ``passages`` show their rows."""

    text: str
    reading: str  # how the question was understood, for people
    cells: tuple[Cited, ...]
    passages: tuple[Passage, ...]
    chunks: tuple[int, ...] = ()  # the keys of those that are in a base
    leftover: str = ""  # words of the question that neither columns nor cells explain

    @property
    def shown(self) -> str:
        """What the cells say, and how the question was understood: an exact answer to another question is none."""
        return f"{self.text}（{self.reading}）" if self.reading else self.text


@dataclass(frozen=True, slots=True)
class PartReply:
    """The exact answer of a table's cells to one question of several."""

    question: str
    reply: TableReply


@dataclass(frozen=True, slots=True)
class TableLack:
    """Why the cells that a question asks for give no answer: an error, a formula without its result."""

    reason: str
    held: tuple[Chunk, ...]  # that have these cells


@dataclass(frozen=True, slots=True)
class AnswerState:
    """A step returns the same value with what it found out."""

    query: str  # as it was asked
    mode: QueryMode | None = None  # the caller's choice; None: the analysis chooses
    history: tuple[Turn, ...] = ()
    given: tuple[Passage, ...] = ()  # attachments of the question: tables, pictures
    given_words: str = ""  # what of it goes into the search
    analysis: Analysis | None = None
    wording: str = ""  # what is searched for next; "": nothing more
    asked: tuple[str, ...] = ()  # what was searched for, in order
    found: tuple[Found, ...] = ()  # by all searches together, best first
    beside: tuple[Chunk, ...] = ()  # what stands around the best of it, in their sections
    has_new: bool = False  # the last search found what none before it had
    graph: GraphContext = NO_CONTEXT
    tie: RequestedRelation | None = None  # that the question asks for
    table: TableReply | None = None
    part_tables: tuple[PartReply, ...] = ()  # where it asks several things
    lack: TableLack | None = None
    grade: Grade | None = None
    draft: Answer | None = None  # in the sources' own sentences, where these are enough
    answer: Answer | None = None
    trace: tuple[TraceStep, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    steps: tuple[StepTime, ...] = ()
    trace_id: str = ""
    generation: str = ""  # the state of the base when it was first searched

    @property
    def question(self) -> str:
        return self.analysis.question if self.analysis else self.query

    @property
    def used_mode(self) -> QueryMode:
        """The caller's choice, or else that of the analysis."""
        return self.mode or (self.analysis.strategy if self.analysis else "mix")

    @property
    def is_direct(self) -> bool:
        """Returns True if it is answered without sources: small talk, and bypass."""
        is_small_talk = self.analysis is not None and self.analysis.kind == "greeting"
        return (is_small_talk or self.used_mode == "bypass") and not self.given and self.table is None

    @property
    def has_exact_answer(self) -> bool:
        """Returns True if a table's cells answer the question, and none of its words is left over."""
        return self.table is not None and not self.table.leftover

    @property
    def exact_parts(self) -> ExactParts:
        """What cells answer of a question that asks several things."""
        own = ((part.question, part.reply) for part in self.part_tables if not part.reply.leftover)
        return {question: (reply.shown, reply.passages) for question, reply in own}

    @property
    def rests_on(self) -> frozenset[int]:
        """The keys of all chunks that it is made of."""
        found = (*(result.chunk.key for result in self.found), *(chunk.key for chunk in self.beside))
        return self.shown | frozenset((*found, *self._of_tables))

    @property
    def _of_tables(self) -> tuple[int, ...]:
        """The keys of the chunks of the table that answers, or has no answer in its cells."""
        without_answer = tuple(one.key for one in self.lack.held) if self.lack else ()
        of_parts = tuple(key for part in self.part_tables for key in part.reply.chunks)
        return (*(self.table.chunks if self.table else ()), *of_parts, *without_answer)

    @property
    def shown(self) -> frozenset[int]:
        """The keys of the chunks that its graph context comes from."""
        evidence = [place for relation in self.graph.relations for place in relation.evidence]
        evidence += [place for community in self.graph.communities for place in community.sources]
        return frozenset(place.chunk for place in evidence)

    @property
    def quoted(self) -> frozenset[int]:
        """The keys of the chunks that its answer cites."""
        if self.answer is None:
            return frozenset()
        cited = {source.chunk_id for source in self.answer.sources}
        return frozenset(
            (*(result.chunk.key for result in self.found if result.chunk.chunk_id in cited), *self._of_tables)
        )

    @property
    def refinements(self) -> int:
        return max(0, len(self.asked) - 1)

    def traced(self, step: TraceStep, degraded: Sequence[Degraded] = ()) -> AnswerState:
        """With a step more in its trace, and what could not be done in it."""
        return replace(
            self,
            trace=(*self.trace, step),
            degraded=tuple(dict.fromkeys((*self.degraded, *degraded))),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What a step decided, in which form it ran, and what failed on the way."""

    form: str = "rules"
    details: Mapping[str, Any] = field(default_factory=dict)
    degraded: tuple[Degraded, ...] = ()


def check_mode(mode: str | None) -> QueryMode | None:
    """Raises BadQuery for what is no mode; empty is None."""
    if not mode:
        return None
    if mode not in QUERY_MODES:
        raise BadQuery(f"没有查询模式 {mode!r}", hint=f"可用：{'、'.join(QUERY_MODES)}")
    return next(known for known in QUERY_MODES if known == mode)


Search: TypeAlias = Callable[[str, QueryMode], Awaitable[ModeRecall]]
Graph: TypeAlias = Callable[[], Awaitable[tuple[KnowledgeGraph | None, tuple[Degraded, ...]]]]
Tables: TypeAlias = Callable[[str], Awaitable[LayeredRecall]]
Note: TypeAlias = Callable[[AnswerState, Answer], None]


@dataclass(frozen=True)
class Answering:
    """The base and how it is searched, under the filter of the caller."""

    base: OpenBase
    search: Search
    options: SearchOptions = field(default_factory=SearchOptions)
    graph: Graph | None = None
    tables: Tables | None = None
    parsers: ParserPool | None = None  # of pictures and tables that come with a question
    note: Note = lambda _state, _answer: None  # called with a question that has its answer
    only_checked: bool = False  # a stream shows a sentence once it has been checked, and none that will be dropped
    as_of: AsOf | None = None  # the day whose documents are searched, where that was decided for the whole question
    check: CheckMode = "strict"  # of a model's sentences
    step_seconds: float = 20.0  # for a model's part in analysing, grading and refining
    search_again: Search | None = None  # for other wordings and parts of a question: the graph's context is the first's


def context_of(state: AnswerState, *, with_table: bool = False) -> AnswerContext:
    """What an answer may be made of: attachments of the question, then what was found, and the graph's context.

    ``with_table``: before all else the rows of the table that has an answer, with that answer as a hint.
    """
    replies = (state.table, *(part.reply for part in state.part_tables)) if with_table else ()
    rows = [row for reply in replies if reply is not None for row in _offered(reply)]
    given = (*rows, *state.given)
    return assemble(state.found, graph=state.graph, given=given, tie=state.tie, beside=state.beside)


def _offered(reply: TableReply) -> tuple[Passage, ...]:
    first, *others = reply.passages
    hint = f"{reply.reading}，得 {reply.text}" if reply.reading else reply.text
    return replace(first, metadata={**first.metadata, TABLE_HINT: hint}), *others


async def graph_or_reason(base: OpenBase, where: Filter) -> tuple[KnowledgeGraph | None, tuple[Degraded, ...]]:
    """Returns the part of the base's graph that the filter allows; None, with the reason, where it is unavailable."""
    try:
        return (await current_graph(base, where)).whole, ()
    except NotFound:  # the base itself has been deleted
        raise
    except QianxunError as error:
        return None, (Degraded("graph", str(error)),)
    except Exception as error:  # derived from documents of any content; the question goes on without it
        log.exception("the graph of base %s could not be derived", base.id)
        return None, (Degraded("graph", f"图谱不可用：{type(error).__name__}: {error}"),)
