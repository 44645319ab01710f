"""Whether everything is there that was written: reads all of it, and counts it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.index.postgres.keywords import dead_rows
from qianxun.index.postgres.postings import BLOCK, MOST, decoded, slices
from qianxun.index.postgres.server import Tx
from qianxun.index.postgres.tables import Segment, State, Tables
from qianxun.index.shared import row_sums, unusable

PAGE: Final = 5_000  # rows of vectors that are read at once


def check(tx: Tx, tables: Tables, state: State) -> None:
    """Raises IndexUnusable where a count or a sum is wrong.

    The occurrences in an entry's postings add up to the lengths that the entry was written with, so that a posting that
    is lost, or altered, shows; a vector has a sum of its own.
    """
    tx.run("SET LOCAL statement_timeout = 0")
    dead = dead_rows(tx, tables, state)
    lengths = _entries(tx, tables, state)
    _owners(tx, tables)
    if state.stamp.dimension:
        _vectors(tx, tables, state)
    found = sum(segment.entries for segment in state.segments)
    if found - state.dead != state.contents:
        raise unusable("关键词部分与条目的数目不符")
    for segment in state.segments:
        _segment(tx, tables, segment, lengths, dead)


def _entries(tx: Tx, tables: Tables, state: State) -> NDArray[np.int64]:
    """The lengths of words and grams by row; −1 where there is no chunk."""
    found = tx.rows(
        f"SELECT row, words + grams, words, grams FROM {tables.entries} WHERE base = {state.base:d} AND lane = 0"
    )
    table = np.array(found, dtype=np.int64).reshape(-1, 4)
    counted = (len(table), int(table[:, 2].sum()), int(table[:, 3].sum()))
    if counted != (state.contents, state.words, state.grams):
        raise unusable("条目的数目或长度与登记的不符")
    lengths = np.full(state.next_row, -1, dtype=np.int64)
    lengths[table[:, 0]] = table[:, 1]
    return lengths


def _owners(tx: Tx, tables: Tables) -> None:
    for table in (tables.entries, tables.facts):
        if tx.one(
            f"SELECT FROM {table} t WHERE NOT EXISTS (SELECT FROM {tables.owners} o WHERE o.owner = t.owner) LIMIT 1"
        ):
            raise unusable("有条目的属性不见了")
    owners = tx.one(f"SELECT count(*), count(DISTINCT owner) FROM {tables.owners}")
    found = tx.one(f"SELECT count(DISTINCT owner) FROM {tables.facts}")
    if owners is None or found is None or owners[1] != found[0]:
        raise unusable("有条目的属性不见了")


def _vectors(tx: Tx, tables: Tables, state: State) -> None:
    counted = [0, 0]
    for rows in _vector_pages(tx, tables):
        found = np.frombuffer(b"".join(data[4:] for _, _, data in rows), dtype=">f4").astype("<f4")
        sums = row_sums(found.reshape(len(rows), -1)).astype(np.int64)
        if sums.tolist() != [check_sum for _, check_sum, _ in rows]:
            raise unusable("向量已损坏")
        for lane, _, _ in rows:
            counted[lane] += 1
    if tuple(counted) != state.vectors:
        raise unusable("向量的数目与登记的不符")
    stray = tx.one(
        f"""SELECT FROM {tables.vectors} v WHERE NOT EXISTS (SELECT FROM {tables.entries} e
            WHERE (e.row, e.key, e.lane, e.owner) = (v.row, v.key, v.lane, v.owner)) LIMIT 1"""
    )
    if stray is not None:
        raise unusable("向量与条目不符")


def _vector_pages(tx: Tx, tables: Tables) -> Iterator[list[tuple[int, int, bytes]]]:
    last = -1
    while True:
        found = tx.rows(
            f"""SELECT row, lane, check_sum, vector_send(embedding) FROM {tables.vectors} WHERE row > %(last)s
                ORDER BY row LIMIT {PAGE}""",
            last=last,
        )
        if not found:
            return
        last = found[-1][0]
        yield [(lane, check_sum, data) for _, lane, check_sum, data in found]


def _segment(
    tx: Tx, tables: Tables, segment: Segment, lengths: NDArray[np.int64], dead: NDArray[np.bool_] | None
) -> None:
    times = np.zeros(BLOCK, dtype=np.int64)
    capped = np.zeros(BLOCK, dtype=bool)  # whose occurrences are more than was written down
    for start, end in slices():
        found = tx.rows(
            f"""SELECT entries, data FROM {tables.postings} WHERE segment = %(segment)s
                AND term BETWEEN %(start)s AND %(end)s""",
            segment=segment.first,
            start=start,
            end=end,
        )
        for entries, data in found:
            numbers = decoded(data, entries)
            places, often = numbers & np.uint32(BLOCK - 1), numbers >> np.uint32(16) & np.uint32(MOST)
            np.add.at(times, places, often)
            capped[places[often == MOST]] = True
    rows = np.arange(segment.first, segment.first + segment.rows)
    rows = rows[lengths[rows] >= 0]
    if dead is not None and dead[rows].any():
        raise unusable("条目既在又不在")
    at = rows % BLOCK
    if not np.where(capped[at], times[at] <= lengths[rows], times[at] == lengths[rows]).all():
        raise unusable("倒排表已损坏或不完整")
