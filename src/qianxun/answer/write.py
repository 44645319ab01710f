"""The answer written: from the cells of a table, by the language model, of the sources' own sentences, or without any
sources where none are wanted; whole, or as it comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.context import Answering, context_of
from qianxun.answer.draft import Written
from qianxun.answer.generate import UNANSWERED, AnswerGenerator, as_events, declined
from qianxun.answer.llm_step import stoppable, writer
from qianxun.answer.overviews import is_overview, overview
from qianxun.answer.state import AnswerState, TableLack, TableReply
from qianxun.answer.streaming import part_from, streamed
from qianxun.answer.verify.plain_text import quotable
from qianxun.bases.base import OpenBase, in_model_thread
from qianxun.core.answer_types import Answer, AnswerContext, AnswerEvent, Done, Failed, SourcesFound
from qianxun.core.errors import ModelError
from qianxun.core.ports import never
from qianxun.core.types import Degraded, Message
from qianxun.question.kinds import small_talk_kind

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


@dataclass(frozen=True)
class Writing:
    """One answer to be written: to what, by whom, from what."""

    base: OpenBase
    state: AnswerState
    generator: AnswerGenerator
    context: AnswerContext
    degraded: tuple[Degraded, ...] = ()

    async def whole(self) -> Answer:
        """The answer. A model that fails is told of, and the sources' own sentences answer."""
        ready, model = self._ready(), self.generator.llm
        if ready is not None:
            return self._told(ready)
        if model is None:
            return self._told(await asyncio.to_thread(self._written))
        left = threading.Event()
        leaving = replace(self, generator=replace(self.generator, llm=stoppable(model, left.is_set)))
        reading = asyncio.ensure_future(in_model_thread(self.base, "chat", model.name, leaving._written))
        try:
            answer = await asyncio.shield(reading)
        except ModelError as error:  # no thread is free for it
            answer = await self._without_model(error)
        except asyncio.CancelledError:  # whoever leaves ends the model's call
            left.set()
            part_from(reading)
            raise
        return self._told(answer)

    async def events(self) -> AsyncGenerator[AnswerEvent, None]:
        """The answer as it comes; `Done` or `Failed` is the last event. To close it ends the model's call."""
        ready, model = self._ready(), self.generator.llm
        if ready is not None or model is None:
            whole = list(_events(ready)) if ready else await asyncio.to_thread(lambda: list(self._as_it_comes(never)))
            for event in whole:
                yield self._heard(event)
            return
        async with aclosing(streamed(self.base, "chat", model.name, self._as_it_comes)) as events:
            try:
                async for event in events:
                    yield self._heard(event)
            except ModelError as error:  # as above
                answer = replace(await self._without_model(error), is_partial=True)
                yield Failed(error.word, str(error), self._told(answer))

    def form(self, answer: Answer) -> str:
        """Who wrote it."""
        model = self.generator.llm
        is_direct = answer.form == "direct" and answer.answer != self._instead()
        return f"model:{model.name}" if model is not None and (answer.form == "model" or is_direct) else "rules"

    def _ready(self) -> Answer | None:
        """The answers that nobody has to be asked for."""
        state = self.state
        if state.table is not None:
            return _from_cells(state.table)
        if self.generator.llm is not None:
            return None
        if state.is_direct:
            has_none = not self.degraded
            said = _unwritten(state, BYPASSED, BYPASSED_IN_ENGLISH) if has_none else self._instead()
            return Answer(said, form="direct")
        if is_overview(state):
            return overview(state)
        if state.lack is not None and self._says_no_more(state.lack):
            return declined(state.question, state.lack.reason)
        # Whoever graded by rules has read as closely as whoever would write by rules.
        if state.grade is not None and not state.grade.is_enough:
            return declined(state.question)
        return state.draft

    def _says_no_more(self, lack: TableLack) -> bool:
        """Whether there is nothing but the table whose cells give no answer: its row, quoted, is none either."""
        draft, grade = self.state.draft, self.state.grade
        if draft is None:
            return grade is None or not grade.is_enough
        cells = {each.chunk_id for each in lack.held}
        return all(each.chunk_id in cells for each in draft.sources)

    def _written(self) -> Answer:
        question, history = self.state.question, _messages(self.state)
        if self.state.is_direct:
            return self.generator.direct(question, history=history, instead=self._instead())
        return self.generator.generate(question, self.context, history=history)

    def _as_it_comes(self, stop: Callable[[], bool]) -> Iterator[AnswerEvent]:
        question, history = self.state.question, _messages(self.state)
        if self.state.is_direct:
            return self.generator.stream_direct(question, history=history, stop=stop, instead=self._instead())
        return self.generator.stream(question, self.context, history=history, stop=stop)

    def _instead(self) -> str:
        return _unwritten(self.state, UNANSWERED, UNANSWERED_IN_ENGLISH)

    async def _without_model(self, error: ModelError) -> Answer:
        alone = replace(self, generator=replace(self.generator, llm=None))
        ready = Answer(self._instead(), form="direct") if self.state.is_direct else alone._ready()
        answer = ready if ready is not None else await asyncio.to_thread(alone._written)
        return replace(answer, degraded=(*answer.degraded, Degraded("model", str(error))))

    def _heard(self, event: AnswerEvent) -> AnswerEvent:
        return replace(event, answer=self._told(event.answer)) if isinstance(event, Done | Failed) else event

    def _told(self, answer: Answer) -> Answer:
        answer = replace(answer, degraded=(*self.degraded, *answer.degraded))
        return replace(answer, reason=self._why()) if answer.is_declined and not answer.reason else answer

    def _why(self) -> str:
        """Why the sources do not answer."""
        if self.state.lack is not None:
            return self.state.lack.reason
        return self.state.grade.reason if self.state.grade else ""


async def writing_of(answering: Answering, state: AnswerState) -> Writing:
    model, failed = (None, ()) if state.table is not None else await writer(answering.base)
    context = AnswerContext() if state.is_direct else context_of(state)
    return Writing(answering.base, state, AnswerGenerator(model, answering.only_checked), context, failed)


def _unwritten(state: AnswerState, otherwise: str, in_english: str) -> str:
    """What is said without sources and without a model, in the language of the question: small talk needs neither."""
    is_english = state.query.isascii() and any(map(str.isalpha, state.query))
    if state.analysis is None or state.analysis.kind != "greeting":
        return in_english if is_english else otherwise
    return (SMALL_TALK_IN_ENGLISH if is_english else SMALL_TALK)[small_talk_kind(state.query)]


def _from_cells(reply: TableReply) -> Answer:
    """What the cells say, and how the question was understood: an exact answer to another question is none."""
    written = Written()
    numbers, _ = written.number(reply.passages)
    # Of cells and headers, too, an answer has no link and no mark that is not its own.
    written.add(quotable(f"{reply.text}（{reply.reading}）" if reply.reading else reply.text), numbers)
    return written.answer("table")


def _events(answer: Answer) -> Iterator[AnswerEvent]:
    yield SourcesFound(tuple(replace(each, number=0) for each in answer.sources))
    yield from as_events(answer)


def _messages(state: AnswerState) -> tuple[Message, ...]:
    return tuple(Message(turn.role, turn.content) for turn in state.history)
