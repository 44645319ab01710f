"""Small plots as SVG: no script, no inline style; colours come from the style sheet by class. Values are escaped.

A plot says its numbers in words, too (``<title>``, ``role="img"``): put the table of the same numbers beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

WIDTH, HEIGHT = 320, 96
LEFT, BOTTOM, TOP = 34, 16, 8
SERIES: Final = 6  # colours

Point = tuple[str, float | None]  # label, value; None: no value there, and a gap in the line


def score_bar(share: float, kind: str = "score", label: str = "") -> Markup:
    """A bar from 0 to 1. ``kind`` is its colour: score, vector, keyword, qa, rerank …"""
    width = round(100 * min(max(share, 0.0), 1.0), 1)
    title = label or f"{share:.3f}"
    return Markup(
        '<svg class="bar bar-{}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="track" width="100" height="6" rx="3"/><rect class="fill" width="{}" height="6" rx="3"/></svg>'
    ).format(kind, title, width)


def line_plot(series: Sequence[tuple[str, Sequence[Point]]], title: str, *, unit: str = "") -> Markup:
    """Lines over the same labels, from zero. ``series`` are (name, points)."""
    values = [value for _, points in series for _, value in points if value is not None]
    if not values:
        return _empty(title)
    top = max(values) or 1.0
    labels = [label for label, _ in series[0][1]]
    drawn = Markup("").join(
        _line(points, top, number % SERIES, name, unit) for number, (name, points) in enumerate(series)
    )
    return _frame(title, _axes(labels, top) + drawn)


def bar_plot(points: Sequence[Point], title: str, *, unit: str = "", top: float | None = None) -> Markup:
    """A bar for every label, from zero; ``top`` is the end of the scale where that is known (1 for shares)."""
    values = [value for _, value in points if value is not None]
    if not values:
        return _empty(title)
    scale = top or max(values) or 1.0
    step = (WIDTH - LEFT) / len(points)
    bars = Markup("").join(
        Markup('<rect class="fill s0" x="{}" y="{}" width="{}" height="{}"><title>{}: {}{}</title></rect>').format(
            round(LEFT + step * (at + 0.15), 1),
            round(_y(value, scale), 1),
            round(max(step * 0.7, 0.5), 1),
            round(HEIGHT - BOTTOM - _y(value, scale), 1),
            label,
            _short(value),
            unit,
        )
        for at, (label, value) in enumerate(points)
        if value is not None
    )
    return _frame(title, _axes([label for label, _ in points], scale) + bars)


def _line(points: Sequence[Point], top: float, colour: int, name: str, unit: str) -> Markup:
    step = (WIDTH - LEFT) / max(len(points) - 1, 1)
    parts: list[list[str]] = [[]]
    for at, (_, value) in enumerate(points):
        if value is None:
            parts.append([])
        else:
            parts[-1].append(f"{LEFT + step * at:.1f},{_y(value, top):.1f}")
    lines = (part if len(part) > 1 else [*part, *part] for part in parts if part)
    last = next((value for _, value in reversed(points) if value is not None), 0.0)
    title = f"{name} {_short(last)}{unit}"
    return Markup("").join(
        Markup('<polyline class="line s{}" points="{}"><title>{}</title></polyline>').format(
            colour, " ".join(part), title
        )
        for part in lines
    )


def _axes(labels: Sequence[str], top: float) -> Markup:
    """Without a unit, for which there is no room: the caption names it."""
    ends = [(LEFT, "start", labels[0]), (WIDTH, "end", labels[-1])] if labels else []
    named = Markup("").join(
        Markup('<text class="label" x="{}" y="{}" text-anchor="{}">{}</text>').format(x, HEIGHT - 3, anchor, label)
        for x, anchor, label in ends
    )
    return (
        Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            LEFT, WIDTH, HEIGHT - BOTTOM, HEIGHT - BOTTOM
        )
        + Markup('<text class="label" x="{}" y="{}" text-anchor="end">{}</text>').format(LEFT - 4, TOP + 4, _short(top))
        + Markup('<text class="label" x="{}" y="{}" text-anchor="end">0</text>').format(LEFT - 4, HEIGHT - BOTTOM)
        + named
    )


def _frame(title: str, content: Markup) -> Markup:
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, title, content
    )


def _empty(title: str) -> Markup:
    return Markup('<p class="empty" aria-label="{}">—</p>').format(escape(title))


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - BOTTOM - TOP) * (1 - min(max(value / top, 0.0), 1.0))


def _short(value: float) -> str:
    """Three digits that count: 0.834, 12.5, 1.2k."""
    for limit, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if sign == 'k' else limit):.3g}{sign}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
