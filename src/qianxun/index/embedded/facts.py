"""Filters over facts, one per value of a chunk's attributes, stored as columns.

A fact is found by the hash of its field and value, so equality is one pass over an array of integers; ranges and
spellings decode the distinct values of their field and test them with `qianxun.core.types.matches`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import And, Attributes, Eq, Everything, Filter, In, Not, Or, Range, Scalar, Spelled, matches
from qianxun.index.shared import hash_fact, hash_name, hash_text, pairs

FACT = np.dtype([("fact", "<u8"), ("field", "<u8"), ("start", "<u8"), ("owner", "<u4"), ("size", "<u4")])
# Of an owner with a fact that another one has already: its number among the `FACT`s, a quarter of the space.
REPEAT = np.dtype([("of", "<u4"), ("owner", "<u4")])
KNOWN_VALUES = 200_000  # values in memory so that a repeated one is stored once

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Facts:
    """Columns of equal length; ``values`` gives the heap that ``start`` and ``size`` point into."""

    fact: NDArray[np.uint64]
    field: NDArray[np.uint64]
    start: NDArray[np.uint64]
    owner: NDArray[np.uint32]
    size: NDArray[np.uint32]
    values: Callable[[], bytes]


class Encoded(NamedTuple):
    """Facts to append: all of them, as they are in memory; and as they are stored, each once, with its repeats."""

    every: NDArray[np.void]
    once: NDArray[np.void]
    repeats: NDArray[np.void]
    heap: bytes


class FactWriter:
    """Turns attributes into facts to append; knows where a value is stored already."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, type, Scalar], tuple[int, int, int, int, int]] = {}
        self._end = 0

    def encode(self, owners: Mapping[int, Attributes], heap_size: int, number: int) -> Encoded:
        """The facts of each owner, after ``number`` that are stored, and a heap that is ``heap_size`` long."""
        if heap_size != self._end:
            self._known.clear()  # what was last encoded never became part of the heap
        heap: list[bytes] = []
        places: list[tuple[int, int, int, int, int]] = []
        once: list[int] = []
        counts: list[int] = []
        for attributes in owners.values():
            before = len(places)
            for name, value in pairs(attributes):
                known = self._known.get((name, type(value), value))
                if known is None:
                    stored = json.dumps(value).encode("ascii")
                    known = (hash_fact(name, value), hash_name(name), heap_size, len(stored), number + len(once))
                    once.append(len(places))
                    heap.append(stored)
                    heap_size += len(stored)
                    self._note((name, type(value), value), known)
                places.append(known)
            counts.append(len(places) - before)
        self._end = heap_size
        table = np.zeros(len(places), dtype=FACT)
        if places:  # by columns: numpy takes three times as long to make records of tuples
            *columns, numbers = np.array(places, dtype=np.uint64).T
            table["fact"], table["field"], table["start"], table["size"] = columns
            table["owner"] = np.repeat(np.fromiter(owners, np.uint32, len(owners)), counts)
            return Encoded(table, *parted(table, np.array(once, dtype=np.int64), numbers), b"".join(heap))
        return Encoded(table, table, np.zeros(0, dtype=REPEAT), b"")

    def _note(self, key: tuple[str, type, Scalar], place: tuple[int, int, int, int, int]) -> None:
        if key[0] == "doc_id":
            return  # seldom repeated, and one per document
        if len(self._known) >= KNOWN_VALUES:
            self._known.clear()
        self._known[key] = place


def parted(
    table: NDArray[np.void], once: NDArray[np.int64], numbers: NDArray[np.integer]
) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Facts as they are stored: those at the places ``once``, and the others as repeats of those with their numbers."""
    is_repeated = np.ones(len(table), dtype=bool)
    is_repeated[once] = False
    repeats = np.zeros(len(table) - len(once), dtype=REPEAT)
    repeats["of"], repeats["owner"] = numbers[is_repeated], table["owner"][is_repeated]
    return table[once], repeats


def every_fact(stored: NDArray[np.void], repeats: NDArray[np.void]) -> Mapping[str, NDArray[np.unsignedinteger]]:
    """The stored facts, then those that repeats stand for, as columns."""
    columns = {name: np.array(stored[name]) for name in FACT.names or ()}
    owners, of = np.concatenate([columns["owner"], repeats["owner"]]), repeats["of"].astype(np.intp)
    return {name: np.concatenate([own, own.take(of)]) for name, own in columns.items() if name != "owner"} | {
        "owner": owners
    }


def passing(where: Filter, facts: Facts, owners: int) -> Mask:
    """Which owners the filter lets through: exactly those whose attributes `matches` accepts."""
    match where:
        case Everything():
            return np.ones(owners, dtype=bool)
        case Eq(name, value):
            return _with_value(facts, owners, name, (value,))
        case In(name, values):
            return _with_value(facts, owners, name, values)
        case Range() | Spelled():
            return _tested(where, facts, owners)
        case And(parts):
            return _combined(np.logical_and, (passing(part, facts, owners) for part in parts), owners, True)
        case Or(parts):
            return _combined(np.logical_or, (passing(part, facts, owners) for part in parts), owners, False)
        case Not(part):
            return ~passing(part, facts, owners)


def _combined(operation: np.ufunc, masks: Iterable[Mask], owners: int, start: bool) -> Mask:
    result = np.full(owners, start)
    for mask in masks:
        operation(result, mask, out=result)
    return result


def _with_value(facts: Facts, owners: int, name: str, values: Iterable[Scalar]) -> Mask:
    hashes = {hash_fact(name, value) for value in values if value == value}  # NaN equals nothing
    return _owners_of(facts, owners, np.array(sorted(hashes), dtype=np.uint64))


def _owners_of(facts: Facts, owners: int, hashes: NDArray[np.uint64]) -> Mask:
    mask = np.zeros(owners, dtype=bool)
    if len(hashes) == 0:
        return mask
    found = facts.fact == hashes[0] if len(hashes) == 1 else np.isin(facts.fact, hashes)
    mask[facts.owner[found]] = True
    return mask


def _tested(where: Range | Spelled, facts: Facts, owners: int) -> Mask:
    places = np.flatnonzero(facts.field == np.uint64(hash_text(where.field)))
    distinct, first = np.unique(facts.fact[places], return_index=True)
    heap = facts.values() if len(first) else b""
    bare = replace(where, field="metadata.v")
    passed = np.zeros(len(distinct), dtype=bool)
    for at, place in enumerate(places[first].tolist()):
        start = int(facts.start[place])
        value = json.loads(heap[start : start + int(facts.size[place])])
        passed[at] = matches(bare, Attributes(doc_id="", metadata={"v": value}))
    return _owners_of(facts, owners, distinct[passed])
