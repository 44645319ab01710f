"""Several questions in one: 年假有几天？电脑丢了多久内要报告？ asks two things, and each has its own answer."""

from __future__ import annotations

import re
from typing import Final

from qianxun.question.evidence_query import evidence_query
from qianxun.question.words import joined

_MOST: Final = 4
_SHORTEST: Final = 4  # characters of a part
_LONGEST: Final = 60  # characters of a question that is parted at its commas
_STOPS: Final = re.compile(r"[?？；;。!！\n]+")
_ASKS: Final = re.compile(f"(?!几乎)(?:{joined('small_talk.asks_what')}|何时|是否|能否|[吗么]$|能不能|可不可以|还是)")
_PRONOUN: Final = re.compile("[他她它](?![们人])")
_COMMAS: Final = re.compile(r"[，,]+|[、 ]?(?:另外|还有就是|还有|顺便问一下)[，, ]?")


def parts(text: str) -> tuple[str, ...]:
    """The questions of a text, each complete by itself; none where it is one question."""
    found = [part for part in map(str.strip, _STOPS.split(text)) if part]
    if len(found) == 1 and len(text) <= _LONGEST:
        found = [part for part in map(str.strip, _COMMAS.split(found[0])) if part]
    if not 2 <= len(found) <= _MOST or not all(_asks(part) for part in found):
        return ()
    if not all(evidence_query(part).terms for part in found[1:]):  # 谁的更高，各是多少 asks one thing
        return ()
    return (found[0], *(_completed(part, found[0]) for part in found[1:]))


def _asks(part: str) -> bool:
    return len(part) >= _SHORTEST and _ASKS.search(part) is not None


def _completed(part: str, first: str) -> str:
    """A part without a subject of its own is about that of the first: 屋顶漏水谁来修，几天修好; so is 他."""
    if (pronoun := _PRONOUN.search(part)) and (named := sorted(evidence_query(first).proper, key=first.find)):
        return part[: pronoun.start()] + named[0] + part[pronoun.end() :]
    if any(term.share == 1.0 for term in evidence_query(part).terms):
        return part
    topic = first[: found.start()] if (found := _ASKS.search(first)) else ""
    return f"{topic.rstrip('的是由要在')}{part}" if topic.strip() else part
