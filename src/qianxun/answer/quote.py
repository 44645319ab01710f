"""An answer without a language model: the sentence that answers best, quoted word for word, with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from qianxun.answer.matching import weights
from qianxun.chinese import SENTENCE_END
from qianxun.types import Found

PASSAGES = 3  # looked at: what ranks below does not outweigh the ranking


@dataclass(frozen=True, slots=True)
class Quotation:
    """``sentence`` stands word for word in the text of ``source``."""

    sentence: str
    source: Found

    @property
    def cited(self) -> str:
        return f"“{self.sentence}”[1]"

    @property
    def place(self) -> str:
        """Where the sentence stands, for people: document, headings, page."""
        chunk = self.source.chunk
        headings = (heading for heading in chunk.headings if heading != PurePath(chunk.doc_name).stem)
        page = (f"第 {chunk.page} 页",) if chunk.page is not None else ()
        return " › ".join((chunk.doc_name or chunk.doc_id, *headings, *page))


def quote(found: Sequence[Found], query: str) -> Quotation | None:
    """The sentence of the first passages that takes up most of the query; None where nothing was found.

    A passage's rank counts: its sentences are weighed by its score. Ties go to the earlier sentence.
    """
    offered = [Quotation(line, hit) for hit in found[:PASSAGES] for line in sentences(hit.chunk.text)]
    told = weights([each.sentence for each in offered], query)
    order = [weight * each.source.score for weight, each in zip(told, offered, strict=True)]
    return offered[order.index(max(order))] if offered else None


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; a line of a table is one."""
    for line in text.splitlines():
        start = 0
        for end in (*(mark.end() for mark in SENTENCE_END.finditer(line)), len(line)):
            if sentence := line[start:end].strip():
                yield sentence
            start = end
