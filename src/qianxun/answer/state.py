"""What is known on the way from a question to its answer: one frozen value, handed from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qianxun.core.answer_types import QUERY_MODES, Answer, Passage, QueryMode, QuestionKind, TraceStep
from qianxun.core.conversation import Turn
from qianxun.core.errors import BadQuery
from qianxun.core.graph_types import NO_CONTEXT, AskedTie, GraphContext
from qianxun.core.layered_types import Cited
from qianxun.core.types import Chunk, Degraded, Found, StepTime


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a question is: how it stands by itself, of what kind it is, what it names, how it is best looked up."""

    question: str  # 它呢 and the like said in full
    kind: QuestionKind = "fact"
    entities: tuple[str, ...] = ()
    strategy: QueryMode = "mix"
    is_broad: bool = False  # it asks for everything: 总结一下这些资料

    @property
    def is_simple(self) -> bool:
        """Whether it can be answered without looking anything up."""
        return self.strategy == "bypass"


@dataclass(frozen=True, slots=True)
class Grade:
    """Whether what was found can answer the question."""

    is_enough: bool
    relevance: float = 0.0  # of the best passage, in [0, 1]
    coverage: float = 0.0  # the share of the question that the passages speak of, in [0, 1]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TableReply:
    """What the cells of a table say, exactly; ``passages`` show their rows."""

    text: str
    reading: str  # how the question was understood, for people
    cells: tuple[Cited, ...]
    passages: tuple[Passage, ...]
    chunks: tuple[int, ...] = ()  # the keys of those that stand in a base


@dataclass(frozen=True, slots=True)
class TableLack:
    """Why the cells that a question asks for give no answer: an error, a formula without its result."""

    reason: str
    held: tuple[Chunk, ...]  # in which these cells stand


@dataclass(frozen=True, slots=True)
class AnswerState:
    """Each step gives the same value with what it found out; nothing in it is ever changed in place."""

    query: str  # as it was asked
    mode: QueryMode | None = None  # the caller's choice; None: the analysis chooses
    history: tuple[Turn, ...] = ()
    given: tuple[Passage, ...] = ()  # what came with the question: tables, pictures
    given_words: str = ""  # what of it goes into the search
    analysis: Analysis | None = None
    wording: str = ""  # what is searched for next; "": nothing more
    asked: tuple[str, ...] = ()  # what was searched for, in order
    found: tuple[Found, ...] = ()  # by all searches together, best first
    has_new: bool = False  # the last search found what none before it had
    graph: GraphContext = NO_CONTEXT
    tie: AskedTie | None = None  # that the question asks for
    table: TableReply | None = None
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
        """Whether it is answered without any sources: small talk, and what the caller wants nothing looked up for."""
        is_small_talk = self.analysis is not None and self.analysis.kind == "greeting"
        return (is_small_talk or self.used_mode == "bypass") and not self.given and self.table is None

    @property
    def rests_on(self) -> frozenset[int]:
        """The keys of all chunks that something of it comes from."""
        return self.shown | frozenset((*(each.chunk.key for each in self.found), *self._of_tables))

    @property
    def _of_tables(self) -> tuple[int, ...]:
        """The keys of the chunks of the table that answers, or says why it cannot."""
        lacking = tuple(each.key for each in self.lack.held) if self.lack else ()
        return (*self.table.chunks, *lacking) if self.table else lacking

    @property
    def shown(self) -> frozenset[int]:
        """The keys of the chunks that the graph's part of it comes from."""
        evidence = [place for each in self.graph.relations for place in each.evidence]
        evidence += [place for each in self.graph.communities for place in each.sources]
        return frozenset(place.chunk for place in evidence)

    @property
    def quoted(self) -> frozenset[int]:
        """The keys of the chunks that its answer cites."""
        if self.answer is None:
            return frozenset()
        cited = {source.chunk_id for source in self.answer.sources}
        return frozenset((*(each.chunk.key for each in self.found if each.chunk.chunk_id in cited), *self._of_tables))

    @property
    def refinements(self) -> int:
        return max(0, len(self.asked) - 1)

    def told(self, step: TraceStep, degraded: Sequence[Degraded] = ()) -> AnswerState:
        """With a step more behind it, and what could not be done in it."""
        return replace(
            self,
            trace=(*self.trace, step),
            degraded=tuple(dict.fromkeys((*self.degraded, *degraded))),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What a step decided, in which form it ran, and what failed on the way."""

    form: str = "rules"
    said: Mapping[str, Any] = field(default_factory=dict)
    degraded: tuple[Degraded, ...] = ()


def check_mode(mode: str | None) -> QueryMode | None:
    """Raises BadQuery for what is no mode; nothing said is no choice."""
    if not mode:
        return None
    if mode not in QUERY_MODES:
        raise BadQuery(f"没有查询模式 {mode!r}", hint=f"可用：{'、'.join(QUERY_MODES)}")
    return next(each for each in QUERY_MODES if each == mode)
