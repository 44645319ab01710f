"""The automatic numbers of Word before paragraphs: 第一条, 1.1, （一）. The text itself does not contain them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DIGITS: Final = "〇一二三四五六七八九"
_LEGAL: Final = str.maketrans("〇一二三四五六七八九十百千", "零壹贰叁肆伍陆柒捌玖拾佰仟")
_ROMAN: Final = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_CYCLES: Final = {
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "decimalEnclosedCircle": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
    "decimalEnclosedCircleChinese": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
}
_DEEPEST_STYLE: Final = 20
_CLOSES: Final = re.compile(r"[、）)．。:：]$")


@dataclass(frozen=True, slots=True)
class _Level:
    start: int
    format: str
    text: str
    style: str
    all_decimal: bool
    apart: bool


@dataclass(slots=True)
class Numbering:
    """Counts as Word does. Call `label` for every numbered paragraph once, in document order."""

    lists: dict[str, dict[int, _Level]] = field(default_factory=dict)  # abstract id → levels
    numbers: dict[str, tuple[str, dict[int, int]]] = field(default_factory=dict)  # id → abstract id, starts anew at
    styles: dict[str, tuple[str, str, int | None]] = field(default_factory=dict)  # id → based on, number, level
    _counts: dict[str, dict[int, int]] = field(default_factory=dict)
    _begun: set[tuple[str, int]] = field(default_factory=set)

    def label(self, paragraph: Any) -> str:
        """What Word shows before the paragraph, with the space after it; empty for bullets and plain paragraphs."""
        found = self._numbered(paragraph)
        if found is None:
            return ""
        number, depth = found
        abstract, restarts = self.numbers[number]
        levels = self.lists.get(abstract, {})
        level = levels.get(depth)
        if level is None:
            return ""
        self._count(number, abstract, depth, restarts, level)
        if level.format in ("bullet", "none") and "%" not in level.text:
            return ""
        shown = re.sub(r"%([1-9])", lambda mark: self._shown(abstract, int(mark[1]) - 1, level), level.text).strip()
        return shown if not shown or not level.apart or _CLOSES.search(shown) else f"{shown} "

    def _count(self, number: str, abstract: str, depth: int, restarts: dict[int, int], level: _Level) -> None:
        counts = self._counts.setdefault(abstract, {})
        if depth in restarts and (number, depth) not in self._begun:
            counts[depth] = restarts[depth]
        else:
            counts[depth] = counts[depth] + 1 if depth in counts else level.start
        self._begun.add((number, depth))
        for deeper in [count for count in counts if count > depth]:
            del counts[deeper]

    def _shown(self, abstract: str, depth: int, of: _Level) -> str:
        level = self.lists[abstract].get(depth)
        if level is None:
            return ""
        count = self._counts[abstract].get(depth, level.start)
        return str(count) if of.all_decimal else shown_number(count, level.format)

    def _numbered(self, paragraph: Any) -> tuple[str, int] | None:
        """Number and level by the paragraph itself, else by its style."""
        properties = paragraph.find(_W + "pPr")
        if properties is None or properties.find(f"{_W}rPr/{_W}del") is not None:
            return None
        own = properties.find(_W + "numPr")
        style = _value(properties.find(_W + "pStyle"), "")
        number, depth, by = self._by_style(style)
        if own is not None:
            number = _value(own.find(_W + "numId"), number)
            depth = _integer(_value(own.find(_W + "ilvl"), ""), depth if depth is not None else 0)
        if number not in self.numbers:
            return None
        if depth is None:
            levels = self.lists.get(self.numbers[number][0], {})
            depth = next((at for at, level in levels.items() if level.style and level.style == by), 0)
        return number, depth

    def _by_style(self, style: str) -> tuple[str, int | None, str]:
        """Number, level, and the style that gives the number: a style may take that from the one it is based on, and
        only say the level."""
        level: int | None = None
        for _ in range(_DEEPEST_STYLE):
            if style not in self.styles:
                break
            above, number, depth = self.styles[style]
            level = depth if level is None else level
            if number:
                return number, level, style
            style = above
        return "", None, ""


def read_numbering(numbering: Any | None, styles: Any) -> Numbering:
    """From the roots of numbering.xml (a document without lists has none) and styles.xml."""
    found = Numbering()
    if numbering is None:
        return found
    for abstract in numbering.iterfind(_W + "abstractNum"):
        found.lists[abstract.get(_W + "abstractNumId", "")] = {
            _integer(one.get(_W + "ilvl", ""), 0): _level(one) for one in abstract.iterfind(_W + "lvl")
        }
    for number in numbering.iterfind(_W + "num"):
        restarts = {
            _integer(one.get(_W + "ilvl", ""), 0): _integer(_value(one.find(_W + "startOverride"), ""), 1)
            for one in number.iterfind(_W + "lvlOverride")
            if one.find(_W + "startOverride") is not None
        }
        found.numbers[number.get(_W + "numId", "")] = (_value(number.find(_W + "abstractNumId"), ""), restarts)
    for style in styles.iterfind(_W + "style"):
        numbered = style.find(f"{_W}pPr/{_W}numPr")
        number = _value(numbered.find(_W + "numId"), "") if numbered is not None else ""
        depth = _value(numbered.find(_W + "ilvl"), "") if numbered is not None else ""
        based = _value(style.find(_W + "basedOn"), "")
        found.styles[style.get(_W + "styleId", "")] = (based, number, _integer(depth, 0) if depth else None)
    return found


def _level(element: Any) -> _Level:
    return _Level(
        _integer(_value(element.find(_W + "start"), ""), 1),
        _value(element.find(_W + "numFmt"), "decimal"),
        _value(element.find(_W + "lvlText"), ""),
        _value(element.find(_W + "pStyle"), ""),
        element.find(_W + "isLgl") is not None,
        _value(element.find(_W + "suff"), "tab") != "nothing",
    )


def _value(element: Any | None, otherwise: str) -> str:
    return str(element.get(_W + "val", otherwise)) if element is not None else otherwise


def _integer(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else otherwise


# ── how a number is written ──────────────────────────────────────────────────────────────────────


def shown_number(number: int, format: str) -> str:
    """A counted number as Word's ``numFmt`` writes it; decimal for the formats of other languages."""
    if number > 0 and (cycle := _CYCLES.get(format)):
        return cycle[number - 1] if number <= len(cycle) else str(number)
    if format in ("upperLetter", "lowerLetter") and number > 0:
        letters = chr(65 + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters if format[0] == "u" else letters.lower()
    if format in ("upperRoman", "lowerRoman") and 0 < number < 4000:
        return _roman(number) if format[0] == "u" else _roman(number).lower()
    if format.startswith(("chineseLegal", "ideographLegal")):
        return _counted(number).translate(_LEGAL)
    if format.startswith(("chineseCounting", "japaneseCounting", "taiwaneseCounting")):
        return _counted(number)
    if format in ("ideographDigital", "japaneseDigitalTenThousand", "taiwaneseDigital"):
        return "".join(_DIGITS[int(digit)] for digit in str(number))
    return f"{number:02}" if format == "decimalZero" else "" if format == "none" else str(number)


def _counted(number: int) -> str:
    """21 → 二十一, 105 → 一百〇五, 12 → 十二."""
    if not 0 < number < 10_000:
        return "〇" if number == 0 else str(number)
    parts: list[str] = []
    for size, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // size % 10
        if digit:
            parts.append(_DIGITS[digit] + unit)
        elif parts and parts[-1] != "〇" and number % size:
            parts.append("〇")
    shown = "".join(parts)
    return shown[1:] if shown.startswith("一十") else shown


def _roman(number: int) -> str:
    shown = ""
    for size, letters in _ROMAN:
        count, number = divmod(number, size)
        shown += letters * count
    return shown
