"""The tables among the candidates, and how well each fits a question by its title, its headers and labels, its type."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, TypeVar

import numpy as np

from qianxun.bases.base import OpenBase, read
from qianxun.bases.table_cache import TableCache
from qianxun.core.system.cache import cached_texts
from qianxun.core.types import Chunk, Column, Found
from qianxun.question.table_query import TableSearchQuery, union
from qianxun.rank.calibrate import Curve, clipped
from qianxun.records import tables
from qianxun.records.tables import TableHead
from qianxun.retrieve.layered.search import Evidence
from qianxun.text.chinese import fold, occurs_in
from qianxun.text.table_types import TableType, type_called, type_of

# Shares of a table's structure, and of the keyword layer: set by hand, fitted to no set of questions.
TITLE: Final = 0.40
HEADERS: Final = 0.35
TYPE: Final = 0.25
WORDS_IN: Final = {"title": 0.4, "headers": 0.3, "content": 0.3}

# Tables whose structure is compared, the best by words and meaning: twice as many as may be shown, within these bounds.
FEWEST_COMPARED, MOST_COMPARED = 30, 60
_LONGEST_LABEL: Final = 20  # characters of a cell that may be the name of something
NAMES_BYTES: Final = 2_000  # what the names of a table cost beside their characters
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Names:
    """What a table is called, folded. ``labels`` are the short cells of the rows at hand."""

    title: str
    headers: tuple[str, ...]
    labels: tuple[str, ...]
    type: TableType | None
    kind: str = ""  # as the document's metadata call the type, where it is none of ours
    content: str = ""  # the text at hand
    quotable: frozenset[str] = frozenset()  # headers and labels that a question may have in it
    joined: str = ""  # headers and labels, a line each
    parts: tuple[tuple[float, str], ...] = ()  # in which keywords are looked for, and their shares


@dataclass(frozen=True, slots=True)
class Structure:
    """How each part of a table's structure fits, in [0, 1]; None for a part that it does not have."""

    score: float
    title: float | None
    headers: float | None
    type: float | None


@dataclass(frozen=True, slots=True)
class TableCandidate:
    """A table by its chunks, best first."""

    head: TableHead
    found: Found  # the best chunk; what found it is looked up for those that are shown
    chunks: tuple[int, ...]
    names: Names


@dataclass(frozen=True)
class TableCandidates:
    """Candidates by the key of their table, best first, for these questions: one, or its other wordings."""

    evidence: Evidence
    questions: Sequence[TableSearchQuery]
    tables: Mapping[int, TableCandidate]
    common: Mapping[TableType | None, float]  # type → the share of the candidates that have it
    weight: float  # of the structure
    curve: Curve
    is_calibrated: bool = True
    _fits: dict[int, Structure] = field(default_factory=dict)
    _scores: dict[tuple[int, bool], float] = field(default_factory=dict)
    _similarities: dict[int, float | None] = field(default_factory=dict)

    def fits(self, key: int) -> Structure:
        if key not in self._fits:
            names = self.tables[key].names
            common = self.common.get(names.type, 0.0)
            fits = (structure(question, names, common) for question in self.questions)
            self._fits[key] = max(fits, key=lambda fit: fit.score)
        return self._fits[key]

    @cached_property
    def words(self) -> Mapping[str, float]:
        """The words of all its questions, with their weights."""
        return {word: weight for question in self.questions for word, weight in question.words.items()}

    def score(self, key: int, fits: Structure | None) -> float:
        """Words and meaning beside structure, on the curve of tables; without structure the rest counts."""
        known = self._scores.get((key, fits is not None))
        if known is None:
            known = self._scores[key, fits is not None] = float(self.curve(np.array([self._both(key, fits)]))[0])
        return known

    def structured_scores(self) -> dict[int, float]:
        """`score` of every table with its structure."""
        return self.scores({key: self.fits(key) for key in self.tables})

    def scores(self, fits: Mapping[int, Structure | None]) -> dict[int, float]:
        """`score` of these tables, in one step."""
        both = np.array([self._both(key, fit) for key, fit in fits.items()], dtype=np.float64)
        scores = dict(zip(fits, self.curve(both).tolist(), strict=True))
        self._scores.update(((key, fits[key] is not None), score) for key, score in scores.items())
        return scores

    def _both(self, key: int, fits: Structure | None) -> float:
        fused = self.evidence.fused.score(self.tables[key].found.chunk.key)
        if not self.is_calibrated:  # a share of words is no cosine, and would only lower what the threshold is for
            fused = max(fused, self.similarity(key) or 0.0)
        return fused if fits is None else (1.0 - self.weight) * fused + self.weight * fits.score

    def similarity(self, key: int) -> float | None:
        """Of the nearest of its chunks; None if nothing is known of their meaning."""
        if key not in self._similarities:
            similarities = (self.evidence.similarity(chunk) for chunk in self.tables[key].chunks)
            known = (similarity for similarity in similarities if similarity is not None)
            self._similarities[key] = max(known, default=None)
        return self._similarities[key]

    def keyword_match(self, key: int) -> float:
        return keyword_match(self.questions[0].keywords, self.tables[key].names)


def compared_tables(most_results: int) -> int:
    """How many tables are compared by structure; not by ``top_k``, on which the order may not depend."""
    return min(MOST_COMPARED, max(FEWEST_COMPARED, 2 * most_results))


async def table_candidates(
    base: OpenBase, evidence: Evidence, questions: Sequence[TableSearchQuery], weight: float, most: int = MOST_COMPARED
) -> TableCandidates:
    """The first ``most`` tables of the evidence."""
    pinned = {found.chunk.key: found for found in await evidence.pinned()}
    keys, cache = list(dict.fromkeys([*pinned, *evidence.fused.keys.tolist()])), base.tables
    table_of = await stored(base, cache.table_of, tables.keys_by_chunk, keys)
    chunks: dict[int, list[int]] = {}
    untabled = []
    for key in keys:
        if (table := table_of[key]) is None:
            untabled.append(key)
        elif table in chunks:
            chunks[table].append(key)
        else:
            chunks[table] = [key]
    await evidence.chunks(untabled)  # notes which of them have been deleted
    first = list(chunks)[:most]
    heads = await stored(base, cache.heads, tables.heads, first)
    read_ = await evidence.chunks([chunks[table][0] for table in first])
    best = {chunk.key: Found(chunk, evidence.fused.score(chunk.key), "", {}) for chunk in read_} | pinned
    candidates = {
        table: TableCandidate(head, found, tuple(chunks[table]), _names(cache, head, found.chunk))
        for table in first
        if (head := heads[table]) is not None and (found := best.get(chunks[table][0])) is not None
    }
    types = Counter(candidate.names.type for candidate in candidates.values())
    common = {type_: count / len(candidates) for type_, count in types.items()}
    curve = base.curves.tables(has_vectors="vector" in evidence.candidates.signals)
    return TableCandidates(evidence, questions, candidates, common, weight, curve, curve is not clipped)


# ── fit ──────────────────────────────────────────────────────────────────────────────────────────


async def stored(
    base: OpenBase, known: dict[int, Value | None], work: Callable[..., Mapping[int, Value]], keys: Sequence[int]
) -> Mapping[int, Value | None]:
    """What the records have of these keys and of others that were looked up before; read where it is not known."""
    if missing := [key for key in keys if key not in known]:
        found = await read(base, work, missing)
        known.update((key, found.get(key)) for key in missing)
    return known


def _names(cache: TableCache, head: TableHead, chunk: Chunk) -> Names:
    """The same tables are candidates again and again. A document's metadata may be changed without another version."""
    named = chunk.attributes.metadata.get("table_type")
    called = named if isinstance(named, str) else ""
    key = ("names", head.key, chunk.key, called)
    return cache.once(key, lambda: names_of(head.title, head.columns, chunk.text, called), _names_bytes)


def names_of(title: str, columns: tuple[Column, ...], text: str, named: str = "") -> Names:
    """``text`` is that of a chunk of the table, whose rows are lines with bars between their cells; ``named`` the type
    that its document's metadata give it.
    """
    content = fold(text)
    parts = (part for column in columns for part in (column.path or (column.name,)))
    headers = tuple(dict.fromkeys(filter(None, (fold(header).strip() for header in parts))))
    cells = (cell.strip() for line in content.split("\n") if "|" in line for cell in line.split("|"))
    labels = tuple(dict.fromkeys(cell for cell in cells if 1 < len(cell) <= _LONGEST_LABEL))
    folded = fold(title)
    searched = {"title": folded, "headers": "\n".join(headers), "content": content}
    return Names(
        title=folded,
        headers=headers,
        labels=labels,
        type=type_called(named) or type_of(title, columns),
        kind="" if type_called(named) else fold(named),
        content=content,
        quotable=_quotable((*headers, *labels)),
        joined="\n".join((*headers, *labels)),
        parts=tuple((WORDS_IN[part], inside) for part, inside in searched.items() if inside),
    )


def _names_bytes(names: Names) -> int:
    """Its texts at up to four bytes a character: the content, and headers and labels three times."""
    return NAMES_BYTES + 4 * (len(names.title) + len(names.content) + 3 * len(names.joined))


def _quotable(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if len(name) > 1)


def structure(question: TableSearchQuery, names: Names, common: float = 0.0) -> Structure:
    """Title .40, headers (and labels) .35, type .25, renormalised over what the table has.

    A type counts where the question mentions one, and the less the more ``common`` it is: the share of the candidates
    that have it. Among balance sheets it distinguishes nothing that a table is one, and where all candidates are of
    one type it is left out.
    """
    title = title_fit(question, names.title) if names.title else None
    headers = _names_fit(question, names.quotable, names.joined) if names.headers or names.labels else None
    kind = _type_fit(question, names, common)
    parts = [(weight, fit) for weight, fit in ((TITLE, title), (HEADERS, headers), (TYPE, kind)) if fit is not None]
    total = math.fsum(weight for weight, _ in parts)
    score = math.fsum(weight * fit for weight, fit in parts) / total if parts else 0.0
    return Structure(score, title, headers, kind)


def _type_fit(question: TableSearchQuery, names: Names, common: float) -> float | None:
    if names.kind and (named := _share(_pairs(names.kind), question.distinct_pairs)):
        return named
    if not names.type or not question.types or common == 1.0:
        return None
    return 1.0 - common if names.type in question.types else 0.0


def title_fit(question: TableSearchQuery, title: str) -> float:
    """The harmonic mean of the share of the title that is in the question, and of the question that is in the title.

    By pairs of characters, because a title is seldom quoted exactly: 铁路运输旅客 is asked for as 铁路旅客.
    """
    own = _pairs(title)
    if own.distinct.isdisjoint(question.distinct_pairs):
        return 0.0
    of_question = _explained(question.pairs, own.distinct) & question.significant
    if not of_question:
        return 0.0
    of_title = _share(own, question.distinct_pairs)
    if not of_title:
        return 0.0
    explained = of_question.bit_count() / question.significant.bit_count()
    return 2.0 * of_title * explained / (of_title + explained)


def _share(name: Pairs, pairs: Set[str]) -> float:
    """The share of a name's letters whose pairs are among these."""
    letters = name.letters.bit_count()
    return (_explained(name.pairs, pairs) & name.letters).bit_count() / letters if letters else 0.0


def _explained(pairs: Sequence[str], others: Set[str]) -> int:
    """The characters, as bits, of those pairs that are among the others."""
    return union([3 << at for at, pair in enumerate(pairs) if pair in others])


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of characters of a text, and which of its characters are letters or digits (as bits)."""

    pairs: tuple[str, ...]
    distinct: frozenset[str]
    letters: int


@cached_texts(2_048, longest=200, lasting=True)  # the same titles are compared with every question
def _pairs(text: str) -> Pairs:
    pairs = tuple([text[at : at + 2] for at in range(len(text) - 1)])
    return Pairs(pairs, frozenset(pairs), union([1 << at for at, mark in enumerate(text) if mark.isalnum()]))


def names_fit(question: TableSearchQuery, names: Iterable[str]) -> float:
    """Half the share of the question's characters that the names cover, half the share of its words that are in them.

    Characters, because names are often segmented otherwise than the question: 年度销售占比 in 2023年度销售占比最高.
    Words, because a long name is seldom quoted in full.
    """
    names = [name for name in names if name]
    return _names_fit(question, _quotable(names), "\n".join(names))


def _names_fit(question: TableSearchQuery, quotable: frozenset[str], joined: str) -> float:
    significant, total = question.significant, question.total_weight
    covered = (question.quoted(quotable) & significant).bit_count()
    characters = covered / significant.bit_count() if significant else 0.0
    matched = math.fsum([question.words[word] for word in _occurring(question.words, joined)])
    return 0.5 * characters + 0.5 * (matched / total if total > 0.0 else 0.0)


def keyword_match(words: Sequence[str], names: Names) -> float:
    """The share of the keywords in title (.4), headers (.3) and content (.3), over the parts there are."""
    if not words or not names.parts:
        return 0.0
    found = math.fsum([share * (len(_occurring(words, inside)) / len(words)) for share, inside in names.parts])
    return found / math.fsum([share for share, _ in names.parts])


def _occurring(words: Iterable[str], folded: str) -> list[str]:
    """The words that occur in a text; most are nowhere in it, and most that are have no letter or digit to look at."""
    return [word for word in words if word in folded and (not _may_be_cut(word) or occurs_in(word, folded))]


@lru_cache(maxsize=1_024)
def _may_be_cut(word: str) -> bool:
    """Returns True if a place of a word may be the middle of a longer run of letters or digits."""
    return word[:1].isascii() or word[-1:].isascii()
