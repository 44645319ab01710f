"""A clause of a source that is copied with one thing altered: 由沈玉兰负担 for 由顾文斌负担, 至多两次 for 至少两次.

What is right is written freely, and differs from its source in many places or in none; what differs in one place alone,
and there has another name, the other of two opposites or another figure, says something else. Clauses are aligned by
their characters, each figure as one; nothing is looked at but what is left over. A word that may mean the same is no
proof: one that has a character in common with the other, a synonym, a role for a name (原告 for 陶桂英), a verb for a
verb.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from qianxun.answer.verify.contradiction import REPORTED
from qianxun.answer.verify.derivation import is_computing
from qianxun.answer.verify.misplaced import is_rival
from qianxun.answer.verify.other_names import SOURCE_CHARACTERS, names_in
from qianxun.answer.verify.stance import lexicon, read_clause
from qianxun.answer.verify.table_rows import without_tables
from qianxun.core.system.cache import cached_texts
from qianxun.text.chinese import fold, plain_analyser
from qianxun.text.figures import Figure, placed, prepared
from qianxun.text.synonyms import shipped

COPIED: Final = 0.6  # of the characters of a clause are in that of the source, in its order
VERBATIM: Final = 0.75  # … where only a denial is another: what is told freely may deny in another place
COPIED_BACK: Final = 0.4  # … and of that in the clause, between where both begin and end to be alike
SHORTEST: Final = 3  # characters that are alike
SHORT: Final = 7  # characters of a clause that is read with the one beside it: 予以支持, 未输血
LONGEST: Final = 120  # … of one that is read at all
LONGEST_GAP: Final = 10  # characters in which they differ
LONGEST_DENIAL: Final = 4
MOST_GAPS: Final = 2  # places in which they differ
MOST_CLAUSES: Final = 24  # of a sentence
NEAREST: Final = 4  # clauses of the sources that one is aligned with
SUPPORTED: Final = 0.7  # … as much alike as the nearest, and with the word in question: there it is said
_CLAUSE: Final = re.compile(r"(?:[^，,；;。！？!?\n：:（）()|]|(?<=\d)[,:](?=\d))+")
_SENTENCE: Final = re.compile(r"[^。！？!?；;\n]+")
_WORD: Final = re.compile(r"\w")
_NAMES: Final = frozenset(["nr", "nrt", "nrfg", "ns", "nt", "nz"])  # parts of speech
_LINKS: Final = frozenset("的了在是和与及或也都就而但被把将对于为从到由其该此这那个等后时中并则以按")
_PREPOSITIONS: Final = frozenset("对被向于在由将把为")
_TWO_WAY: Final = re.compile("[和与及或同跟、]|之间|互相|相互|彼此")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a figure, or a mark of neither."""

    text: str
    tag: str
    figure: Figure | None = None


Tokens: TypeAlias = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A clause: its characters, each figure as one, and to which of its tokens each belongs."""

    text: str
    tokens: Tokens
    marks: tuple[str, ...]
    places: tuple[int, ...]

    def part(self, start: int, end: int) -> Part:
        own = self.tokens[self.places[start] : self.places[end - 1] + 1] if end > start else ()
        return Part("".join(self.marks[start:end]), own, start, end)


@dataclass(frozen=True, slots=True)
class Part:
    """Characters of a clause, and the words that they are of."""

    text: str
    tokens: Tokens
    start: int
    end: int

    @property
    def words(self) -> tuple[str, ...]:
        return (self.text, self.whole, *(one.text for one in self.tokens))

    @property
    def whole(self) -> str:
        return "".join(one.text for one in self.tokens)

    @property
    def figures(self) -> list[Figure]:
        return [one.figure for one in self.tokens if one.figure is not None]


@dataclass(frozen=True, slots=True)
class Gap:
    """What a clause has where the source has something else; one of them may be nothing."""

    own: Part
    other: Part
    is_inside: bool  # between parts that are alike


@dataclass(frozen=True, slots=True)
class Aligned:
    source: Read
    alike: int  # characters
    gaps: tuple[Gap, ...]
    before: str  # what the source has before they begin to be alike


@dataclass(frozen=True, slots=True)
class Known:
    """The sources, and whom they name."""

    texts: tuple[str, ...]
    names: frozenset[str]


def altered(sentence: str, sources: Sequence[str]) -> str:
    """The clause of a source of which a clause of the sentence is a copy that says something else; "" where none is."""
    texts = tuple(fold(without_tables(text[:SOURCE_CHARACTERS])) for text in sources)
    names = frozenset().union(*map(names_in, texts))
    for claim in list(_units(fold(sentence)))[:MOST_CLAUSES]:
        if not any(claim in text for text in texts) and (found := _altered(_read(claim), Known(texts, names))):
            return found
    return ""


def _altered(claim: Read, known: Known) -> str:
    aligned = [_align(claim, _read(source)) for source in _nearest(claim.text, known.texts)]
    alike = [one for one in aligned if one.alike >= max(SHORTEST, COPIED * _size(claim, one, known))]
    if not alike or any(not one.gaps for one in alike):
        return ""
    nearest = max(alike, key=lambda one: (one.alike, -len(one.source.text)))
    gaps = [gap for gap in nearest.gaps if not _is_addition(gap, known)]
    is_claimed = REPORTED.search(nearest.source.text) is not None and not REPORTED.search(claim.text)
    if len(gaps) > MOST_GAPS or not _is_copy(nearest) or is_claimed:
        return ""
    if _is_swapped(gaps) and not _TWO_WAY.search(claim.text):
        return nearest.source.text
    for gap in (_widened(one, claim) for one in gaps):
        if gap.own.figures and not _is_of_named(gap.own.figures[0], claim, known):
            continue
        is_other = _contradicts(gap, known)
        if len(gaps) == 1 and not is_other:
            is_verbatim = nearest.alike >= VERBATIM * _size(claim, nearest, known)
            is_other = (is_verbatim and _is_opposite(gap, claim, nearest.before)) or _is_other_thing(gap, known)
        if is_other and not _is_stated_elsewhere(gap, claim, nearest, alike, known):
            return nearest.source.text
    return ""


def _is_of_named(figure: Figure, claim: Read, known: Known) -> bool:
    """Returns True if a clause tells whose its figure is, and does not work it out: 不超过总数的5% may be of another
    prize, and stands beside it."""
    return any(name in claim.text for name in known.names) and not is_computing(figure, claim.text)


def _size(claim: Read, one: Aligned, known: Known) -> int:
    """Without whom a clause names beside what the source says."""
    added = sum(len(gap.own.text) for gap in one.gaps if _is_addition(gap, known))
    return sum(map(len, claim.marks)) - added


def _is_addition(gap: Gap, known: Known) -> bool:
    """患者对磺胺过敏: whom or what a clause names beside what the source says takes nothing from it."""
    if gap.other.text:
        return False
    is_noun = all((one.tag[:1] in "nr" and one.figure is None) or one.text in _LINKS for one in gap.own.tokens)
    return is_noun or gap.own.text.strip("".join(_LINKS)) in known.names


def _is_copy(one: Aligned) -> bool:
    """Returns True if the source says little more between the parts that are alike."""
    missing = sum(len(gap.other.text) for gap in one.gaps if gap.is_inside)
    return one.alike >= COPIED_BACK * (one.alike + missing)


def _is_swapped(gaps: Sequence[Gap]) -> bool:
    if len(gaps) != 2:
        return False
    first, last = gaps
    is_long = min(len(first.own.text), len(last.own.text)) > 1
    return is_long and first.own.text == last.other.text and first.other.text == last.own.text


def _widened(gap: Gap, claim: Read) -> Gap:
    """不只 for 只: a word that is put in or left out is read with the rest of it, or with the one after it."""
    if (gap.own.text and gap.other.text) or gap.own.end == len(claim.marks):
        return gap
    start, end = gap.own.start, gap.own.end
    while end < len(claim.marks) and claim.places[end] == claim.places[gap.own.end]:
        end += 1
    rest = "".join(claim.marks[gap.own.end : end])
    return Gap(claim.part(start, end), replace(gap.other, text=gap.other.text + rest), gap.is_inside)


def _is_stated_elsewhere(gap: Gap, claim: Read, nearest: Aligned, alike: Sequence[Aligned], known: Known) -> bool:
    """Returns True if another clause that is nearly as much like it has what this one has not, and says nothing else
    otherwise; of two opposites, right beside the same character."""
    own, sides = gap.own.whole or gap.own.text, [gap.own.text]
    if _is_contrast(gap):
        before, after = claim.text.partition(own)[::2]
        sides = [side for side in (before[-1:] + own, own + after[:1]) if side != own]
    others = [one for one in alike if one is not nearest and one.alike >= SUPPORTED * nearest.alike]
    return any(
        any(side in one.source.text for side in sides) and not any(_contradicts(other, known) for other in one.gaps)
        for one in others
    )


# ── what a difference means ──────────────────────────────────────────────────────────────────────


def _contradicts(gap: Gap, known: Known) -> bool:
    if max(len(gap.own.text), len(gap.other.text)) > LONGEST_GAP or not (gap.own.text and gap.other.text):
        return False
    figures, others = gap.own.figures, gap.other.figures
    if figures or others:
        are_alone = len(figures) == len(others) == len(gap.own.tokens) == len(gap.other.tokens) == 1
        return are_alone and is_rival(figures[0], others[0])
    return _is_contrast(gap) or _is_other_name(gap, known)


def _is_opposite(gap: Gap, claim: Read, before: str) -> bool:
    """Returns True if with the words of the source a clause denies, forbids, allows or takes sides otherwise; not where
    the source denies it before: 否认青霉素过敏 is 没有青霉素过敏."""
    if gap.own.start and read_clause(before).stance.is_negative:
        return False
    if max(len(gap.own.text), len(gap.other.text)) > LONGEST_DENIAL or gap.own.figures or gap.other.figures:
        return False
    restored = (*claim.marks[: gap.own.start], gap.other.text, *claim.marks[gap.own.end :])
    own, other = (read_clause("".join(marks)) for marks in (claim.marks, restored))
    return own.stance.opposes(other.stance)


def _is_contrast(gap: Gap) -> bool:
    """Two of which one says the opposite of the other, as they are left over or as words."""
    sides = contrasts()
    mine, others = ({side for word in part.words for side in sides.get(word, ())} for part in (gap.own, gap.other))
    return mine.isdisjoint(others) and any(
        pair == line and side != column for pair, side in mine for line, column in others
    )


def _is_other_name(gap: Gap, known: Known) -> bool:
    if not (_is_name(gap.own, known.names) and _is_name(gap.other, known.names)):
        return False
    own, other = gap.own.whole, gap.other.whole
    is_alias = _is_within(own, other) or _is_within(other, own)
    return not is_alias and not any(_are_one(own, other, text) for text in known.texts)


def _is_name(part: Part, names: frozenset[str]) -> bool:
    is_tagged = any(one.tag in _NAMES and len(one.text) > 1 for one in part.tokens)
    return is_tagged or any(name in part.whole for name in names)


def _is_other_thing(gap: Gap, known: Known) -> bool:
    """对青霉素类药物过敏 for 对磺胺类药物过敏: a noun for a noun, with nothing in common, within what is copied."""
    own, other = gap.own, gap.other
    if not gap.is_inside or not (_is_thing(own) and _is_thing(other)) or not set(own.text).isdisjoint(other.text):
        return False
    synonyms = {fold(one.word) for word in other.words for one in shipped().of(word)}
    return synonyms.isdisjoint(own.words) and not any(_are_one(own.whole, other.whole, text) for text in known.texts)


def _is_thing(part: Part) -> bool:
    tags = {one.tag[:1] for one in part.tokens}
    is_noun = tags == {"n"} or (tags == {"n", "v"} and len(part.text) > SHORTEST)
    return is_noun and 1 < len(part.text) <= LONGEST_GAP and generic_words().isdisjoint(part.words)


def _is_within(short: str, long: str) -> bool:
    """鸿安物业 of 衡川县鸿安物业服务有限公司."""
    rest = iter(long)
    return all(mark in rest for mark in short)


def _are_one(one: str, other: str, text: str) -> bool:
    """被告人韩启明, 韩启明（以下简称…）: beside each other they are one."""
    return any(
        f"{first}{between}{second}" in text
        for first, second in ((one, other), (other, one))
        for between in ("", "：", ":", "(", "（")
    )


@cache
def contrasts() -> dict[str, frozenset[tuple[int, int]]]:
    """Words and characters of which one is not the other: which lines of the list they are in, and where."""
    found = {word: {side} for word, side in lexicon().sides.items()}
    for number, line in enumerate(filter(None, _lists()["sets"].splitlines())):
        for side, words in enumerate(line.split("/")):
            for word in words.split():
                found.setdefault(word, set()).add((-1 - number, side))
    return {word: frozenset(sides) for word, sides in found.items()}


@cache
def generic_words() -> frozenset[str]:
    """That stand for anything: 公司, 患者."""
    return frozenset(_lists()["generic"].split())


def _lists() -> dict[str, str]:
    read: dict[str, dict[str, str]] = tomllib.loads(
        (Path(__file__).parent / "opposites.toml").read_text(encoding="utf-8")
    )
    return read["contrasts"]


# ── aligning ─────────────────────────────────────────────────────────────────────────────────────


def _align(claim: Read, source: Read) -> Aligned:
    matcher = SequenceMatcher(None, claim.marks, source.marks, autojunk=False)
    *blocks, end = matcher.get_matching_blocks()
    alike, gaps, left, right = 0, list[Gap](), 0, 0
    for block in (*filter(lambda one: _counts(one.a, one.size, claim), blocks), end):
        own, other = claim.part(left, block.a), source.part(right, block.b)
        is_inside = bool(left or right) and block.size > 0
        if _has_content(own) or (_has_content(other) and is_inside):
            gaps.append(Gap(own, other, is_inside))
        alike += sum(map(len, claim.marks[block.a : block.a + block.size]))
        left, right = block.a + block.size, block.b + block.size
    start = next((one.b for one in blocks if _counts(one.a, one.size, claim)), 0)
    return Aligned(source, alike, tuple(gaps), "".join(source.marks[:start]))


def _counts(start: int, size: int, claim: Read) -> bool:
    """A single character is alike by chance; a figure is not, nor what ties a name to its verb."""
    return size > 1 or len(claim.marks[start]) > 1 or claim.marks[start] in _PREPOSITIONS


def _has_content(part: Part) -> bool:
    return bool(part.text) and not all(mark in _LINKS for mark in part.text)


def _nearest(claim: str, texts: Sequence[str]) -> Iterator[str]:
    """The clauses of the sources that have most of a claim's pairs of characters."""
    own = _pairs(claim)
    shared: Counter[str] = Counter()
    for text in texts:
        clauses, places = _clauses(text)
        counts = Counter(at for pair in own for at in places.get(pair, ()))
        for at, count in counts.most_common(NEAREST):
            shared[clauses[at]] = count
    return (clause for clause, count in shared.most_common(NEAREST) if 2 * count >= COPIED_BACK * len(own))


@cached_texts(32)
def _clauses(text: str) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    """Of a source, and in which of them a pair of characters is."""
    clauses = tuple(dict.fromkeys(_units(text)))
    places: dict[str, list[int]] = {}
    for at, clause in enumerate(clauses):
        for pair in _pairs(clause):
            places.setdefault(pair, []).append(at)
    return clauses, {pair: tuple(found) for pair, found in places.items()}


def _units(text: str) -> Iterator[str]:
    """Clauses; a short one with the one before it, the first with the one after it."""
    for sentence in _SENTENCE.findall(text):
        before = ""
        for part in map(str.strip, _CLAUSE.findall(sentence)):
            if not part or len(part) > LONGEST:
                before = ""
                continue
            if before and min(len(part), len(before)) < SHORT:
                yield f"{before}，{part}"
            if len(part) >= SHORT:
                yield part
            before = part


def _pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}


@cached_texts(1_024)
def _read(text: str) -> Read:
    tokens = tuple(_tokens(text))
    marks = [
        (mark, at)
        for at, one in enumerate(tokens)
        for mark in ((one.text,) if one.figure is not None else one.text)
        if _WORD.search(mark)
    ]
    return Read(text, tokens, tuple(mark for mark, _ in marks), tuple(at for _, at in marks))


def _tokens(text: str) -> Iterator[Token]:
    """Words with their parts of speech; each figure is one."""
    ready, at = prepared(text), 0
    for hit in placed(ready):
        yield from _plain(ready[at : hit.start])
        yield Token(ready[hit.start : hit.end].strip(), "m", hit.figure)
        at = hit.end
    yield from _plain(ready[at:])


def _plain(text: str) -> Iterator[Token]:
    return (Token(word, tag) for word, tag in plain_analyser().tagged(text) if _WORD.search(word))
