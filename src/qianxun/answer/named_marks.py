"""Citations in words, as marks: （资料2） and （见[2]） are [2], and 根据资料2 is 根据资料[2].

The prompt speaks of 资料 with numbers, and many a model cites them so. Without a mark its sentence would rest on
nothing, and the number would be a figure that no source has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

_LISTED: Final = r"\d{1,3}(?:\s*[、,，;；和及与]\s*(?:资料|编号)?\s*\d{1,3})*"
_LEAD: Final = r"(?:(?:来源|出处|依据|参考|参见|引自|见)\s*[:：]?\s*)?"
_IN_BRACKETS: Final = re.compile(
    rf"(?<!\])[（(]\s*{_LEAD}(?:(?:资料|编号)\s*[=:：#]?\s*({_LISTED})"
    r"|(?:资料)?\s*((?:\[(?:资料)?\s*\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\][\s、,，和]*)+))\s*[）)]"
    rf"|<\s*资料\s*编号\s*=\s*\"?({_LISTED})\"?\s*/?>"
)
_IN_WORDS: Final = re.compile(  # 资料3份 is a number of them, and 资料3.docx or 《资料3》 a name
    r"资料 ?(\d{1,3})(?!\d|\.[\dA-Za-z]|[》%％份个种项类页张套件条次篇本册部卷组批号万千百十年月日])"
)
_NUMBER: Final = re.compile(r"\d+")
_UNFINISHED: Final = re.compile(r"(?:[（(][^（()）\n]{0,40}|<[^<>\n]{0,20}|资料? ?(?:\d{1,3}\.?)?)\Z")


def named_marks(pieces: Iterator[str], given: Collection[int]) -> Iterator[str]:
    """The reply as it comes, where what names passages that were ``given`` has become marks.

    Holds back no more than may still turn out to be such a name.
    """
    held = before = ""  # what is held back, and the character before it
    for piece in pieces:
        held += piece
        unfinished = _UNFINISHED.search(held)
        end = len(held) if unfinished is None else unfinished.start()
        if end:
            yield _marked(held[:end], before, given)
            held, before = held[end:], held[end - 1]
    if held:
        yield _marked(held, before, given)


def _marked(text: str, before: str, given: Collection[int]) -> str:
    text = _IN_BRACKETS.sub(partial(_mark, given, ""), before + text)[len(before) :]  # ](…) is a link's
    return _IN_WORDS.sub(partial(_mark, given, "资料"), text)


def _mark(given: Collection[int], before: str, named: re.Match[str]) -> str:
    numbers = _NUMBER.findall(named.group(named.lastindex or 0))
    if not any(int(each) in given for each in numbers):
        return named.group()
    return f"{before}[{','.join(numbers)}]"
