"""Large products of cases: `make test` tries a fixed share, `make torture` (it sets QIANXUN_TEST_SEED) all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
IS_WHOLE = bool(os.environ.get("QIANXUN_TEST_SEED"))


def sampled(items: Iterable[T], one_in: int, offset: int = 0) -> Iterator[T]:
    """Every ``one_in``-th item. Give the number of the row as ``offset``: then every item turns up in some rows."""
    for number, item in enumerate(items):
        if IS_WHOLE or (number + offset) % one_in == 0:
            yield item


def share(whole: int, in_suite: int) -> int:
    """How many rounds or examples to run."""
    return whole if IS_WHOLE else in_suite
