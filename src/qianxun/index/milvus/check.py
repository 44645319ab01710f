"""Whether everything is there that was acknowledged: reads all of it, and counts it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from qianxun.index.milvus import terms
from qianxun.index.milvus.conditions import between
from qianxun.index.milvus.server import Milvus
from qianxun.index.milvus.states import CHUNKS, CONTENT, ENTRIES, QUESTION, State
from qianxun.index.milvus.vectors import spans
from qianxun.index.shared import row_sums, unusable

WINDOW: Final = 1_000
FIELDS: Final = ("id", "kind", "key", "words", "grams", "check_sum", "dense", "sparse")


def check(milvus: Milvus, name: str, state: State) -> None:
    """Raises IndexUnusable where a count or a sum is wrong."""
    kinds: Counter[int] = Counter()
    lengths = [0, 0]
    holders: Counter[int] = Counter()
    for start, end in spans(state, WINDOW):
        found = milvus.query(name, state.of_kinds(*ENTRIES) & between("serial", start, end), FIELDS, state.timestamp)
        rows = list({int(row["id"]): row for row in found}.values())
        kinds.update(int(row["kind"]) for row in rows)
        _vectors(rows, state.stamp.dimension)
        for row in rows:
            if row["kind"] in CHUNKS:
                lengths[0] += int(row["words"])
                lengths[1] += int(row["grams"])
                holders.update(term for term in row["sparse"] if term)
    if kinds[CONTENT] + kinds[CHUNKS[1]] != state.contents or lengths != [state.words, state.grams]:
        raise unusable("条目的数目或长度与登记的不符")
    if (kinds[CONTENT], kinds[QUESTION]) != state.vectors:
        raise unusable("向量的数目与登记的不符")
    _frequencies(milvus, name, state, holders)


def _vectors(rows: Sequence[Mapping[str, Any]], dimension: int) -> None:
    own = [row for row in rows if row["kind"] in (CONTENT, QUESTION)]
    if not own:
        return
    matrix: NDArray[np.float32] = np.array([row["dense"] for row in own], dtype=np.float32)[:, :dimension]
    if row_sums(matrix).astype(np.int64).tolist() != [int(row["check_sum"]) for row in own]:
        raise unusable("向量已损坏")


def _frequencies(milvus: Milvus, name: str, state: State, holders: Mapping[int, int]) -> None:
    found, counts = terms.Frequencies().follow(milvus, name, state).columns()
    if dict(zip(found.tolist(), counts.tolist(), strict=True)) != dict(holders):
        raise unusable("词频与条目不符")
