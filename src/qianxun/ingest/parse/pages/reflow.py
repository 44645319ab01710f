"""Lines as a page was set, joined back into the paragraphs they were broken from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from qianxun.ingest.headings import heading_level

_ENDS: Final = re.compile(r"[。！？!?：:；;…”」』》】]$|\.$")
_OPENS: Final = re.compile(
    r"\s{0,8}(?:[（(][一二三四五六七八九十\d]{1,3}[)）]|[一二三四五六七八九十]{1,3}、"
    r"|\d{1,3}(?:\.\d{1,3}){0,3}[.、．)） ]"
    r"|第[一二三四五六七八九十百千零\d]{1,8}条|[•·●■◆○▪\-—*]\s|[①-⑳]|Q\d{0,3}[:：]|问[:：]|答[:：])"
)
_FULL: Final = 0.86  # a line at least this share of the usual full width ran to the margin
_NEAR: Final = 7
_NARROWEST: Final = 24
_HYPHENS: Final = "\ufffe\u00ad"


def reflow(lines: Sequence[str], filled: Sequence[bool] | None = None) -> list[str]:
    """Paragraphs. A line that ran to the margin and did not end a sentence goes on in the next one.

    ``filled``: which lines ran to the margin, where that is known; otherwise judged by length. No line is blank.
    """
    stripped = [line.strip() for line in lines]
    ran = _filled(stripped) if filled is None else filled
    paragraphs: list[str] = []
    joins = False
    for line, is_full in zip(stripped, ran, strict=True):
        if joins and not _OPENS.match(line) and heading_level(line) is None:
            paragraphs[-1] = joined(paragraphs[-1], line)
        else:
            paragraphs.append(line)
        ran_on = line[-1] in _HYPHENS or (is_full and not _ENDS.search(line))
        joins = ran_on and heading_level(line) is None
    return paragraphs


def joined(left: str, right: str, apart: bool = False) -> str:
    """Two lines as one: Chinese meets Chinese without a space, unless ``apart``; a hyphen at a line end goes."""
    if apart:
        return f"{left} {right}"
    if left[-1:] in _HYPHENS and left:
        return left[:-1] + right
    if left[-1:] == "-" and left[-2:-1].isalpha() and right[:1].islower():
        return left[:-1] + right
    between = "" if _is_wide(left[-1:]) or _is_wide(right[:1]) else " "
    return left + between + right


def shown_width(text: str) -> int:
    """Columns on a fixed grid: a Chinese character takes two."""
    return sum(2 if _is_wide(char) else 1 for char in text)


def _is_wide(char: str) -> bool:
    return bool(char) and unicodedata.east_asian_width(char) in "WFA" and ord(char) > 0x2000


def _filled(lines: Sequence[str]) -> list[bool]:
    """Which lines are about as wide as the wide ones near them: a page may change its type size."""
    widths = [shown_width(line) for line in lines]
    found = []
    for index, width in enumerate(widths):
        near = sorted(widths[max(index - _NEAR, 0) : index + _NEAR + 1])
        full = max(near[int(len(near) * 0.8)], _NARROWEST)
        found.append(len(near) > 2 and width >= full * _FULL)
    return found
