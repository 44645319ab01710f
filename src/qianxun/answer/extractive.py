"""An answer of the passages' own sentences: whole ones, each cited, nothing rewritten or cut short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from qianxun.answer.asked import Asked, AskedKind
from qianxun.answer.plain_text import without_links
from qianxun.answer.weighing import Weighed, held
from qianxun.answer_types import Passage
from qianxun.chinese import fold, grams

MOST: Final[dict[AskedKind, int]] = {
    "fact": 3,
    "explain": 5,
    "comparison": 2,
    "summary": 8,
}  # of a side, where compared
_NEAR: Final = {"fact": 0.85, "explain": 0.5, "comparison": 0.85, "summary": 0.4}  # of the best line's fit
_REPEATS: Final = 0.7  # of a sentence's pairs of characters stand in one that is chosen: it says nothing new
_LONGEST: Final = 600  # characters of a line that is shown: more is not a sentence


@dataclass(frozen=True, slots=True)
class Quoted:
    """A sentence of a passage, word for word; ``subject``: whom it speaks of, where it does not say so itself."""

    sentence: str
    passage: Passage
    subject: str = ""
    is_item: bool = False

    @property
    def shown(self) -> str:
        told = without_links(self.sentence).replace("\n", " ")
        told = f"{self.subject}：{told}" if self.subject else told
        return f"- {told}" if self.is_item else told


def extract(asked: Asked, weighed: Sequence[Weighed]) -> tuple[Quoted, ...]:
    """The sentences that answer best: for a fact the one that tells it, for a comparison those of every side, for a
    summary the telling ones in their order."""
    usable = [each for each in weighed if each.is_own and len(each.line.text) <= _LONGEST]
    if asked.kind == "comparison" and len(asked.names) > 1:
        chosen = [one for name in asked.names for one in _picked(asked, [w for w in usable if _speaks_of(w, name)])]
        chosen = list({each.line.at: each for each in chosen}.values())
    else:
        chosen = sorted(_picked(asked, usable), key=lambda each: each.line.at)
    several = len({each.line.passage.doc_name for each in chosen}) > 1
    is_list = len(chosen) > (1 if several else 2) and asked.kind in ("summary", "comparison")
    return tuple(
        Quoted(each.line.text, each.line.passage, _subject(each) if several else "", is_list) for each in chosen
    )


def _speaks_of(weighed: Weighed, name: str) -> bool:
    return name in fold(weighed.line.passage.doc_name) or name in weighed.line.folded


def _picked(asked: Asked, offered: Sequence[Weighed]) -> list[Weighed]:
    """The best line, then what adds most to those chosen, as long as it comes near the best."""
    left = sorted(offered, key=lambda each: (-each.fit, each.line.at))
    chosen: list[Weighed] = []
    while left and len(chosen) < MOST[asked.kind]:
        best = max(left, key=lambda each: (each.fit * _news(each, chosen, asked), -each.line.at))
        if chosen and best.fit * _news(best, chosen, asked) < _NEAR[asked.kind] * chosen[0].fit:
            break
        chosen.append(best)
        left = [each for each in left if each is not best and not _repeats(each, best)]
    return chosen


def _news(weighed: Weighed, chosen: Iterable[Weighed], asked: Asked) -> float:
    """How much of what a line says of the question has not been said: 1 for the first."""
    said = " ".join(each.line.folded for each in chosen)
    if not said:
        return 1.0
    own = [word.text for word in asked.words if held(word.text, weighed.line.folded) >= 0.8]
    fresh = [word for word in own if held(word, said) < 0.8]
    return 0.7 + 0.3 * len(fresh) / max(len(own), 1)


def _repeats(weighed: Weighed, chosen: Weighed) -> bool:
    own = {gram for gram in grams(weighed.line.text) if len(gram) > 1}
    return len(own.intersection(grams(chosen.line.text))) >= _REPEATS * len(own)


def _subject(weighed: Weighed) -> str:
    name = PurePath(weighed.line.passage.doc_name).stem
    bare = re.sub(r"\s+", "", fold(name))
    return "" if not bare or bare in re.sub(r"\s+", "", weighed.line.folded) else name
