"""Questions for a relation: between two named things (甲和乙是什么关系), or to one of them (甲的妹妹是谁)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from qianxun.question.words import joined
from qianxun.text.matching import Span

_MARK: Final = "\ue000"  # in the place of a name
_QUOTES: Final = frozenset("《》〈〉“”「」『』\"'")


@cache
def _patterns() -> tuple[list[re.Pattern[str]], list[re.Pattern[str]], list[re.Pattern[str]]]:
    """Of a pair of names, of what is related to a name, of what a name is related to."""
    what, who, end = (joined(f"relation.{name}") for name in ("what", "who", "end"))
    word = f"(?P<word>[^的是{_MARK}]{{1,8}}?)"
    pairs = (
        f"{_MARK}(?:和|与|跟|同|、|及|以及){_MARK}(?:[他她它]们)?(?:两人|二人|两个人|俩|之间)?(?:到底|究竟)?"
        f"(?:的|是|有|存在|算)*{what}?(?:亲属|血缘|亲戚|人物)?关系(?:是?{what}|如何)?",
        f"{_MARK}(?:到底|究竟)?(?:是|算){_MARK}的?(?:{who}|{what}(?:亲戚|关系)?)",
    )
    along = (
        f"{_MARK}的{word}(?:到底|究竟)?(?:是|叫|为){who}",
        f"{_MARK}的{word}(?:叫|名叫)什么(?:名字)?",
        f"{who}是{_MARK}的{word}",
    )
    against = (f"{_MARK}(?:到底|究竟)?是{who}的{word}", f"{who}的{word}是{_MARK}")
    compiled = [[re.compile(pattern + end) for pattern in group] for group in (pairs, along, against)]
    return compiled[0], compiled[1], compiled[2]


def is_relation_query(folded: str, names: Sequence[Span]) -> bool:
    """Returns True if a question asks how the two things at these places are related."""
    marked, _ = _marked(folded, names)
    return any(pattern.fullmatch(marked) for pattern in _patterns()[0])


def relation_words(folded: str, name: Span) -> Iterator[tuple[Span, bool]]:
    """The words that may name a relation to the thing at a place, and whether it is its own: 甲的妹妹, not 谁的妹妹."""
    marked, places = _marked(folded, (name,))
    for patterns, is_own in zip(_patterns()[1:], (True, False), strict=True):
        for found in filter(None, (pattern.fullmatch(marked) for pattern in patterns)):
            yield (places[found.start("word")], places[found.end("word") - 1] + 1), is_own


def _marked(folded: str, names: Sequence[Span]) -> tuple[str, list[int]]:
    """The question with a mark for a name, without quotation marks, and where its characters were."""
    ends = dict(names)
    marked, places, at = [], [], 0
    while at < len(folded):
        if folded[at] not in _QUOTES:
            marked.append(_MARK if at in ends else folded[at])
            places.append(at)
        at = ends.get(at, at + 1)
    return "".join(marked), places
