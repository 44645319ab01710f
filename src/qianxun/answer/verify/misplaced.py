"""Figures that a source has for something else: 股东权益为3000万元, where that is the total of the debts.

A figure is misplaced if another of its kind fits better. What speaks for a place of the source are the words that the
sentence has around its figure and that place alone has: those of the same item count most, then those of the clause,
then those before it in its sentence. What both places have decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.verify.other_names import names_in
from qianxun.text.chinese import grams
from qianxun.text.figures import (
    Clock,
    Code,
    Day,
    Figure,
    Number,
    Placed,
    Share,
    amount,
    measured,
    placed,
    prepared,
    same_amount,
)

NEAR: Final = 1.1  # … of them in the same clause as the figure
SHORT: Final = 4  # words of a sentence of which each must speak for the other place
SURELY: Final = 3.0  # words that only the other place has, in pairs of characters
AGAINST: Final = 0.34  # … and so much of it at most may speak for the figure itself
ITEM, CLAUSE, SENTENCE = 1.5, 0.8, 0.4  # what a word counts by where it is
NAME, FIGURE = 2.5, 3.0  # pairs that a name and another figure count for
FEWEST: Final = 3  # pairs of characters that tell a clause from others
REACH: Final = 8  # clauses after a date
REACH_BACK: Final = 12  # characters of an item
MOST_TOGETHER: Final = 24  # clauses, and figures, of one sentence: a longer one is read in parts, or it takes seconds
LONGEST: Final = 20_000  # characters that are read for names
_CLAUSE: Final = re.compile(r"[^，,；;。！？!?\n]+|[，,；;。！？!?\n]")
_MARKS: Final = re.compile(r"[，,；;。！？!?\n、]")
_SENTENCE_END: Final = re.compile(r"[。！？!?；;\n]")
FIELD: Final = re.compile(r"[ \t\u3000](?=[^\s：:，,。；;\d]{2,10}[：:])")  # 姓名：郝建平 性别：男
_POINTS: Final = "百分点"


@dataclass(frozen=True)
class Occurrence:
    """A figure, and the words around it, each with what it counts by how near it is."""

    figure: Figure
    clause: frozenset[str]  # pairs of characters
    words: Mapping[str, float]
    clause_number: int


@dataclass(frozen=True, slots=True)
class _Clause:
    words: frozenset[str]
    hits: tuple[Placed, ...]
    sentence: int


def occurrences(text: str) -> list[Occurrence]:
    folded = FIELD.sub("\n", prepared(text))
    found = placed(folded)
    bare = _without(folded, found)
    names = names_in(folded[:LONGEST])
    clauses = list(_clauses(bare, found, names))
    items = _items(clauses, bare, names)
    beside: dict[int, list[Figure]] = {}
    for clause in clauses:
        beside.setdefault(clause.sentence, []).extend(hit.figure for hit in clause.hits)
    return [
        Occurrence(
            hit.figure, _pairs(clause.words), _around(at, hit, clauses, items[hit.start], beside[clause.sentence]), at
        )
        for at, clause in enumerate(clauses)
        for hit in clause.hits
    ]


def _clauses(bare: str, found: Sequence[Placed], names: frozenset[str]) -> Iterator[_Clause]:
    sentence = at = together = 0
    for match in _CLAUSE.finditer(bare):
        if _SENTENCE_END.match(match.group()):
            sentence, together = sentence + 1, 0
        elif match.group() not in ("，", ","):
            hits = []
            while at < len(found) and found[at].start < match.end():
                hits.append(found[at])
                at += 1
            for first in range(0, max(len(hits), 1), MOST_TOGETHER):
                part = hits[first : first + MOST_TOGETHER]
                start = part[0].start if first else match.start()
                end = part[-1].end if len(hits) > first + MOST_TOGETHER else match.end()
                together += max(len(part), 1)
                if together > MOST_TOGETHER:
                    sentence, together = sentence + 1, max(len(part), 1)
                yield _Clause(_words(bare[start:end], names), tuple(part), sentence)


def _around(
    at: int, hit: Placed, clauses: Sequence[_Clause], item: frozenset[str], beside: Sequence[Figure]
) -> dict[str, float]:
    """What is said of a figure: its item, its clause, its sentence, and what happened on a date until the next one."""
    clause = clauses[at]
    found = dict.fromkeys(item, ITEM)
    for word in clause.words:
        found.setdefault(word, CLAUSE)
    is_short = len(_pairs(clause.words)) < FEWEST
    has_name = any(word[0] == "@" for word in clause.words)
    for number in _neighbours(at, clauses, isinstance(hit.figure, Day)):
        other = clauses[number]
        level = SENTENCE if other.sentence == clause.sentence else SENTENCE / 2
        is_beside = is_short and abs(number - at) == 1 and other.sentence == clause.sentence
        if is_beside and (number < at or not _has_kind(other, hit.figure)):
            level = CLAUSE
        elif _has_kind(other, hit.figure):  # what is said there is said of another figure
            level = SENTENCE / 2 if number < at else 0.0
        for word in other.words:
            is_subject = word[0] == "@" and not has_name and number < at
            found.setdefault(word, CLAUSE if is_subject else level)
        has_name = has_name or any(word[0] == "@" for word in other.words)
    companions = (one for one in beside if not _is_kind(one, hit.figure))
    return found | {word: CLAUSE for figure in companions for word in words_of(figure)}


def _neighbours(at: int, clauses: Sequence[_Clause], is_day: bool) -> Iterator[int]:
    """The other clauses of the sentence; after a date, those before the next date as well."""
    first = at
    while first > 0 and clauses[first - 1].sentence == clauses[at].sentence:
        first -= 1
        yield first
    for after in range(at + 1, min(at + REACH, len(clauses))):
        is_same = clauses[after].sentence == clauses[at].sentence
        is_next = is_day and any(isinstance(one.figure, Day) for one in clauses[after].hits)
        if is_next or not (is_same or is_day):
            return
        yield after


def _items(clauses: Sequence[_Clause], bare: str, names: frozenset[str]) -> dict[int, frozenset[str]]:
    """尹某117000元、殷某20000元: what is right before each figure, by where that figure begins. Where that is nothing
    (2150元、1980元; ，即252000元), it is of what is before the figure before it."""
    found: dict[int, frozenset[str]] = {}
    before: _Clause | None = None
    for clause in clauses:
        is_continued = before is not None and before.sentence == clause.sentence and bool(before.hits)
        is_continued = is_continued and len(_pairs(clause.words)) < FEWEST
        item = found[before.hits[0].start] if before is not None and is_continued else frozenset[str]()
        last = 0
        for hit in clause.hits:
            words = _words(_MARKS.split(bare[max(last, hit.start - REACH_BACK) : hit.start])[-1], names)
            item = found[hit.start] = words or item
            last = hit.end
        before = clause
    return found


def _has_kind(clause: _Clause, figure: Figure) -> bool:
    return any(_is_kind(figure, one.figure) for one in clause.hits)


def _is_kind(one: Figure, other: Figure) -> bool:
    if isinstance(one, Number) and isinstance(other, Number):
        return _may_compare(one, other) or same_amount(one, other)
    return is_rival(one, other) or is_same(one, other)


def _words(text: str, names: frozenset[str]) -> frozenset[str]:
    named = {name for name in names if name in text}
    found = {gram for gram in grams(text) if len(gram) > 1 and not any(gram in name for name in named)}
    return frozenset(found | {f"@{name}" for name in named})


def words_of(figure: Figure) -> Iterator[str]:
    if isinstance(figure, Day):
        yield from (f"#{part}{value}" for part, value in zip("ymd", _parts(figure), strict=True) if value is not None)
    elif isinstance(figure, Number):
        yield from (f"#{measured(figure.unit)}{amount(value, figure.unit).normalize()}" for value in figure.values)
    elif isinstance(figure, Share):
        yield from (f"#%{value.normalize()}" for value in figure.values)
    elif isinstance(figure, Code):
        yield f"#{figure.plain}"


def _pairs(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if word[0] not in "@#")


def _without(text: str, found: Sequence[Placed]) -> str:
    parts, last = [], 0
    for hit in found:
        parts += [text[last : hit.start], " " * (hit.end - hit.start)]
        last = hit.end
    return "".join((*parts, text[last:]))


# ── whose it is ──────────────────────────────────────────────────────────────────────────────────


def misplaced(sentence: str, source: Sequence[Occurrence], query: str = "", names: str = "") -> Iterator[Figure]:
    """The figures of a sentence that its source has for something else. An answer of a few words is read with its
    ``query``; ``names`` of the document do not distinguish its places."""
    common = {gram for gram in grams(names) if len(gram) > 1}
    stated = occurrences(sentence)
    for one in stated:
        if isinstance(one.figure, Code) or (isinstance(one.figure, Number) and one.figure.is_count):
            continue
        own = [place for place in source if is_same(one.figure, place.figure)]
        beside = [other.figure for other in stated if other.clause_number == one.clause_number]
        rivals = [
            place
            for place in source
            if is_rival(one.figure, place.figure) and not any(is_same(other, place.figure) for other in beside)
        ]
        if not own or not rivals or any(not place.words for place in own):  # a date below a judgment is of all of it
            continue
        words = {word: level for word, level in one.words.items() if word not in common}
        if sum(level >= CLAUSE and word[0] != "#" for word, level in words.items()) < FEWEST - 1:
            words = {gram: CLAUSE for gram in grams(query) if len(gram) > 1}
        if is_of_another(replace(one, words=words), own, rivals):
            yield one.figure


def is_of_another(one: Occurrence, own: Sequence[Occurrence], rivals: Sequence[Occurrence]) -> bool:
    """Returns True if a rival fits what a sentence says of its figure better than every place of that figure."""
    return any(all(_is_better(one.words, rival.words, place.words) for place in own) for rival in rivals)


def _is_better(words: Mapping[str, float], rival: Mapping[str, float], own: Mapping[str, float]) -> bool:
    against = near = for_it = 0.0
    beside = [(rival.get(word, 0.0) > 0) - (own.get(word, 0.0) > 0) for word in words if word[0] == "#"]
    if sum(beside) < 0:
        return False  # 一等奖每人5000元，不超过5%: what else it states is beside this figure in the source
    for word, level in words.items():
        worth = level * (NAME if word[0] == "@" else FIGURE if word[0] == "#" else 1.0)
        lead = rival.get(word, 0.0) - own.get(word, 0.0)
        if lead > 0:
            against += lead * worth
            near += lead * worth if level >= CLAUSE and word[0] != "#" else 0.0
        else:
            for_it -= lead * worth
    if len(words) <= SHORT and for_it == 0.0 and near >= NEAR:  # a row of a table: 急诊，比例85%
        return True
    return against >= SURELY and near >= NEAR and for_it <= AGAINST * against


def is_same(one: Figure, other: Figure) -> bool:
    if isinstance(one, Day) and isinstance(other, Day):
        return all(a is None or b is None or a == b for a, b in zip(_parts(one), _parts(other), strict=True))
    if isinstance(one, Clock) and isinstance(other, Clock):
        return not set(one.minutes).isdisjoint(other.minutes)
    if isinstance(one, Number) and isinstance(other, Number):
        return same_amount(one, other)
    if isinstance(one, Share | Number) and isinstance(other, Share | Number):
        return bool(set(one.values) & set(other.values))
    return False


def is_rival(one: Figure, other: Figure) -> bool:
    """Of one kind, and different."""
    if (isinstance(one, Day) and isinstance(other, Day)) or (isinstance(one, Clock) and isinstance(other, Clock)):
        return not is_same(one, other)
    if isinstance(one, Number) and isinstance(other, Number):
        return _may_compare(one, other) and not same_amount(one, other)
    is_kind = (_POINTS in one.written) == (_POINTS in other.written)  # a change is no share
    return isinstance(one, Share) and isinstance(other, Share) and is_kind and not is_same(one, other)


def _may_compare(one: Number, other: Number) -> bool:
    """每月 is no time of 10个月."""
    return measured(one.unit) == measured(other.unit) and one.written.startswith("每") == other.written.startswith("每")


def _parts(day: Day) -> tuple[int | None, int | None, int | None]:
    return day.year, day.month, day.day
