"""A chunk in its place: below the headings that it stands under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LONGEST_ABOVE: Final = 160  # characters: more would leave too little of a chunk to a model that reads 512 tokens


def under_headings(text: str, headings: Sequence[str]) -> str:
    """A chunk's text as it is searched: below those of its headings that it does not begin with, a line for each.

    What is shown is the text alone. Of headings that are too long together the innermost stay.
    """
    above = _above(text, headings)
    return "\n".join((*above, text)) if above else text


def below_headings(text: str, headings: Sequence[str]) -> str:
    """A chunk's text without those of its headings that are lines at its top; all of it where it is nothing else.

    What only begins like a heading stays: 1 is the number of a clause, 15 个工作日 what stands in it.
    """
    rest = text.lstrip()
    for heading in headings:
        line, _, below = rest.partition("\n")
        if line.split() == heading.split():
            rest = below.lstrip()
    return rest or text


def _above(text: str, headings: Sequence[str]) -> list[str]:
    held = next((at for at, heading in enumerate(headings) if heading and text.startswith(heading)), len(headings))
    kept: list[str] = []
    room = LONGEST_ABOVE
    for heading in reversed(headings[:held]):
        room -= len(heading) + 1
        if room < 0:
            break
        kept.append(heading)
    return [heading for heading in reversed(kept) if heading]
