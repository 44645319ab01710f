"""Which entities a question names: the longest names that stand in it, and where none does the ones most like it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.chinese import STOP_WORDS, fold
from qianxun.graph.columns import Names, Numbers

LONGEST: Final = 60  # characters of a name that is looked for
QUESTION: Final = 2_000  # characters of a question that are looked at
MOST: Final = 24  # entities
HOMONYMS: Final = 12  # entities that one form may mean
BARE: Final = 0.9  # 龙晶 for 龙晶（游戏）
PART: Final = 0.6  # 卡塞尔 for 文森特·卡塞尔
LONE: Final = 0.4  # a name of one character: most such characters are part of a word
WITHIN: Final = 0.25  # a name inside a longer one that stands there
ALIKE: Final = 0.5  # share of a name's pairs of characters that must stand in the question


@dataclass(frozen=True, slots=True)
class Match:
    """A question's ``folded[start:end]`` names the entity; ``weight`` in (0, 1] is how surely."""

    entity: int  # row
    start: int
    end: int
    weight: float
    is_within: bool = False  # a longer name stands around it


def named(names: Names, entity_of: Numbers, text: str) -> tuple[Match, ...]:
    folded = fold(text[:QUESTION])
    found = list(_standing(names, entity_of, folded))
    best: dict[int, Match] = {}
    for each in sorted(found, key=lambda each: (-each.weight, each.start - each.end, each.start, each.entity)):
        best.setdefault(each.entity, each)
    return tuple(best.values())[:MOST]


def _standing(names: Names, entity_of: Numbers, folded: str) -> Iterator[Match]:
    spans = list(_spans(names, entity_of, folded))
    for start, end, entities, weight in spans:
        is_within = any(
            low <= start and end <= high and (low, high) != (start, end) and other >= weight
            for low, high, _, other in spans
        )
        shared = len(entities) ** -0.5
        for entity in entities[:HOMONYMS]:
            yield Match(entity, start, end, weight * shared * (WITHIN if is_within else 1.0), is_within)


def _spans(names: Names, entity_of: Numbers, folded: str) -> Iterator[tuple[int, int, list[int], float]]:
    """(start, end, entities, weight) of every name that stands there."""
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
