"""Lines that are broken at a fixed width, as in old text files, mails and what is copied from a page.

Such a break stands in the midst of a sentence, of a word, even of a figure. The text keeps it; what reads sentences
reads over it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

_NARROWEST: Final = 20  # characters
_RAGGED: Final = 4  # columns that a full line may lack: marks are not put at the beginning of a line
_FEWEST: Final = 2  # full lines that go on
_MOSTLY_FULL: Final = 0.6  # of the lines that go on
_MOSTLY_PROSE: Final = 0.5  # of those have a mark within them: rows of a list of equal length have none
_CLOSED: Final = re.compile(r"[。！？!?；;：:…”’」』》】)）|]\s*$")
_BEGINS: Final = re.compile(
    r"\s{2}|\t|\u3000|[#|>【\-*•·–]|[（(]?[一二三四五六七八九十\d]{1,3}[、.．)）]|[①-⑳]|第[一二三四五六七八九十百\d]{1,6}[章节条款]"
    r"|[^：:，。；\s]{1,10}[：:]"
)
_BETWEEN_WORDS: Final = re.compile(r"(?<=[A-Za-z])\n(?=[A-Za-z])")
_MARK: Final = re.compile(r"[，。；、,;]")
_HAN: Final = re.compile(r"[\u4e00-\u9fff]")


def unwrapped(text: str) -> str:
    """The text without the line ends that only its width made."""
    if text.count("\n") < _FEWEST:
        return text
    parts, at = list[str](), 0
    for place in wrap_breaks(text):
        between = in_one_line(text[place - 1 : place + 2])[1:-1]  # a blank between words of Latin letters
        parts += [text[at:place], between]
        at = place + 1
    return "".join((*parts, text[at:]))


def in_one_line(sentence: str) -> str:
    """A sentence that goes on over line ends."""
    return _BETWEEN_WORDS.sub(" ", sentence).replace("\n", "")


def wrap_breaks(text: str) -> list[int]:
    """Where the line ends are, in order. Lines are filled by columns, or by characters."""
    lines = text.split("\n")
    going_on = list(_going_on(lines))
    if len(going_on) < _FEWEST:
        return []
    return max((_full(lines, going_on, width, ragged) for width, ragged in _WIDTHS), key=len)


def _going_on(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines that do not end as one ends, and after which none begins, and where they end."""
    end = -1
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        end += len(line) + 1
        if len(line) < _NARROWEST or not following.strip() or _CLOSED.search(line) or _BEGINS.match(following):
            continue
        if _HAN.search(line):
            yield end, line


def _full(
    lines: Sequence[str], going_on: Sequence[tuple[int, str]], width: Callable[[str], int], ragged: int
) -> list[int]:
    """The ends of those that are as wide as the widest. Where a line is wider, a table's row aside, none was broken at
    a width; and rows of a list, which may all be as wide, have no marks within them."""
    widths = [width(line) for _, line in going_on]
    widest = max(widths)
    full = [one for one, own in zip(going_on, widths, strict=True) if own >= widest - ragged]
    if len(full) < max(_FEWEST, _MOSTLY_FULL * len(going_on)):
        return []
    if sum(_MARK.search(line[:-1]) is not None for _, line in full) < _MOSTLY_PROSE * len(full):
        return []
    if any(2 * len(line) > widest and "|" not in line and width(line) > widest + ragged for line in lines):
        return []
    return [end for end, _ in full]


def _columns(line: str) -> int:
    return len(line.encode("gb18030", "replace"))


_WIDTHS: Final[Sequence[tuple[Callable[[str], int], int]]] = ((_columns, _RAGGED), (len, _RAGGED // 2))
