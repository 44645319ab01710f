"""A graph around one name as SVG: the name in the middle, its neighbours around it. Names are escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

WIDTH, HEIGHT = 720, 460
ACROSS, DOWN = 285, 175  # of the ellipse that the neighbours are on
SHOWN: Final = 24  # neighbours
NAME: Final = 12  # characters of a name, and of a relation, that are drawn


@dataclass(frozen=True, slots=True)
class Neighbour:
    id: str
    name: str
    relation: str
    is_outgoing: bool  # from the middle
    is_stated: bool  # not only in the same sentences


def ego_graph(centre: str, neighbours: Sequence[Neighbour], title: str, address: Callable[[str], str]) -> Markup:
    """``address`` gives the page of a name."""
    shown = neighbours[:SHOWN]
    drawn = [_edge(one, *_place(at, len(shown))) for at, one in enumerate(shown)]
    drawn += [_node(one, *_place(at, len(shown)), address(one.id)) for at, one in enumerate(shown)]
    middle = Markup('<g class="node centre"><circle cx="{}" cy="{}" r="34"/><text x="{}" y="{}">{}</text></g>').format(
        WIDTH / 2, HEIGHT / 2, WIDTH / 2, HEIGHT / 2 + 5, _short(centre)
    )
    return Markup('<svg class="ego" viewBox="0 0 {} {}" role="group" aria-label="{}">{}{}</svg>').format(
        WIDTH, HEIGHT, title, Markup("").join(drawn), middle
    )


def _place(at: int, count: int) -> tuple[float, float]:
    """On an ellipse; every second one a little further in, so that long names have room."""
    turn = 2 * math.pi * at / max(count, 1) - math.pi / 2
    nearer = 0.74 if count > 8 and at % 2 else 1.0
    return WIDTH / 2 + ACROSS * nearer * math.cos(turn), HEIGHT / 2 + DOWN * nearer * math.sin(turn)


def _edge(one: Neighbour, x: float, y: float) -> Markup:
    middle_x, middle_y = WIDTH / 2, HEIGHT / 2
    label_x, label_y = middle_x + (x - middle_x) * 0.55, middle_y + (y - middle_y) * 0.55
    arrow = "→" if one.is_outgoing else "←"
    text = (
        Markup("")
        if not one.is_stated
        else Markup('<text class="relation" x="{}" y="{}">{} {}</text>').format(
            round(label_x), round(label_y), _short(one.relation), arrow
        )
    )
    return Markup('<line class="edge {}" x1="{}" y1="{}" x2="{}" y2="{}"/>{}').format(
        "stated" if one.is_stated else "shared", middle_x, middle_y, round(x), round(y), text
    )


def _node(one: Neighbour, x: float, y: float, address: str) -> Markup:
    return Markup(
        '<a href="{}"><title>{}</title><g class="node"><circle cx="{}" cy="{}" r="9"/>'
        '<text x="{}" y="{}">{}</text></g></a>'
    ).format(address, one.name, round(x), round(y), round(x), round(y) + 24, _short(one.name))


def _short(text: str) -> str:
    return text if len(text) <= NAME else text[: NAME - 1] + "…"
