"""Where a question speaks of a table: which of its characters each header and each label explains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from qianxun.answer.tables.header_words import ENGLISH, ENGLISH_PAIRS, SAME
from qianxun.answer.tables.words import FILLER
from qianxun.core.types import Column
from qianxun.text.chinese import fold, words

_ONE_FORM: Final = str.maketrans(
    {**dict(zip("（）【】［］〔〕，：；？！～＝＜＞％—–−", "()()()(),:;?!~=<>%---", strict=True))}
)
_TO: Final = re.compile(r"(?<=\d)[至到~](?=\d{1,3}[年月天日岁人个级期])")  # 1至2年 is 1-2年
_QUIET: Final = re.compile("[\\s“”\"'‘’「」『』《》〈〉`*]+")
_QUIET_IN_LINE: Final = re.compile("(?:(?!\n)[\\s“”\"'‘’「」『』《》〈〉`*])+")
_BRACKETED: Final = re.compile(r"\([^()]*\)")
_ENDING: Final = re.compile("(?<=..)(?:名称|姓名|名字|名|情况|信息|数据|数量|金额|%|:)$")
_CAMEL: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_FRACTION_BEFORE: Final = re.compile(r"\d\.$")
_RUN: Final = re.compile("[a-z0-9.]+")
_CALENDAR: Final = "年月季"


def plain(text: str) -> str:
    """The form in which a question and a table meet: folded, one kind of brackets, no quotes and no spaces."""
    return _TO.sub("-", _QUIET.sub("", fold(text).translate(_ONE_FORM)))


def plain_all(texts: Sequence[str]) -> list[str]:
    """`plain` of many cells, folded at one go."""
    whole = "\n".join([text.replace("\n", " ") for text in texts])
    return _TO.sub("-", _QUIET_IN_LINE.sub("", fold(whole).translate(_ONE_FORM))).split("\n")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in plain form; ``telling`` are the characters (as bits) that say something."""

    text: str
    telling: int

    def unexplained(self, explained: int) -> int:
        return self.telling & ~explained


def ask(question: str) -> Asked:
    text = plain(question)
    telling = 0
    for at, mark in enumerate(text):
        if mark.isalnum():
            telling |= 1 << at
    alone = {word for word in words(text) if len(word) == 1}
    for filler in FILLER.finditer(text):
        if filler.end() - filler.start() > 1 or filler.group() in alone:  # 上 says nothing, but not that of 上海
            telling &= ~span(filler.start(), filler.end())
    return Asked(text, telling)


def span(start: int, end: int) -> int:
    """The characters from ``start`` up to ``end``, as bits."""
    return ((1 << (end - start)) - 1) << start


def size(mask: int) -> int:
    return mask.bit_count()


@dataclass(frozen=True, slots=True)
class Match:
    """How a name is met in a question: the characters it explains, and how much of the name was said."""

    mask: int
    said: int  # characters of the name that the question says
    length: int  # of the name
    verbatim: bool = False
    rest: str = ""  # what of the name the question does not say

    @property
    def share(self) -> float:
        return self.said / self.length if self.length else 0.0

    @property
    def unsaid(self) -> int:
        return self.length - self.said


NO_MATCH: Final = Match(0, 0, 0)


def match(name: str, text: str) -> Match:
    """A name in plain form against a question in plain form, piece by piece: 销售占比 is met in 年度销售占比."""
    if not name:
        return NO_MATCH
    if name in text and not _is_cut(name, text):
        return Match(places(name, text), len(name), len(name), True)
    mask = said = at = 0
    rest = ""
    while at < len(name):
        end = _longest(name, at, text)
        if end - at >= 2:
            mask |= places(name[at:end], text)
            said += sum(mark.isalnum() for mark in name[at:end])
            at = end
        else:
            rest += name[at]
            at += 1
    return Match(mask, said, sum(mark.isalnum() for mark in name) or 1, rest=rest)


def _is_cut(name: str, text: str) -> bool:
    return not places(name, text)


def _longest(name: str, at: int, text: str) -> int:
    """Where the longest piece of the name that begins here and stands in the text ends."""
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
        if not (_goes_before(text[:at], name) or _goes_before(text[end:][::-1], name[::-1])):
            mask |= span(at, end)
        at = text.find(name, at + 1)
    return mask


def _goes_before(before: str, name: str) -> bool:
    """Whether what stands before a name is one run with it."""
    return _runs_on(before[-1:], name[0]) or bool(name[0].isdigit() and _FRACTION_BEFORE.search(before[-2:]))


def _runs_on(left: str, right: str) -> bool:
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


def together(matches: Iterable[Match]) -> Match:
    """The match of a name of several parts."""
    mask = said = length = 0
    verbatim = True
    rest = ""
    for each in matches:
        rest += each.rest
        mask |= each.mask
        said += each.said
        length += each.length
        verbatim = verbatim and each.verbatim
    return Match(mask, said, length, verbatim and length > 0, rest)


# ── names of columns ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Name:
    """What a column may be called: each part of its header in several wordings, and what its brackets add."""

    parts: tuple[tuple[str, ...], ...]
    extras: tuple[str, ...]


def name_of(column: Column) -> Name:
    parts = []
    extras: list[str] = []
    for part in column.path or ():
        whole = plain(part)
        bare = _BRACKETED.sub("", whole)
        extras.extend(found[1:-1] for found in _BRACKETED.findall(whole) if found[1:-1] != plain(column.unit))
        parts.append(tuple(_wordings(bare or whole, part)))
    return Name(tuple(parts), tuple(extras))


def _wordings(bare: str, written: str) -> Iterator[str]:
    yield bare
    core = _ENDING.sub("", bare)
    if core != bare and len(core) >= 2:
        yield core
    for word in (bare, core):
        yield from (other for other in _others(word) if other != bare)
    if bare.isascii():
        for meaning in _translated(written):
            yield meaning
            yield from _others(meaning)


@cache
def _others(word: str) -> tuple[str, ...]:
    """The same header with a word of it replaced by another for the same thing."""
    found: dict[str, None] = {}
    for group in SAME:
        held = max((each for each in group if each in word), key=len, default=None)
        if held is not None:
            found.update(dict.fromkeys(word.replace(held, other) for other in group if other != held))
    return tuple(found)


def _translated(written: str) -> Iterator[str]:
    said = [word.lower() for word in _CAMEL.findall(written)]
    meanings = []
    while said:
        pair = ENGLISH_PAIRS.get(tuple(said[:2]))
        meaning = pair or ENGLISH.get(said[0])
        if meaning is None:
            return
        meanings.append(meaning)
        said = said[2 if pair else 1 :]
    found = [""] if meanings else []
    for meaning in meanings:
        found = [head + word for head in found for word in meaning]
    yield from found[:60]


def match_column(name: Name, text: str) -> Match:
    """How a question names a column. The brackets of a header may be said, but need not."""
    if not name.parts:
        return NO_MATCH
    whole = together(max((match(way, text) for way in ways), key=_closeness) for ways in name.parts)
    for extra in name.extras:
        whole = replace(whole, mask=whole.mask | match(extra, text).mask)
    return whole


def _closeness(found: Match) -> tuple[float, int]:
    return found.share, found.said
