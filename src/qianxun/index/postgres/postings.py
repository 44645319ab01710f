"""Postings packed into tables: for each term of a segment one row, with four bytes for each entry it occurs in.

    bits 0-15   the entry's row, counted from the start of its block of 65,536 rows
    bits 16-23  how often the term occurs there; 255 is the maximum
    bits 24-31  the length of the entry's field, rounded as tantivy rounds it: scores are the same on both

A batch makes a segment, and neighbouring segments of a block are merged as they become many: their packed numbers
only have to be concatenated, which the server does by itself. Nothing is ever changed inside a segment, but
one that has too many dead entries is written anew without them.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, count, groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.index.bm25 import TOKEN, norm_codes
from qianxun.index.postgres.server import Tx, bigints
from qianxun.index.postgres.tables import Segment, Tables
from qianxun.index.shared import unusable, writable

BLOCK: Final = 1 << 16
MOST: Final = 255
FAN: Final = 8  # segments of a size that are merged
SLICES: Final = 16  # parts in which a segment is written anew, so that it need not fit in memory
COLUMNS: Final = "segment, term, entries, data"
WORDS, GRAMS = "w", "g"

Postings = NDArray[np.uint32]


@lru_cache(maxsize=200_000)
def term_hash(field: str, term: str) -> int:
    """The 64 bits that identify a term of a field, as a bigint."""
    digest = blake2b(f"{field}{term}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass(frozen=True, slots=True)
class TokenisedField:
    """Texts of one field, tokenised: their lengths, and which term (of ``terms``) occurs how often where."""

    lengths: NDArray[np.int64]
    terms: tuple[str, ...]
    term: NDArray[np.int64]
    place: NDArray[np.int64]
    times: NDArray[np.int64]


def counted(texts: Sequence[str]) -> TokenisedField:
    """At most a block of them."""
    tokens = [TOKEN.findall(writable(text)) for text in texts]
    lengths = np.array([len(words) for words in tokens], dtype=np.int64)
    known: defaultdict[str, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(known.__getitem__, chain.from_iterable(tokens)), np.int64, int(lengths.sum()))
    places = np.repeat(np.arange(len(texts)), lengths)
    pairs, times = np.unique(codes << 16 | places, return_counts=True)
    return TokenisedField(lengths, tuple(known), pairs >> 16, pairs & (BLOCK - 1), times)


def records(segment: int, field: str, counts: TokenisedField) -> bytes:
    """The rows of a segment, whose entries follow each other from row ``segment`` on, for a binary COPY."""
    norms = norm_codes(counts.lengths)
    offsets = counts.place + segment % BLOCK
    numbers = offsets | np.minimum(counts.times, MOST) << 16 | norms[counts.place] << 24
    data = numbers.astype("<u4").tobytes()
    ends = np.cumsum(np.bincount(counts.term, minlength=len(counts.terms))).tolist()
    spans = zip([0, *ends], ends, strict=False)
    hashed = sorted((term_hash(field, term), *span) for term, span in zip(counts.terms, spans, strict=True))
    return b"".join(_record(segment, term, data[4 * start : 4 * end]) for term, start, end in hashed)


def _record(segment: int, term: int, data: bytes) -> bytes:
    return struct.pack(">hiiiqiii", 4, 4, segment, 8, term, 4, len(data) // 4, len(data)) + data


def decoded(data: bytes, entries: int) -> Postings:
    """Raises IndexUnusable when it is not as many postings as it should be."""
    if len(data) != 4 * entries:
        raise unusable("倒排表的长度不对")
    return np.frombuffer(data, dtype="<u4")


def rows_of(segment: int, postings: Postings) -> NDArray[np.int64]:
    return (postings & np.uint32(BLOCK - 1)).astype(np.int64) + (segment - segment % BLOCK)


# ── adding ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AddedSegments:
    """New segments, and the lengths of the entries in them."""

    segments: tuple[Segment, ...]
    words: NDArray[np.int64]
    grams: NDArray[np.int64]


def add(tx: Tx, tables: Tables, first: int, words: Sequence[str], grams: Sequence[str]) -> AddedSegments:
    """The postings of entries that have the rows from ``first`` on; a segment never crosses a block."""
    segments: list[Segment] = []
    lengths: dict[str, list[NDArray[np.int64]]] = {WORDS: [np.empty(0, np.int64)], GRAMS: [np.empty(0, np.int64)]}
    for start, end in _by_block(first, len(words)):
        for field, texts in ((WORDS, words), (GRAMS, grams)):
            found = counted(texts[start - first : end - first])
            lengths[field].append(found.lengths)
            tx.copy_in(tables.postings, COLUMNS, records(start, field, found))
        segments.append(Segment(start, end - start, end - start))
    return AddedSegments(tuple(segments), np.concatenate(lengths[WORDS]), np.concatenate(lengths[GRAMS]))


def _by_block(first: int, number: int) -> Iterator[tuple[int, int]]:
    last = first + number
    while first < last:
        end = min(last, first - first % BLOCK + BLOCK)
        yield first, end
        first = end


def with_deaths(segments: Sequence[Segment], rows: NDArray[np.int64]) -> tuple[Segment, ...]:
    """The segments, with these rows counted as dead."""
    ends = np.array([segment.first for segment in segments], dtype=np.int64)
    fresh = np.bincount(np.searchsorted(ends, rows, side="right") - 1, minlength=len(segments))
    return tuple(
        replace(segment, dead=segment.dead + int(number)) for segment, number in zip(segments, fresh, strict=True)
    )


# ── merging ─────────────────────────────────────────────────────────────────────────────


def mergeable(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The next neighbours to merge; none when all is well.

    Blocks before the last are full: one segment each. In the last one eight of a size become one.
    """
    if not segments:
        return ()
    last = segments[-1].first // BLOCK
    for block in sorted({segment.first // BLOCK for segment in segments} - {last}):
        group = tuple(segment for segment in segments if segment.first // BLOCK == block)
        if len(group) > 1:
            return group
    own = [segment for segment in segments if segment.first // BLOCK == last]
    for size in (FAN**power for power in range(1, 7)):
        tail: list[Segment] = []
        for segment in reversed(own):
            if segment.entries > size:
                break
            tail.append(segment)
        if len(tail) >= FAN:
            return tuple(reversed(tail))
    return ()


def merge(tx: Tx, tables: Tables, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The segments, once they are few enough."""
    while group := mergeable(segments):
        merged = _joined(group)
        tx.run(
            f"""WITH parts AS (DELETE FROM {tables.postings} WHERE segment = ANY(%(group)s::bigint[])
                    RETURNING segment, term, entries, data)
                INSERT INTO {tables.postings} ({COLUMNS})
                SELECT %(first)s, term, sum(entries), string_agg(data, ''::bytea ORDER BY segment)
                FROM parts GROUP BY term ORDER BY term""",
            group=bigints([segment.first for segment in group]),
            first=merged.first,
        )
        segments = tuple(sorted([s for s in segments if s not in group] + [merged], key=lambda s: s.first))
    return tuple(segments)


def compact(tx: Tx, tables: Tables, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """One segment for each block, in a table that holds nothing else: merging in place leaves room behind."""
    blocks = [list(group) for _, group in groupby(segments, key=lambda segment: segment.first // BLOCK)]
    if len(blocks) == len(segments):
        return tuple(segments)
    old, new = tables.postings, tables.compacted
    tx.run(f"CREATE TABLE {new} (LIKE {old} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)")
    tx.run(
        f"""INSERT INTO {new} ({COLUMNS})
            SELECT (%(firsts)s::bigint[])[1 + segment / {BLOCK}], term, sum(entries),
                string_agg(data, ''::bytea ORDER BY segment)
            FROM {old} GROUP BY segment / {BLOCK}, term ORDER BY 1, 2""",
        firsts=bigints(_firsts(blocks)),
    )
    tx.run(f"DROP TABLE {old}")
    tx.run(f"ALTER TABLE {new} RENAME TO {old.partition('.')[2]}")
    tx.run(f"ALTER TABLE {old} ADD PRIMARY KEY (segment, term)")
    return tuple(_joined(group) for group in blocks)


def _firsts(blocks: Sequence[Sequence[Segment]]) -> list[int]:
    """The first segment of each block, by the number of the block; there are blocks without any."""
    known = {group[0].first // BLOCK: group[0].first for group in blocks}
    return [known.get(number, 0) for number in range(max(known) + 1)]


def _joined(group: Sequence[Segment]) -> Segment:
    first, end = group[0].first, group[-1].first + group[-1].rows
    return Segment(first, end - first, sum(part.entries for part in group), sum(part.dead for part in group))


def purge(
    tx: Tx, tables: Tables, segments: Sequence[Segment], is_stale: Callable[[Segment], bool]
) -> tuple[Segment, ...]:
    """Rewrites stale segments without their dead; one without live entries is removed."""
    result: list[Segment] = []
    for segment in segments:
        if segment.dead == 0 or not is_stale(segment):
            result.append(segment)
            continue
        inside = f"row >= {segment.first:d} AND row < {segment.first + segment.rows:d}"
        dead = tx.ints(f"SELECT row AS value FROM {tables.deaths} WHERE {inside}")
        _rewrite(tx, tables, segment, dead)
        tx.run(f"DELETE FROM {tables.deaths} WHERE {inside}")
        if segment.dead < segment.entries:
            result.append(replace(segment, entries=segment.entries - segment.dead, dead=0))
    return tuple(result)


def _rewrite(tx: Tx, tables: Tables, segment: Segment, dead: NDArray[np.int64]) -> None:
    if segment.dead >= segment.entries:
        tx.run(f"DELETE FROM {tables.postings} WHERE segment = %(segment)s", segment=segment.first)
        return
    is_dead = np.zeros(BLOCK, dtype=bool)
    is_dead[dead % BLOCK] = True
    for start, end in slices():
        found = tx.rows(
            f"""DELETE FROM {tables.postings} WHERE segment = %(segment)s AND term BETWEEN %(start)s AND %(end)s
                RETURNING term, entries, data""",
            segment=segment.first,
            start=start,
            end=end,
        )
        living: list[bytes] = []
        for term, entries, data in sorted(found):
            postings = decoded(data, entries)
            alive = postings[~is_dead[postings & np.uint32(BLOCK - 1)]]
            if len(alive):
                living.append(_record(segment.first, term, alive.tobytes()))
        tx.copy_in(tables.postings, COLUMNS, b"".join(living))


def slices() -> Iterator[tuple[int, int]]:
    """The numbers that a bigint holds, in parts."""
    width = 2**64 // SLICES
    for start in range(-(2**63), 2**63, width):
        yield start, start + width - 1
