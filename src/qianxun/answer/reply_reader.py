"""A model's reply, read as it comes: what may stay of it becomes a cited answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Final

from qianxun.answer.cited_answer import AnswerDraft, citation_marks
from qianxun.answer.dates import shown_day
from qianxun.answer.verify.blocks import Block, BlockReader, Item, Table
from qianxun.answer.verify.citations import CitationReader, Fragment, Reading, Sentence
from qianxun.answer.verify.marks import model_marks, named_marks, without_special_tokens
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import (
    AnswerContext,
    AnswerEvent,
    Citation,
    Flag,
    SentenceCheck,
    SentenceCited,
    Token,
)
from qianxun.core.errors import ModelError
from qianxun.core.options import CheckMode
from qianxun.text.reasoning import Thoughts, marked_thoughts, without_thoughts

LONGEST_REPLY: Final = 100_000  # characters; what comes after is not read
_SHOWN_THOUGHTS: Final = 200


class ReplyReader:
    """Reads a model's reply: ``draft`` is what may stay of it, its events are what is shown meanwhile.

    With ``only_checked`` a sentence is shown once it has been checked against its passages, and none that will be
    dropped.
    """

    def __init__(
        self,
        context: AnswerContext,
        query: str,
        *,
        is_direct: bool = False,
        only_checked: bool = False,
        today: date | None = None,
        mode: CheckMode = "strict",
    ) -> None:
        self._mode = mode
        self._today = shown_day(today or date.today())
        self._passages = context.passages
        self._numbers = frozenset(passage.number for passage in context.passages)
        self._query = query
        self._is_direct, self._only_checked = is_direct, only_checked
        self._sent = self._sent_thoughts = 0  # characters of the draft that were shown; of thoughts before it
        self._reader, self._blocks = CitationReader(self._numbers), BlockReader()
        self._shown = AnswerDraft()
        self.draft = AnswerDraft()
        self.is_begun = False
        self.is_cut = False  # it is longer than LONGEST_REPLY

    @property
    def is_unsent(self) -> bool:
        """Nothing of it was certain enough to be shown."""
        return self._only_checked and not self._sent

    def read(self, pieces: Iterator[str]) -> Iterator[AnswerEvent]:
        """What is to be shown, piece by piece. A ModelError in the middle is raised after the events before it."""
        left = LONGEST_REPLY
        sources = "\n".join((self._query, *(passage.text for passage in self._passages)))
        try:
            reply = without_thoughts(without_special_tokens(pieces, sources))
            for piece in marked_thoughts(named_marks(model_marks(reply, self._numbers), self._numbers)):
                if piece is Thoughts.BEFORE:
                    yield from self._drop_thoughts()
                    left = LONGEST_REPLY
                    continue
                yield from self._events(self._reader.feed(piece[:left]))
                left -= len(piece)
                if left <= 0:
                    self.is_cut = True
                    break
        except ModelError:
            if not self._only_checked:  # half a sentence may say the opposite of the whole
                yield from self._close()
            raise
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
        yield from self._close()

    def _drop_thoughts(self) -> Iterator[AnswerEvent]:
        """What was read so far were the model's thoughts: they have been shown, and the answer is without them."""
        yield from self._close()
        shown = self._shown.text
        flag = Flag("dropped", shown.strip()[:_SHOWN_THOUGHTS], "模型作答之前的思考，不是回答，已去掉")
        length = self._sent_thoughts + self._sent if self._only_checked else len(shown)
        yield SentenceCited(Citation(0, length, ()), (flag,), ())
        self._reader, self._blocks = CitationReader(self._numbers), BlockReader()
        self.draft, self.is_begun = AnswerDraft(flags=[flag]), False
        self._sent_thoughts, self._sent = self._sent_thoughts + self._sent, 0

    def _events(self, readings: Iterator[Reading]) -> Iterator[AnswerEvent]:
        for reading in readings:
            self.is_begun = True
            yield from self._block_events(self._blocks.feed(reading))

    def _close(self) -> Iterator[AnswerEvent]:
        yield from self._events(self._reader.close())
        yield from self._block_events(self._blocks.close())

    def _block_events(self, blocks: Iterator[Block]) -> Iterator[AnswerEvent]:
        for block in blocks:
            if isinstance(block, Fragment):
                yield from self._show(block.text)
            elif isinstance(block, Table):
                yield from self._table(block)
            elif isinstance(block, Item):
                yield from self._sentence(block.sentence, self._check(block.sentence, block.shared))
            else:
                yield from self._sentence(block, self._check(block))

    def _check(self, sentence: Sentence, shared: Sequence[int] = (), read_as: str | None = None) -> Checked:
        if self._is_direct:
            return Checked((), sentence.flags)
        if self._mode == "off":
            cited = tuple(passage for passage in self._passages if passage.number in (*sentence.numbers, *shared))
            return Checked(cited, sentence.flags)
        checked = check(sentence, self._passages, self._query, shared=shared, read_as=read_as, today=self._today)
        if self._mode == "flag" and not checked.accepted:
            cited = tuple(passage for passage in self._passages if passage.number in (*sentence.numbers, *shared))
            return replace(checked, passages=cited, accepted=True)
        return checked

    def _table(self, table: Table) -> Iterator[AnswerEvent]:
        """Its rows that may stay; nothing of it where none may, or where nothing supports its column names."""
        heads = [self._check(head, table.shared) for head in table.head]
        rows = [self._check(row.sentence, table.shared, row.read_as) for row in table.rows]
        accepted = all(head.accepted for head in heads) and (not rows or any(row.accepted for row in rows))
        for sentence, checked in zip(table.head, heads, strict=True):
            yield from self._show(sentence.text)
            flags = tuple(flag for flag in checked.flags if flag.kind != "uncited")
            yield from self._sentence(sentence, Checked(checked.passages if sentence.numbers else (), flags, accepted))
        for row, checked in zip(table.rows, rows, strict=True):
            yield from self._show(row.sentence.text)
            yield from self._sentence(row.sentence, checked if accepted else replace(checked, accepted=False))

    def _sentence(self, sentence: Sentence, checked: Checked) -> Iterator[AnswerEvent]:
        numbers, new = self.draft.number(checked.passages) if checked.accepted else ((), ())
        shown = self._shown.add(sentence.text, numbers, sentence.space)
        added = self._add(sentence, checked, numbers)
        yield from self._show(citation_marks(numbers))
        yield from self._show_checked()
        place, before = (added, self._sent_thoughts) if self._only_checked else (shown, 0)
        if numbers or checked.flags:
            yield SentenceCited(Citation(before + place.start, before + place.end, numbers), checked.flags, new)
        yield from self._show(sentence.space)

    def _add(self, sentence: Sentence, checked: Checked, numbers: Sequence[int]) -> Citation:
        """Adds the sentence to the draft, or leaves it out. Returns where it is, or would be."""
        self.draft.flags.extend(checked.flags)
        if not self._is_direct and self._mode != "off" and any(map(str.isalnum, sentence.text)):
            self.draft.checks.append(
                SentenceCheck(
                    sentence.text.strip(), checked.verdict, tuple(numbers), checked.evidence, not checked.accepted
                )
            )
        if checked.accepted:
            return self.draft.add(sentence.text, numbers, sentence.space)
        self.draft.leave_out(sentence.space)
        self.draft.flags.append(Flag("dropped", sentence.text.strip(), "没有资料证实，已从答案中去掉"))
        return Citation(len(self.draft.text), len(self.draft.text), ())

    def _show(self, text: str) -> Iterator[AnswerEvent]:
        if text and not self._only_checked:
            yield Token(text)

    def _show_checked(self) -> Iterator[AnswerEvent]:
        """What of the answer is certain by now: before its first citation, all of it may yet be given up."""
        if not self._only_checked or not (self.draft.citations or self._is_direct):
            return
        text = self.draft.text.rstrip()
        if len(text) > self._sent:
            yield Token(text[self._sent :])
            self._sent = len(text)
