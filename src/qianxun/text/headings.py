"""A chunk's text with the headings above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LONGEST_ABOVE: Final = 160  # characters
LONGEST_READ: Final = 510  # characters, never more than 512 tokens: services whose model reads so many refuse more
LEAST_ABOVE: Final = 50  # characters: what a model is spared for them, the next chunk repeats (`chunk_overlap`)


def under_headings(text: str, headings: Sequence[str]) -> str:
    """A chunk's text as it is searched: below those of its headings that it does not begin with, a line for each.

    What is shown is the text alone. Of headings that are too long together the innermost stay.
    """
    return "\n".join((*_above(text, headings, LONGEST_ABOVE), text)) if headings else text


def read_under_headings(text: str, headings: Sequence[str]) -> str:
    """The same for a model, which reads only so much: longer than `LONGEST_READ` only where the text itself is.

    Above a chunk that is nearly full there is room for the innermost headings alone, and they cost it its end.
    """
    if not headings:
        return text
    longest = max(len(text), LONGEST_READ)
    above = _above(text, headings, min(LONGEST_ABOVE, max(LEAST_ABOVE, longest - len(text))))
    return "\n".join((*above, text))[:longest]


def _above(text: str, headings: Sequence[str], room: int) -> list[str]:
    named = [heading for heading in headings if heading]
    included = next((at for at in range(len(named)) if _begins_with(text, named[at:])), len(named))
    above: list[str] = []
    for heading in reversed(named[:included]):
        room -= len(heading) + 1
        if room < 0:
            break
        above.append(heading)
    return above[::-1]


def _begins_with(text: str, headings: Sequence[str]) -> bool:
    """Whether it begins with all of these, one after the other: 采购人应当付款 does not begin with 采购 and 验收."""
    at = 0
    for heading in headings:
        if not text.startswith(heading, at):
            return False
        at += len(heading)
        while text[at : at + 1].isspace():
            at += 1
    return True
