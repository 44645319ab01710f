"""Which keyword indexes are open: tantivy starts a thread for each, and keeps memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol
from weakref import ref

OPEN_KEYWORDS: Final = 64  # at a time


class WithKeywords(Protocol):
    def release_keywords(self) -> bool:
        """Closes the keyword index until it is needed again. Returns False if it is being written to."""


class OpenKeywords:
    """The keyword indexes of one backend that are open. The one that was not used for longest gives way to another.

    An index that nobody else refers to any more is not held by being here.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._recent: OrderedDict[int, ref[WithKeywords]] = OrderedDict()  # by `id`
        self._changing = threading.RLock()  # searches are in several threads; an index may go while it is held

    def use(self, index: WithKeywords) -> None:
        number = id(index)
        with self._changing:
            if number not in self._recent:
                self._recent[number] = ref(index, lambda _: self._remove(number))
            self._recent.move_to_end(number)
            idle = self._recent.popitem(last=False)[1]() if len(self._recent) > self._most else None
        if idle is not None and not idle.release_keywords():  # it is being written to: another time
            with self._changing:
                again = id(idle)
                self._recent[again] = ref(idle, lambda _: self._remove(again))

    def forget(self, index: WithKeywords) -> None:
        self._remove(id(index))

    def _remove(self, number: int) -> None:
        with self._changing:
            self._recent.pop(number, None)
