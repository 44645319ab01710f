"""Diagrams of Office files (SmartArt): their words, each on a line, indented below what it belongs to."""

from __future__ import annotations

from typing import Any, Final

from lxml import etree

_DGM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_UNSPOKEN: Final = ("parTrans", "sibTrans", "pres")  # arrows and positions
_MOST_POINTS: Final = 5_000


def diagrams_in(element: Any) -> list[str]:
    """The relations of an element's diagrams to their data."""
    found = (one.get(_R + "dm") for one in element.iter(_DGM + "relIds"))
    return [relation for relation in found if relation]


def diagram_text(data: bytes) -> str:
    """The words of a diagram in its own order. Raises ``etree.XMLSyntaxError`` for what is none."""
    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
    words: dict[str, str] = {}
    for point in root.iter(_DGM + "pt"):
        if point.get("type", "node") not in _UNSPOKEN and len(words) < _MOST_POINTS:
            words[point.get("modelId", "")] = " ".join(filter(None, map(_paragraph, point.iter(_A + "p"))))
    below: dict[str, list[tuple[int, str]]] = {}
    children: set[str] = set()
    for tie in root.iter(_DGM + "cxn"):
        source, target, order = tie.get("srcId", ""), tie.get("destId", ""), tie.get("srcOrd", "0")
        if tie.get("type", "parOf") == "parOf" and source in words and target in words:
            below.setdefault(source, []).append((int(order) if order.isdecimal() else 0, target))
            children.add(target)
    return "\n".join(_lines(words, below, [point for point in words if point not in children]))


def _paragraph(element: Any) -> str:
    return "".join(one.text or "" for one in element.iter(_A + "t")).strip()


def _lines(words: dict[str, str], below: dict[str, list[tuple[int, str]]], tops: list[str]) -> list[str]:
    lines: list[str] = []
    seen: set[str] = set()
    stack = [(point, 0) for point in reversed(tops)]
    while stack:
        point, depth = stack.pop()
        if point in seen:
            continue
        seen.add(point)
        if words[point]:
            lines.append("  " * depth + words[point])
        deeper = depth + bool(words[point])
        stack.extend((child, deeper) for _, child in sorted(below.get(point, ()), reverse=True))
    return lines
