"""Citations in whatever form a model writes them, as marks; and tokens of its template, taken out.

The prompt asks for [2]; a model may write [^2^], [citation:2], <sup>2</sup>, **[2]**, （来源2）, ² (`model_marks`), or
in words （资料2）, [见资料2], 根据资料2 (`named_marks`). Without a mark a sentence rests on nothing, and the number is
a figure that no source has. A reply is read in pieces; no more is held back than may still turn out to be such a form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

_Change: TypeAlias = Callable[[re.Match[str]], str]


def _rewritten(
    pieces: Iterable[str],
    unfinished: re.Pattern[str],
    change: Callable[[str, str], str],
    *,
    context: int = 0,
    is_raw: bool = False,
) -> Iterator[str]:
    """The pieces with ``change(text, before)`` made of whatever nothing that follows can alter. ``before`` are the last
    ``context`` characters before it: as they are now, or (``is_raw``) as they came."""
    pending = before = ""
    for piece in pieces:
        pending += piece
        open_end = unfinished.search(pending)
        end = len(pending) if open_end is None else open_end.start()
        if end:
            text = change(pending[:end], before)
            before = (before + (pending[:end] if is_raw else text))[-context:] if context else ""
            pending = pending[end:]
            if text:
                yield text
    if pending:
        yield change(pending, before)


# ── template tokens ──────────────────────────────────────────────────────────────────────────────

_TOKEN: Final = re.compile(r"<([|｜])[A-Za-z][A-Za-z0-9_▁ ]{0,40}\1>")
_UNFINISHED_TOKEN: Final = re.compile(r"<(?:[|｜][A-Za-z0-9_▁ ]{0,41}[|｜]?)?\Z")


def without_special_tokens(pieces: Iterator[str], sources: str = "") -> Iterator[str]:
    """The reply without tokens of the model's template that a service let through (<|im_end|>, <|begin_of_box|>), but
    for those that ``sources``, the question and its passages, mention."""

    def change(text: str, _: str) -> str:
        return _TOKEN.sub(lambda token: token.group() if token.group() in sources else "", text)

    return _rewritten(pieces, _UNFINISHED_TOKEN, change)


# ── marks of other forms ─────────────────────────────────────────────────────────────────────────

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
_SUPERSCRIPT: Final = re.compile(  # 10⁶, m² and 米² are no citations
    rf"(?<![0-9A-Za-z米{_RAISED}])(?!{_POWER})(?:<{_TAG}>\s{{0,2}}({_LISTED})\s{{0,2}}</{_TAG}>"
    rf"|\$\^\{{?\[?({_LISTED})\]?\}}?\$|\^({_LISTED})\^"
    rf"|([{_RAISED}]{{1,3}}(?:\s?[,，、˒]\s?[{_RAISED}]{{1,3}}){{0,9}})(?![{_RAISED}]))"
)
_SET_OFF: Final = re.compile(
    rf"(?<![*`^])(\*\*|[*`^])\s{{0,2}}({_MARKS})\1{_ENDS}|<{_TAG}>\s{{0,2}}({_MARKS})</{_TAG}>|\[\s{{0,2}}({_MARKS})\]"
)
_JOINED: Final = re.compile(rf"{_MARKS}(?:[、,，;；和与及]\s{{0,2}}{_MARKS}){{1,20}}{_ENDS}")
_AFTER_SOURCE_WORD: Final = re.compile(rf"(?<=根据|依据|按照|参照|参见|详见|参考|结合)\s{{0,2}}(?={_MARKS})")
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
_UNFINISHED_MARK: Final = re.compile(rf"(?:[*`^]{{1,2}}\s*|\[)?(?:{_CLOSED}){{0,20}}(?:{_OPEN})?\Z")


def model_marks(pieces: Iterator[str], given: Collection[int]) -> Iterator[str]:
    """The reply, where what cites ``given`` passages in the forms that models were taught has become marks."""
    return _rewritten(pieces, _UNFINISHED_MARK, partial(_with_marks, given), context=2)


def _with_marks(given: Collection[int], text: str, before: str) -> str:
    changes: tuple[tuple[re.Pattern[str], _Change], ...] = (
        (_IN_BRACKETS, partial(_mark, given)),
        (_IN_PARENTHESES, partial(_mark, given)),
        (_SUPERSCRIPT, partial(_lowered, given)),
        (_SET_OFF, lambda found: (found[2] or found[3] or found[4]).strip()),
        (_JOINED, lambda found: f"[{','.join(_NUMBER.findall(found.group()))}]"),
        (_AFTER_SOURCE_WORD, lambda _: "资料"),
    )
    text = before + text  # ](…) is a link's
    for pattern, change in changes:
        text = pattern.sub(partial(_unless_before, len(before), change), text)
    return text[len(before) :]


def _unless_before(start: int, change: _Change, found: re.Match[str]) -> str:
    return found.group() if found.start() < start else change(found)


def _mark(given: Collection[int], named: re.Match[str]) -> str:
    numbers = _NUMBER.findall(named[1])
    return f"[{','.join(numbers)}]" if any(int(number) in given for number in numbers) else named.group()


def _lowered(given: Collection[int], raised: re.Match[str]) -> str:
    """¹² is twelve where that was given, else one and two."""
    numbers: list[int] = []
    for run in re.findall(rf"\d+|[{_RAISED}]+", raised[raised.lastindex or 0]):
        digits = [_RAISED.find(mark) if mark in _RAISED else int(mark) for mark in run]
        whole = int("".join(map(str, digits)))
        numbers += [whole] if whole in given else digits
    return f"[{','.join(map(str, numbers))}]" if all(number in given for number in numbers) else raised.group()


# ── marks in words ───────────────────────────────────────────────────────────────────────────────

_TO: Final = r"\s?[-–~～至到]\s?"
_SPAN: Final = rf"\d{{1,3}}(?:{_TO}\d{{1,3}})?"
_SPANS: Final = rf"{_SPAN}(?:\s{{0,2}}[、,，;；和及与]\s{{0,2}}(?:资料|编号)?\s{{0,2}}{_SPAN}){{0,9}}"
_LEAD: Final = r"\s{0,2}(?:(?:来源|出处|依据|参考|参见|引自|见)\s{0,2}[:：]?\s{0,2})?"
_BRACKETED: Final = re.compile(  # （编号2） may be a device's
    rf"(?:(?<!\])[（(]|[\[【]){_LEAD}(?:资料\s?(?:编号)?\s?[=:：#]?|编号\s?=)\s?({_SPANS})\s{{0,2}}[）)\]】]"
    rf"|(?<!\])[（(]{_LEAD}(?:资料)?\s?((?:\[(?:资料)?\s?{_SPAN}(?:\s?[,，、]\s?{_SPAN}){{0,9}}\][\s、,，和]?){{1,9}})"
    r"\s{0,2}[）)]"
    rf"|<\s?资料\s{{0,2}}编号\s?=\s?\"?({_SPANS})\"?\s?/?>"
)
_NO_NAME: Final = (  # 资料3份 is a number of them, 资料3.docx or 《资料3》 a name, 资料1、身份证 a list's beginning
    r"(?!\d|\.[\dA-Za-z]|[A-Za-z》%％]|、(?! ?(?:\d|资料))"
    r"| ?[份个种项类页张套件条次篇本册部卷组批号式寸名位人万千百十年月日])"
)
_SEVERAL_IN_WORDS: Final = re.compile(rf"资料 ?({_SPAN}(?:[、和及与](?:资料)? ?{_SPAN}){{0,9}}){_NO_NAME}")
_IN_WORDS: Final = re.compile(rf"资料 ?(\d{{1,3}}){_NO_NAME}")
_RANGE: Final = re.compile(rf"(\d+)(?:{_TO}(\d+))?")
_UNFINISHED_NAME: Final = re.compile(
    r"(?:[（(][^（()）\n]{0,40}|[\[【][^\[\]【】\n]{0,40}|<[^<>\n]{0,20}"
    r"|资(?:料 ?(?:\d{1,3}(?:[-–~～至到、和及与](?:资料?)? ?\d{0,3}){0,10}\.? ?)?)?)\Z"
)


def named_marks(pieces: Iterator[str], given: Collection[int]) -> Iterator[str]:
    """The reply, where what names ``given`` passages by 资料 and a number has become marks."""
    return _rewritten(pieces, _UNFINISHED_NAME, partial(_with_named_marks, given), context=1, is_raw=True)


def _with_named_marks(given: Collection[int], text: str, before: str) -> str:
    text = _BRACKETED.sub(partial(_named_mark, given, "", any), before + text)[len(before) :]  # ](…) is a link's
    text = _SEVERAL_IN_WORDS.sub(partial(_named_mark, given, "资料", all), text)
    return _IN_WORDS.sub(partial(_named_mark, given, "资料", all), text)


def _named_mark(
    given: Collection[int], lead: str, enough: Callable[[Iterable[bool]], bool], named: re.Match[str]
) -> str:
    spans = _RANGE.findall(named.group(named.lastindex or 0))
    if not enough(int(number) in given for span in spans for number in span if number):
        return named.group()
    return f"{lead}[{','.join('-'.join(filter(None, span)) for span in spans)}]"
