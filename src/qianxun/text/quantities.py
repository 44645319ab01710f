"""Numbers and dates as people ask for them: 超过1.5亿元, 百分之三十, 三成, 二〇二三年五月, 100到200之间."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from math import prod
from typing import Final

from qianxun.text.chinese import LEXICON, fold

_DIGITS: Final = dict(zip("零〇一二两三四五六七八九", (0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True))
_TENS: Final = {"十": 10, "百": 100, "千": 1000}
_SCALES: Final = {"万": 10**4, "亿": 10**8}
_HAN: Final = "零〇一二两三四五六七八九十百千万亿"
LONGEST_NUMERAL: Final = 64  # signs; 一亿亿亿… of thousands takes seconds to work out, and Python refuses to write it
_MONEY: Final = "元人民币|块钱|美元|港元|欧元|元|圆|块"
MEASURES: Final = (
    "平方公里|平方千米|平方米|立方米|公里|千米|厘米|毫米|米|公顷|亩|公斤|千克|毫克|克|吨|斤|小时|分钟|秒|天|个月|年|岁|分"
    "|人次|人|个|家|所|名|位|次|件|台|套|册|辆|户|页|种|款|项|条|部|本|座|届|只|支|张|间|栋|门|场|票|集|层|倍|度"
    "|km|cm|mm|kg|mg|ml|kw|mw|gb|mb|tb|mah|kv|hz|m|g|t|l|v|a|w"
)
_ARABIC: Final = r"(?<![\d.a-z])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_QUANTITY: Final = re.compile(
    rf"(?P<parts>百分之|千分之)?(?:(?P<arabic>{_ARABIC})(?P<scale>[十百千]?[万亿]{{0,2}}|[十百千])|(?P<han>[{_HAN}]+(?:点[{_HAN}]+)?))"
    rf"(?P<half>半)?(?P<unit>%|‰|个百分点|成(?![立为员本功绩交])|{_MONEY}|{MEASURES})?(?![a-z])"
)
_DATE: Final = re.compile(
    r"(?<!\d)(?P<y>[12]\d{3}|[零〇一二三四五六七八九]{4})"
    r"(?:年度?(?:(?P<m>\d{1,2}|[一二三四五六七八九十]{1,2})月(?:份|(?P<d>\d{1,2}|[一二三四五六七八九十]{1,3})[日号])?)?"
    r"|(?P<mark>[-/.])(?P<m2>\d{1,2})(?:(?P=mark)(?P<d2>\d{1,2}))?(?!\d))"
)
_MONTH: Final = "1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九]"
_BOUND: Final = (
    "以[前后来内]|之[前后内]|[前后起止初底末中旬龄]|[上下]旬|[0-9]"  # after a month: not all of it, or a day
)
_PART_OF_YEAR: Final = re.compile(
    rf"(?<![\d年十个第])(?P<month>{_MONTH})(?:月?[到至~-](?P<last>{_MONTH}))?月份?(?!{_BOUND})"
    rf"|(?<![今去前明每同整全])(?:(?<=\d年)|(?<!年))(?:第?(?P<quarter>[一二三四1-4])季度|(?P<half>[上下])半年)(?!{_BOUND})"
)
_FRACTION: Final = re.compile("(?P<digits>[零〇一二三四五六七八九]+)(?P<scale>[十百千]?[万亿]{0,2})")
_PHRASE_ENDS: Final = (*"的以之到至及,和~-时", "")
_SCALED_UNIT: Final = re.compile(r"(?P<scale>[十百千]?[万亿]?)(?P<unit>.*)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a question. ``value`` has its scale worked in: 1.5亿 → 150000000, 50% → 0.5."""

    start: int
    end: int
    value: Decimal
    unit: str
    scaled: bool  # with a scale word: 100万, not 100
    written: str

    @property
    def is_share(self) -> bool:
        return self.unit in ("%", "‰")


@dataclass(frozen=True, slots=True)
class Moment:
    """A year, month or day in a question, as the beginning of an ISO date."""

    start: int
    end: int
    iso: str
    written: str


@dataclass(frozen=True, slots=True)
class PartOfYear:
    """Months of a year that a question does not name, from the first to the last: 3月, 1到3月, 第一季度, 下半年."""

    start: int
    end: int
    first: int
    last: int
    written: str


def parts_of_year(text: str) -> list[PartOfYear]:
    """Every part of a year in a question that is not a date by itself, as 2023年5月 is."""
    found = []
    for match in _PART_OF_YEAR.finditer(text):
        first, last = _months(match)
        if first and last and first <= last:
            found.append(PartOfYear(match.start(), match.end(), first, last, match.group()))
    return found


def _months(match: re.Match[str]) -> tuple[int, int]:
    if match["half"]:
        return (1, 6) if match["half"] == "上" else (7, 12)
    if match["quarter"]:
        last = 3 * _whole(match["quarter"])
        return last - 2, last
    return _whole(match["month"]), _whole(match["last"] or match["month"])


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else han_number(text) or 0


def moments(text: str) -> list[Moment]:
    found = []
    for match in _DATE.finditer(text):
        if (iso := _iso(match)) is not None:
            found.append(Moment(match.start(), match.end(), iso, match.group()))
    return found


def _iso(match: re.Match[str]) -> str | None:
    year = "".join(str(_DIGITS.get(mark, mark)) for mark in match["y"])
    month, day = match["m"] or match["m2"], match["d"] or match["d2"]
    if month is None:
        return year
    if match["mark"] == "." and day is None:  # 2012.5 is a number
        return None
    numbers = [int(part) if part.isdigit() else han_number(part) for part in (month, day or "1")]
    if None in numbers:
        return None
    try:
        whole = date(int(year), *(number or 0 for number in numbers))
    except ValueError:  # 2023年13月
        return None
    return whole.isoformat() if day else whole.isoformat()[:7]


def quantities(text: str) -> list[Quantity]:
    """Every number of a question; what is part of a date is not one."""
    dates = deque(moments(text))
    found = []
    for match in _QUANTITY.finditer(text):
        while dates and dates[0].end <= match.start():
            dates.popleft()
        if dates and dates[0].start < match.end():
            continue
        if (quantity := _quantity(match)) is not None and not _is_word(match, text):
            found.append(quantity)
    return found


def _is_word(match: re.Match[str], text: str) -> bool:
    """三 of 三级, 一 of 一共: a Chinese numeral that neither a unit nor the end of a phrase follows."""
    return not match["arabic"] and not match["unit"] and text[match.end() : match.end() + 1] not in _PHRASE_ENDS


def _quantity(match: re.Match[str]) -> Quantity | None:
    if match["arabic"]:
        value = Decimal(match["arabic"].replace(",", "")) * _scale(match["scale"])
        scaled = bool(match["scale"])
    else:
        read = _chinese(match["han"])
        if read is None:
            return None
        value, scaled = read
    unit = match["unit"] or ""
    if match["half"]:
        value += Decimal("0.5")
    if match["parts"] == "百分之" or unit in ("%", "个百分点"):
        value, unit = value / 100, "%"
    elif match["parts"] == "千分之" or unit == "‰":
        value, unit = value / 1000, "‰"
    elif unit == "成":
        value, unit = value / 10, "%"
    return Quantity(match.start(), match.end(), value, unit, scaled, match.group())


def _scale(words: str) -> int:
    return prod(_TENS.get(word, 0) or _SCALES[word] for word in words)


def _chinese(text: str) -> tuple[Decimal, bool] | None:
    """三百二十, 一点五亿: the number, and whether it has a scale word."""
    whole, point, fraction = text.partition("点")
    number = han_number(whole)
    if number is None:
        return None
    if not point:
        return Decimal(number), any(mark in _SCALES for mark in whole)
    found = _FRACTION.fullmatch(fraction)
    if found is None:
        return None
    digits = "".join(str(_DIGITS[mark]) for mark in found["digits"])
    return (number + Decimal(f"0.{digits}")) * _scale(found["scale"]), bool(found["scale"])


def han_number(text: str) -> int | None:
    """三百二十 → 320, 一万五 → 15000, 二〇二三 → 2023; None for what is no number, or longer than any that is meant."""
    if len(text) > LONGEST_NUMERAL:
        return None
    if all(mark in _DIGITS for mark in text):
        return int("".join(str(_DIGITS[mark]) for mark in text))
    total = section = digit = 0
    last = 1  # the size of the last unit, for 一万五
    for mark in text:
        if mark in _DIGITS:
            digit = _DIGITS[mark]
            last = 1 if mark in "零〇" else last
        elif mark in _TENS:
            section += (digit or 1) * _TENS[mark]
            digit, last = 0, _TENS[mark]
        elif mark in _SCALES:
            if not section and not digit and not total:
                return None  # 万科, 亿达: a name
            is_whole = mark == "亿" or not (section or digit)  # 二十万万
            total = (total + section + digit) * _SCALES[mark] if is_whole else total + (section + digit) * 10_000
            section, digit, last = 0, 0, _SCALES[mark]
        else:
            return None
    return total + section + (digit * last // 10 if last >= 100 else digit)


@cache
def unit_sizes(use: str) -> dict[str, tuple[str, Decimal]]:
    """Unit → (what it measures, its size), of a part of `lexicon/units.txt`."""
    part = (LEXICON / "units.txt").read_text(encoding="utf-8").partition(f"\n{use}\n")[2]
    found: dict[str, tuple[str, Decimal]] = {}
    for line in part.splitlines():
        measure, colon, sizes = line.partition(":")
        if not colon:
            break  # the next part
        names: list[str] = []
        for word in sizes.split():
            name, _, size = word.partition("=")
            names.append(name)
            if size:
                found.update({form: (measure, Decimal(size)) for one in names for form in (one, fold(one))})
                names = []
    return found


def in_unit(quantity: Quantity, unit: str, is_share: bool) -> Decimal | None:
    """The number as a column of that unit holds it; None where the two do not fit. Without a unit in the question a
    number is meant as the column writes it: 100 under 万元 are 100 万元, 100万 are 100万元 all the same."""
    if is_share:
        if quantity.is_share:
            return quantity.value
        return quantity.value / 100 if not quantity.unit and not quantity.scaled else None
    if quantity.is_share:
        return None
    if not quantity.unit and not quantity.scaled:
        return quantity.value
    parts = _SCALED_UNIT.fullmatch(unit.split("/")[0].lower())
    scale = _scale(parts["scale"]) if parts else 1
    base = parts["unit"] if parts else ""
    if not base or not quantity.unit or base == quantity.unit:
        return quantity.value / scale if base or scale > 1 else quantity.value
    of, own = unit_sizes("table").get(base), unit_sizes("table").get(quantity.unit)
    if of is None or own is None or (of[0] != own[0]):
        return None
    return quantity.value * own[1] / of[1] / scale
