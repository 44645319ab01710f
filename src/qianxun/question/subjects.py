"""Questions about several subjects at once: 年假和产假分别有多少天 asks of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from qianxun.text.chinese import Analyser, fold


class Side(NamedTuple):
    """A subject as the question names it, what sets it apart from the others, and the question as it would be asked
    of it alone."""

    name: str
    own: str  # 退休 of 退休职工, beside 在职职工
    question: str


_EACH: Final = re.compile(
    "分别|各自|各(?=[是有为占需要])|比较|对比|相比|区别|差异|差别|异同|[有何]不同|什么不同|共同点|谁.{0,8}更|哪.{0,12}更|更[高低大小多少早晚长短强好快慢贵重轻]"
)
_COMPARING: Final = re.compile(
    "分别|各自|各(?=[是有为占需要])|比较一?下?|对比一?下?|相比|(?:之间)?的?(?:有|有着|存在)?(?:什么|哪些|何)?(?:区别|差异|差别|异同|不同|共同点)|请问?"
    "|谁|哪[家个一所位款种者]|更(?:为|加)?[高低大小多少早晚长短强好快慢贵重轻]"
)
_AND: Final = re.compile("和|与|跟|以及|、|还是")
_ENDS: Final = re.compile(
    "[的了在中对从由把将请是为有谁哪更比要应能何几都被相会需各]|关于|说明|介绍|请问|一下|比较|对比|相比|分别|各自|之间|哪[个家种位一些]|多少|什么|如何"
    "|怎[样么]|需要|应该|可以|各[是有为占需]|区别|差异|差别|不同|异同"
)
_LONGEST_NAME: Final = 24
_MOST: Final = 6


def sides_of(query: str) -> tuple[Side, ...]:
    """What a question asks of each of several subjects; nothing where it does not."""
    folded = fold(query)
    if not _EACH.search(folded):
        return ()
    words = _analyser().segments(folded)
    first = next((at for at, word in enumerate(words) if _AND.fullmatch(word)), 0)
    if not first:
        return ()
    start = _back(words, first)
    names, end = _listed(words, start, first)
    if not 2 <= len(names) <= _MOST or any(not 2 <= len(name) <= _LONGEST_NAME for name in names):
        return ()
    before, after = "".join(words[:start]), "".join(words[end:])
    shared = _shared_end(names)
    found = []
    for name in names:
        own = name[: len(name) - shared]
        question = _COMPARING.sub("，", f"{before}{own}{'，' if shared else ''}{name[len(own) :]}{after}")
        found.append(Side(_as_asked(name, query, folded), own, question))
    return tuple(found)


def _back(words: Sequence[str], at: int) -> int:
    while at > 0 and not _ends_name(words[at - 1]):
        at -= 1
    return at


def _listed(words: Sequence[str], start: int, first: int) -> tuple[list[str], int]:
    """The names from ``start`` on, and where the last of them ends."""
    names = ["".join(words[start:first])]
    at = first
    while at < len(words) and _AND.fullmatch(words[at]):
        begun = at + 1
        at = begun
        while at < len(words) and not _AND.fullmatch(words[at]) and not _ends_name(words[at]):
            at += 1
        names.append("".join(words[begun:at]))
    return [name.strip() for name in names], at


def _shared_end(names: Sequence[str]) -> int:
    """How many characters all names end in alike: a word of its own, and what is before it, too; else 0."""
    count = 0
    while count < min(map(len, names)) and len({name[-count - 1 :] for name in names}) == 1:
        count += 1
    return count if count > 1 and min(map(len, names)) - count > 1 else 0


def _ends_name(word: str) -> bool:
    return (
        bool(_ENDS.fullmatch(word))
        or word[:4].isdigit()
        or not any(mark.isalnum() or mark in " -·（）()" for mark in word)
    )


def _as_asked(name: str, query: str, folded: str) -> str:
    at = folded.find(name)
    return query[at : at + len(name)] if len(query) == len(folded) else name


@cache
def _analyser() -> Analyser:
    return Analyser()
