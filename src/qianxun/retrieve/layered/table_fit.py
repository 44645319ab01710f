"""How well a table fits a question by what it is called: its title, its headers and labels, its type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from qianxun.core.types import Column
from qianxun.text.chinese import fold, places, stands_in
from qianxun.text.table_types import TableType, type_of, types_asked

TITLE: Final = 0.40
HEADERS: Final = 0.35
TYPE: Final = 0.25
WORDS_IN: Final = {"title": 0.4, "headers": 0.3, "content": 0.3}  # of the keyword layer

_LONGEST_LABEL: Final = 20  # characters of a cell that may be the name of something


@dataclass(frozen=True, slots=True)
class Question:
    """A question as tables are asked about it. ``words`` are its telling words with how much each of them tells."""

    folded: str
    words: Mapping[str, float]
    telling: frozenset[int]  # places of the characters that say something
    types: frozenset[TableType]


@dataclass(frozen=True, slots=True)
class Names:
    """What a table is called, folded. ``labels`` are the short cells of the rows at hand."""

    title: str
    headers: tuple[str, ...]
    labels: tuple[str, ...]
    type: TableType | None


@dataclass(frozen=True, slots=True)
class Structure:
    """How each part of a table's structure fits, in [0, 1]; None for a part that there is not."""

    score: float
    title: float | None
    headers: float | None
    type: float | None


def ask(text: str, words: Mapping[str, float]) -> Question:
    folded = fold(text)
    telling = frozenset(at for word in words for at in _said(word, folded))
    return Question(folded, words, telling, types_asked(text))


@lru_cache(maxsize=4096)
def names_of(title: str, columns: tuple[Column, ...], text: str) -> Names:
    """``text`` is that of a chunk of the table, whose rows are lines with bars between their cells.

    Kept, because the same tables are candidates again and again.
    """
    headers = (part for column in columns for part in (column.path or (column.name,)))
    cells = (cell.strip() for line in fold(text).split("\n") if "|" in line for cell in line.split("|"))
    return Names(
        title=fold(title),
        headers=tuple(dict.fromkeys(filter(None, (fold(header).strip() for header in headers)))),
        labels=tuple(dict.fromkeys(cell for cell in cells if 1 < len(cell) <= _LONGEST_LABEL)),
        type=type_of(title, columns),
    )


def structure(question: Question, names: Names, common: float = 0.0) -> Structure:
    """Title .40, headers (and labels) .35, type .25, renormalised over what the table has.

    A type counts where the question speaks of one, and the less the more ``common`` it is: the share of the tables at
    hand that have it. Among balance sheets it tells nothing that a table is one.
    """
    title = title_fit(question, names.title) if names.title else None
    headers = names_fit(question, (*names.headers, *names.labels)) if names.headers or names.labels else None
    kind = (1.0 - common if names.type in question.types else 0.0) if names.type and question.types else None
    parts = [(TITLE, title), (HEADERS, headers), (TYPE, kind)]
    held = [(weight, score) for weight, score in parts if score is not None]
    total = math.fsum(weight for weight, _ in held)
    score = math.fsum(weight * score for weight, score in held) / total if held else 0.0
    return Structure(score, title, headers, kind)


def title_fit(question: Question, title: str) -> float:
    """How much of the title the question says, and of the question the title: their harmonic mean.

    By pairs of characters, because a title is seldom said as it stands: 铁路运输旅客 is asked for as 铁路旅客.
    """
    of_question = _shared(question.folded, title) & question.telling
    letters = {at for at, character in enumerate(title) if character.isalnum()}
    if not of_question or not letters:
        return 0.0
    said = len(_shared(title, question.folded) & letters) / len(letters)
    explained = len(of_question) / len(question.telling)
    return 2.0 * said * explained / (said + explained)


def _shared(text: str, other: str) -> set[int]:
    """The places of the characters whose pairs stand in both texts."""
    begins = [at for at in range(len(text) - 1) if text[at : at + 2] in other]
    return {place for at in begins for place in (at, at + 1)}


def names_fit(question: Question, names: Iterable[str]) -> float:
    """Half the share of the question's characters that the names say, half the share of its words that stand in them.

    Characters, because names are often cut otherwise than the question's words: 年度销售占比 in 2023年度销售占比最高.
    Words, because a long name is seldom said in full.
    """
    names = [name for name in names if name]
    told = [name for name in names if len(name) > 1 and name in question.folded]
    said = {at for name in told for at in _said(name, question.folded)}
    characters = len(said & question.telling) / len(question.telling) if question.telling else 0.0
    joined = "\n".join(names)
    total = math.fsum(question.words.values())
    held = math.fsum(weight for word, weight in question.words.items() if stands_in(word, joined))
    return 0.5 * characters + 0.5 * (held / total if total > 0.0 else 0.0)


def keyword_match(words: Sequence[str], names: Names, text: str) -> float:
    """The share of the keywords in title (.4), headers (.3) and content (.3), over the parts there are."""
    if not words:
        return 0.0
    folded = fold(text)
    parts = {"title": names.title, "headers": "\n".join(names.headers), "content": folded}
    held = {part: WORDS_IN[part] for part, said in parts.items() if said}
    shares = {part: sum(stands_in(word, parts[part]) for word in words) / len(words) for part in held}
    return math.fsum(held[part] * shares[part] for part in held) / math.fsum(held.values())


def _said(name: str, folded: str) -> Iterator[int]:
    """The places of the characters with which a text says a name."""
    return (at + offset for at in places(name, folded) for offset in range(len(name)))
