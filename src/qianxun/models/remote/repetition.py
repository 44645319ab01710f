"""Whether a reply goes round in circles. Small models do at times, and stop only when they run out of room."""

from __future__ import annotations

from typing import Final

LONGEST_ROUND: Final = 200  # characters that are said again and again
SAID_AGAIN: Final = 1200  # characters of nothing else, which is at least six rounds
_EVERY: Final = 100  # characters after which it is looked at again


class Circling:
    """The end of one reply while it comes."""

    def __init__(self) -> None:
        self._end, self._unseen = "", 0

    def goes_on_with(self, piece: str) -> bool:
        """Whether the reply says nothing new for a long while by now."""
        self._end = (self._end + piece)[-SAID_AGAIN:]
        self._unseen += len(piece)
        if self._unseen < _EVERY or len(self._end) < SAID_AGAIN:
            return False
        self._unseen = 0
        return any(self._end.startswith(self._end[length:]) for length in range(1, LONGEST_ROUND + 1))
