"""Equations of Office files in one line: S=πr^2, a/(b+c), √(x)."""

from __future__ import annotations

import re
from typing import Any, Final

_M: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
EQUATIONS: Final = (_M + "oMath", _M + "oMathPara")
_SIMPLE: Final = re.compile(r"[\w.%°′∞]{0,20}")
_DEEPEST: Final = 40


def linear(node: Any, depth: int = 0) -> str:
    """The equation at and below ``node`` as a reader would type it."""
    if depth > _DEEPEST:
        return "".join(node.itertext())
    if node.tag == _M + "t":
        return node.text or ""
    if not isinstance(node.tag, str) or node.tag.endswith("Pr"):
        return ""
    name = node.tag.removeprefix(_M)
    if name in ("sSup", "sSub", "sSubSup", "nary"):
        return _scripted(node, depth)
    if name == "f":
        return f"{_grouped(_part(node, 'num', depth))}/{_grouped(_part(node, 'den', depth))}"
    if name == "rad":
        return f"{_part(node, 'deg', depth)}√({_part(node, 'e', depth)})"
    inner = ("，" if name in ("d", "mr") else "").join(linear(child, depth + 1) for child in node if _speaks(child))
    return f"({inner})" if name == "d" else inner


def _scripted(node: Any, depth: int) -> str:
    below, above = _part(node, "sub", depth), _part(node, "sup", depth)
    base = _part(node, "e", depth)
    marks = (f"_{_grouped(below)}" if below else "") + (f"^{_grouped(above)}" if above else "")
    if node.tag == _M + "nary":
        sign = node.find(f"{_M}naryPr/{_M}chr")
        return (sign.get(_M + "val", "∫") if sign is not None else "∫") + marks + base
    return base + marks


def _part(node: Any, name: str, depth: int) -> str:
    found = node.find(_M + name)
    return linear(found, depth + 1) if found is not None else ""


def _speaks(node: Any) -> bool:
    return isinstance(node.tag, str) and not node.tag.endswith("Pr")


def _grouped(text: str) -> str:
    return text if _SIMPLE.fullmatch(text) else f"({text})"
