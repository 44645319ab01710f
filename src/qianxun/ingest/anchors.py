"""Finding a correction's words again in a text that may have changed. `locate` is the function to read first.

Found only where the same words stand, whatever space is between them; where they stand more than once, or are too few
to be told from others by themselves, only where what is around them agrees, too. Otherwise the correction is set aside
with a reason: one that is looked at by people is better than one that is applied to other text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final

from qianxun.core.documents import Piece
from qianxun.core.governance.corrections import Anchor

AROUND: Final = 40  # characters before and after that are remembered, without space
SURE: Final = 32  # as many characters tell a text from others by themselves
GONE: Final = "文档里已经没有这段文字"
PART: Final = "这段文字如今是一段更长的文字的一部分"
UNCLEAR: Final = "文档里有 {count} 处同样的文字，分不清是哪一处"
OTHER_COPY: Final = "同样的文字原有几处，剩下的这一处认不准"
TOO_SHORT: Final = "这段文字太短，它的前后又变了，认不准"
_CLOSING: Final = frozenset("。！？；!?;…｡：:”’」』》】)）|")  # after which a text may end


@dataclass(frozen=True)
class SearchedText:
    """A document's text without its space, and where its pieces lie before any correction."""

    content: str
    pieces: Sequence[Piece]

    @cached_property
    def solid(self) -> str:
        return "".join(self.content.split())

    @cached_property
    def places(self) -> list[int]:
        """Where each character of ``solid`` stands in the content."""
        return [at for at, sign in enumerate(self.content) if not sign.isspace()]

    @cached_property
    def digest(self) -> str:
        return blake2b(self.solid.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    @cached_property
    def _starts(self) -> list[int]:
        return [piece.start for piece in self.pieces if piece.end > piece.start]

    def headings(self, offset: int) -> tuple[str, ...]:
        """Above a place in the content."""
        at = bisect_right(self._starts, offset) - 1
        return self.pieces[at].headings if 0 <= at < len(self.pieces) else ()

    def span(self, first: int, length: int) -> tuple[int, int]:
        """Of characters of ``solid``, in the content."""
        return self.places[first], self.places[first + length - 1] + 1

    def occurrences(self, quote: str) -> list[int]:
        """Where these words begin in ``solid``."""
        found, at = [], self.solid.find(quote) if quote else -1
        while at >= 0:
            found.append(at)
            at = self.solid.find(quote, at + 1)
        return found

    def around(self, first: int, length: int) -> tuple[str, str]:
        last = first + length
        return self.solid[max(first - AROUND, 0) : first], self.solid[last : last + AROUND]


def anchor_of(text: SearchedText, start: int, end: int, chunk_id: str = "") -> Anchor:
    """The anchor of ``content[start:end]``."""
    quote = "".join(text.content[start:end].split())
    first = len("".join(text.content[:start].split()))
    before, after = text.around(first, len(quote))
    copies = len(text.occurrences(quote))
    above = text.headings(start)
    return Anchor(text.content[start:end], before, after, above, first, copies, text.digest, chunk_id)


def locate(text: SearchedText, anchor: Anchor) -> tuple[int, int] | str:
    """Where the words of an anchor stand in the content; or, for people, why they cannot be told."""
    quote = "".join(anchor.quote.split())
    found = text.occurrences(quote)
    if not found:
        return GONE
    if anchor.digest == text.digest and anchor.place in found:
        return text.span(anchor.place, len(quote))
    own = [at for at in found if _ends_there(text, anchor, at, len(quote))]
    if not own:
        return PART
    if len(own) == 1 and anchor.copies == 1:
        at = own[0]
        is_known = len(quote) >= SURE or any(_agrees(text, anchor, at, len(quote)))
        return text.span(at, len(quote)) if is_known else TOO_SHORT
    chosen = _the_one(text, anchor, own, len(quote))
    if chosen is not None:
        return text.span(chosen, len(quote))
    return OTHER_COPY if len(own) == 1 else UNCLEAR.format(count=len(own))


def _the_one(text: SearchedText, anchor: Anchor, found: Sequence[int], length: int) -> int | None:
    """Of several places the only one whose surroundings agree: on both sides; or under the same headings."""
    agreeing = [at for at in found if all(_agrees(text, anchor, at, length))]
    if len(agreeing) == 1:
        return agreeing[0]
    above = [at for at in agreeing or found if text.headings(text.places[at]) == anchor.headings]
    return above[0] if anchor.headings and len(above) == 1 else None


def _agrees(text: SearchedText, anchor: Anchor, at: int, length: int) -> tuple[bool, bool]:
    before, after = text.around(at, length)
    return before == anchor.before, after == anchor.after


def _ends_there(text: SearchedText, anchor: Anchor, at: int, length: int) -> bool:
    """Whether the words end where the anchor's did: 封顶线 10 万元 is not the beginning of 封顶线 10 万元以上."""
    start, end = text.span(at, length)
    content, quote = text.content, anchor.quote
    before, after = text.around(at, length)
    begins = start == 0 or content[start - 1].isspace() or content[start - 1] in _CLOSING
    ends = end == len(content) or content[end].isspace() or quote[-1] in _CLOSING
    return (begins or before[-1:] == anchor.before[-1:]) and (ends or after[:1] == anchor.after[:1])
