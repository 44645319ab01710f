"""The places in a result that speak of the question."""

from __future__ import annotations

from collections.abc import Sequence

from qianxun.text.matching import Span, spans

MOST = 3
WINDOW = 50


def highlights(
    text: str, words: Sequence[str], *, most: int = MOST, window: int = WINDOW, folded: str | None = None
) -> tuple[str, ...]:
    """At most ``most`` excerpts around matched words, in the text's order; those that would overlap are one.

    Of several, those with the most matched characters are kept. ``folded``: the text, where that has been done.
    """
    places = spans(text, [word for word in words if len(word) > 1] or words, folded)
    merged: list[tuple[Span, int]] = []
    for start, end in places:
        room = max(0, window - (end - start))
        begin = max(0, min(start - room // 2, len(text) - window))
        opened = (begin, max(end, min(len(text), begin + window)))
        if merged and opened[0] < merged[-1][0][1]:
            (first, last), weight = merged[-1]
            merged[-1] = ((first, max(last, opened[1])), weight + end - start)
        else:
            merged.append((opened, end - start))
    best = sorted(sorted(merged, key=lambda each: (-each[1], each[0]))[:most])
    return tuple(text[first:last] for (first, last), _ in best)
