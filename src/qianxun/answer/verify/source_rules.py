"""Figures that a source does not state, but tells how to work out: 其余为自筹, 合同总价的30%作为预付款, 每班配2名教师.

A sentence need not say that it computes, where the line of the source that it rests on does. `rules_for` finds such
lines; what follows from them together with the figures that they refer to may be meant, and is not invented.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.verify.misplaced import Occurrence
from qianxun.answer.verify.table_rows import tables, total_row
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import Figure, figures

SHARED: Final = 2  # pairs of characters that a sentence and a line have in common which tells how to work it out
MOST_LINES: Final = 3  # the nearest ones
MOST_CHARACTERS: Final = 300  # of a line: in a longer one too much can be worked out
_LINE: Final = re.compile(r"[^。！？!?；;\n]+")
_RULE_WORDS: Final = re.compile(
    r"每|各|均|其余|其他|余下|剩|%|％|分之|[一二三四五六七八九]成|倍|[\d一二三四五六七八九]折|减|扣|免|加|另|除[^，。]{1,24}外|超|按|以上|以下|不足"
)
_SUPPOSES: Final = re.compile(
    "如果|如[^何此同下]|若|假[如设使]|要是|的话|比如|例如|譬如|倘|即使|哪怕|以[^，。]{1,12}为例"
)


@dataclass(frozen=True, slots=True)
class SourceRule:
    """``own``: the figures of the line; ``referred``: those of which it, or the sentence, names what they are of."""

    own: tuple[Figure, ...]
    referred: tuple[Figure, ...]


def is_supposed(figure: Figure, clause: str, places: Sequence[Occurrence]) -> bool:
    """Returns True if a clause supposes a figure as an example of what the source bounds: 如果10月15日退出."""
    wanted = _pairs(clause)
    return _SUPPOSES.search(clause) is not None and any(
        type(one.figure) is type(figure) and not wanted.isdisjoint(one.clause) for one in places
    )


def rules_for(clause: str, sentence: str, text: str, places: Sequence[Occurrence]) -> list[SourceRule]:
    """The lines of a text that tell how to work out what a clause of the sentence says, the nearest first."""
    own, all_ = _pairs(clause), _pairs(sentence)
    found: list[tuple[int, str]] = []
    for line in _LINE.findall(fold(text)):
        words = _pairs(line)
        shared = len(all_ & words)
        if len(line) <= MOST_CHARACTERS and shared >= SHARED and _RULE_WORDS.search(line):
            found.append((shared + len(own & words), line))
    nearest = sorted(found, key=lambda one: -one[0])[:MOST_LINES]
    return [_rule(line, sentence, text, places) for _, line in nearest]


def _rule(line: str, sentence: str, text: str, places: Sequence[Occurrence]) -> SourceRule:
    named = _pairs(line) | _pairs(sentence)
    own = tuple(dict.fromkeys(figures(line)))
    totals = (figure for table in tables(text) for cell in total_row(table) for figure in figures(cell))
    referred = dict.fromkeys(one.figure for one in places if not named.isdisjoint(one.words))
    referred |= dict.fromkeys(totals)  # 合同总价 may be the last row of a table
    return SourceRule(own, tuple(one for one in referred if one not in own))


def _pairs(text: str) -> set[str]:
    return {gram for gram in grams(text) if len(gram) > 1}
