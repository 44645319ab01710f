"""Which entries of an index belong to a population: worked out once for each state and population."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Population
from qianxun.index import bm25 as scoring
from qianxun.index.embedded.keywords.population import Members
from qianxun.index.embedded.rows import Rows
from qianxun.index.shared import unusable

CODES: Final = "codes"  # no population has such a digest


def known_members(rows: Rows, population: Population) -> Members | None:
    """Those that were worked out before."""
    found: Members | None = rows.populations.get(population.digest)
    return found


def members_of(rows: Rows, population: Population) -> Members:
    """Raises IndexUnusable for rows of an earlier version, which have no lengths: a rebuild gives them some."""
    found = known_members(rows, population)
    if found is None:
        found = _members(rows, rows.live & np.isin(rows.columns["document"], population.documents))
        rows.populations.put(population.digest, found)
    return found


def _codes(rows: Rows, first: int, last: int) -> dict[str, NDArray[np.uint8]]:
    """Of the lengths of all entries, by row: the same for every population."""
    found: dict[str, NDArray[np.uint8]] | None = rows.populations.get(CODES)
    if found is None:
        found = {}
        for name, shift in (("words", 0), ("grams", 8)):
            found[name] = np.zeros(last - first + 1, dtype=np.uint8)
            lengths = rows.columns["lengths"] >> shift & 255
            found[name][rows.columns["row"] - first] = np.maximum(lengths, 1) - 1
        rows.populations.put(CODES, found)
    return found


def live_members(rows: Rows) -> Members:
    """All that live."""
    return _members(rows, rows.live)


def _members(rows: Rows, mask: NDArray[np.bool_]) -> Members:
    columns = rows.columns
    searched = mask & rows.in_keywords()
    lengths = columns["lengths"]
    if len(rows) and not lengths[searched].all():
        raise unusable("由早先的版本建成，没有各条目的长度")
    numbers = columns["row"]
    first, last = (int(numbers[0]), int(numbers[-1])) if len(rows) else (0, -1)
    holds = np.zeros(last - first + 1, dtype=bool)
    holds[numbers[searched] - first] = True
    codes = _codes(rows, first, last)
    entries = int(np.count_nonzero(searched))
    averages = {
        name: scoring.average_length(float(scoring.NORMS[own[holds]].sum()), entries) for name, own in codes.items()
    }
    return Members(mask, numbers, first, holds, codes, entries, averages)
