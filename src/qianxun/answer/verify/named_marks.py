"""Citations in words, as marks: （资料2）, [见资料2] and （见[2]） are [2], and 根据资料2 is 根据资料[2].

The prompt speaks of 资料 with numbers, and many a model cites them so. Without a mark its sentence would rest on
nothing, and the number would be a figure that no source has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final

# Spaces and lists are bounded: what is tried again at every place must not take long in a reply of nothing else.
_TO: Final = r"\s?[-–~～至到]\s?"
_SPAN: Final = rf"\d{{1,3}}(?:{_TO}\d{{1,3}})?"
_LISTED: Final = rf"{_SPAN}(?:\s{{0,2}}[、,，;；和及与]\s{{0,2}}(?:资料|编号)?\s{{0,2}}{_SPAN}){{0,9}}"
_LEAD: Final = r"\s{0,2}(?:(?:来源|出处|依据|参考|参见|引自|见)\s{0,2}[:：]?\s{0,2})?"
_IN_BRACKETS: Final = re.compile(  # （编号2） may be a device's
    rf"(?:(?<!\])[（(]|[\[【]){_LEAD}(?:资料\s?(?:编号)?\s?[=:：#]?|编号\s?=)\s?({_LISTED})\s{{0,2}}[）)\]】]"
    rf"|(?<!\])[（(]{_LEAD}(?:资料)?\s?((?:\[(?:资料)?\s?{_SPAN}(?:\s?[,，、]\s?{_SPAN}){{0,9}}\][\s、,，和]?){{1,9}})"
    r"\s{0,2}[）)]"
    rf"|<\s?资料\s{{0,2}}编号\s?=\s?\"?({_LISTED})\"?\s?/?>"
)
_NO_NAME: Final = (  # 资料3份 is a number of them, 资料3.docx or 《资料3》 a name, 资料1、身份证 a list's beginning
    r"(?!\d|\.[\dA-Za-z]|[A-Za-z》%％]|、(?! ?(?:\d|资料))"
    r"| ?[份个种项类页张套件条次篇本册部卷组批号式寸名位人万千百十年月日])"
)
_SEVERAL_IN_WORDS: Final = re.compile(rf"资料 ?({_SPAN}(?:[、和及与](?:资料)? ?{_SPAN}){{0,9}}){_NO_NAME}")
_IN_WORDS: Final = re.compile(rf"资料 ?(\d{{1,3}}){_NO_NAME}")
_RANGE: Final = re.compile(rf"(\d+)(?:{_TO}(\d+))?")
_UNFINISHED: Final = re.compile(
    r"(?:[（(][^（()）\n]{0,40}|[\[【][^\[\]【】\n]{0,40}|<[^<>\n]{0,20}"
    r"|资(?:料 ?(?:\d{1,3}(?:[-–~～至到、和及与](?:资料?)? ?\d{0,3}){0,10}\.? ?)?)?)\Z"
)


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
    text = _IN_BRACKETS.sub(partial(_mark, given, "", any), before + text)[len(before) :]  # ](…) is a link's
    text = _SEVERAL_IN_WORDS.sub(partial(_mark, given, "资料", all), text)
    return _IN_WORDS.sub(partial(_mark, given, "资料", all), text)


def _mark(given: Collection[int], before: str, enough: Callable[[Iterable[bool]], bool], named: re.Match[str]) -> str:
    spans = _RANGE.findall(named.group(named.lastindex or 0))
    if not enough(int(number) in given for span in spans for number in span if number):
        return named.group()
    return f"{before}[{','.join('-'.join(filter(None, span)) for span in spans)}]"
