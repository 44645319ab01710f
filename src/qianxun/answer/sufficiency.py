"""Whether passages can answer a question: what it names must be spoken of, and what it asks for must be there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.matching import weights
from qianxun.answer_types import Passage
from qianxun.ports import RerankModel

ENOUGH: Final = 0.3


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """True where the passages can answer; ``share`` of the question that the best of them takes up; why not."""

    is_enough: bool
    share: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.is_enough


def sufficiency(query: str, passages: Sequence[Passage], reader: RerankModel | None = None) -> Sufficiency:
    if not passages:
        return Sufficiency(False, 0.0, "没有检索到资料")
    share = max(weights([f"{each.doc_name}\n{each.text}" for each in passages], query))
    if share < ENOUGH:
        return Sufficiency(False, share, "资料没有讲到问题所问的内容")
    return Sufficiency(True, share)
