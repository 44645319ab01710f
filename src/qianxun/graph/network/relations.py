"""Relations as columns of numbers: stated ones, and co-occurrences in a sentence; their weights and what is central."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Scores
from qianxun.graph.network.columns import Numbers

CO_OCCURRENCE_TYPE: Final = 0  # the number of the type CO_OCCURRENCE
CO_OCCURRENCE_WEIGHT: Final = 0.5  # a shared sentence says less than a stated relation
CO_OCCURRENCE_DISTANCE: Final = 8  # mentions: beyond it enumerations would relate everything to everything
DAMPING: Final = 0.85
ROUNDS: Final = 30
_CODE_LIMIT: Final = 1 << 62  # of row codes in 64 bits, with some to spare


@dataclass(frozen=True, eq=False)
class RelationColumns:
    """Sorted by source, target and type.

    ``evidence`` has rows (place of the chunk, start, end); relation ``i`` has ``evidence[begins[i]:begins[i + 1]]``.
    """

    source: Numbers
    target: Numbers
    type: Numbers
    begins: Numbers
    evidence: Numbers

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def weight(self) -> Numbers:
        """How many places state the relation."""
        return np.diff(self.begins)

    def evidence_of(self, row: int) -> Numbers:
        return self.evidence[self.begins[row] : self.begins[row + 1]]


def relation_columns(stated: Numbers, co_occurring: Numbers) -> RelationColumns:
    """Both have rows (source, target, type, chunk, start, end); co-occurrences as `co_occurrences` returns them.

    A pair of which something is stated has no co-occurrence.
    """
    if len(stated) and len(co_occurring):
        size = int(max(stated[:, :2].max(), co_occurring[:, :2].max())) + 1
        known = np.minimum(stated[:, 0], stated[:, 1]) * size + np.maximum(stated[:, 0], stated[:, 1])
        co_occurring = co_occurring[~np.isin(co_occurring[:, 0] * size + co_occurring[:, 1], known)]
    rows = np.concatenate([stated[np.lexsort(stated.T[::-1])], co_occurring])
    rows = rows[np.argsort(_codes(rows[:, :3]), kind="stable")]  # two sorted runs: merged, not sorted again
    begins = np.flatnonzero(_is_first(_codes(rows[:, :3])))
    return RelationColumns(
        source=rows[begins, 0],
        target=rows[begins, 1],
        type=rows[begins, 2],
        begins=np.append(begins, len(rows)),
        evidence=np.ascontiguousarray(rows[:, 3:]),
    )


def co_occurrences(mentions: Numbers, sentences: Numbers) -> Numbers:
    """Pairs of entities that share a sentence, the lower one first, sorted.

    ``mentions`` has rows (chunk, entity, start), ``sentences`` (chunk, start, end); both sorted by chunk.
    """
    if not len(mentions) or not len(sentences):
        return np.empty((0, 6), dtype=np.int64)
    longest = int(max(mentions[:, 2].max(), sentences[:, 2].max())) + 1
    mentions = mentions[np.argsort(_codes(mentions[:, [0, 2, 1]]), kind="stable")]
    sentences = sentences[np.argsort(_codes(sentences), kind="stable")]
    begins = sentences[:, 0] * longest + sentences[:, 1]
    at = np.searchsorted(begins, mentions[:, 0] * longest + mentions[:, 2], side="right") - 1
    inside = (at >= 0) & (sentences[at, 0] == mentions[:, 0]) & (mentions[:, 2] < sentences[at, 2])
    entity, sentence = mentions[inside, 1], at[inside]
    pairs = [_pairs(entity, sentence, distance) for distance in range(1, CO_OCCURRENCE_DISTANCE + 1)]
    found = distinct(np.concatenate(pairs))
    return np.column_stack([found[:, :2], np.full(len(found), CO_OCCURRENCE_TYPE), sentences[found[:, 2]]])


def _pairs(entity: Numbers, sentence: Numbers, distance: int) -> Numbers:
    """(lower entity, higher entity, sentence) of mentions at this distance in one sentence."""
    one, other = entity[:-distance], entity[distance:]
    same = (sentence[:-distance] == sentence[distance:]) & (one != other)
    one, other = one[same], other[same]
    return np.column_stack([np.minimum(one, other), np.maximum(one, other), sentence[:-distance][same]])


# ── rows of numbers ──────────────────────────────────────────────────────────────────────────────


def distinct(rows: Numbers) -> Numbers:
    """Distinct rows of non-negative numbers, sorted. `numpy.unique` compares rows byte by byte, which is slow."""
    if not len(rows):
        return rows
    sizes = [int(column.max()) + 1 for column in rows.T]
    if math.prod(sizes) > _CODE_LIMIT:
        order = np.argsort(codes := _codes(rows), kind="stable")
        return rows[order[_is_first(codes[order])]]
    codes = np.sort(_codes(rows))  # values alone: several times as fast as an argsort
    codes = codes[_is_first(codes)]
    columns = []
    for size in reversed(sizes):
        codes, column = np.divmod(codes, size)
        columns.append(column)
    return np.column_stack(columns[::-1])


def _codes(rows: Numbers) -> Numbers:
    """One number per row, in the order of the rows: sorting these costs what sorting by one column does."""
    codes = np.zeros(len(rows), dtype=np.int64)
    reached = 1
    for column in rows.T:
        size = int(column.max(initial=0)) + 1
        if reached * size > _CODE_LIMIT:
            _, codes = np.unique(codes, return_inverse=True)
            reached = len(rows)
        codes = codes * size + column
        reached *= size
    return codes


def _is_first(codes: Numbers) -> NDArray[np.bool_]:
    """Which of sorted numbers differ from the one before."""
    return np.concatenate(([True], codes[1:] != codes[:-1]))[: len(codes)]


@dataclass(frozen=True, slots=True, eq=False)
class GroupedValues:
    """Values by their owner's number, as compressed sparse rows."""

    begins: Numbers
    values: Numbers

    def of(self, owner: int) -> Numbers:
        return self.values[self.begins[owner] : self.begins[owner + 1]]


def grouped(count: int, owners: Numbers, values: Numbers) -> GroupedValues:
    order = np.argsort(owners, kind="stable")
    begins = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=count)))).astype(np.int64)
    return GroupedValues(begins, values[order])


# ── importance ───────────────────────────────────────────────────────────────────────────────────


def importance(count: int, relations: RelationColumns) -> Scores:
    """The centrality of each entity, in [0, 1], the largest being 1: PageRank over relations in both directions.

    Page, Brin, Motwani and Winograd 1999.
    """
    if not count:
        return np.empty(0, dtype=np.float64)
    source = np.concatenate([relations.source, relations.target])
    target = np.concatenate([relations.target, relations.source])
    weight = np.tile(edge_weights(relations), 2)
    share = weight / np.bincount(source, weights=weight, minlength=count)[source]
    rank = np.full(count, 1.0 / count)
    for _ in range(ROUNDS):
        rank = (1.0 - DAMPING) / count + DAMPING * np.bincount(target, weights=rank[source] * share, minlength=count)
    scaled: Scores = rank / rank.max()
    return scaled


def edge_weights(relations: RelationColumns) -> Scores:
    """By relation: repeated statements count a little more, co-occurrences less."""
    of_type = np.where(relations.type == CO_OCCURRENCE_TYPE, CO_OCCURRENCE_WEIGHT, 1.0)
    weights: Scores = np.log2(1.0 + relations.weight) * of_type
    return weights
