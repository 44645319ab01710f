"""What a clause says of its matter: whether it denies or forbids it, and on which side of a pair of opposites it is."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from qianxun.text.chinese import grams

_SCOPE: Final = 5  # characters after a denial that it surely denies
_EITHER_WAY: Final = r"([\u4e00-\u9fff])[不没]\1"  # 去不去, 交没交: leaves it open
_DISAGREES: Final = "(?!不同意)"  # 不同 denies nothing, 不同意 does
_DOUBLE: Final = 4  # characters between the ends of two denials that undo each other: 不可不, 没有人不
_DENIED: Final = (
    "(?:并?不|不会|不能|不得|不可|不应当?|不宜|不许|没有?|未|并未)"  # 不会多过, 没有超过: a bound, no denial
)


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
    governed: frozenset[str]  # those after the first of these words; all, where there is none
    beside: frozenset[str]  # those around a word that takes sides
    denied: frozenset[str]  # those right after a word that denies or forbids
    reach: int  # where the first word ends
    is_mixed: bool  # denies several things: 没交表的视为不参加 is no double denial, and has no one opposite


@dataclass(frozen=True, slots=True)
class Lexicon:
    idle: re.Pattern[str]
    negation: re.Pattern[str]
    turning: re.Pattern[str]  # modal words that deny
    modal: re.Pattern[str]
    bounds: re.Pattern[str]
    sides: dict[str, tuple[int, int]]
    first_role: int  # pairs from this one on are of who does it to whom
    opposites: re.Pattern[str]
    yes: frozenset[str]
    no: frozenset[str]


def read_clause(text: str) -> Clause:
    words = lexicon()
    rest = words.idle.sub(lambda found: "·" * len(found.group()), text)  # as long as it was: places stay the same
    content = list(text)
    starts: list[int] = []  # where words of the stance end

    def taken(pattern: re.Pattern[str]) -> list[str]:
        nonlocal rest
        found = [(match.start(), match.end(), match.group()) for match in pattern.finditer(rest)]
        for start, end, word in found:
            rest = rest[:start] + "·" * len(word) + rest[end:]
            content[start:end] = " " * (end - start)
            starts.append(end)
        return [word for _, _, word in found]

    bounds = [words.sides[words.bounds.fullmatch(bound)["word"]] for bound in taken(words.bounds)]  # type: ignore[index]
    stated = [words.sides[word] for word in taken(words.opposites)] + [(pair, 1 - side) for pair, side in bounds]
    by_whom = dict(reversed([side for side in stated if side[0] >= words.first_role]))  # who comes first
    sides = frozenset(side for side in stated if side[0] < words.first_role) | frozenset(by_whom.items())
    around = list(starts)
    starts.clear()  # only what denies, forbids or allows governs what is after it
    turns = len(taken(words.turning))
    denials = list(starts)
    taken(words.modal)
    first = len(starts)
    turns += len(taken(words.negation))
    denials += starts[first:]
    both = {pair for pair, side in sides if (pair, 1 - side) in sides}  # 早饭前和晚饭后: neither is what it says
    stance = Stance(turns % 2 == 1, frozenset(side for side in sides if side[0] not in both))
    plain = "".join(content)
    pairs = _pairs(plain)
    reach = min(starts, default=0)
    denied = frozenset().union(*(_pairs(plain[at : at + _SCOPE]) for at in denials))
    beside = frozenset().union(*(_pairs(plain[max(0, at - 2 * _SCOPE) : at + _SCOPE]) for at in around))
    ends = sorted(denials)
    is_mixed = any(after - before > _DOUBLE for before, after in pairwise(ends))
    return Clause(text, pairs, stance, _pairs(plain[reach:]) or pairs, beside, denied, reach, is_mixed)


def _pairs(text: str) -> frozenset[str]:
    return frozenset(gram for gram in grams(text) if len(gram) > 1)


@cache
def lexicon() -> Lexicon:
    read = tomllib.loads((Path(__file__).parent / "opposites.toml").read_text(encoding="utf-8"))
    modality = read["modality"]
    lines = [read["opposites"]["compared"], *filter(None, read["opposites"]["pairs"].splitlines())]
    roles = list(filter(None, read["roles"]["pairs"].splitlines()))
    sides = {
        word: (number, side)
        for number, line in enumerate((*lines, *roles))
        for side, words in enumerate(line.split("/"))
        for word in words.split()
    }
    compared = [word for word, (number, _) in sides.items() if number == 0]
    idle = _any_of(f"{read['negation']['idle']} {modality['idle']}")
    return Lexicon(
        idle=re.compile(f"{_DISAGREES}(?:{idle.pattern})|{_EITHER_WAY}"),
        negation=_any_of(read["negation"]["words"]),
        turning=_any_of(f"{modality['forbid']} {modality['exempt']}"),
        modal=_any_of(f"{modality['oblige']} {modality['permit']}"),
        bounds=re.compile(f"{_DENIED}(?P<word>{_any_of(' '.join(compared)).pattern})"),
        sides=sides,
        first_role=len(lines),
        opposites=_any_of(" ".join(sides)),
        yes=frozenset(read["answers"]["yes"].split()),
        no=frozenset(read["answers"]["no"].split()),
    )


def _any_of(words: str) -> re.Pattern[str]:
    """Longest first: 不得不 before 不得."""
    return re.compile("|".join(sorted(map(re.escape, set(words.split())), key=len, reverse=True)))
