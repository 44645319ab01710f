"""Which keyword indexes are open: tantivy starts a thread for each, and keeps memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol

OPEN_KEYWORDS: Final = 64  # at a time


class WithKeywords(Protocol):
    def release_keywords(self) -> bool:
        """Closes the keyword index until it is needed again. Returns False if it is being written to."""


class OpenKeywords:
    """The keyword indexes of one backend that are open. The one that was not used for longest gives way to another."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._recent: OrderedDict[WithKeywords, None] = OrderedDict()
        self._changing = threading.Lock()  # searches are in several threads

    def use(self, index: WithKeywords) -> None:
        with self._changing:
            self._recent[index] = None
            self._recent.move_to_end(index)
            idle = self._recent.popitem(last=False)[0] if len(self._recent) > self._most else None
        if idle is not None and not idle.release_keywords():  # it is being written to: another time
            with self._changing:
                self._recent[idle] = None

    def forget(self, index: WithKeywords) -> None:
        with self._changing:
            self._recent.pop(index, None)
