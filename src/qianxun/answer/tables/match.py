"""Where a question mentions a table: which of its characters a header or a label explains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from qianxun.answer.tables.periods import period_of
from qianxun.core.system.cache import cached_texts
from qianxun.core.types import Column
from qianxun.question.table_query import plain, span, union
from qianxun.question.words import cue
from qianxun.text.chinese import runs_on

_BRACKETED: Final = re.compile(r"\([^()]*\)")
_ENDING: Final = re.compile("(?:(?<=..)(?:名称|姓名|名字|名|情况|信息|数据|数量|金额|%|:)|(?<=预算|实际|计划|目标)数)$")
_CAMEL: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_FRACTION_BEFORE: Final = re.compile(r"\d\.$")
_RUN: Final = re.compile("[a-z0-9.]+")
_CALENDAR: Final = "年月季"


@dataclass(frozen=True, slots=True)
class Match:
    """How a name is found in a question: the characters it explains, and how much of the name is there."""

    mask: int
    matched: int  # characters of the name that are in the question
    length: int  # of the name
    verbatim: bool = False
    rest: str = ""  # what of the name is not in the question

    @property
    def share(self) -> float:
        return self.matched / self.length if self.length else 0.0

    @property
    def missing(self) -> int:
        return self.length - self.matched


NO_MATCH: Final = Match(0, 0, 0)


@cached_texts(4_096)
def match(name: str, text: str) -> Match:
    """A name in plain form against a question in plain form, piece by piece: 销售占比 is found in 年度销售占比.

    Cached: one question is read several ways, and the tables that it finds have many headers in common.
    """
    if not name:
        return NO_MATCH
    if name in text and (whole := places(name, text)):
        return Match(whole, len(name), len(name), True)
    own, apart = _unmatched(name)
    shared = own & _pairs(text)
    if not shared:  # almost every name: no piece of two characters is in the question
        return apart
    mask = matched = at = 0
    rest = ""
    while at < len(name):
        end = _longest(name, at, text) if name[at : at + 2] in shared else at
        if end - at >= 2:
            mask |= places(name[at:end], text)
            matched += _letters_in(name[at:end])
            at = end
        else:
            rest += name[at]
            at += 1
    return Match(mask, matched, apart.length, rest=rest)


def _letters_in(text: str) -> int:
    return len(text) if text.isalnum() else sum(map(str.isalnum, text))


@cached_texts(50_000, longest=40, lasting=True)  # about a kilobyte each
def _unmatched(name: str) -> tuple[frozenset[str], Match]:
    """The pairs of characters of a name, and its match with a question that has none of them."""
    return frozenset(map("".join, pairwise(name))), Match(0, 0, _letters_in(name) or 1, rest=name)


@cached_texts(1_000)
def _pairs(text: str) -> frozenset[str]:
    return frozenset(map("".join, pairwise(text)))


def keys_of(name: str) -> frozenset[str]:
    """The pairs of characters of a name, of which a text has one at least if it is named there in whole or in part; of
    one character that itself."""
    return frozenset((name,)) if len(name) == 1 else frozenset(map("".join, pairwise(name)))


@lru_cache(maxsize=64)  # a question, and what is left of it once rows or columns are taken out: for all its tables
def keys_in(text: str) -> frozenset[str]:
    """The keys of all names that may be in a text: its characters, and its pairs of them."""
    return frozenset(text) | _pairs(text)


def _longest(name: str, at: int, text: str) -> int:
    """Where the longest piece of the name that begins here and is in the text ends."""
    run = _RUN.match(name, at)
    if run is not None:  # letters and digits only whole; 1月 is one word
        end = run.end()
        dated = name[at : end + 1]
        if dated[-1] in _CALENDAR and places(dated, text):
            return end + 1
        return end if end - at >= 2 and places(name[at:end], text) else at
    end = at
    while end < len(name) and not _RUN.match(name, end) and name[at : end + 1] in text:
        end += 1
    return end


def places(name: str, text: str) -> int:
    """Every place of a name, as bits; none that cuts a run of letters or digits: 12 is not in 2012, nor in 3.12."""
    mask = 0
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (_is_one_run(text[max(at - 2, 0) : at], name[0]) or _is_one_run(text[end : end + 2][::-1], name[-1])):
            mask |= span(at, end)
        at = text.find(name, at + 1)
    return mask


def _is_one_run(before: str, first: str) -> bool:
    """Returns True if a name that begins so is one run with what is before it."""
    return runs_on(before[-1:], first) or bool(first.isdigit() and _FRACTION_BEFORE.search(before))


def together(matches: Iterable[Match]) -> Match:
    """The match of a name of several parts."""
    parts = list(matches)
    if len(parts) == 1:
        return parts[0]
    length = sum(part.length for part in parts)
    verbatim = length > 0 and all(part.verbatim for part in parts)
    matched, rest = sum(part.matched for part in parts), "".join(part.rest for part in parts)
    return Match(union(part.mask for part in parts), matched, length, verbatim, rest)


# ── names of columns ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Name:
    """What a column may be called: each part of its header in several wordings, and what its brackets add."""

    parts: tuple[tuple[str, ...], ...]
    extras: tuple[str, ...]
    is_known_by_last: bool = False  # what stands above the last part need not be named
    elsewhere: frozenset[str] = frozenset()  # unless it is one of these, which stand above others

    @property
    def keys(self) -> frozenset[str]:
        """What a question has at least one of, if a character of it explains this name."""
        ways = (way for part in self.parts for way in part)
        return frozenset[str]().union(*map(keys_of, (*ways, *self.extras)))


def name_of(column: Column) -> Name:
    parts = []
    extras: list[str] = []
    for part in _path(column):
        whole = plain(part)
        bare = _BRACKETED.sub("", whole)
        extras.extend(found[1:-1] for found in _BRACKETED.findall(whole) if found[1:-1] != plain(column.unit))
        parts.append(tuple(_wordings(bare or whole, part)))
    return Name(tuple(parts), tuple(extras))


def _path(column: Column) -> tuple[str, ...]:
    """Its header, a part that is written in the line below again once."""
    return tuple(part for at, part in enumerate(column.path) if not at or part != column.path[at - 1])


def names_of(columns: Sequence[Column]) -> tuple[Name, ...]:
    """The names of a table's columns: what stands above a header need not be named where it tells it from no other, and
    a question names nothing that stands above another."""
    paths = list(map(_path, columns))
    lasts = Counter(plain(path[-1]) for path in paths if path)
    above = frozenset(plain(part) for path in paths for part in path[:-1])
    return tuple(
        replace(
            name_of(column),
            is_known_by_last=len(path) > 1 and lasts[plain(path[-1])] == 1,
            elsewhere=frozenset() if _is_nested(path) else above - frozenset(map(plain, path)),
        )
        for column, path in zip(columns, paths, strict=True)
    )


def _is_nested(path: Sequence[str]) -> bool:
    """Returns True for a part of the year below a longer one: 3月 below 一季度."""
    read = [found for part in path if (found := period_of(part)) is not None and not found[1]]
    return len(read) == len(path) and all(outer.many < inner.many for (outer, _), (inner, _) in pairwise(read))


def _wordings(bare: str, written: str) -> Iterator[str]:
    yield bare
    core = _ENDING.sub("", bare)
    if core != bare and len(core) >= 2:
        yield core
    if (whole := cue("period.total").fullmatch(bare)) is not None:  # 上半年合计 is what 上半年 asks for
        yield whole["of"]
    for word in (bare, core):
        yield from (other for other in _others(word) if other != bare)
    if bare.isascii():
        for meaning in _translated(written):
            yield meaning
            yield from _others(meaning)


@dataclass(frozen=True, slots=True)
class _HeaderWords:
    """What columns are called (`headers.txt`)."""

    english: dict[tuple[str, ...], tuple[str, ...]]  # one word or two → what questions call it
    same: tuple[tuple[str, ...], ...]  # Chinese words for one thing


@cache
def _header_words() -> _HeaderWords:
    lines = (Path(__file__).parent / "headers.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(": ") for line in lines if ": " in line and not line.startswith("#")]
    english = {tuple(word.split()): tuple(meanings.split()) for word, meanings in pairs}
    return _HeaderWords(english, tuple(tuple(line[2:].split()) for line in lines if line.startswith("=")))


@cache
def _header_endings() -> tuple[str, ...]:
    known = _header_words()
    groups = (*known.english.values(), *known.same)
    return tuple({word for group in groups for word in group if len(word) > 1 and not word.isascii()})


def is_header(text: str) -> bool:
    """Returns True if a text ends as columns are called: 联系电话, 开业日期."""
    return text.endswith(_header_endings())


@cached_texts(1_024)
def _others(word: str) -> tuple[str, ...]:
    """The same header with a word of it replaced by another for the same thing."""
    found: dict[str, None] = {}
    for group in _header_words().same:
        own = max((other for other in group if other in word), key=len, default=None)
        if own is not None:
            found.update(dict.fromkeys(word.replace(own, other) for other in group if other != own))
    return tuple(found)


def _translated(written: str) -> Iterator[str]:
    words = [word.lower() for word in _CAMEL.findall(written)]
    english = _header_words().english
    found = [""] if words else []
    while words:
        count = 2 if tuple(words[:2]) in english and len(words) > 1 else 1
        meanings = english.get(tuple(words[:count]))
        if meanings is None:
            return
        found = [head + meaning for head in found for meaning in meanings]
        words = words[count:]
    yield from found[:60]


@cached_texts(2_048)
def match_column(name: Name, text: str) -> Match:
    """How a question names a column. The brackets of a header may be named, but need not. Cached, as `match` is."""
    if not name.parts:
        return NO_MATCH
    matches = [_closest(ways, text) for ways in name.parts]
    whole = together(matches)
    if name.is_known_by_last and matches[-1].verbatim and not any(above in text for above in name.elsewhere):
        whole = replace(matches[-1], mask=whole.mask)
    for extra in name.extras:
        whole = replace(whole, mask=whole.mask | match(extra, text).mask)
    return whole


def _closest(ways: tuple[str, ...], text: str) -> Match:
    """The first of the wordings of a header that a question has most of."""
    if len(ways) == 1:
        return match(ways[0], text)
    return max([match(way, text) for way in ways], key=lambda found: (found.share, found.matched))
