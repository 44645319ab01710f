"""An answer while it is written: sentences, the passages they rest on, and sources numbered as they are first cited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qianxun.core.answer_types import Answer, Citation, Flag, Form, Passage, Source


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
    )


@dataclass
class Written:
    """Sentences as they are added. Every mark has its source, and every source a mark: it is numbered when cited."""

    text: str = ""
    citations: list[Citation] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)  # by the passage's own number
    flags: list[Flag] = field(default_factory=list)

    def number(self, passages: Sequence[Passage]) -> tuple[tuple[int, ...], tuple[Source, ...]]:
        """The numbers of the sources of these passages, and those sources that are cited for the first time."""
        fresh = []
        for passage in passages:
            if passage.number not in self.sources:
                self.sources[passage.number] = source_of(passage, len(self.sources) + 1)
                fresh.append(self.sources[passage.number])
        return tuple(sorted(self.sources[each.number].number for each in passages)), tuple(fresh)

    def add(self, sentence: str, numbers: Sequence[int] = (), space: str = "") -> Citation:
        """A sentence, its marks behind it, then ``space``; answers where it stands."""
        lead = len(sentence) - len(sentence.lstrip())
        start = len(self.text) + lead
        cited = Citation(start, len(self.text) + len(sentence), tuple(numbers))
        self.text += sentence + marks(numbers) + space
        if numbers:
            self.citations.append(cited)
        return cited

    def leave_out(self, space: str) -> None:
        """A sentence is not added: the line or paragraph that it ended ends all the same."""
        ended = len(self.text) - len(self.text.rstrip("\n"))
        if self.text:
            self.text += "\n" * (space.count("\n") - ended)

    def answer(self, form: Form, *, is_partial: bool = False) -> Answer:
        text = self.text.rstrip()
        sources = tuple(sorted(self.sources.values(), key=lambda each: each.number))
        return Answer(text, sources, tuple(self.citations), form, flags=tuple(self.flags), is_partial=is_partial)


def marks(numbers: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)
