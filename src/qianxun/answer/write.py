"""The answer written: from the cells of a table, by the language model, of the sources' own sentences, or without any
sources where none are needed; whole, or as it comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, TypeVar

from qianxun.answer.assemble import passage
from qianxun.answer.cited_answer import AnswerDraft, as_events
from qianxun.answer.extractive.meaning import Likeness
from qianxun.answer.generate import UNANSWERED, AnswerGenerator
from qianxun.answer.llm_step import call_model, stream_model, writer
from qianxun.answer.state import Answering, AnswerState, TableLack, TableReply, context_of
from qianxun.answer.verify.plain_text import quotable
from qianxun.bases.base import OpenBase
from qianxun.core.answer_types import Answer, AnswerContext, AnswerEvent, Done, Failed, Passage, SourcesFound
from qianxun.core.errors import ModelError, QianxunError
from qianxun.core.graph_types import Community
from qianxun.core.ports import ChatModel, EmbeddingModel, never
from qianxun.core.system.quick_work import QuickWork
from qianxun.core.types import Degraded, Found, Message
from qianxun.question.kinds import small_talk_kind

log = logging.getLogger(__name__)

SMALL_TALK: Final = {
    "greeting": "您好！我根据知识库里的资料回答问题，并注明出处。请直接提问。",
    "thanks": "不客气，还有问题请直接提问。",
    "farewell": "再见！",
}
SMALL_TALK_IN_ENGLISH: Final = {
    "greeting": "Hello! I answer questions from the documents of this knowledge base, with sources. Please ask.",
    "thanks": "You are welcome. Please ask if there is anything else.",
    "farewell": "Goodbye!",
}
BYPASSED: Final = (
    "按 bypass 的要求没有查阅资料；这里也没有配置语言模型，无法凭空作答。请改用 mix 等检索模式，或配置 chat 模型。"
)
BYPASSED_IN_ENGLISH: Final = (
    "Nothing was looked up, as bypass asks, and there is no language model here to answer without sources. "
    "Please use another mode, such as mix, or configure a chat model."
)
UNANSWERED_IN_ENGLISH: Final = (
    "The language model did not answer, and nothing was looked up. "
    "Please try again later, or use another mode, such as mix."
)
COMMUNITIES: Final = 6
SENTENCES: Final = 2  # of one
_READING: Final = QuickWork()  # sentence by sentence: the longer the passages, the longer it takes
Result = TypeVar("Result")


@dataclass(frozen=True)
class Writing:
    """One answer to be written: for which question, by which model, from what."""

    base: OpenBase
    state: AnswerState
    generator: AnswerGenerator
    with_table: bool = False  # a model is given the rows of the table that has an answer
    degraded: tuple[Degraded, ...] = ()

    @cached_property
    def context(self) -> AnswerContext:
        """What it may be made of; not assembled for an answer that is ready."""
        return AnswerContext() if self.state.is_direct else context_of(self.state, with_table=self.with_table)

    async def whole(self) -> Answer:
        """The answer. Where a model fails the sources' own sentences answer, and ``degraded`` names it."""
        ready, model = self._ready(), self.generator.llm
        if ready is not None:
            return self._completed(ready)
        if model is None:
            return self._completed(await self._read_by_rules())
        try:
            answer = await call_model(self.base, model, self._generate)
        except ModelError as error:  # no thread is free for it
            answer = await self._without_model(error)
        return self._completed(answer)

    async def events(self) -> AsyncGenerator[AnswerEvent, None]:
        """The answer as it comes; `Done` or `Failed` is the last event. Closing it ends the model's call."""
        ready, model = self._ready(), self.generator.llm
        if ready is not None or model is None:
            whole = _events(ready) if ready else await asyncio.to_thread(lambda: list(self._stream(never)))
            for event in whole:
                yield self._completed_event(event)
            return
        async with aclosing(stream_model(self.base, model.name, self._stream)) as events:
            try:
                async for event in events:
                    yield self._completed_event(event)
            except ModelError as error:  # as above
                answer = replace(await self._without_model(error), is_partial=True)
                yield Failed(error.word, str(error), self._completed(answer))

    async def _read_by_rules(self) -> Answer:
        return await read_passages(self.base, self.context.tokens, partial(self._generate, None))

    def form(self, answer: Answer) -> str:
        """The model that wrote it, or the rules."""
        model = self.generator.llm
        is_direct = answer.form == "direct" and answer.answer != self._instead()
        return f"model:{model.name}" if model is not None and (answer.form == "model" or is_direct) else "rules"

    def _ready(self) -> Answer | None:
        """The answers that need neither a model nor another reading of the passages."""
        state = self.state
        if self.generator.llm is not None:
            return None
        if state.table is not None and state.has_exact_answer:
            return _from_cells(state.table)
        if state.is_direct:
            text = self._instead() if self.degraded else _canned(state, BYPASSED, BYPASSED_IN_ENGLISH)
            return Answer(text, form="direct")
        if is_overview(state):
            return overview(state)
        if state.lack is not None and self._is_only_source(state.lack):
            return self.generator.decline(state.question, self.context, state.lack.reason)
        # The grade by rules comes from the same reading of the passages as an answer by rules would. Where it is not
        # enough, they are read once more, by their meaning.
        return state.draft

    def _is_only_source(self, lack: TableLack) -> bool:
        """Returns True if nothing but the table whose cells give no answer was found: its row is none either."""
        draft, grade = self.state.draft, self.state.grade
        if draft is None:
            return grade is None or not grade.is_enough
        cells = {chunk.chunk_id for chunk in lack.held}
        return all(source.chunk_id in cells for source in draft.sources)

    def _generate(self, model: ChatModel | None) -> Answer:
        generator, history = replace(self.generator, llm=model), _messages(self.state)
        if self.state.is_direct:
            return generator.direct(self.state.question, history=history, instead=self._instead())
        return generator.generate(self.state.question, self.context, history=history)

    def _stream(self, stop: Callable[[], bool]) -> Iterator[AnswerEvent]:
        question, history = self.state.question, _messages(self.state)
        if self.state.is_direct:
            return self.generator.stream_direct(question, history=history, stop=stop, instead=self._instead())
        return self.generator.stream(question, self.context, history=history, stop=stop)

    def _instead(self) -> str:
        return _canned(self.state, UNANSWERED, UNANSWERED_IN_ENGLISH)

    async def _without_model(self, error: ModelError) -> Answer:
        alone = replace(self, generator=replace(self.generator, llm=None))
        ready = Answer(self._instead(), form="direct") if self.state.is_direct else alone._ready()
        answer = ready if ready is not None else await alone._read_by_rules()
        return replace(answer, degraded=(*answer.degraded, Degraded("model", str(error))))

    def _completed_event(self, event: AnswerEvent) -> AnswerEvent:
        return replace(event, answer=self._completed(event.answer)) if isinstance(event, Done | Failed) else event

    def _completed(self, answer: Answer) -> Answer:
        """With what failed before it was written, and the reason where it is declined."""
        answer = replace(answer, degraded=(*self.degraded, *answer.degraded))
        if not answer.is_declined or answer.reason:
            return answer
        decisive = self.state.lack or self.state.grade
        return replace(answer, reason=decisive.reason if decisive else "")


async def writing_of(answering: Answering, state: AnswerState) -> Writing:
    model, failed = await writer(answering.base)
    exact = _from_cells(state.table) if state.table is not None and state.has_exact_answer else None
    style = str(answering.base.about.config.get("prompt") or "")
    generator = AnswerGenerator(
        model,
        answering.only_checked,
        exact,
        style,
        likeness=await likeness_of(answering.base),
        check=answering.check,
        exact_parts=state.exact_parts,
    )
    return Writing(answering.base, state, generator, model is not None, failed)


@dataclass(frozen=True, slots=True, eq=False)
class _ByModel:
    """How alike a model finds a question and texts; of one model all are equal."""

    model: EmbeddingModel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByModel) and other.model is self.model

    def __hash__(self) -> int:
        return id(self.model)

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        return [float(value) for value in self.model.embed_passages(texts) @ self.model.embed_query(question)]


async def likeness_of(base: OpenBase) -> Likeness | None:
    """The base's own embedding model, where it runs on this machine: a service takes its time, and charges for it.
    None where it cannot be opened, which the search has named in ``degraded``: answers then go by words alone."""
    model = base.model
    if model is None or not hasattr(model, "token_vectors"):
        return None
    try:
        if not getattr(model, "is_open", False):
            await asyncio.to_thread(getattr(model, "open", lambda: None))
    except QianxunError as error:
        log.debug("meanings are not compared: %s", error)
        return None

    return _ByModel(model)


async def read_passages(base: OpenBase, size: float, work: Callable[[], Result]) -> Result:
    """What ``work`` makes of passages of this ``size``. A model that reads along takes its time: then in a thread."""
    is_read_along = base.model is not None and hasattr(base.model, "token_vectors")
    if is_read_along and not getattr(base.model, "is_quick", False):
        return await asyncio.to_thread(work)
    return await _READING.run(size, work)


def _canned(state: AnswerState, otherwise: str, in_english: str) -> str:
    """An answer without sources and without a model, in the language of the question: small talk needs neither."""
    is_english = state.query.isascii() and any(map(str.isalpha, state.query))
    if state.analysis is None or state.analysis.kind != "greeting":
        return in_english if is_english else otherwise
    return (SMALL_TALK_IN_ENGLISH if is_english else SMALL_TALK)[small_talk_kind(state.query)]


def _from_cells(reply: TableReply) -> Answer:
    draft = AnswerDraft()
    numbers, _ = draft.number(reply.passages)
    # Cells and headers, too, may have links and marks, which would be the answer's.
    draft.add(quotable(reply.shown), numbers)
    return draft.answer("table")


def _events(answer: Answer) -> list[AnswerEvent]:
    return [SourcesFound(tuple(replace(source, number=0) for source in answer.sources)), *as_events(answer)]


def _messages(state: AnswerState) -> tuple[Message, ...]:
    return tuple(Message(turn.role, turn.content) for turn in state.history)


# ── questions about everything ───────────────────────────────────────────────────────────────────


def is_overview(state: AnswerState) -> bool:
    """Returns True if the question names nothing, so that it asks for everything, and there are communities to show."""
    return state.analysis is not None and state.analysis.is_broad and any(_overview_sentences(state))


def overview(state: AnswerState) -> Answer:
    """The best communities of the graph, with the sentences that their summaries rest on, cited."""
    draft = AnswerDraft()
    sentences = list(_overview_sentences(state))
    for at, (title, sentence, source) in enumerate(sentences, start=1):
        numbers, _ = draft.number((source,))
        text = f"- {title}：{sentence}" if title else f"  {sentence}"
        draft.add(text, numbers, "\n" if at < len(sentences) else "")
    return draft.answer("extractive")


def _overview_sentences(state: AnswerState) -> Iterator[tuple[str, str, Passage]]:
    """(title, sentence, source); the title is with a community's first sentence."""
    found = {result.chunk.key: (result, passage(result, at)) for at, result in enumerate(state.found, start=1)}
    seen: set[str] = set()
    shown = 0
    for community in state.graph.communities:
        sentences = [pair for pair in _sentences(community, found) if pair[0] not in seen][:SENTENCES]
        seen.update(sentence for sentence, _ in sentences)
        for at, (sentence, source) in enumerate(sentences):
            yield ("" if at else quotable(community.title)), sentence, source
        shown += bool(sentences)
        if shown == COMMUNITIES:
            return


def _sentences(community: Community, found: dict[int, tuple[Found, Passage]]) -> Iterator[tuple[str, Passage]]:
    for evidence in community.sources:
        if evidence.chunk in found:
            result, source = found[evidence.chunk]
            sentence = " ".join(quotable(result.chunk.text[evidence.start : evidence.end]).split())
            if sentence:
                yield sentence, source
