"""A question as tables are compared with it.

`table_query`: in plain form, its places as bits of a number, for the names and cells of a table that answers it.
`table_search_query`: its weighted words, their places and the types it is about, for a table that is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
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


@dataclass(frozen=True, slots=True)
class TableSearchQuery:
    """A question as titles, headers and types of tables are compared with it."""

    folded: str
    words: Mapping[str, float]  # its significant words with their weights
    significant: frozenset[int]  # positions of the characters of those
    types: frozenset[TableType]  # none where it could be any
    pieces: frozenset[str] = frozenset()  # what of it a name may be: from two to `LONGEST_PIECE` characters

    def quotes(self, names: frozenset[str]) -> Iterator[str]:
        """The names of two characters or more that are in the question; hundreds are compared in one step."""
        yield from names & self.pieces
        if len(self.folded) > LONGEST_PIECE:
            yield from (name for name in names if len(name) > LONGEST_PIECE and name in self.folded)

    @property
    def keywords(self) -> Sequence[str]:
        return [word for word in self.words if len(word) > 1] or list(self.words)


def table_search_query(text: str, words: Mapping[str, float]) -> TableSearchQuery:
    folded = fold(text)
    significant = frozenset(at for word in words for at in positions(word, folded))
    types = frozenset(type_ for type_ in get_args(TableType) if _is_about(type_, text))
    return TableSearchQuery(folded, words, significant, types, _pieces(folded))


def _pieces(folded: str) -> frozenset[str]:
    spans = ((at, min(len(folded), at + LONGEST_PIECE)) for at in range(len(folded)))
    return frozenset(folded[at:end] for at, last in spans for end in range(at + 2, last + 1))


def _is_about(type_: TableType, text: str) -> bool:
    return cue(f"table_type.{type_}").search(text) is not None


def positions(name: str, folded: str) -> Iterator[int]:
    """The positions of the characters of a name, wherever it is in a text."""
    return (at + offset for at in places(name, folded) for offset in range(len(name)))


def span(start: int, end: int) -> int:
    """The characters from ``start`` up to ``end``, as bits."""
    return ((1 << (end - start)) - 1) << start


def runs(mask: int) -> list[tuple[int, int]]:
    """The stretches of a mask."""
    found: list[tuple[int, int]] = []
    at = 0
    while mask >> at:
        start = at
        while mask >> at & 1:
            at += 1
        if at > start:
            found.append((start, at))
        at += 1
    return found


def union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)
