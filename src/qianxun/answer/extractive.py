"""An answer of the passages' own sentences: whole ones, each cited, nothing rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.matching import weights
from qianxun.answer.plain_text import without_links
from qianxun.answer.quote import sentences
from qianxun.answer_types import Passage

SENTENCES: Final = 3


@dataclass(frozen=True, slots=True)
class Quoted:
    """A sentence of a passage, word for word; ``subject``: whom it speaks of, where it does not say so itself."""

    sentence: str
    passage: Passage
    subject: str = ""
    is_item: bool = False

    @property
    def shown(self) -> str:
        told = without_links(self.sentence)
        told = f"{self.subject}：{told}" if self.subject else told
        return f"- {told}" if self.is_item else told


def extract(query: str, passages: Sequence[Passage]) -> tuple[Quoted, ...]:
    """The sentences that answer best, in the order of their passages."""
    offered = [(line, each) for each in passages for line in dict.fromkeys(sentences(each.text))]
    told = weights([line for line, _ in offered], query)
    order = sorted(range(len(offered)), key=lambda at: (-told[at] * (0.5 + offered[at][1].score), at))
    return tuple(Quoted(offered[at][0], offered[at][1]) for at in sorted(order[:SENTENCES]))
