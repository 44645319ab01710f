"""What ties entities together: what texts state of them, and the sentences that they share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.graph.network.columns import Numbers

TOGETHER: Final = 0  # the number of the type CO_OCCURRENCE
REACH: Final = 8  # names further apart in one sentence than so many are not tied: enumerations would tie all to all
_ROOM: Final = 1 << 62  # numbers that a column of 64 bits tells apart, with some to spare


@dataclass(frozen=True, eq=False)
class Ties:
    """Relations as columns, sorted by source, target and type; each with its evidence.

    ``evidence`` is (chunk's place, start, end); that of tie ``i`` is ``evidence[begins[i]:begins[i + 1]]``.
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
        """How many places say so."""
        return np.diff(self.begins)

    def evidence_of(self, tie: int) -> Numbers:
        return self.evidence[self.begins[tie] : self.begins[tie + 1]]


def tied(stated: Numbers, together: Numbers) -> Ties:
    """From (source, target, type, chunk, start, end): what is stated; and what stands together, where nothing is stated
    of the same two. What stands together comes as `standing_together` gives it, sorted."""
    if len(stated) and len(together):
        size = int(max(stated[:, :2].max(), together[:, :2].max())) + 1
        known = np.minimum(stated[:, 0], stated[:, 1]) * size + np.maximum(stated[:, 0], stated[:, 1])
        together = together[~np.isin(together[:, 0] * size + together[:, 1], known)]
    rows = np.concatenate([stated[np.lexsort(stated.T[::-1])], together])
    rows = rows[np.argsort(_joined(rows[:, :3]), kind="stable")]  # two sorted runs: merged, not sorted again
    if not len(rows):
        return Ties(*(np.empty(0, dtype=np.int64),) * 3, np.zeros(1, dtype=np.int64), np.empty((0, 3), dtype=np.int64))
    begins = np.flatnonzero(_is_first(_joined(rows[:, :3])))
    return Ties(
        source=rows[begins, 0],
        target=rows[begins, 1],
        type=rows[begins, 2],
        begins=np.append(begins, len(rows)),
        evidence=np.ascontiguousarray(rows[:, 3:]),
    )


def standing_together(mentions: Numbers, sentences: Numbers) -> Numbers:
    """Pairs of entities that share a sentence, as `tied` takes them, the lower one first.

    ``mentions`` is (chunk, entity, start), ``sentences`` (chunk, start, end); both sorted by chunk.
    """
    if not len(mentions) or not len(sentences):
        return np.empty((0, 6), dtype=np.int64)
    longest = int(max(mentions[:, 2].max(), sentences[:, 2].max())) + 1
    mentions = mentions[np.argsort(_joined(mentions[:, [0, 2, 1]]), kind="stable")]
    sentences = sentences[np.argsort(_joined(sentences), kind="stable")]
    begins = sentences[:, 0] * longest + sentences[:, 1]
    at = np.searchsorted(begins, mentions[:, 0] * longest + mentions[:, 2], side="right") - 1
    inside = (at >= 0) & (sentences[at, 0] == mentions[:, 0]) & (mentions[:, 2] < sentences[at, 2])
    entity, sentence = mentions[inside, 1], at[inside]
    pairs = [_apart(entity, sentence, distance) for distance in range(1, REACH + 1)]
    found = distinct(np.concatenate(pairs))
    where = sentences[found[:, 2]]
    return np.column_stack([found[:, :2], np.full(len(found), TOGETHER), where])


def _apart(entity: Numbers, sentence: Numbers, distance: int) -> Numbers:
    """(lower entity, higher entity, sentence) of the mentions so far apart in one sentence."""
    one, other = entity[:-distance], entity[distance:]
    same = (sentence[:-distance] == sentence[distance:]) & (one != other)
    one, other = one[same], other[same]
    return np.column_stack([np.minimum(one, other), np.maximum(one, other), sentence[:-distance][same]])


def distinct(rows: Numbers) -> Numbers:
    """Every row of numbers that are not negative once, sorted. `numpy.unique` takes rows apart byte by byte, which is
    slow."""
    if not len(rows):
        return rows
    sizes = [int(column.max()) + 1 for column in rows.T]
    if math.prod(sizes) > _ROOM:
        order = np.argsort(joined := _joined(rows), kind="stable")
        return rows[order[_is_first(joined[order])]]
    joined = np.sort(_joined(rows))  # the numbers alone: several times as quick as to sort their places
    joined = joined[_is_first(joined)]
    columns = []
    for size in reversed(sizes):
        joined, column = np.divmod(joined, size)
        columns.append(column)
    return np.column_stack(columns[::-1])


def _joined(rows: Numbers) -> Numbers:
    """A number for each row, in the order of the rows: one sort of these costs what sorting by one column does."""
    joined = np.zeros(len(rows), dtype=np.int64)
    reached = 1
    for column in rows.T:
        size = int(column.max(initial=0)) + 1
        if reached * size > _ROOM:
            _, joined = np.unique(joined, return_inverse=True)
            reached = len(rows)
        joined = joined * size + column
        reached *= size
    return joined


def _is_first(joined: Numbers) -> NDArray[np.bool_]:
    """Which of sorted numbers are not the same as the one before."""
    return np.concatenate(([True], joined[1:] != joined[:-1]))
