"""What an answer is made of: numbered passages in, sentences with marks and their sources out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from qianxun.core.governance.validity import AsOf
from qianxun.core.graph_types import NO_CONTEXT, GraphContext
from qianxun.core.types import Degraded, StepTime

QueryMode: TypeAlias = Literal["naive", "local", "global", "hybrid", "mix", "bypass"]
QUERY_MODES: Final[tuple[QueryMode, ...]] = ("naive", "local", "global", "hybrid", "mix", "bypass")
QuestionKind: TypeAlias = Literal[
    "greeting", "definition", "fact", "list", "comparison", "multi_hop", "summary", "count"
]
QUESTION_KINDS: Final[tuple[QuestionKind, ...]] = get_args(QuestionKind)

# ── what an answer rests on ──────────────────────────────────────────────────────────────────────


TABLE_HINT: Final = "table_answer"
"""In a passage's metadata: what was computed from the cells of its table, for a language model to use or to leave."""


@dataclass(frozen=True, slots=True)
class Section:
    """Where in a passage's text a section begins, and the headings that it is below."""

    start: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of evidence as a question sees it. ``number`` is its mark: [1], [2] …

    ``start`` and ``end`` are where ``text`` stands in the document's text of record; both 0 where it stands nowhere
    (a table or picture that came with the question, a chunk that people edited).
    """

    number: int
    doc_id: str
    doc_name: str
    chunk_id: str
    text: str
    start: int = 0
    end: int = 0
    score: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    original: str | None = None  # what the document says, where people edited the text
    sections: tuple[Section, ...] = ()  # in their order, where it was joined with neighbours below other headings

    def headings_at(self, start: int) -> tuple[str, ...]:
        """The headings of what stands there in its text."""
        headings = next((part.headings for part in reversed(self.sections) if part.start <= start), None)
        return tuple(map(str, self.metadata.get("headings") or ())) if headings is None else headings


@dataclass(frozen=True, slots=True)
class StatedTie:
    """A question asks how these names are tied, or what is tied to the one: ``places`` (document's id, start, end in
    its text of record) are where the passages state it."""

    names: tuple[str, ...]  # folded
    places: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """Everything a generator may use, within a budget of tokens; the best passage first."""

    passages: tuple[Passage, ...] = ()
    graph: GraphContext = NO_CONTEXT
    tokens: int = 0  # an estimate
    left_out: int = 0  # passages that the budget had no room for
    tie: StatedTie | None = None  # that the question asks for


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Source:
    """What a mark points at: ``text`` stands at ``start``–``end`` of the document's text of record; both are 0 where it
    stands nowhere, as in a chunk that people edited."""

    number: int
    doc_id: str
    doc_name: str
    chunk_id: str
    text: str
    start: int
    end: int
    score: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    original: str | None = None  # what the document says, where people edited the text

    @property
    def is_edited(self) -> bool:
        return self.original is not None


@dataclass(frozen=True, slots=True)
class Citation:
    """A sentence of the answer, ``answer[start:end]``, rests on the sources with these numbers."""

    start: int
    end: int
    numbers: tuple[int, ...]


FlagKind: TypeAlias = Literal[
    "unsupported_number", "contradicted", "unknown_citation", "uncited", "link_removed", "dropped"
]


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that a model said and that its sources do not bear out."""

    kind: FlagKind
    text: str
    reason: str


Verdict: TypeAlias = Literal["supported", "contradicted", "not_found"]


@dataclass(frozen=True, slots=True)
class SentenceCheck:
    """The check of one sentence of a model: what its sources say of it. ``evidence`` is their own sentence."""

    sentence: str
    verdict: Verdict
    numbers: tuple[int, ...] = ()  # of the sources
    evidence: str = ""
    is_dropped: bool = False


Form: TypeAlias = Literal["model", "extractive", "table", "probable", "declined", "direct"]
"""Who made an answer; ``probable``: the sources probably say it where it points, and somebody should look there;
``declined``: they do not say, and it shows what comes nearest; ``direct``: nothing was looked up (bypass, small talk).
"""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step of the way to an answer and which form of it ran: by rules, or by the model of that name."""

    node: str  # analyze_query | route_query | retrieve | grade_documents | refine_query | plan_steps | generate_answer
    form: str  # rules | model:<name>
    said: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    start: float = field(default=0.0, compare=False)  # by this process's `time.perf_counter`; 0: not known


@dataclass(frozen=True, slots=True)
class Answer:
    """``"[1]" in answer or not sources``; every mark has its source, and every source its mark."""

    answer: str
    sources: tuple[Source, ...] = ()
    citations: tuple[Citation, ...] = ()
    form: Form = "extractive"
    mode: QueryMode = "mix"
    flags: tuple[Flag, ...] = ()
    checks: tuple[SentenceCheck, ...] = ()  # of every sentence that a model wrote, in order
    is_partial: bool = False  # the model was cut off
    trace: tuple[TraceStep, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    steps: tuple[StepTime, ...] = ()
    context: GraphContext = NO_CONTEXT
    trace_id: str = ""
    seconds: float = 0.0
    reason: str = ""  # why it is declined, where that is known
    as_of: AsOf | None = None  # the day whose documents were searched; None: those of all times
    notes: tuple[str, ...] = ()  # for people: as of when it holds, and which of its sources are outdated

    @property
    def is_declined(self) -> bool:
        return self.form == "declined"

    @property
    def with_notes(self) -> str:
        """The text and its notes, for readers who see nothing else."""
        return f"{self.answer}\n\n（{'；'.join(self.notes)}）" if self.notes else self.answer

    @property
    def is_sure(self) -> bool:
        """Returns True if the sources say it: neither declined nor only probable."""
        return self.form not in ("declined", "probable")


# ── the same, as it comes ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SourcesFound:
    """First: what may be cited, the best first. None has been yet: their ``number`` is 0."""

    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Token:
    text: str


@dataclass(frozen=True, slots=True)
class SentenceCited:
    """After a sentence is complete: what it rests on, and what is wrong with it.

    The citation's places are those in the text that came so far; its marks come right before this, as a token.
    ``sources`` are those which it is the first to cite: sources are numbered in the order in which they are cited.
    """

    citation: Citation
    flags: tuple[Flag, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def is_unsaid(self) -> bool:
        """It is of no sentence: all that came so far were the model's thoughts, and the answer begins after them."""
        return any(flag.kind == "dropped" for flag in self.flags)


@dataclass(frozen=True, slots=True)
class Done:
    answer: Answer


@dataclass(frozen=True, slots=True)
class Failed:
    """The model was cut off or failed: ``answer`` is what there was by then, and is partial."""

    error: str  # a stable machine word
    message: str  # and what to do next
    answer: Answer


AnswerEvent: TypeAlias = SourcesFound | Token | SentenceCited | Done | Failed
