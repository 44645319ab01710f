"""A question as tables are compared with it.

`table_query`: in plain form, its places as bits of a number, for the names and cells of a table that answers it.
`table_search_query`: its weighted words, their places and the types it is about, for a table that is searched for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import Final, get_args

from qianxun.question.words import cue, listed
from qianxun.text.chinese import fold, places
from qianxun.text.chinese import words as words_of
from qianxun.text.table_types import TableType

LONGEST_PIECE: Final = 24  # characters; a longer name is looked for by itself
FILLER: Final = re.compile("|".join(sorted(map(re.escape, listed("filler.table")), key=len, reverse=True)))
_ONE_FORM: Final = str.maketrans("（）【】［］〔〕，：；？！～＝＜＞％—–−", "()()()(),:;?!~=<>%---")
_TO: Final = re.compile(r"(?<=\d)[至到~](?=\d{1,3}[年月天日岁人个级期])")  # 1至2年 is 1-2年
_MONTH: Final = re.compile("(?<=[0-9一二三四五六七八九十])月份")  # 3月份 is 3月
_QUIET: Final = re.compile("[\\s“”\"'‘’「」『』《》〈〉`*]+")
_QUIET_IN_LINE: Final = re.compile("(?:(?!\n)[\\s“”\"'‘’「」『』《》〈〉`*])+")


def plain(text: str) -> str:
    """The form in which a question and a table are compared: folded, one kind of brackets, no quotes and no spaces."""
    return _MONTH.sub("月", _TO.sub("-", _QUIET.sub("", fold(text).translate(_ONE_FORM))))


def plain_all(texts: Sequence[str]) -> list[str]:
    """`plain` of many cells, folded at one go."""
    whole = "\n".join([text.replace("\n", " ") for text in texts])
    return _MONTH.sub("月", _TO.sub("-", _QUIET_IN_LINE.sub("", fold(whole).translate(_ONE_FORM)))).split("\n")


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A question in plain form; ``informative`` are the characters (as bits) that carry meaning."""

    text: str
    informative: int

    def unexplained(self, explained: int) -> int:
        return self.informative & ~explained


def table_query(text: str) -> TableQuery:
    text = plain(text)
    informative = sum(1 << at for at, mark in enumerate(text) if mark.isalnum())
    alone = {word for word in words_of(text) if len(word) == 1}
    for filler in FILLER.finditer(text):
        if filler.end() - filler.start() > 1 or filler.group() in alone:  # 上 carries nothing, but not that of 上海
            informative &= ~span(*filler.span())
    return TableQuery(text, informative)


@dataclass(frozen=True)
class TableSearchQuery:
    """A question as titles, headers and types of tables are compared with it. Sets of its characters are bits."""

    folded: str
    words: Mapping[str, float]  # its significant words with their weights
    significant: int  # the characters of those
    types: frozenset[TableType]  # none where it could be any
    _masks: dict[str, int] = field(default_factory=dict, repr=False, compare=False)  # of names that are in it

    @cached_property
    def pieces(self) -> frozenset[str]:
        """What of it a name may be: from two to `LONGEST_PIECE` characters."""
        text, length = self.folded, len(self.folded)
        ends = (range(at + 2, min(length, at + LONGEST_PIECE) + 1) for at in range(length))
        return frozenset([text[at:end] for at, own in enumerate(ends) for end in own])

    @cached_property
    def pairs(self) -> tuple[str, ...]:
        return tuple([self.folded[at : at + 2] for at in range(len(self.folded) - 1)])

    @cached_property
    def distinct_pairs(self) -> frozenset[str]:
        return frozenset(self.pairs)

    @cached_property
    def total_weight(self) -> float:
        return math.fsum(self.words.values())

    def quoted(self, names: frozenset[str]) -> int:
        """The characters that these names explain, those of two or more; hundreds are compared in one step."""
        found: Iterable[str] = names & self.pieces
        if len(self.folded) > LONGEST_PIECE:
            found = (*found, *(name for name in names if len(name) > LONGEST_PIECE and name in self.folded))
        return union(map(self._mask, found))

    def _mask(self, name: str) -> int:
        """The same names are in many tables."""
        if name not in self._masks:
            self._masks[name] = _places_mask(name, self.folded)
        return self._masks[name]

    @cached_property
    def keywords(self) -> Sequence[str]:
        return [word for word in self.words if len(word) > 1] or list(self.words)


def table_search_query(text: str, words: Mapping[str, float]) -> TableSearchQuery:
    folded = fold(text)
    significant = union(_places_mask(word, folded) for word in words)
    types = frozenset(type_ for type_ in get_args(TableType) if _is_about(type_, text))
    return TableSearchQuery(folded, words, significant, types)


def _is_about(type_: TableType, text: str) -> bool:
    return cue(f"table_type.{type_}").search(text) is not None


def _places_mask(name: str, folded: str) -> int:
    """The characters of a name, wherever it is in a text."""
    return union(span(at, at + len(name)) for at in places(name, folded))


def span(start: int, end: int) -> int:
    """The characters from ``start`` up to ``end``, as bits."""
    return ((1 << (end - start)) - 1) << start


def runs(mask: int) -> list[tuple[int, int]]:
    """The stretches of a mask."""
    found: list[tuple[int, int]] = []
    at = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        length = (~mask & (mask + 1)).bit_length() - 1
        found.append((at + gap, at + gap + length))
        mask >>= length
        at += gap + length
    return found


@lru_cache(maxsize=256)  # some forty cues a question
def hits(name: str, text: str) -> tuple[re.Match[str], ...]:
    """Every place of a cue in a question, which is read against several tables."""
    return tuple(cue(name).finditer(text))


def union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)
