"""Answers from passages: by a language model where there is one, of the passages' own sentences otherwise.

Whatever a model replies, an answer cites only what was given, has no figure that its sources do not have, and no link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from qianxun.answer.assemble import Given, as_context
from qianxun.answer.cited_answer import AnswerDraft, as_events, source_of
from qianxun.answer.extractive.calculation import Calculation
from qianxun.answer.extractive.extractive import MOST_ROWS, Quoted, extract, extract_sides
from qianxun.answer.extractive.meaning import Likeness
from qianxun.answer.extractive.sentence_scores import ScoredLine
from qianxun.answer.extractive.sufficiency import ReadEvidence, Sufficiency, enough, nearest, probable, read
from qianxun.answer.prompt import NOT_FOUND, answer_messages, direct_messages
from qianxun.answer.reply_reader import LONGEST_REPLY, ReplyReader
from qianxun.answer.verify.plain_text import quotable
from qianxun.answer.verify.sentence_check import declines
from qianxun.core.answer_types import (
    Answer,
    AnswerContext,
    AnswerEvent,
    Done,
    Failed,
    Form,
    Passage,
    SourcesFound,
    StatedTie,
)
from qianxun.core.errors import BadModelReply, ModelError
from qianxun.core.foreign import chat_model
from qianxun.core.options import CheckMode
from qianxun.core.ports import ChatModel, never
from qianxun.core.types import Degraded, Message
from qianxun.question.question import read as read_question

UNANSWERED: Final = "语言模型没能作答，也没有查阅资料。请稍后再试，或换一种检索方式（如 mix）。"
_NO_MODEL: Final = "这里没有配置对话模型，不查资料就无法回答。请换一种检索方式（如 mix），或配置对话模型。"
_TOO_LONG: Final = Degraded("model", f"模型的回复超过 {LONGEST_REPLY} 字，后面的没有读")
_UNSUPPORTED: Final = Degraded("model", "模型的回复没有一句能由资料证实，改用资料原句")
ExactParts: TypeAlias = Mapping[str, tuple[str, tuple[Passage, ...]]]
"""Of a question that asks several things, those that cells of tables answer: the answer, and the rows it rests on."""
_SHOWN_QUESTION: Final = 80
_SHOWN_LINE: Final = 200
_MOST_ROWS: Final = 100  # that one answer of a table cites
_NEW_PART: Final = "\n"
_MORE_ROWS: Final = f"\n（只列出最接近的 {MOST_ROWS} 行，可能还有。）"
_NEAREST: Final = "最接近的是："
_NEAREST_IN_ENGLISH: Final = "What comes nearest: "
_PROBABLE: Final = "资料没有直接这样说，可能在这里："
_PROBABLE_IN_ENGLISH: Final = "The sources do not say so directly; probably here: "
_HAN: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True)
class _Offered:
    """A question and the passages that are read for it."""

    query: str
    passages: tuple[Passage, ...]
    tie: StatedTie | None = None

    def __hash__(self) -> int:
        return hash((self.query, tuple(passage.chunk_id for passage in self.passages)))  # metadata have no hash


@lru_cache(maxsize=16)
def _read(offered: _Offered) -> ReadEvidence:
    """Cached: the passages are graded first, and what is not enough is then declined, or quoted with a doubt."""
    return read(offered.query, offered.passages, offered.tie)


@lru_cache(maxsize=16)
def _judged(offered: _Offered, likeness: Likeness | None) -> Sufficiency:
    """Cached, as `_read` is."""
    return enough(_read(offered), likeness)


@dataclass(frozen=True, slots=True)
class AnswerGenerator:
    """Answers a question from passages. Blocking: an event loop calls it in a thread.

    Without ``llm`` an answer is made of the passages' own sentences, each cited. With ``only_checked`` a stream shows a
    sentence once it has been checked against its passages, and none that will be dropped: for callers that cannot take
    it back. ``llm`` may be a LangChain chat model. ``exact`` is given instead of the passages' own sentences: what a
    table's cells answer; ``exact_parts`` where they answer some of several questions. ``style``: how answers are
    written; ``today``: the date that the model is told, if another. ``likeness`` compares meanings where the words of
    question and passages differ; ``check``: what becomes of a model's sentence that its passages do not bear out.
    """

    llm: ChatModel | Any | None = None
    only_checked: bool = False
    exact: Answer | None = None
    style: str = ""
    today: date | None = None
    likeness: Likeness | None = None
    check: CheckMode = "strict"
    exact_parts: ExactParts = field(default_factory=dict)
    only_sure: bool = False  # nothing is probable: another search may still follow

    def __post_init__(self) -> None:
        if self.llm is not None:
            object.__setattr__(self, "llm", chat_model(self.llm))

    def generate(
        self, query: str, context: Given, *, history: Sequence[Message] = (), images: Sequence[str] = ()
    ) -> Answer:
        """The answer, whole. A model that fails is named in ``degraded``, and the passages answer themselves."""
        given = as_context(context)
        if self.llm is None or not given.passages:
            return self._extracted(query, given)
        reader = ReplyReader(given, query, today=self.today, mode=self.check)
        try:
            _drain(reader, self.llm.complete(self._messages(query, given, history, images)))
        except ModelError as error:
            return _degraded(self._extracted(query, given), error)
        return self._finished(query, given, reader)

    def stream(
        self,
        query: str,
        context: Given,
        *,
        history: Sequence[Message] = (),
        images: Sequence[str] = (),
        stop: Callable[[], bool] = never,
    ) -> Iterator[AnswerEvent]:
        """The answer as it comes; `Done` or `Failed` is the last event. Closing the iterator ends the model's call.

        A sentence that turns out to be wrong has been shown by then: it is flagged, and `Done` is without it.
        """
        given = as_context(context)
        yield SourcesFound(tuple(source_of(passage, 0) for passage in given.passages))
        if self.llm is None or not given.passages:
            yield from as_events(self._extracted(query, given))
            return
        reader = ReplyReader(given, query, only_checked=self.only_checked, today=self.today, mode=self.check)
        try:
            yield from reader.read(_pieces(self.llm, self._messages(query, given, history, images), stop))
        except ModelError as error:
            partial = reader.draft.answer("model", is_partial=True)
            if not reader.is_begun or reader.is_unsent:
                partial = replace(self._extracted(query, given), is_partial=True)
            yield Failed(error.word, str(error), _degraded(partial, error))
            return
        answer = self._finished(query, given, reader)
        yield from as_events(answer) if reader.is_unsent else [Done(answer)]

    def direct(
        self,
        query: str,
        *,
        history: Sequence[Message] = (),
        images: Sequence[str] = (),
        instead: str = UNANSWERED,
    ) -> Answer:
        """An answer without sources: small talk, or a caller who wants nothing looked up; ``instead`` where the model
        fails."""
        if self.llm is None:
            return Answer(_NO_MODEL, form="direct")
        reader = ReplyReader(AnswerContext(), query, is_direct=True)
        try:
            _drain(reader, self.llm.complete(direct_messages(query, history, images)))
        except ModelError as error:
            return _degraded(Answer(instead, form="direct"), error)
        return reader.draft.answer("direct")

    def stream_direct(
        self,
        query: str,
        *,
        history: Sequence[Message] = (),
        images: Sequence[str] = (),
        stop: Callable[[], bool] = never,
        instead: str = UNANSWERED,
    ) -> Iterator[AnswerEvent]:
        """`direct`, as it comes."""
        yield SourcesFound(())
        if self.llm is None:
            yield from as_events(Answer(_NO_MODEL, form="direct"))
            return
        reader = ReplyReader(AnswerContext(), query, is_direct=True, only_checked=self.only_checked)
        try:
            yield from reader.read(_pieces(self.llm, direct_messages(query, history, images), stop))
        except ModelError as error:
            partial = reader.draft.answer("direct", is_partial=True)
            if not reader.is_begun or reader.is_unsent:
                partial = Answer(instead, form="direct", is_partial=True)
            yield Failed(error.word, str(error), _degraded(partial, error))
            return
        yield Done(reader.draft.answer("direct"))

    def judge(self, query: str, context: Given) -> Sufficiency:
        """Returns whether these passages can answer the question, and why not."""
        given = as_context(context)
        return _judged(_Offered(query, given.passages, given.tie), self.likeness)

    def consider(self, query: str, context: Given) -> tuple[Sufficiency, Answer]:
        """Returns whether these passages can answer the question, and the answer of their own sentences; both read
        once."""
        given = as_context(context)
        questions = read_question(query).parts
        if questions and given.tie is None and given.passages:
            in_parts = self._in_parts(query, questions, given)
            if in_parts is not None:
                return in_parts
        offered = _Offered(query, given.passages, given.tie)
        evidence, sufficiency = _read(offered), _judged(offered, self.likeness)
        if evidence.calculation is not None:
            return sufficiency, _worked_out(evidence.calculation)
        if evidence.sides and sufficiency:
            missing = [side.name for side in evidence.sides if not side.scored]
            return sufficiency, _joined(extract_sides((side.query, side.scored) for side in evidence.sides), missing)
        quoted = extract(evidence.query, evidence.scored) if sufficiency else ()
        if quoted:
            return sufficiency, _joined(quoted)
        likely = None if sufficiency or self.only_sure else probable(evidence, self.likeness)
        if likely is not None:
            return sufficiency, _probably(query, likely)
        return sufficiency, declined(query, nearest=nearest(evidence))

    def _in_parts(
        self, query: str, questions: Sequence[str], given: AnswerContext
    ) -> tuple[Sufficiency, Answer] | None:
        """Each question of several, answered or declined on its own; None where none has an answer."""
        offered = [_Offered(part, given.passages) for part in questions]
        readings = list(zip(questions, map(_read, offered), strict=True))
        verdicts = [
            Sufficiency(True, 1.0) if one.query in self.exact_parts else _judged(one, self.likeness) for one in offered
        ]
        missing = [part for (part, _), sufficiency in zip(readings, verdicts, strict=True) if not sufficiency]
        fit = sum(sufficiency.fit for sufficiency in verdicts) / len(verdicts)
        reason = f"资料没有讲到：{'、'.join(missing)}" if missing else ""
        sufficiency = Sufficiency(len(missing) < len(questions), fit, reason)
        no_doubt = self.only_sure and not sufficiency  # one question has its answer: nothing else is searched for
        likely = [
            None if verdict or no_doubt else probable(evidence, self.likeness)
            for (_, evidence), verdict in zip(readings, verdicts, strict=True)
        ]
        if not sufficiency and not any(likely):
            return None
        draft = AnswerDraft()
        for at, (part, evidence) in enumerate(readings):
            draft.add(f"{_NEW_PART if at else ''}{quotable(part)}：")
            if part in self.exact_parts:
                text, rows = self.exact_parts[part]
                # Rows of tables are numbered by themselves: below zero they are none of the passages.
                numbers, _ = draft.number([replace(row, number=-_MOST_ROWS * (at + 1) + row.number) for row in rows])
                draft.add(quotable(text), numbers)
                continue
            if (line := likely[at]) is not None:
                draft.add(_PROBABLE if _HAN.search(query) else _PROBABLE_IN_ENGLISH)
                numbers, _ = draft.number((line.line.passage,))
                draft.add(_placed(line), numbers)
                continue
            if not verdicts[at]:
                draft.add(f"{NOT_FOUND}相关内容。" if _HAN.search(query) else "not in the sources.")
                continue
            for quote in extract(evidence.query, evidence.scored):
                numbers, _ = draft.number((quote.passage,))
                draft.add(quote.shown.removeprefix("- "), numbers)
        return sufficiency, draft.answer("extractive" if sufficiency else "probable")

    def decline(self, query: str, context: Given, reason: str = "") -> Answer:
        """That the passages do not answer, with what comes nearest in them."""
        given = as_context(context)
        return declined(query, reason, nearest(_read(_Offered(query, given.passages, given.tie))))

    def _messages(
        self, query: str, given: AnswerContext, history: Sequence[Message], images: Sequence[str]
    ) -> tuple[Message, ...]:
        return answer_messages(query, given, history, images, style=self.style, today=self.today)

    def _extracted(self, query: str, given: AnswerContext) -> Answer:
        return self.exact if self.exact is not None else self.consider(query, given)[1]

    def _finished(self, query: str, given: AnswerContext, reader: ReplyReader) -> Answer:
        """The model's answer without what was dropped; where nothing cited is left, the passages' own sentences."""
        answer = reader.draft.answer("model", is_partial=reader.is_cut)
        if answer.citations:
            return replace(answer, degraded=(_TOO_LONG,)) if reader.is_cut else answer
        if declines(answer.answer):
            return replace(self.decline(query, given), flags=answer.flags)
        return replace(self._extracted(query, given), flags=answer.flags, degraded=(_UNSUPPORTED,))


def declined(query: str, reason: str = "", nearest: ScoredLine | None = None) -> Answer:
    """The answer that the sources do not say, in the language of the question; with the reason where it is known, and
    with what comes nearest."""
    shown = " ".join(quotable(query).split())
    shown = f"{shown[:_SHOWN_QUESTION]}…" if len(shown) > _SHOWN_QUESTION else shown
    is_chinese = _HAN.search(query) is not None
    if is_chinese:
        text = f"{NOT_FOUND}能回答“{shown}”的内容" if shown else f"{NOT_FOUND}能回答这个问题的内容"
        text = f"{text}：{quotable(reason)}。" if reason else f"{text}。"
    else:
        text = f"The sources do not answer “{shown}”" if shown else "The sources do not answer this question"
        text = f"{text}: {quotable(reason)}." if reason else f"{text}."
    if nearest is None:
        return Answer(text, form="declined", reason=reason)
    return replace(
        _pointing(f"{text}\n{_NEAREST if is_chinese else _NEAREST_IN_ENGLISH}", nearest, "declined"), reason=reason
    )


def _probably(query: str, line: ScoredLine) -> Answer:
    lead = _PROBABLE if _HAN.search(query) else _PROBABLE_IN_ENGLISH
    return _pointing(lead, line, "probable")


def _pointing(lead: str, scored: ScoredLine, form: Form) -> Answer:
    """A sentence of the sources under its document and heading, cited."""
    draft = AnswerDraft()
    draft.add(lead)
    numbers, _ = draft.number((scored.line.passage,))
    draft.add(_placed(scored), numbers)
    return draft.answer(form)


def _placed(scored: ScoredLine) -> str:
    passage = scored.line.passage
    headings = passage.headings_at(scored.line.start)[-1:]
    place = " ".join(dict.fromkeys(quotable(one) for one in (PurePath(passage.doc_name).stem, *headings) if one))
    text = " ".join(quotable(scored.line.text).split())
    shown = f"{text[:_SHOWN_LINE]}…" if len(text) > _SHOWN_LINE else text
    return f"（{place}）{shown}" if place else shown


def _joined(quoted: Sequence[Quoted], missing: Sequence[str] = ()) -> Answer:
    """``missing``: subjects of the question that the passages do not cover."""
    draft = AnswerDraft()
    for at, quote in enumerate(quoted):
        numbers, _ = draft.number((quote.passage,))
        space = "" if at + 1 == len(quoted) else "\n" if quote.is_item else " " if quote.sentence[-1].isascii() else ""
        draft.add(quote.shown, numbers, space)
    if len(quoted) >= MOST_ROWS and all(quote.is_row for quote in quoted):
        draft.add(_MORE_ROWS)
    if missing:
        names = "、".join(f"“{quotable(name)}”" for name in missing)
        draft.add(f"\n{NOT_FOUND}关于{names}的回答。")
    return draft.answer("extractive")


def _worked_out(calculation: Calculation) -> Answer:
    """The sentences that state the figures, and the arithmetic, each cited."""
    draft = AnswerDraft()
    for one in calculation.lines:
        numbers, _ = draft.number((one.line.passage,))
        draft.add(quotable(one.line.text).replace("\n", " "), numbers)
    numbers, _ = draft.number([one.line.passage for one in calculation.lines])
    draft.add(f"\n{calculation.text}", sorted(set(numbers)))
    return draft.answer("extractive")


def _drain(reader: ReplyReader, reply: str) -> None:
    if not isinstance(reply, str):
        raise BadModelReply(f"语言模型的回复是 {type(reply).__name__}，不是文字", hint="complete(messages) 应给出文字")
    for _ in reader.read(iter((reply,))):
        pass


def _pieces(llm: ChatModel, messages: Sequence[Message], stop: Callable[[], bool]) -> Iterator[str]:
    """The reply as it comes; from a model that cannot stream, whole."""
    stream: Callable[..., Iterator[str]] | None = getattr(llm, "stream", None)
    return stream(messages, stop) if stream is not None else (llm.complete(messages) for _ in range(1))


def _degraded(answer: Answer, error: ModelError) -> Answer:
    return replace(answer, degraded=(*answer.degraded, Degraded("model", str(error))))
