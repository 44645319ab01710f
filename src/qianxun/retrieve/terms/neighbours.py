"""Related words by their vectors: the nearest of a base's own words, where they are near enough to mean the same.

A model of sentences finds words alike that share a character (事故, 故事), so those must be nearer than others; and it
puts opposites side by side (左侧, 右侧), so those are left out by what they are written with. Both thresholds are
measured: docs/decisions/0011-related-terms.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.types import Vector, Vectors
from qianxun.text.chinese import STOP_WORDS


@dataclass(frozen=True, slots=True)
class Nearness:
    """The least cosine of words without a common character, and of those that have one."""

    apart: float
    sharing: float

    def reaches(self, cosine: float, word: str, term: str) -> bool:
        return cosine >= (self.sharing if set(word) & set(term) else self.apart)


HELD: Final = Nearness(0.76, 0.88)  # for a word that the base has itself: what is said instead may lead away
LACKING: Final = Nearness(0.68, 0.80)  # for one that it has not: there is nothing to lose
NEIGHBOURS: Final = 2
_LOOKED_AT: Final = 12
_HAN_WORD: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]{2,}")
_NEGATIONS: Final = frozenset("不没无未非别勿")
_NUMERALS: Final = frozenset("一二三四五六七八九十百千万亿两几第零")
_PAIRS: Final = (
    "左右上下前后内外里外大小多少男女高低早晚进出入出买卖东西南北东北东南西南西北今昨今明昨明来去长短冷热新旧真假好坏"
    "优劣优缺利弊增减升降加减正负正反收支借还供需存取公私阴阳生死轻重快慢强弱粗细深浅宽窄厚薄胖瘦远近始终起止开关问答"
    "攻守胜负输赢主客主次甲乙春夏春秋春冬夏秋夏冬秋冬父母夫妻兄弟姐妹儿女软硬干湿明暗黑白"
)
_OPPOSITES: Final = frozenset(map(frozenset, zip(_PAIRS[::2], _PAIRS[1::2], strict=True)))


def can_have_neighbours(word: str) -> bool:
    """Words of Han characters: of others a Chinese model makes the same vector, whatever they are. No numbers."""
    return (
        _HAN_WORD.fullmatch(word) is not None and word not in STOP_WORDS and not any(map(_NUMERALS.__contains__, word))
    )


def neighbours(
    word: str, vector: Vector, terms: Sequence[str], vectors: Vectors, least: Nearness = HELD
) -> list[tuple[str, float]]:
    """The terms that are related to a word, nearest first, with their cosines; ties in the order of the terms."""
    if not len(terms):
        return []
    # Not by BLAS: on busy cores its threads wait longer for one another (13 ms) than this takes for 5,000 words (1 ms).
    cosines = np.einsum("ij,j->i", vectors, vector)
    nearest = np.argpartition(-cosines, min(_LOOKED_AT, len(terms) - 1))[:_LOOKED_AT]
    ordered = sorted((-float(cosines[at]), terms[at]) for at in nearest)
    near = ((term, -cosine) for cosine, term in ordered if least.reaches(-cosine, word, term))
    return [(term, cosine) for term, cosine in near if _is_another(word, term)][:NEIGHBOURS]


def _is_another(word: str, term: str) -> bool:
    """What contains the other is found by its characters: no other wording. Nor is the opposite."""
    return term not in word and word not in term and not are_opposites(word, term)


def are_opposites(one: str, other: str) -> bool:
    """左侧 and 右边, 能用 and 不能用; by what they are written with, so that not all are known."""
    only_one, only_other = set(one) - set(other), set(other) - set(one)
    if bool(_NEGATIONS & set(one)) != bool(_NEGATIONS & set(other)):
        return True
    return any(frozenset((left, right)) in _OPPOSITES for left in only_one for right in only_other)
