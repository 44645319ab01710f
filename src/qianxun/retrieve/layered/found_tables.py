"""The tables among what the arms found: their chunks together, their names, and how these fit the question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, read
from qianxun.core.types import Found
from qianxun.rank.calibrate import Curve
from qianxun.records import tables
from qianxun.records.tables import TableHead
from qianxun.retrieve.layered.evidence import Evidence
from qianxun.retrieve.layered.table_fit import Names, Question, Structure, ask, keyword_match, names_of, structure
from qianxun.text.expansion import Expansion
from qianxun.text.table_types import TableType

LOOKED_AT: Final = 60  # tables whose structure is read, the best by words and meaning


@dataclass(frozen=True, slots=True)
class TableCandidate:
    """A table by its chunks, best first."""

    head: TableHead
    found: Found  # the best chunk
    chunks: tuple[int, ...]
    names: Names


@dataclass(frozen=True, slots=True)
class FoundTables:
    """Candidates by the key of their table, best first, as these questions see them: one, or its other wordings."""

    evidence: Evidence
    questions: Sequence[Question]
    candidates: Mapping[int, TableCandidate]
    common: Mapping[TableType | None, float]  # type → the share of the candidates that have it
    weight: float  # of the structure
    curve: Curve
    _fits: dict[int, Structure] = field(default_factory=dict)  # told once

    def fits(self, key: int) -> Structure:
        if key not in self._fits:
            names = self.candidates[key].names
            common = self.common.get(names.type, 0.0)
            told = (structure(each, names, common) for each in self.questions)
            self._fits[key] = max(told, key=lambda fit: fit.score)
        return self._fits[key]

    def score(self, key: int, fits: Structure | None) -> float:
        """Words and meaning beside structure, brought to what it means; without structure the rest stands."""
        fused = self.evidence.score(self.candidates[key].found.chunk.key)
        both = fused if fits is None else (1.0 - self.weight) * fused + self.weight * fits.score
        return float(self.curve(np.array([both]))[0])

    def similarity(self, key: int) -> float | None:
        """Of the nearest of its chunks; None where nothing is known of their meaning."""
        alike = (self.evidence.similarity(chunk) for chunk in self.candidates[key].chunks)
        return max((each for each in alike if each is not None), default=None)

    def keyword_match(self, key: int) -> float:
        words = self.questions[0].words
        candidate = self.candidates[key]
        telling = [word for word in words if len(word) > 1] or list(words)
        return keyword_match(telling, candidate.names, candidate.found.chunk.text)


async def found_tables(base: OpenBase, evidence: Evidence, questions: Sequence[Question], weight: float) -> FoundTables:
    keys = evidence.fused.keys.tolist()
    cut_from = await read(base, tables.of_chunks, keys)
    chunks: dict[int, list[int]] = {}
    for key in keys:
        if key in cut_from:
            chunks.setdefault(cut_from[key], []).append(key)
    await evidence.found([key for key in keys if key not in cut_from])  # notes which of them are of record no more
    first = list(chunks)[:LOOKED_AT]
    heads = await read(base, tables.heads, first)
    best = {found.chunk.key: found for found in await evidence.found([chunks[table][0] for table in first])}
    candidates = {
        table: _candidate(heads[table], found, chunks[table])
        for table in first
        if table in heads and (found := best.get(chunks[table][0])) is not None
    }
    types = Counter(each.names.type for each in candidates.values())
    common = {type_: count / len(candidates) for type_, count in types.items()}
    curve = base.curves.tables(has_vectors=evidence.has_vectors)
    return FoundTables(evidence, questions, candidates, common, weight, curve)


def _candidate(head: TableHead, found: Found, chunks: Sequence[int]) -> TableCandidate:
    return TableCandidate(head, found, tuple(chunks), names_of(head.title, head.columns, found.chunk.text))


def expansions_asked(expansions: Sequence[Expansion], evidence: Evidence) -> list[Question]:
    """Other wordings of a question, as tables are asked about them."""
    return [ask(each.text, words) for each, words in zip(expansions, evidence.bench.weights, strict=True)]
