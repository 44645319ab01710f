"""Values by the number of their owner, as two columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qianxun.graph.network.columns import Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Values by their owner's number (compressed sparse rows)."""

    begins: Numbers
    values: Numbers

    def of(self, owner: int) -> Numbers:
        return self.values[self.begins[owner] : self.begins[owner + 1]]


def grouped(count: int, owners: Numbers, values: Numbers) -> Grouped:
    order = np.argsort(owners, kind="stable")
    begins = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=count)))).astype(np.int64)
    return Grouped(begins, values[order])
