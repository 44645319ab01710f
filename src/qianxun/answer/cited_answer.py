"""What a cited answer is made of: its sentences, the marks [1] after them, and the sources that they stand for.

Their values are in `core.answer_types`, their JSON is made by `core.codec.wire`; `doors.cli.views.answer` draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from qianxun.core.answer_types import (
    Answer,
    AnswerEvent,
    Citation,
    Done,
    Flag,
    Form,
    Passage,
    SentenceCheck,
    SentenceCited,
    Source,
    Token,
)


def source_of(passage: Passage, number: int) -> Source:
    return Source(
        number,
        passage.doc_id,
        passage.doc_name,
        passage.chunk_id,
        passage.text,
        passage.start,
        passage.end,
        passage.score,
        passage.metadata,
        passage.original,
    )


@dataclass
class AnswerDraft:
    """Sentences as they are added. Every mark has its source, and every source a mark: it is numbered when cited."""

    text: str = ""
    citations: list[Citation] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)  # by the passage's own number
    flags: list[Flag] = field(default_factory=list)
    checks: list[SentenceCheck] = field(default_factory=list)

    def number(self, passages: Sequence[Passage]) -> tuple[tuple[int, ...], tuple[Source, ...]]:
        """The numbers of the sources of these passages, and those sources that are cited for the first time."""
        new = []
        for passage in passages:
            if passage.number not in self.sources:
                self.sources[passage.number] = source_of(passage, len(self.sources) + 1)
                new.append(self.sources[passage.number])
        return tuple(sorted(self.sources[passage.number].number for passage in passages)), tuple(new)

    def add(self, sentence: str, numbers: Sequence[int] = (), space: str = "") -> Citation:
        """Adds a sentence, its marks, then ``space``. Returns where it is."""
        lead = len(sentence) - len(sentence.lstrip())
        citation = Citation(len(self.text) + lead, len(self.text) + len(sentence), tuple(numbers))
        self.text += sentence + citation_marks(numbers) + space
        if numbers:
            self.citations.append(citation)
        return citation

    def leave_out(self, space: str) -> None:
        """A sentence is not added: the line or paragraph that it ended ends all the same."""
        ended = len(self.text) - len(self.text.rstrip("\n"))
        if self.text:
            self.text += "\n" * (space.count("\n") - ended)

    def answer(self, form: Form, *, is_partial: bool = False) -> Answer:
        sources = tuple(sorted(self.sources.values(), key=lambda source: source.number))
        flags = tuple(self.flags)
        return Answer(
            self.text.rstrip(),
            sources,
            tuple(self.citations),
            form,
            flags=flags,
            checks=tuple(self.checks),
            is_partial=is_partial,
        )


def citation_marks(numbers: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)


def as_events(answer: Answer) -> Iterator[AnswerEvent]:
    """A whole answer as events: a sentence, its marks, its citation."""
    at = 0
    seen: set[int] = set()
    for citation in answer.citations:
        end = citation.end + len(citation_marks(citation.numbers))
        yield Token(answer.answer[at : citation.end])
        yield Token(answer.answer[citation.end : end])
        numbers = set(citation.numbers) - seen
        seen |= numbers
        yield SentenceCited(citation, (), tuple(source for source in answer.sources if source.number in numbers))
        at = end
    if at < len(answer.answer):
        yield Token(answer.answer[at:])
    yield Done(answer)
