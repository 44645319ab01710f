"""Words that mean the same: 报销 and 报账, 高血压 and 血压高. A shipped list of our own, and groups that users write.

A group is a list of words. Each finds all others; one with ``>`` before it is only found: with ["手机", ">智能手机"]
a query for 手机 finds 智能手机, not the other way round. A group of one word has no synonyms but those of its user:
the shipped list and what the base has learnt are ignored for it.

Written on one line a group is 报销=报账=核销 or 手机>智能手机; groups are separated by ``;`` or line ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.errors import BadInput
from qianxun.text.chinese import LEXICON, fold

Group: TypeAlias = tuple[str, ...]
Origin: TypeAlias = Literal["user", "shipped", "learnt"]

ONLY_FOUND: Final = ">"
GROUPS: Final = 5_000
WORDS: Final = 50  # in a group
ALL_WORDS: Final = 20_000
LONGEST: Final = 64  # characters of a word
SHAPE: Final = '同义词组的列表，如 [["报销", "报账"], ["手机", ">智能手机"]]，写成一行是 报销=报账;手机>智能手机'

_BETWEEN_GROUPS: Final = re.compile(r"[;；\n]")
_BETWEEN_WORDS: Final = re.compile(r"([=＝>＞])")


@dataclass(frozen=True, slots=True)
class Synonym:
    """A word that may stand for another, as its author wrote it."""

    word: str
    weight: float


class Thesaurus:
    """Word → its synonyms. Words are compared folded: 發票 is 发票, ＡＩ is ai."""

    def __init__(self, groups: Iterable[Sequence[str]], *, same: float, kin: float) -> None:
        """``same`` is the weight of the words of a group, ``kin`` that of words that are only found."""
        self._same, self._kin = same, kin
        self._groups: dict[str, list[Group]] = {}
        alone: set[str] = set()
        for group in map(tuple, groups):
            for word in group:
                if not _is_only_found(word):
                    self._groups.setdefault(fold(word), []).append(group)
            if len(group) == 1:
                alone.add(fold(_plain(group[0])))
        self.alone = frozenset(alone)
        self._lengths = _lengths_by_first(self._groups)

    def of(self, word: str) -> tuple[Synonym, ...]:
        """The synonyms of a folded word, in the order of their weight, then as they were written."""
        found: dict[str, Synonym] = {}
        for group in self._groups.get(word, ()):
            for written in group:
                other = _plain(written)
                form, weight = fold(other), self._kin if _is_only_found(written) else self._same
                known = found.get(form)
                if form != word and (known is None or known.weight < weight):
                    found[form] = Synonym(other, weight)
        return tuple(sorted(found.values(), key=lambda other: -other.weight))

    def __contains__(self, word: str) -> bool:
        return word in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def starting(self, folded: str, at: int) -> Iterator[str]:
        """The words of this thesaurus that stand in a folded text at this place, longest first."""
        for length in self._lengths.get(folded[at], ()):
            word = folded[at : at + length]
            if len(word) == length and word in self._groups:
                yield word


def _lengths_by_first(words: Iterable[str]) -> dict[str, tuple[int, ...]]:
    lengths: dict[str, set[int]] = {}
    for word in words:
        lengths.setdefault(word[0], set()).add(len(word))
    return {first: tuple(sorted(known, reverse=True)) for first, known in lengths.items()}


NO_SYNONYMS: Final = Thesaurus((), same=0.0, kin=0.0)


# ── sources ──────────────────────────────────────────────────────────────────────────────────


def user_thesaurus(groups: Iterable[Sequence[str]]) -> Thesaurus:
    """The groups of a base's configuration."""
    return Thesaurus(groups, same=0.95, kin=0.8)


@cache
def shipped() -> Thesaurus:
    """The list that comes with the package, read when first needed."""
    return Thesaurus(shipped_groups(), same=0.9, kin=0.75)


def shipped_groups() -> list[Group]:
    lines = (LEXICON / "synonyms.txt").read_text(encoding="utf-8").splitlines()
    return [_group(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]


# ── as users write them ─────────────────────────────────────────────────────────────────────────


def read_groups(text: str) -> list[list[str]]:
    """Groups written as 报销=报账;手机>智能手机. Nothing is checked but what `groups_of` does."""
    return [list(_group(part)) for part in _BETWEEN_GROUPS.split(text) if part.strip()]


def write_groups(groups: Iterable[Sequence[str]]) -> str:
    """The same as `read_groups` takes it. What is only found comes last."""
    return ";".join(
        "=".join(sorted(group, key=_is_only_found)).replace(f"={ONLY_FOUND}", ONLY_FOUND) for group in groups
    )


def _group(line: str) -> Group:
    """The words of a line. From the first ``>`` on they are only found."""
    words: list[str] = []
    sign = ""
    for at, part in enumerate(_BETWEEN_WORDS.split(line)):
        if at % 2:
            sign = ONLY_FOUND if sign == ONLY_FOUND or part in ">＞" else ""
        else:
            words.append(sign + part.strip())
    return tuple(words)


def _is_only_found(word: str) -> bool:
    return word.startswith(ONLY_FOUND)


def _plain(word: str) -> str:
    return word.removeprefix(ONLY_FOUND)


def groups_of(value: Any) -> list[list[str]]:
    """What a user gives as synonyms, each word once and without spaces around it. Raises BadInput."""
    if not _is_list(value) or not all(_is_list(group) for group in value):
        raise BadInput(f"synonyms 的值 {str(value)[:80]!r} 不对", hint=f"应为{SHAPE}")
    groups = [_checked(group) for group in value]
    total = sum(map(len, groups))
    if len(groups) > GROUPS or total > ALL_WORDS:
        raise BadInput(
            f"同义词有 {len(groups)} 组 {total} 个词，上限是 {GROUPS} 组 {ALL_WORDS} 个词", hint="删去不用的组"
        )
    return list(map(list, dict.fromkeys(map(tuple, groups))))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _checked(group: Sequence[Any]) -> list[str]:
    words: dict[str, str] = {}
    for word in group:
        text = _word(word)
        words.setdefault(fold(_plain(text)), text)
    if not words or len(words) > WORDS or all(map(_is_only_found, words.values())):
        shown = str(list(group))[:80]
        raise BadInput(
            f"同义词组 {shown} 不对",
            hint=f"每组 1–{WORDS} 个词，至少一个前面没有“>”；只有一个词的组表示它没有同义词",
        )
    return list(words.values())


def _word(word: Any) -> str:
    text = word.strip() if isinstance(word, str) else ""
    only_found = ONLY_FOUND if text[:1] in (ONLY_FOUND, "＞") else ""
    text = text[len(only_found) :].strip()
    if not text or len(text) > LONGEST or not text.isprintable() or not fold(text).strip():
        raise BadInput(f"同义词 {str(word)[:80]!r} 不对", hint=f"每个词 1–{LONGEST} 个可见字符")
    if _BETWEEN_WORDS.search(text) or _BETWEEN_GROUPS.search(text):
        raise BadInput(f"同义词 {text!r} 里有分隔用的符号", hint=f"应为{SHAPE}")
    return only_found + text
