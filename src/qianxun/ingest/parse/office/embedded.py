"""What is embedded in office files: pictures (by OCR), diagrams as indented lines, equations on one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from lxml import etree

from qianxun.core.documents import Block
from qianxun.core.errors import MissingExtra, Refused
from qianxun.ingest.parse.pages.image import arrange
from qianxun.ingest.parse.pages.ocr import load_picture, recognise
from qianxun.ingest.sandbox.limits import ParseLimits

_SMALLEST = 40  # pixels: anything smaller is an icon or a bullet
_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"RIFF", b"GIF8")


class Pictures:
    """Reads the pictures of one file, each once, and counts those it could not read."""

    def __init__(self, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> None:
        self._limits = limits
        self._on_page = on_page
        self._seen: set[bytes] = set()
        self._unread = 0
        self._reason = ""

    def read(self, data: bytes, page: int | None = None) -> Iterator[Block]:
        if data in self._seen or not data:
            return
        self._seen.add(data)
        if not self._limits.ocr or len(self._seen) > self._limits.pictures or not data.startswith(_SIGNATURES):
            self._unread += 1
            return
        try:
            pixels = load_picture(data, self._limits)
            if min(pixels.shape[:2]) >= _SMALLEST:
                yield from arrange(recognise(pixels), pixels, page)
                self._on_page()
        except (MissingExtra, Refused) as refusal:
            self._unread += 1
            self._reason = str(refusal)

    def warnings(self) -> tuple[str, ...]:
        if not self._unread:
            return ()
        return (f"{self._unread} 张图片未识别" + (f"：{self._reason}" if self._reason else ""),)


# ── diagrams (SmartArt) ───────────────────────────────────────────────────────────────────────────

_DGM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_WITHOUT_TEXT: Final = ("parTrans", "sibTrans", "pres")  # arrows and positions
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
        if point.get("type", "node") not in _WITHOUT_TEXT and len(words) < _MOST_POINTS:
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


# ── equations ─────────────────────────────────────────────────────────────────────────────────────

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
    inner = ("，" if name in ("d", "mr") else "").join(linear(child, depth + 1) for child in node if _has_text(child))
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


def _has_text(node: Any) -> bool:
    return isinstance(node.tag, str) and not node.tag.endswith("Pr")


def _grouped(text: str) -> str:
    return text if _SIMPLE.fullmatch(text) else f"({text})"
