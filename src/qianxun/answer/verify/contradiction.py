"""Whether a sentence says the opposite of what it cites: allowed for forbidden, none for some, less for more, one for
the other.

`contradicted` compares each clause of a sentence with those clauses of its sources that say nearly the same, word for
word. Where the nearest of them is the opposite, and none as near agrees, the sentence contradicts its source. What
shares few words with its source is not judged: words of the opposite kind are no proof there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from qianxun.text.chinese import fold, grams

NEAR: Final = 0.75  # of the pairs of characters of a clause are in the source's clause or the one before it
NEAR_ITSELF: Final = 0.5  # … and as many in the clause itself
NEAR_BACK: Final = 0.65  # … and of the source's clause in this one: a condition left out makes another statement
AS_NEAR: Final = 0.15
FEWEST: Final = 4  # pairs that make a clause one that can be compared
SOURCE_CHARACTERS: Final = 200_000  # of all that a sentence cites; what is beyond is not compared

_CLAUSE: Final = re.compile(r"[^，,；;。！？!?：:\n|]+")
_SENTENCE: Final = re.compile(r"[^。！？!?；;\n]+")
_INTERROGATIVE: Final = re.compile("吗|呢|么|是否|能否|可否|能不能|可不可以|是不是|有没有|会不会|要不要|请问")
_TWO_WAY: Final = re.compile("[和与及或同跟、]|之间|互相|相互|彼此|^(?:就?是|即|为|等于|叫)$")


@dataclass(frozen=True, slots=True)
class Stance:
    """What a clause says of its matter: whether it denies or forbids it, and its side in each pair of opposites."""

    is_negative: bool
    sides: frozenset[tuple[int, int]]  # (pair, side)

    def opposes(self, other: Stance) -> bool:
        mine, others = dict(self.sides), dict(other.sides)
        turned = any(others.get(pair, side) != side for pair, side in mine.items())
        return turned != (self.is_negative != other.is_negative)


@dataclass(frozen=True, slots=True)
class Clause:
    text: str
    pairs: frozenset[str]  # of characters, without the words that make the stance
    stance: Stance


@dataclass(frozen=True, slots=True)
class InContext:
    clause: Clause
    pairs: frozenset[str]  # with those of the clause before it in its sentence


@dataclass(frozen=True, slots=True)
class _Lexicon:
    idle: re.Pattern[str]
    negation: re.Pattern[str]
    turning: re.Pattern[str]  # modal words that deny
    modal: re.Pattern[str]
    sides: dict[str, tuple[int, int]]
    opposites: re.Pattern[str]
    yes: frozenset[str]
    no: frozenset[str]


def contradicted(sentence: str, sources: Sequence[str], query: str = "") -> str:
    """The clause of a source that says the opposite of the sentence; "" where there is none.

    A sentence that is nothing but yes or no is read as the answer to ``query``.
    """
    known = [placed for text in sources for placed in _in_order(text[:SOURCE_CHARACTERS])]
    for claim in _claims(sentence, query):
        if opposite := _opposite(claim, known):
            return opposite
    return ""


def _claims(sentence: str, query: str) -> Iterator[InContext]:
    claims = list(_in_order(sentence))
    if len(claims) == 1 and query:
        verdict, lexicon = claims[0].clause.text.strip(), _lexicon()
        if verdict in lexicon.yes or verdict in lexicon.no:
            matter = _clause(_INTERROGATIVE.sub("", fold(query)))
            stance = Stance(verdict in lexicon.no, matter.stance.sides)
            return iter([InContext(Clause(matter.text, matter.pairs, stance), matter.pairs)])
    return iter(claims)


def _in_order(text: str) -> Iterator[InContext]:
    for sentence in _SENTENCE.findall(fold(text)):
        before: frozenset[str] = frozenset()
        for part in _CLAUSE.findall(sentence):
            clause = _clause(part)
            yield InContext(clause, clause.pairs | before)
            before = clause.pairs


def _opposite(claim: InContext, known: Sequence[InContext]) -> str:
    """A clause of few words is compared together with the one before it, and then all of its words must be there."""
    own = claim.clause.pairs
    is_short = len(own) < FEWEST
    compared = claim.pairs if is_short else own
    if not own or len(compared) < FEWEST:
        return ""
    against, best_against, best_for = "", 0.0, 0.0
    for source in known:
        clause = source.clause
        shared = len(own & clause.pairs)
        near = len(compared & source.pairs) / len(compared)
        if _swapped(claim.clause.text, clause.text):
            near, is_opposite = 1.0, True
        elif near < NEAR - AS_NEAR or shared < (1.0 if is_short else NEAR_ITSELF) * len(own):
            continue
        else:
            is_opposite = claim.clause.stance.opposes(clause.stance) and shared >= NEAR_BACK * len(clause.pairs)
            if not is_opposite and claim.clause.stance.opposes(clause.stance):
                continue  # of something more particular: neither for nor against
        if not is_opposite:
            best_for = max(best_for, near)
        elif near >= NEAR and near > best_against:
            against, best_against = clause.text.strip(), near
    return against if best_against and best_for < best_against - AS_NEAR else ""


# ── reading a clause ─────────────────────────────────────────────────────────────────────────────


def _clause(text: str) -> Clause:
    lexicon = _lexicon()
    rest = lexicon.idle.sub(lambda found: "·" * len(found.group()), text)  # as long as it was: places stay the same
    content = list(text)

    def taken(pattern: re.Pattern[str]) -> list[str]:
        nonlocal rest
        found = [(match.start(), match.end(), match.group()) for match in pattern.finditer(rest)]
        for start, end, word in found:
            rest = rest[:start] + "·" * len(word) + rest[end:]
            content[start:end] = " " * (end - start)
        return [word for _, _, word in found]

    sides = frozenset(lexicon.sides[word] for word in taken(lexicon.opposites))
    turns = len(taken(lexicon.turning))
    taken(lexicon.modal)
    turns += len(taken(lexicon.negation))
    both = {pair for pair, side in sides if (pair, 1 - side) in sides}  # 早饭前和晚饭后: neither is what it says
    stance = Stance(turns % 2 == 1, frozenset(side for side in sides if side[0] not in both))
    return Clause(text, frozenset(gram for gram in grams("".join(content)) if len(gram) > 1), stance)


@cache
def _lexicon() -> _Lexicon:
    read = tomllib.loads((Path(__file__).parent / "opposites.toml").read_text(encoding="utf-8"))
    modality = read["modality"]
    sides = {
        word: (number, side)
        for number, line in enumerate(filter(None, read["opposites"]["pairs"].splitlines()))
        for side, words in enumerate(line.split("/"))
        for word in words.split()
    }
    return _Lexicon(
        idle=_any_of(f"{read['negation']['idle']} {modality['idle']}"),
        negation=_any_of(read["negation"]["words"]),
        turning=_any_of(f"{modality['forbid']} {modality['exempt']}"),
        modal=_any_of(f"{modality['oblige']} {modality['permit']}"),
        sides=sides,
        opposites=_any_of(" ".join(sides)),
        yes=frozenset(read["answers"]["yes"].split()),
        no=frozenset(read["answers"]["no"].split()),
    )


def _any_of(words: str) -> re.Pattern[str]:
    """Longest first: 不得不 before 不得."""
    return re.compile("|".join(sorted(map(re.escape, set(words.split())), key=len, reverse=True)))


# ── the one for the other ────────────────────────────────────────────────────────────────────────


def _swapped(claim: str, source: str) -> bool:
    """甲公司收购乙公司 for 乙公司收购甲公司: two parts have changed places around what is between them."""
    one, other = claim.strip(), source.strip()
    if one == other or len(one) != len(other) or sorted(one) != sorted(other):
        return False
    start = next(at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)
    end = next(at for at, (left, right) in enumerate(zip(one[::-1], other[::-1], strict=True)) if left != right)
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    for size in range(1, len(one) - 1):
        first = one[:size]
        if not other.endswith(first):
            continue
        for last in range(1, len(one) - size):
            second, between = one[-last:], one[size:-last]
            if other == second + between + first:
                return not _TWO_WAY.search(between)
    return False
