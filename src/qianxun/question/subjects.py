"""Questions about several subjects at once: 年假和产假分别有多少天 asks the same of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from qianxun.question.words import cue
from qianxun.text.chinese import fold, plain_analyser

_LONGEST_NAME: Final = 24
_MOST: Final = 6


class Subject(NamedTuple):
    """A subject as the question names it, what sets it apart from the others, and the question about it alone."""

    name: str
    own: str  # 退休 of 退休职工, beside 在职职工
    question: str


def subjects(text: str) -> tuple[Subject, ...]:
    """The subjects of which a question asks the same; none where it asks of one."""
    folded = fold(text)
    if not cue("comparison.sides").search(folded):
        return ()
    words = plain_analyser().segments(folded)
    first = next((at for at, word in enumerate(words) if _joins(word)), 0)
    if not first:
        return ()
    start = first
    while start > 0 and not _ends_name(words[start - 1]):
        start -= 1
    names, end = _names(words, start, first)
    if len(names) == 2 and (own_end := _before_attribute(words, start, first, end)) < end:
        names, end = [names[0], "".join(words[first + 1 : own_end]).strip()], own_end
    if not 2 <= len(names) <= _MOST or any(not 2 <= len(name) <= _LONGEST_NAME for name in names):
        return ()
    before, after = "".join(words[:start]), "".join(words[end:])
    shared = _shared_end(names)
    found = []
    for name in names:
        own = name[: len(name) - shared]
        alone = f"{before}{own}{'，' if shared else ''}{name[len(own) :]}{after}"
        found.append(Subject(_as_written(name, text, folded), own, cue("comparison.taken_out").sub("，", alone)))
    return tuple(found)


def _names(words: Sequence[str], start: int, first: int) -> tuple[list[str], int]:
    """The names from ``start`` on, and where the last of them ends."""
    names = ["".join(words[start:first])]
    at = first
    while at < len(words) and _joins(words[at]):
        begin = at = at + 1
        while at < len(words) and not _joins(words[at]) and not _ends_name(words[at]):
            at += 1
        names.append("".join(words[begin:at]))
    return [name.strip() for name in names], at


def _before_attribute(words: Sequence[str], start: int, first: int, end: int) -> int:
    """Where the second of two names ends, without what is asked of both: 研究生 of 本科生和研究生借书期限."""
    own_end = first + 1 + first - start
    is_attribute = own_end < end and cue("comparison.attribute").search("".join(words[own_end:end])) is not None
    return own_end if is_attribute else end


def _shared_end(names: Sequence[str]) -> int:
    """How many characters all names end in alike: a word of its own, and what is before it, too; else 0."""
    count = 0
    while count < min(map(len, names)) and len({name[-count - 1 :] for name in names}) == 1:
        count += 1
    return count if count > 1 and min(map(len, names)) - count > 1 else 0


def _joins(word: str) -> bool:
    return cue("comparison.joins").fullmatch(word) is not None


def _ends_name(word: str) -> bool:
    is_end = cue("comparison.name_ends").fullmatch(word) is not None or word[:4].isdigit()
    return is_end or not any(mark.isalnum() or mark in " -·（）()" for mark in word)


def _as_written(name: str, text: str, folded: str) -> str:
    at = folded.find(name)
    return text[at : at + len(name)] if len(text) == len(folded) else name
