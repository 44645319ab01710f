"""What one of two parallel clauses says of the other's matter: 出境出差由部门负责人审批, where the source has
市外出差由部门负责人审批；出境出差由院长审批.

No list of words is needed: two neighbouring clauses of a source that differ in two places alone tell which words belong
together. A sentence that has the first of one and the second of the other, and neither of the rest, has exchanged them.
Figures are left to `misplaced`, which knows how they are rounded and worked out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import permutations
from typing import Final, TypeAlias

from qianxun.answer.verify.table_rows import without_tables
from qianxun.core.system.cache import cached_texts
from qianxun.text.chinese import fold, plain_analyser
from qianxun.text.figures import placed, prepared

FRAME: Final = 0.3  # of the words of the longer clause are in both
REACH: Final = 3  # clauses behind one that may be parallel to it
LONGEST: Final = 30  # words of a clause
MOST_CLAUSES: Final = 24  # of a sentence
TOGETHER: Final = 3  # … that are read as one as well
SOURCE_CHARACTERS: Final = 20_000
_CLAUSE: Final = re.compile(r"[^，,；;。！？!?\n]+")
_LINE: Final = re.compile(r"[^；;。！？!?\n]+")
_WORD: Final = re.compile(r"\w")
_FIGURE: Final = "#"
_LINKS: Final = frozenset(
    [*"的了在是和与及或也都就而但被把将对于为从到由其该此这那个一有应可至任等后前时中上下并则以按每", "可以", "应当"]
)  # words between those that say what it is about

Words: TypeAlias = tuple[str, ...]


def exchanged(sentence: str, sources: Sequence[str]) -> str:
    """The two clauses of a source of which a clause of the sentence has mixed up the parts; "" where there are none."""
    claims = [set(_words(part)) for part in _claims(fold(sentence))]
    for text in sources:
        clauses, lines = _clauses(fold(without_tables(text[:SOURCE_CHARACTERS])))
        for units in (clauses, lines):
            for one, other in _neighbours(units):
                if any(_mixes(claim, one, other, (*clauses, *lines)) for claim in claims if _meets(claim, one, other)):
                    return f"{''.join(one)}；{''.join(other)}"
    return ""


def _claims(sentence: str) -> Iterator[str]:
    """Each clause, and the whole where it is of a few: 仓储期间损坏的，由承运人赔偿."""
    parts = _CLAUSE.findall(sentence)
    yield from parts[:MOST_CLAUSES]
    if 1 < len(parts) <= TOGETHER:
        yield sentence


def _neighbours(units: Sequence[Words]) -> Iterator[tuple[Words, Words]]:
    for at, one in enumerate(units):
        yield from ((one, other) for other in units[at + 1 : at + 1 + REACH])


def _meets(claim: set[str], one: Words, other: Words) -> bool:
    """Returns True if a claim has words that only the one, and words that only the other clause has."""
    return not claim.isdisjoint(set(one).difference(other)) and not claim.isdisjoint(set(other).difference(one))


def _mixes(claim: set[str], one: Words, other: Words, known: Sequence[Words]) -> bool:
    gaps = _gaps(one, other)
    if len(gaps) != 2 or any(word.startswith(_FIGURE) for gap in gaps for side in gap for word in side):
        return False
    for first, second in permutations(gaps):
        own, rest = {*first[0], *second[1]}, {*first[1], *second[0]}
        is_mixed = claim.issuperset(own) and not any(word in written for word in rest - own for written in claim)
        if is_mixed and rest - own and not any(_has_both(clause, own, one, other) for clause in known):
            return True
    return False


def _has_both(clause: Words, own: set[str], one: Words, other: Words) -> bool:
    """Returns True if another clause has both parts together; not one that is made of these two."""
    written = "".join(clause)  # 可由车队长 may be cut otherwise than 由车队长
    return all(word in written for word in own) and not {*one, *other}.issubset(clause)


def _gaps(one: Words, other: Words) -> list[tuple[Words, Words]]:
    """Where two clauses differ; nothing where they have too little in common."""
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    if sum(block.size for block in blocks) < max(1.0, FRAME * max(len(one), len(other))):
        return []
    found: list[tuple[Words, Words]] = []
    left = right = 0
    for block in blocks:
        gap = _content(one[left : block.a]), _content(other[right : block.b])
        if all(gap):
            found.append(gap)
        left, right = block.a + block.size, block.b + block.size
    return found


def _content(words: Words) -> Words:
    return tuple(word for word in words if word not in _LINKS)


@cached_texts(32)
def _clauses(text: str) -> tuple[tuple[Words, ...], tuple[Words, ...]]:
    """The words of each clause, and of each line or sentence of several clauses."""
    clauses = tuple(filter(None, map(_words, _CLAUSE.findall(text))))
    lines = tuple(filter(None, map(_words, _LINE.findall(text))))
    return _short(clauses), _short(tuple(line for line in lines if line not in clauses))


def _short(units: Sequence[Words]) -> tuple[Words, ...]:
    return tuple(words for words in units if len(words) <= LONGEST)


@cached_texts(1_024)
def _words(text: str) -> Words:
    """Each figure is one."""
    ready, at = prepared(text), 0
    found: list[str] = []
    for hit in placed(ready):
        found += [*_plain(ready[at : hit.start]), f"{_FIGURE}{hit.figure.written}"]
        at = hit.end
    return (*found, *_plain(ready[at:]))


def _plain(text: str) -> list[str]:
    return [word for word, _ in plain_analyser().tagged(text) if _WORD.search(word)]
