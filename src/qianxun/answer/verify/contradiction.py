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
NEAR_BACK: Final = 0.6  # … and of the source's clause in this one: a condition left out makes another statement
CONTAINED: Final = 0.9  # of a source's clause in this one, which says of whom and when besides
AS_NEAR: Final = 0.15
FEWEST: Final = 4  # pairs that make a clause one that can be compared
SOURCE_CHARACTERS: Final = 200_000  # of all that a sentence cites; what is beyond is not compared

_CLAUSE: Final = re.compile(r"[^，,；;。！？!?：:\n|]+")
_ASIDE: Final = re.compile(r"[(（]([^()（）\n]{1,80})[)）]")  # 滤网（选配）不可水洗: a clause of its own
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


def is_denied(clause: str, cell: str, column: str) -> bool:
    """Returns True if a clause about a row of a table says the opposite of its cell: 合同章可以外带, where the cell
    has 不可外带, or 否 below 可否外带."""
    claim, lexicon = _clause(clause), _lexicon()
    if cell in ("是", "否", *lexicon.yes, *lexicon.no):
        matter = _clause(_INTERROGATIVE.sub("", column))
        stance = Stance(cell == "否" or cell in lexicon.no, matter.stance.sides)
    else:
        matter = _clause(cell)
        stance = matter.stance
    is_about = bool(matter.pairs) and matter.pairs <= claim.pairs
    # 经批准可以外带: a cell with a condition is not denied by what lacks it.
    return is_about and claim.stance.opposes(stance) and (stance.is_negative or bool(stance.sides))


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
    folded = fold(text)
    asides = [aside for aside in _ASIDE.findall(folded) if len(aside) > FEWEST]
    for sentence in _SENTENCE.findall("\n".join((_ASIDE.sub("", folded), *asides))):
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
        elif _is_contained(clause, own) and not is_short:
            near = max(near, NEAR)  # 出院后患者可以自行停药 has all of 不得自行停药
            is_opposite = claim.clause.stance.opposes(clause.stance)
        elif near < NEAR - AS_NEAR or shared < _least_shared(own, source, is_short):
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


def _least_shared(own: frozenset[str], source: InContext, is_short: bool) -> float:
    """Of what the clause before it does not have already: 甲章与乙章应当分别保管，不得由一人兼管."""
    if is_short:
        return len(own)
    before = source.pairs - source.clause.pairs
    return max(NEAR_ITSELF * len(own - before), min(FEWEST - 1, len(own)))


def _is_contained(clause: Clause, own: frozenset[str]) -> bool:
    """Returns True if a claim has nearly all of a source's clause, and not much more."""
    shared = len(own & clause.pairs)
    return len(clause.pairs) >= FEWEST and shared >= CONTAINED * len(clause.pairs) and 2 * shared >= len(own)


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
