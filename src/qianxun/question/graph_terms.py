"""A question as a graph is asked it: its units, which of them tell something, and what a relation has of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from qianxun.text.chinese import STOP_WORDS, Analyser, fold
from qianxun.text.synonyms import Thesaurus, shipped

LONGEST: Final = 400  # characters of a question that are looked at
ASKED_FOR: Final = 0.6  # how sure it is that 多高 asks for a 海拔
OTHER_WORDS: Final = 24  # said in the place of the question's own

_HAN: Final = "\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\U00020000-\\U000323af"  # and kana
# One character of Chinese, or a run of letters and digits.
_UNIT: Final = re.compile(rf"[^\W_{_HAN}]+(?:\.[0-9]+)?|[^\W_]")
_ENDING: Final = re.compile("(?:ations?|ions?|ings?|ors?|ers?|ed|es|s)$")  # directed, director, direction
_STEM: Final = 4  # letters that must be left of a word
_EMPTY: Final = frozenset("的之是为有和与及了在呢吗啊呀吧么嘛")  # carry nothing, in a question or in a relation
# Words by which people lead up to a question. They are no part of what is asked.
_POLITE: Final = re.compile(
    "请问|请教|告诉|知道|想知道|想了解|了解|好奇|有没有人|有人|谁能|能不能|可以|一下|大家|你们?|我们?|那么|到底|究竟|一些|什么样|"
    "什么|怎么样|怎么|怎样|怎|如何|哪些|哪个|哪一|哪|谁|多少|几|是否|是不是|有没有|吗|呢|叫做|叫|来着|具体|分别"
)
# What people ask for → what such a thing is called. Short: relations that share a character are found without it.
_ASKED_FOR: Final[Mapping[str, tuple[str, ...]]] = {
    "谁": ("人物", "人"),
    "哪里": ("地点", "位置", "所在地", "地址"),
    "哪儿": ("地点", "位置", "所在地", "地址"),
    "在哪": ("地点", "位置", "所在地", "地址"),
    "什么时候": ("时间", "日期", "年代"),
    "何时": ("时间", "日期", "年代"),
    "哪年": ("时间", "日期", "年份"),
    "哪一年": ("时间", "日期", "年份"),
    "多高": ("高度", "身高", "海拔"),
    "多大": ("面积", "年龄", "大小", "规模"),
    "多长": ("长度", "片长", "时长"),
    "多远": ("距离", "路程"),
    "多重": ("重量", "体重", "质量"),
    "多久": ("时长", "时间", "期限"),
    "多少钱": ("价格", "费用", "金额", "票价"),
    "多少人": ("人口", "人数"),
    "喜欢": ("爱好", "兴趣"),
    "住在": ("住址", "居住地"),
    "老婆": ("妻子", "配偶"),
    "老公": ("丈夫", "配偶"),
    "干什么": ("职业", "用途", "功能"),
    "做什么": ("职业", "用途", "功能"),
    "who": ("person", "by"),
    "where": ("place", "location", "in"),
    "when": ("date", "year", "time"),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a relation answers to a question: which of its units, and how much of the relation's own words."""

    share: float  # in [0, 1]
    bits: int  # units of the question


NO_FIT: Final = Fit(0.0, 0)


@dataclass(frozen=True, slots=True)
class Question:
    """A question cut into units; sets of units are the bits of a number."""

    folded: str
    units: tuple[str, ...]
    starts: tuple[int, ...]
    telling: int  # the units that carry meaning
    others: tuple[tuple[tuple[str, ...], int, float], ...] = ()  # (other words, the units they stand for, how sure)
    places: Mapping[str, Sequence[int]] = field(default_factory=dict, repr=False)  # where each unit stands
    _fits: dict[str, Fit] = field(default_factory=dict, repr=False)

    def bits(self, start: int, end: int) -> int:
        """The units within these characters."""
        return sum(1 << at for at, place in enumerate(self.starts) if start <= place < end)

    def share(self, bits: int) -> float:
        """How much of what the question says these units say."""
        return (bits & self.telling).bit_count() / max(1, self.telling.bit_count())

    @property
    def sought(self) -> frozenset[str]:
        """The units that a relation must have one of, to have anything to do with the question."""
        own = (unit for at, unit in enumerate(self.units) if self.telling >> at & 1)
        return frozenset((*own, *(unit for other, _, _ in self.others for unit in other)))

    def fit(self, words: str) -> Fit:
        """What the question has of a relation's words; the same words are asked for again and again."""
        held = self._fits.get(words)
        if held is None:
            held = self._fits[words] = self._fit(units_of(words))
        return held

    def _fit(self, own: Sequence[str]) -> Fit:
        best = _common(self, own)
        for other, bits, weight in self.others:
            share = weight * _likeness(other, own)
            if share > best.share:
                best = Fit(share, bits)
        return best


def read_question(text: str, analyser: Analyser, own: Thesaurus | None = None) -> Question:
    """``own`` are the synonyms that the base's user gave."""
    folded = fold(text[:LONGEST])
    found = list(_UNIT.finditer(folded))
    units, starts = tuple(_unit(each.group()) for each in found), tuple(each.start() for each in found)
    bare = Question(folded, units, starts, 0)
    empty = 0
    for each in _POLITE.finditer(folded):
        empty |= bare.bits(*each.span())
    at = 0
    for word in analyser.segments(folded):
        if word in STOP_WORDS:
            empty |= bare.bits(at, at + len(word))
        at += len(word)
    telling = sum(1 << place for place, unit in enumerate(units) if unit not in _EMPTY) & ~empty
    others = tuple(_others(bare, filter(None, (own, shipped()))))[:OTHER_WORDS]
    places: dict[str, list[int]] = {}
    for place, unit in enumerate(units):
        places.setdefault(unit, []).append(place)
    return Question(folded, units, starts, telling or (1 << len(units)) - 1, others, places)


@lru_cache(maxsize=65_536)
def units_of(words: str) -> tuple[str, ...]:
    """A relation's units, without those that carry nothing."""
    return tuple(_unit(unit) for unit in _UNIT.findall(fold(words)) if unit not in _EMPTY)


def _unit(word: str) -> str:
    """A word of letters without its ending."""
    if len(word) <= _STEM or not word.isascii() or not word.isalpha():
        return word
    stem = _ENDING.sub("", word)
    return stem if len(stem) >= _STEM else word


def _others(question: Question, known: Iterable[Thesaurus]) -> Iterator[tuple[tuple[str, ...], int, float]]:
    for asked, words in _ASKED_FOR.items():
        at = question.folded.find(asked)
        if at >= 0:
            yield from ((units_of(word), question.bits(at, at + len(asked)), ASKED_FOR) for word in words)
    for thesaurus in known:
        for at in range(len(question.folded)):
            for word in thesaurus.starting(question.folded, at):
                bits = question.bits(at, at + len(word))
                yield from ((units_of(each.word), bits, each.weight) for each in thesaurus.of(word) if len(word) > 1)


def _likeness(words: Sequence[str], others: Sequence[str]) -> float:
    """The share of the longer one that both have in common; one character of several is not enough."""
    common = len(set(words).intersection(others))
    return common / max(len(words), len(others), 1) if common > 1 or len(others) == 1 else 0.0


def _common(asked: Question, words: Sequence[str]) -> Fit:
    """The longest runs of units that both have, longest first, none twice.

    A lone character that both have says little where the relation has others: 人 of 制片人 in 人口.
    """
    taken = bits = 0
    left = set(range(len(words)))
    held = 0.0
    for length, start, other in sorted(_runs(asked, words), key=lambda run: (-run[0], run[1], run[2])):
        covered = ((1 << length) - 1) << start
        there = range(other, other + length)
        if covered & taken or not covered & asked.telling or not left.issuperset(there):
            continue
        taken |= covered
        left.difference_update(there)
        bits |= covered
        is_lone = length == 1 and len(words) > 1 and len(words[other]) == 1
        held += 0.6 if is_lone else length
    return Fit(min(1.0, held / len(words)), bits) if bits else NO_FIT


def _runs(asked: Question, words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """(length, start in the question, start in the words) of every run that both have and that cannot begin sooner."""
    units = asked.units
    for other, word in enumerate(words):
        for start in asked.places.get(word, ()):
            if start and other and units[start - 1] == words[other - 1]:
                continue
            length = 1
            while units[start + length : start + length + 1] == tuple(words[other + length : other + length + 1]) != ():
                length += 1
            yield length, start, other
