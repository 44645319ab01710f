"""Citations as the makers of models taught them to cite pages, as marks: [^2^], [citation:2], <sup>2</sup> are [2].

The prompt asks for [2]; a model may write **[2]**, （来源2） or ² all the same. Without a mark a sentence rests on
nothing, and the number is a figure that no source has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

_LABEL: Final = (
    r"(?:资料|来源|文献|引用|参考|出处|文档|片段|网页|source|ref(?:erence)?|citation|cite|doc(?:ument)?|webpage)"
)
_NAMED: Final = rf"{_LABEL}[\s_]{{0,2}}(?:编号)?\s?[=#:：]?\s?"
_LISTED: Final = rf"\d{{1,3}}(?:\s{{0,2}}[、,，;；和及与]\s{{0,2}}(?:{_NAMED})?\d{{1,3}})*"
# Spaces and rows of marks are bounded: what is tried at every place must not take long in a reply of nothing else.
_MARK: Final = r"\[\d{1,3}(?:,\d{1,3})*\]"
_MARKS: Final = rf"(?:{_MARK}\s{{0,2}}){{1,20}}"
_RAISED: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_TAG: Final = "(?:sup|ref|cite)"
_ENDS: Final = r"(?=[\s，。；、,.;：:！？!?)）|]|\Z)"

_IN_BRACKETS: Final = re.compile(
    rf"\\?[\[【［〔]\s{{0,2}}\^?\s{{0,2}}(?:{_NAMED})?({_LISTED})\s{{0,2}}(?:†[^\[\]【】\n]{{0,40}})?\^?\s{{0,2}}\\?[\]】］〕]",
    re.IGNORECASE,
)
_IN_PARENTHESES: Final = re.compile(rf"(?<!\])[（(]\s{{0,2}}{_NAMED}({_LISTED})\s{{0,2}}[）)]", re.IGNORECASE)
_POWER: Final = (  # 体重÷身高²: taken for a citation, it would be lost, and the formula another
    rf"(?<=[\u4e00-\u9fff\u0370-\u03ff)）])(?:[²³](?!\s?[,，、˒]\s?[{_RAISED}]|[{_RAISED}])|<sup>\s?[23]\s?</|\$\^\{{?[23]\}}?\$)"
)
_ABOVE: Final = re.compile(  # 10⁶, m² and 米² are no citations
    rf"(?<![0-9A-Za-z米{_RAISED}])(?!{_POWER})(?:<{_TAG}>\s{{0,2}}({_LISTED})\s{{0,2}}</{_TAG}>"
    rf"|\$\^\{{?\[?({_LISTED})\]?\}}?\$|\^({_LISTED})\^"
    rf"|([{_RAISED}]{{1,3}}(?:\s?[,，、˒]\s?[{_RAISED}]{{1,3}}){{0,9}})(?![{_RAISED}]))"
)
_SET_OFF: Final = re.compile(
    rf"(?<![*`^])(\*\*|[*`^])\s{{0,2}}({_MARKS})\1{_ENDS}|<{_TAG}>\s{{0,2}}({_MARKS})</{_TAG}>|\[\s{{0,2}}({_MARKS})\]"
)
_JOINED: Final = re.compile(rf"{_MARKS}(?:[、,，;；和与及]\s{{0,2}}{_MARKS}){{1,20}}{_ENDS}")
_SPOKEN_OF: Final = re.compile(rf"(?<=根据|依据|按照|参照|参见|详见|参考|结合)\s{{0,2}}(?={_MARKS})")
_NUMBER: Final = re.compile(r"\d+")

_CLOSED: Final = (
    rf"(?:\\?[\[【［〔][^\[\]【】［］〔〕\n]{{0,60}}[\]】］〕]|<{_TAG}>[^<\n]{{0,20}}</{_TAG}>|[{_RAISED}]{{1,4}}"
    r"|\$\^[^$\n]{0,20}\$|\^[\d,]{1,9}\^)"
    r"[\s、,，;；和与及*`^\]\\˒]*"
)
_OPEN: Final = (
    r"(?:[（(][^（()）\n]{0,60}|\\?[\[【［〔]{1,2}[^\[\]【】［］〔〕\n]{0,60}"
    rf"|<{_TAG}>[^<\n]{{0,20}}(?:<[^<>\n]{{0,6}})?|<[a-z]{{0,4}}|\$(?:\^[^$\n]{{0,20}})?|\^[\d,]{{0,9}}|\\)"
)
_UNFINISHED: Final = re.compile(rf"(?:[*`^]{{1,2}}\s*|\[)?(?:{_CLOSED}){{0,20}}(?:{_OPEN})?\Z")
_REMEMBERED: Final = 2  # characters that were told

_Change: TypeAlias = Callable[[re.Match[str]], str]


def model_marks(pieces: Iterator[str], given: Collection[int]) -> Iterator[str]:
    """The reply as it comes, where what names passages that were ``given`` has become marks.

    Holds back no more than may still turn out to be such a name.
    """
    held = before = ""
    for piece in pieces:
        held += piece
        unfinished = _UNFINISHED.search(held)
        end = len(held) if unfinished is None else unfinished.start()
        if end:
            told = _marked(held[:end], before, given)
            held, before = held[end:], (before + told)[-_REMEMBERED:]
            yield told
    if held:
        yield _marked(held, before, given)


def _marked(text: str, before: str, given: Collection[int]) -> str:
    changes: Sequence[tuple[re.Pattern[str], _Change]] = (
        (_IN_BRACKETS, partial(_mark, given)),
        (_IN_PARENTHESES, partial(_mark, given)),
        (_ABOVE, partial(_lowered, given)),
        (_SET_OFF, lambda found: (found[2] or found[3] or found[4]).strip()),
        (_JOINED, lambda found: f"[{','.join(_NUMBER.findall(found.group()))}]"),
        (_SPOKEN_OF, lambda _: "资料"),
    )
    text = before + text  # ](…) is a link's
    for pattern, change in changes:
        text = pattern.sub(partial(_unless_told, len(before), change), text)
    return text[len(before) :]


def _unless_told(told: int, change: _Change, found: re.Match[str]) -> str:
    """What begins among the characters that were told stays as it is."""
    return found.group() if found.start() < told else change(found)


def _mark(given: Collection[int], named: re.Match[str]) -> str:
    numbers = _NUMBER.findall(named[1])
    if not any(int(each) in given for each in numbers):
        return named.group()
    return f"[{','.join(numbers)}]"


def _lowered(given: Collection[int], raised: re.Match[str]) -> str:
    """¹² is twelve where that was given, else one and two."""
    numbers: list[int] = []
    for run in re.findall(rf"\d+|[{_RAISED}]+", raised[raised.lastindex or 0]):
        told = [_RAISED.find(mark) if mark in _RAISED else int(mark) for mark in run]
        whole = int("".join(map(str, told)))
        numbers += [whole] if whole in given else told
    if not all(each in given for each in numbers):
        return raised.group()
    return f"[{','.join(map(str, numbers))}]"
