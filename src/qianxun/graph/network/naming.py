"""Which entities a question names: the longest names that stand in it, and where none does the ones most like it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from qianxun.graph.network.columns import Names, Numbers, pairs_of
from qianxun.text.chinese import STOP_WORDS, fold

LONGEST: Final = 60  # characters of a name that is looked for
QUESTION: Final = 400  # characters of a question that are looked at
MOST: Final = 24  # entities
HOMONYMS: Final = 12  # entities that one form may mean
BARE: Final = 0.9  # 龙晶 for 龙晶（游戏）
PART: Final = 0.6  # 卡塞尔 for 文森特·卡塞尔
LONE: Final = 0.4  # a name of one character: most such characters are part of a word
WITHIN: Final = 0.25  # a name inside a longer one that stands there
ALIKE: Final = 0.6  # share of a name's pairs of characters that must stand in the question
SHORTEST: Final = 3  # pairs of a name that is looked for so
GUESSED: Final = 0.5  # how sure such a name is, were all its pairs there


_Span: TypeAlias = tuple[int, int, list[int], float]  # start, end, entities, weight


@dataclass(frozen=True, slots=True)
class Match:
    """A question's ``folded[start:end]`` names the entity; ``weight`` in (0, 1] is how surely."""

    entity: int  # row
    start: int
    end: int
    weight: float
    is_within: bool = False  # a longer name stands around it


def named(names: Names, entity_of: Numbers, text: str) -> tuple[Match, ...]:
    """The surest first. Names are taken as they are written; where none is, those most like what is."""
    folded = fold(text[:QUESTION])
    found = list(_standing(names, entity_of, folded)) or list(_alike(names, entity_of, folded))
    best: dict[int, Match] = {}
    for each in sorted(found, key=lambda each: (-each.weight, each.start - each.end, each.start, each.entity)):
        best.setdefault(each.entity, each)
    return tuple(best.values())[:MOST]


def _standing(names: Names, entity_of: Numbers, folded: str) -> Iterator[Match]:
    spans = list(_spans(names, entity_of, folded))
    reaches = {weight: _reach(spans, len(folded), weight) for weight in {weight for *_, weight in spans}}
    for start, end, entities, weight in spans:
        before, here = reaches[weight]
        is_within = before[start] >= end or here[start] > end
        shared = len(entities) ** -0.5
        for entity in entities[:HOMONYMS]:
            yield Match(entity, start, end, weight * shared * (WITHIN if is_within else 1.0), is_within)


def _reach(spans: Sequence[_Span], length: int, weight: float) -> tuple[list[int], list[int]]:
    """By place, how far the names reach that begin before it and those that begin there, of the sure enough ones."""
    here = [0] * length
    for start, end, _, own in spans:
        if own >= weight:
            here[start] = max(here[start], end)
    before, furthest = [], 0
    for end in here:
        before.append(furthest)
        furthest = max(furthest, end)
    return before, here


def _spans(names: Names, entity_of: Numbers, folded: str) -> Iterator[_Span]:
    """Every name that stands there."""
    for start in range(len(folded)):
        for end in range(start + 1, min(len(folded), start + LONGEST) + 1):
            form = folded[start:end]
            if not _can_name(form) or _is_cut(folded, start, end):
                continue
            exact = names.forms.get(form)
            whole = () if exact is None else (exact,)
            kinds: tuple[tuple[Sequence[int], float], ...] = (
                (whole, 1.0 if len(form) > 1 else LONE),
                (names.bare.get(form, ()), BARE),
                (names.parts.get(form, ()), PART),
            )
            for forms, weight in kinds:
                if held := _held(entity_of, forms):
                    yield start, end, held, weight


def _held(entity_of: Numbers, forms: Sequence[int]) -> list[int]:
    """The entities of these forms. Forms may have come after the graph was derived."""
    return sorted({int(entity_of[form]) for form in forms if form < len(entity_of)} - {-1})


def _can_name(form: str) -> bool:
    return form[0].isalnum() and not form[-1].isspace() and form not in STOP_WORDS


def _is_cut(folded: str, start: int, end: int) -> bool:
    """Whether it begins or ends inside a word of letters or a number: 12 does not stand in 2012."""
    return _runs_on(folded[start - 1 : start], folded[start]) or _runs_on(folded[end - 1], folded[end : end + 1])


def _runs_on(left: str, right: str) -> bool:
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


# ── where no name stands as it is written ────────────────────────────────────────────────────────


def _alike(names: Names, entity_of: Numbers, folded: str) -> Iterator[Match]:
    """Names most of whose pairs of neighbouring characters stand in the question: 文森特·卡塞耳."""
    asked = pairs_of(folded)
    if not len(asked):
        return
    pairs = names.pairs()
    stands = np.isin(pairs.codes, asked)
    count = np.bincount(pairs.owners[stands], minlength=len(pairs.lengths))
    share = count / np.maximum(pairs.lengths, 1)
    entity = np.full(len(pairs.lengths), -1, dtype=np.int64)
    entity[: len(entity_of)] = entity_of[: len(entity)]
    # Names of what may not be seen are none here, or they would take the place of others.
    likely = np.flatnonzero((entity >= 0) & (share >= ALIKE) & (pairs.lengths >= SHORTEST))
    for form in likely[np.lexsort((entity[likely], -count[likely], -share[likely]))][:MOST].tolist():
        places = np.flatnonzero(np.isin(asked, pairs_of(names.folded[form])))
        yield Match(int(entity[form]), int(places[0]), int(places[-1]) + 2, GUESSED * float(share[form]))
