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
_RANGE: Final = ("~", "～", "〜", "–", "－")
_WORD: Final = re.compile(r"(?:[^\s\u2e80-\uffff]{1,60}|.)[，。；：、）】》！？”]{0,2}")
_LEAST: Final = 0.6
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
        if paragraphs and _is_range(paragraphs[-1], line):
            paragraphs[-1] += line
        elif joins and not _OPENS.match(line) and heading_level(line) is None:
            paragraphs[-1] = joined(paragraphs[-1], line)
        else:
            paragraphs.append(line)
        ran_on = line[-1] in _HYPHENS or (is_full and not _ENDS.search(line))
        joins = ran_on and heading_level(line) is None
    return paragraphs


def _is_range(left: str, right: str) -> bool:
    """140～ | 159mmHg: a figure goes on, however short its line is."""
    return left[-1:] in _RANGE and left[-2:-1].isdigit() and right[:1].isdigit()


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


def first_word(line: str) -> str:
    """The beginning that no line end breaks, with the mark behind it: of Chinese one character."""
    word = _WORD.match(line)
    return word.group() if word else ""


def _is_wide(char: str) -> bool:
    return bool(char) and unicodedata.east_asian_width(char) in "WFA" and ord(char) > 0x2000


def _filled(lines: Sequence[str]) -> list[bool]:
    """Which lines are about as wide as the wide ones near them, a page may change its type size, or would be with the
    first word of the next: 159mmHg is not broken."""
    widths = [shown_width(line) for line in lines]
    words = [shown_width(first_word(line)) for line in lines]
    found = []
    for index, (width, word) in enumerate(zip(widths, [*words[1:], 0], strict=True)):
        near = sorted(widths[max(index - _NEAR, 0) : index + _NEAR + 1])
        full = max(near[int(len(near) * 0.8)], _NARROWEST)
        ran = width >= full * _FULL or (width >= full * _LEAST and width + word > full)
        found.append(len(near) > 2 and ran)
    return found
