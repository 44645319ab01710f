"""Entity linking: the longest names that occur in a question, and if there is none the most similar ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from qianxun.graph.network.columns import Names, Numbers, bigrams_of
from qianxun.text.chinese import STOP_WORDS, cuts_run, fold

LONGEST_NAME: Final = 60  # characters
LONGEST_QUESTION: Final = 400  # characters
MOST: Final = 24  # entities
HOMONYMS: Final = 12  # entities that one form may mean
SIMILARITY: Final = 0.6  # share of a name's bigrams that must occur in the question
FEWEST_BIGRAMS: Final = 3  # of a name that is matched by similarity

# How certain a match is
BARE: Final = 0.9  # 龙晶 for 龙晶（游戏）
PART: Final = 0.6  # 卡塞尔 for 文森特·卡塞尔
SINGLE_CHARACTER: Final = 0.4  # most such characters are part of a word
NESTED: Final = 0.25  # a name inside a longer one
SIMILAR: Final = 0.5  # with all of its bigrams

_Span: TypeAlias = tuple[int, int, list[int], float]  # start, end, entities, weight


@dataclass(frozen=True, slots=True)
class Match:
    """The question's ``folded[start:end]`` names the entity; ``weight`` in (0, 1] is how certain that is."""

    entity: int  # row
    start: int
    end: int
    weight: float
    is_nested: bool = False  # inside a longer name


def link_entities(names: Names, entity_of: Numbers, text: str) -> tuple[Match, ...]:
    """The entities that a text names, most certain first: by exact names, without any by similar ones."""
    folded = fold(text[:LONGEST_QUESTION])
    found = list(_exact(names, entity_of, folded)) or list(_similar(names, entity_of, folded))
    best: dict[int, Match] = {}
    for match in sorted(found, key=lambda match: (-match.weight, match.start - match.end, match.start, match.entity)):
        best.setdefault(match.entity, match)
    return tuple(best.values())[:MOST]


def _exact(names: Names, entity_of: Numbers, folded: str) -> Iterator[Match]:
    spans = list(_spans(names, entity_of, folded))
    reaches = {weight: _reach(spans, len(folded), weight) for weight in {weight for *_, weight in spans}}
    for start, end, entities, weight in spans:
        before, here = reaches[weight]
        is_nested = before[start] >= end or here[start] > end
        shared = len(entities) ** -0.5
        for entity in entities[:HOMONYMS]:
            yield Match(entity, start, end, weight * shared * (NESTED if is_nested else 1.0), is_nested)


def _reach(spans: Sequence[_Span], length: int, weight: float) -> tuple[list[int], list[int]]:
    """By position, the furthest end of names that begin before it and at it, of those at least as certain."""
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
    """Every occurrence of a name."""
    for start in range(len(folded)):
        for end in range(start + 1, min(len(folded), start + LONGEST_NAME) + 1):
            form = folded[start:end]
            exact = names.forms.get(form)
            if exact is None and form not in names.bare and form not in names.parts:
                continue
            if not _can_name(form) or cuts_run(folded, start, end):
                continue
            kinds: tuple[tuple[Sequence[int], float], ...] = (
                (() if exact is None else (exact,), 1.0 if len(form) > 1 else SINGLE_CHARACTER),
                (names.bare.get(form, ()), BARE),
                (names.parts.get(form, ()), PART),
            )
            for forms, weight in kinds:
                # Forms may have been added after the graph was derived.
                entities = {int(entity_of[number]) for number in forms if number < len(entity_of)} - {-1}
                if entities:
                    yield start, end, sorted(entities), weight


def _can_name(form: str) -> bool:
    return form[0].isalnum() and not form[-1].isspace() and form not in STOP_WORDS


def _similar(names: Names, entity_of: Numbers, folded: str) -> Iterator[Match]:
    """Names most of whose bigrams occur in the question: 文森特·卡塞耳."""
    query = bigrams_of(folded)
    if not len(query):
        return
    bigrams = names.bigrams()
    occurs = np.isin(bigrams.codes, query)
    count = np.bincount(bigrams.owners[occurs], minlength=len(bigrams.lengths))
    share = count / np.maximum(bigrams.lengths, 1)
    entity = np.full(len(bigrams.lengths), -1, dtype=np.int64)
    entity[: len(entity_of)] = entity_of[: len(entity)]
    # Hidden names are excluded here, or they would take the place of others.
    likely = np.flatnonzero((entity >= 0) & (share >= SIMILARITY) & (bigrams.lengths >= FEWEST_BIGRAMS))
    for form in likely[np.lexsort((entity[likely], -count[likely], -share[likely]))][:MOST].tolist():
        positions = np.flatnonzero(np.isin(query, bigrams_of(names.folded[form])))
        yield Match(int(entity[form]), int(positions[0]), int(positions[-1]) + 2, SIMILAR * float(share[form]))
