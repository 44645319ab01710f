"""Answers from passages: by a language model where there is one, of the passages' own sentences otherwise.

Whatever a model says, an answer cites only what was given, has no figure that its sources do not have, and no link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from qianxun.answer.draft import Written, marks, source_of
from qianxun.answer.extractive.extractive import Quoted, extract, extract_each
from qianxun.answer.extractive.sufficiency import Sufficiency, enough, read
from qianxun.answer.passages import Given, as_context
from qianxun.answer.prompt import NOT_FOUND, answer_messages, direct_messages
from qianxun.answer.verify.blocks import Block, BlockReader, Item, Table
from qianxun.answer.verify.citations import CitationReader, Ended, Reading, Said
from qianxun.answer.verify.model_marks import model_marks
from qianxun.answer.verify.named_marks import named_marks
from qianxun.answer.verify.plain_text import quotable
from qianxun.answer.verify.sentence_check import Judged, declines, judge
from qianxun.answer.verify.special_tokens import without_special_tokens
from qianxun.core.answer_types import (
    Answer,
    AnswerContext,
    AnswerEvent,
    Citation,
    Done,
    Failed,
    Flag,
    SentenceCited,
    SourcesFound,
    Token,
)
from qianxun.core.errors import ModelError
from qianxun.core.ports import ChatModel, never
from qianxun.core.types import Degraded, Message
from qianxun.text.reasoning import Unsaid, spoken, told_apart

LONGEST_REPLY: Final = 100_000  # characters; what comes after is not read
UNANSWERED: Final = "语言模型没能作答，也没有查阅资料。请稍后再试，或换一种检索方式（如 mix）。"
_TOO_LONG: Final = Degraded("model", f"模型的回复超过 {LONGEST_REPLY} 字，后面的没有读")
_SHOWN_QUESTION: Final = 80
_SHOWN_THOUGHTS: Final = 200
_HAN: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True)
class AnswerGenerator:
    """Answers a question from passages. Blocking: an event loop calls it in a thread.

    Without ``llm`` an answer is made of the passages' own sentences, each cited. With ``only_checked`` a stream tells a
    sentence when it has been held against its passages, and none that will not stay: for those who cannot take it back.
    """

    llm: ChatModel | None = None
    only_checked: bool = False

    def generate(
        self, query: str, context: Given, *, history: Sequence[Message] = (), images: Sequence[str] = ()
    ) -> Answer:
        """The answer, whole. A model that fails is said in ``degraded``, and the passages answer themselves."""
        given = as_context(context)
        if self.llm is None or not given.passages:
            return self._extracted(query, given)
        try:
            reply = self.llm.complete(answer_messages(query, given, history, images))
        except ModelError as error:
            return _degraded(self._extracted(query, given), error)
        draft = _Draft(given, query)
        for _ in draft.read(_once(reply)):
            pass
        return self._finished(query, given, draft)

    def stream(
        self,
        query: str,
        context: Given,
        *,
        history: Sequence[Message] = (),
        images: Sequence[str] = (),
        stop: Callable[[], bool] = never,
    ) -> Iterator[AnswerEvent]:
        """The answer as it comes; `Done` or `Failed` is the last event. To close the iterator ends the model's call.

        A sentence that turns out to be wrong was shown by then: it is flagged, and `Done` is without it.
        """
        given = as_context(context)
        yield SourcesFound(tuple(source_of(each, 0) for each in given.passages))
        if self.llm is None or not given.passages:
            yield from as_events(self._extracted(query, given))
            return
        draft = _Draft(given, query, only_checked=self.only_checked)
        messages = answer_messages(query, given, history, images)
        try:
            yield from draft.read(_pieces(self.llm, messages, stop))
        except ModelError as error:
            partial = draft.written.answer("model", is_partial=True)
            if not draft.is_begun or draft.is_untold:
                partial = replace(self._extracted(query, given), is_partial=True)
            yield Failed(error.word, str(error), _degraded(partial, error))
            return
        answer = self._finished(query, given, draft)
        yield from as_events(answer) if draft.is_untold else [Done(answer)]

    def direct(
        self,
        query: str,
        *,
        history: Sequence[Message] = (),
        images: Sequence[str] = (),
        instead: str = UNANSWERED,
    ) -> Answer:
        """An answer without sources: small talk, or a caller who wants nothing looked up; ``instead`` is said where the
        model fails."""
        if self.llm is None:
            return _without_model()
        try:
            reply = self.llm.complete(direct_messages(query, history, images))
        except ModelError as error:
            return _degraded(Answer(instead, form="direct"), error)
        draft = _Draft(AnswerContext(), query, is_direct=True)
        for _ in draft.read(_once(reply)):
            pass
        return draft.written.answer("direct")

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
            yield from as_events(_without_model())
            return
        draft = _Draft(AnswerContext(), query, is_direct=True, only_checked=self.only_checked)
        try:
            yield from draft.read(_pieces(self.llm, direct_messages(query, history, images), stop))
        except ModelError as error:
            partial = draft.written.answer("direct", is_partial=True)
            if not draft.is_begun or draft.is_untold:
                partial = Answer(instead, form="direct", is_partial=True)
            yield Failed(error.word, str(error), _degraded(partial, error))
            return
        yield Done(draft.written.answer("direct"))

    def judge(self, query: str, context: Given) -> Sufficiency:
        """Whether these passages can answer the question, and why not."""
        given = as_context(context)
        return enough(read(query, given.passages, given.tie))

    def consider(self, query: str, context: Given) -> tuple[Sufficiency, Answer]:
        """Whether these passages can answer the question, and what their own sentences answer: both read once."""
        given = as_context(context)
        evidenced = read(query, given.passages, given.tie)
        judged = enough(evidenced)
        if evidenced.sides:
            lacking = [each.name for each in evidenced.sides if not each.weighed]
            return judged, _joined(extract_each((each.asked, each.weighed) for each in evidenced.sides), lacking)
        quoted = extract(evidenced.asked, evidenced.weighed) if judged else ()
        return judged, _joined(quoted) if quoted else declined(query)

    def _extracted(self, query: str, given: AnswerContext) -> Answer:
        return self.consider(query, given)[1]

    def _finished(self, query: str, given: AnswerContext, draft: _Draft) -> Answer:
        """The model's answer without what was dropped; where nothing is left that is cited, the passages' own."""
        answer = draft.written.answer("model", is_partial=draft.is_cut)
        if answer.citations:
            return replace(answer, degraded=(_TOO_LONG,)) if draft.is_cut else answer
        if declines(answer.answer):
            return replace(declined(query), flags=answer.flags)
        told = Degraded("model", "模型的回复没有一句能由资料证实，改用资料原句")
        return replace(self._extracted(query, given), flags=answer.flags, degraded=(told,))


def declined(query: str, reason: str = "") -> Answer:
    """The sources do not say: an answer, too, in the language of the question; with why, where that is known."""
    asked = " ".join(quotable(query).split())
    asked = f"{asked[:_SHOWN_QUESTION]}…" if len(asked) > _SHOWN_QUESTION else asked
    if _HAN.search(query):
        said = f"{NOT_FOUND}能回答“{asked}”的内容" if asked else f"{NOT_FOUND}能回答这个问题的内容"
        return Answer(f"{said}：{quotable(reason)}。" if reason else f"{said}。", form="declined", reason=reason)
    said = f"The sources do not answer “{asked}”" if asked else "The sources do not answer this question"
    return Answer(f"{said}: {quotable(reason)}." if reason else f"{said}.", form="declined", reason=reason)


# ── the passages' own sentences ──────────────────────────────────────────────────────────────────


def _joined(quoted: Sequence[Quoted], lacking: Sequence[str] = ()) -> Answer:
    """``lacking``: subjects that were asked about, too, and of which the passages do not tell."""
    written = Written()
    for at, each in enumerate(quoted):
        numbers, _ = written.number((each.passage,))
        space = "" if at + 1 == len(quoted) else "\n" if each.is_item else " " if each.sentence[-1].isascii() else ""
        written.add(each.shown, numbers, space)
    if lacking:
        told = "、".join(f"“{quotable(each)}”" for each in lacking)
        written.add(f"\n{NOT_FOUND}关于{told}的回答。")
    return written.answer("extractive")


def as_events(answer: Answer) -> Iterator[AnswerEvent]:
    """A whole answer as events: a sentence, its marks, its citation."""
    told = 0
    seen: set[int] = set()
    for citation in answer.citations:
        end = citation.end + len(marks(citation.numbers))
        yield Token(answer.answer[told : citation.end])
        yield Token(answer.answer[citation.end : end])
        fresh = tuple(each for each in answer.sources if each.number in citation.numbers and each.number not in seen)
        seen.update(citation.numbers)
        yield SentenceCited(citation, (), fresh)
        told = end
    if told < len(answer.answer):
        yield Token(answer.answer[told:])
    yield Done(answer)


# ── a model's reply ──────────────────────────────────────────────────────────────────────────────


class _Draft:
    """A model's reply while it is read: what was shown, and what may stay."""

    def __init__(
        self, given: AnswerContext, query: str, *, is_direct: bool = False, only_checked: bool = False
    ) -> None:
        self._passages = given.passages
        self._given = frozenset(each.number for each in given.passages)
        self._query = query
        self._spoken_of = "\n".join((query, *(each.text for each in given.passages)))
        self._is_direct, self._only_checked = is_direct, only_checked
        self._told = self._unsaid_told = 0  # characters that were told of what is written; of thoughts before it
        self._reader, self._blocks = CitationReader(self._given), BlockReader()
        self._shown = Written()
        self.written = Written()
        self.is_begun = False
        self.is_cut = False  # it is longer than anybody reads

    @property
    def is_untold(self) -> bool:
        """Nothing of it was sure enough to be told."""
        return self._only_checked and not self._told

    def read(self, pieces: Iterator[str]) -> Iterator[AnswerEvent]:
        """What is to be shown, piece by piece. A model that fails in the midst is told after what came before it."""
        left = LONGEST_REPLY
        try:
            said = spoken(without_special_tokens(pieces, self._spoken_of))
            for piece in told_apart(named_marks(model_marks(said, self._given), self._given)):
                if piece is Unsaid.BEFORE:
                    yield from self._unsaid()
                    left = LONGEST_REPLY
                    continue
                yield from self._events(self._reader.feed(piece[:left]))
                left -= len(piece)
                if left <= 0:
                    self.is_cut = True
                    break
        except ModelError:
            if not self._only_checked:  # half a sentence may say the opposite of the whole
                yield from self._closed()
            raise
        finally:
            _close(pieces)
        yield from self._closed()

    def _unsaid(self) -> Iterator[AnswerEvent]:
        """What was read so far were the model's thoughts: they were shown by then, and the answer is without them."""
        yield from self._closed()
        shown = self._shown.text
        flag = Flag("dropped", shown.strip()[:_SHOWN_THOUGHTS], "模型作答之前的思考，不是回答，已去掉")
        came = self._unsaid_told + self._told if self._only_checked else len(shown)
        yield SentenceCited(Citation(0, came, ()), (flag,), ())
        self._reader, self._blocks = CitationReader(self._given), BlockReader()
        self.written, self.is_begun = Written(flags=[flag]), False
        self._unsaid_told, self._told = self._unsaid_told + self._told, 0

    def _events(self, readings: Iterator[Reading]) -> Iterator[AnswerEvent]:
        for reading in readings:
            self.is_begun = True
            yield from self._told_blocks(self._blocks.feed(reading))

    def _closed(self) -> Iterator[AnswerEvent]:
        yield from self._events(self._reader.close())
        yield from self._told_blocks(self._blocks.close())

    def _told_blocks(self, blocks: Iterator[Block]) -> Iterator[AnswerEvent]:
        for block in blocks:
            if isinstance(block, Said):
                yield from self._showing(block.text)
            elif isinstance(block, Table):
                yield from self._tabled(block)
            elif isinstance(block, Item):
                yield from self._ended(block.ended, self._judged(block.ended, block.shared))
            else:
                yield from self._ended(block, self._judged(block))

    def _judged(self, ended: Ended, shared: Sequence[int] = (), read_as: str | None = None) -> Judged:
        if self._is_direct:
            return Judged((), ended.flags)
        return judge(ended, self._passages, self._query, shared=shared, read_as=read_as)

    def _tabled(self, table: Table) -> Iterator[AnswerEvent]:
        """Its rows that may stay; nothing of it where none may, or where nothing bears out what its columns are."""
        heads = [self._judged(each, table.shared) for each in table.head]
        rows = [self._judged(row.ended, table.shared, row.read_as) for row in table.rows]
        is_kept = all(each.is_kept for each in heads) and (not rows or any(each.is_kept for each in rows))
        for ended, judged in zip(table.head, heads, strict=True):
            yield from self._showing(ended.text)
            own = judged.passages if ended.numbers else ()
            flags = tuple(each for each in judged.flags if each.kind != "uncited")
            yield from self._ended(ended, Judged(own, flags, is_kept))
        for row, judged in zip(table.rows, rows, strict=True):
            yield from self._showing(row.ended.text)
            yield from self._ended(row.ended, judged if is_kept else replace(judged, is_kept=False))

    def _ended(self, ended: Ended, judged: Judged) -> Iterator[AnswerEvent]:
        numbers, fresh = self.written.number(judged.passages) if judged.is_kept else ((), ())
        shown, kept = self._shown.add(ended.text, numbers, ended.space), self._kept(ended, judged, numbers)
        yield from self._showing(marks(numbers))
        yield from self._settled()
        stands, before = (kept, self._unsaid_told) if self._only_checked else (shown, 0)
        if numbers or judged.flags:
            yield SentenceCited(Citation(before + stands.start, before + stands.end, numbers), judged.flags, fresh)
        yield from self._showing(ended.space)

    def _kept(self, ended: Ended, judged: Judged, numbers: Sequence[int]) -> Citation:
        """Writes the sentence down, or leaves it out; answers where it stands, or would stand."""
        self.written.flags.extend(judged.flags)
        if judged.is_kept:
            return self.written.add(ended.text, numbers, ended.space)
        self.written.leave_out(ended.space)
        self.written.flags.append(Flag("dropped", ended.text.strip(), "没有资料证实，已从答案中去掉"))
        return Citation(len(self.written.text), len(self.written.text), ())

    def _showing(self, text: str) -> Iterator[AnswerEvent]:
        """What comes is shown as it comes, unless only what is checked is told."""
        if text and not self._only_checked:
            yield Token(text)

    def _settled(self) -> Iterator[AnswerEvent]:
        """What of the answer is sure by now: before its first citation, all of it may yet be given up."""
        if not self._only_checked or not (self.written.citations or self._is_direct):
            return
        text = self.written.text.rstrip()
        if len(text) > self._told:
            yield Token(text[self._told :])
            self._told = len(text)


def _once(reply: str) -> Iterator[str]:
    yield reply


def _pieces(llm: ChatModel, messages: Sequence[Message], stop: Callable[[], bool]) -> Iterator[str]:
    """The reply as it comes; from a model that cannot stream, whole."""
    streamed: Any = getattr(llm, "stream", None)
    if streamed is None:
        return _once_asked(llm, messages)
    pieces: Iterator[str] = streamed(messages, stop)
    return pieces


def _once_asked(llm: ChatModel, messages: Sequence[Message]) -> Iterator[str]:
    yield llm.complete(messages)


def _close(pieces: Iterator[str]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        close()


def _degraded(answer: Answer, error: ModelError) -> Answer:
    return replace(answer, degraded=(*answer.degraded, Degraded("model", str(error))))


def _without_model() -> Answer:
    told = "这里没有配置对话模型，不查资料就无法回答。请换一种检索方式（如 mix），或配置对话模型。"
    return Answer(told, form="direct")
