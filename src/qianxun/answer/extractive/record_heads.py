"""Whom a record is about: what stands in its head (姓名：…, the number of a case) holds for all of its sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from qianxun.answer.extractive.passage_lines import folded_text
from qianxun.core.answer_types import Passage
from qianxun.core.system.cache import cached_texts
from qianxun.question.words import joined
from qianxun.text.chinese import fold

HEAD: Final = 600  # characters of a document
_NAME: Final = r"([\u4e00-\u9fff·]{2,4})(?=[,，、;；。(（\s]|$)"
_SUBJECT: Final = re.compile(rf"(?:{joined('subject.of_record')})\s{{0,9}}[:：]\s{{0,9}}{_NAME}")
_PERSON: Final = re.compile(rf"(?:{joined('subject.role')})\s{{0,9}}[:：]?\s{{0,9}}{_NAME}")
# （2022）某0105民初2371号, HT-2024-009, 2311070356; not a year, an amount or a date.
_IDENTIFIER: Final = re.compile(
    r"\(\d{4}\)[\u4e00-\u9fff]{1,3}\d{0,9}[\u4e00-\u9fff]{1,4}\d{1,9}号|(?<![a-z\d-])[a-z]{1,12}(?:-[a-z\d]{1,12}){0,4}-\d[a-z\d-]{2,40}|(?<![\d.])\d{6,40}(?![\d.万亿元%])"
)
_BRACKETS: Final = str.maketrans("（）〔〕[]", "()()()")


def record_subjects(question: str, passages: Sequence[Passage]) -> Mapping[str, tuple[str, ...]]:
    """By document's id, what in its head is in the question too: the person of a record, an identifier. A document
    whose head names several such persons is about none of them alone."""
    folded = fold(question).translate(_BRACKETS)
    codes = _IDENTIFIER.findall(folded)
    found: dict[str, tuple[str, ...]] = {}
    for passage in passages:
        if passage.start > HEAD or passage.end <= passage.start:
            continue
        head = folded_text(passage.text[: HEAD - passage.start])
        people = _subjects(head)
        own = [*(people if len(people) == 1 else ()), *(code for code in codes if code in head.translate(_BRACKETS))]
        named = tuple(name for name in own if name in folded)
        if named:
            found[passage.doc_id] = named
    return found


def people(question: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """The people of a question whom the passages introduce by their part (被告人某某，…): names that no dictionary has
    are words all the same."""
    folded = fold(question)
    names = {name for passage in passages for name in _introduced(passage.text) if name in folded}
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


@cached_texts(2_048, longest=4_000)
def _introduced(text: str) -> frozenset[str]:
    """The names before which a text says who somebody is."""
    return frozenset(_PERSON.findall(folded_text(text)))


@cached_texts(2_048)
def _subjects(head: str) -> frozenset[str]:
    return frozenset(_SUBJECT.findall(head))
