"""Values of cells: numbers, percentages, money, dates and yes/no, parsed from their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final

from qianxun.core.documents import CellValue, ColumnKind
from qianxun.text.figures import without_gaps

_NUMBER: Final = re.compile(r"[+\-−–]?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?")
_SCALED: Final = re.compile(r"(?P<number>[+\-−–]?[\d,.]{1,30})\s?(?P<scale>[万亿]?)(?P<unit>[元圆]|美元|港元|欧元)?")
_SIGNS: Final = "¥￥$€£"
_CURRENCIES: Final = ((("港元", "HK$"), "港元"), (("美元", "$"), "美元"), (("欧元", "€"), "欧元"), (("£",), "英镑"))
_DAY: Final = re.compile(
    r"(?P<y>[12]\d{3})(?P<mark>[-/.年])(?P<m>\d{1,2})(?:(?P=mark)|月)(?P<d>\d{1,2})日?"
    r"(?:[ T](?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?:\.\d+)?)?"
)
_MONTH: Final = re.compile(r"(?P<y>[12]\d{3})年(?P<m>\d{1,2})月")
_UNIT: Final = re.compile(r"[（(]\s*(?:单位[:：])?\s*([^（）()]{1,12})[）)]\s*$")
_TRUE: Final = frozenset(("是", "true", "yes", "√", "✓", "✔"))
_FALSE: Final = frozenset(("否", "false", "no", "×", "✗", "✘"))
_MISSING: Final = frozenset(("", "-", "--", "—", "——", "–", "/", "n/a", "na", "null", "none", "nan", "暂无"))
_SCALES: Final = {"": Decimal(1), "万": Decimal(10_000), "亿": Decimal(100_000_000)}
_MONEY_UNIT: Final = re.compile(r"(?:[十百千]?[万亿]?(?:元|圆|美元|港元|欧元)|¥|￥|RMB|CNY|USD)(?:/.{1,6})?")
_NAMES_NOT_NUMBERS: Final = re.compile(
    r"(?:编号|编码|代码|号码|电话|手机|邮编|证号|账号|帐号|学号|工号|序列号|ID|Id|id|code|Code)$"
)
STRAYS: Final = 5  # a column keeps its kind while at most one filled cell in five is something else
_FEWEST_ROWS: Final = 6  # of a column of categories
_MOST_DIFFERENT: Final = 0.4  # share of different words in it
_LONGEST_CATEGORY: Final = 20


@cache
def _units() -> frozenset[str]:
    lines = Path(__file__).with_name("units.txt").read_text("utf-8").splitlines()
    return frozenset(unit for line in lines if not line.startswith("#") for unit in line.split())


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column was understood."""

    kind: ColumnKind
    unit: str
    values: tuple[CellValue, ...]


def read_column(header: str, texts: Sequence[str]) -> Reading:
    """The kind a column has by its header and its texts, and each text as a value of that kind.

    A text that does not fit the column's kind stays a string; a dash or an empty cell is None.
    """
    unit = unit_of(header)
    filled = [text for text in texts if not is_missing(text)]
    if filled and not _NAMES_NOT_NUMBERS.search(header.split(" / ")[-1].strip()):
        for kind, reader in _READERS:
            if _fits(reader, filled):
                amounts = (text for text in filled if money(text) is not None)
                currencies = {_currency(text) for text in amounts} if kind == "money" else {""}
                if len(currencies) > 1:
                    break  # 5 美元 and 5 元 cannot be compared
                return _finish(kind, unit or currencies.pop(), texts, reader)
    return Reading("category" if _is_category(filled) else "text", unit, tuple(text or None for text in texts))


def _currency(text: str) -> str:
    return next((name for signs, name in _CURRENCIES if any(sign in text for sign in signs)), "元")


def _is_category(filled: Sequence[str]) -> bool:
    """Whether a few short words come back again and again: 华东, 华南, 华东 …"""
    if len(filled) < _FEWEST_ROWS or max(map(len, filled)) > _LONGEST_CATEGORY:
        return False
    return len(set(filled)) <= max(2, _MOST_DIFFERENT * len(filled))


def unit_of(header: str) -> str:
    """The unit that closes a header: 金额（万元） → 万元; empty when the brackets hold something else."""
    found = _UNIT.search(header.strip()[-40:])
    unit = found.group(1).strip() if found else ""
    return unit if unit in _units() or _MONEY_UNIT.fullmatch(unit) else ""


def is_measure(unit: str) -> bool:
    return unit in _units()


def is_money_unit(unit: str) -> bool:
    return _MONEY_UNIT.fullmatch(unit) is not None


def is_missing(text: str) -> bool:
    return text.strip().lower() in _MISSING


def number(text: str) -> int | float | None:
    """1,234.5 → 1234.5, (12) → -12. Not a number: 007, a longer run of digits than a number is exact in."""
    bare = text.strip()
    if bare.startswith("(") and bare.endswith(")") and _NUMBER.fullmatch(bare[1:-1]):
        bare = "-" + bare[1:-1]
    if not _NUMBER.fullmatch(bare):
        return None
    bare = bare.replace(",", "").replace("−", "-").replace("–", "-")
    digits = bare.lstrip("+-")
    if (len(digits) > 1 and digits[0] == "0" and digits[1] != ".") or len(digits) > 15:
        return None
    return int(bare) if digits.isdigit() else float(bare)


def percent(text: str) -> float | None:
    bare = text.strip()
    if not bare.endswith(("%", "％")):
        return None
    share = number(bare[:-1])
    return None if share is None else float(Decimal(str(share)) / 100)


def money(text: str) -> int | float | None:
    """¥1,200 → 1200, 3.5万元 → 35000: amounts of one column can be compared whatever scale they are written in."""
    bare = text.strip()
    signed = bare[:1] in _SIGNS
    found = _SCALED.fullmatch(bare.lstrip(_SIGNS).strip()) if len(bare) <= 40 else None
    if found is None or not (signed or found["unit"]):
        return None
    amount = number(found["number"])
    if amount is None:
        return None
    return _plain(Decimal(str(amount)) * _SCALES[found["scale"]])


def day(text: str) -> str | None:
    """2023年1月5日, 2023 年 1 月 5 日, 2023/1/5 → 2023-01-05; 2023年1月 → 2023-01; a time of day is kept."""
    bare = without_gaps(text.strip())
    month = _MONTH.fullmatch(bare)
    if month:
        return f"{month['y']}-{int(month['m']):02}" if 1 <= int(month["m"]) <= 12 else None
    found = _DAY.fullmatch(bare)
    if not found:
        return None
    try:
        iso = date(int(found["y"]), int(found["m"]), int(found["d"])).isoformat()
    except ValueError:  # 2023-02-30
        return None
    return f"{iso}T{found['time'].zfill(5)}" if found["time"] else iso


def truth(text: str) -> bool | None:
    bare = text.strip().lower()
    return True if bare in _TRUE else False if bare in _FALSE else None


_Reader = Callable[[str], CellValue]
_READERS: Final[tuple[tuple[ColumnKind, _Reader], ...]] = (
    ("number", number),
    ("percent", percent),
    ("money", money),
    ("date", day),
    ("boolean", truth),
)


def reader_of(kind: ColumnKind) -> _Reader | None:
    """What reads texts of a kind; None for words."""
    return dict(_READERS).get(kind)


def _fits(reader: _Reader, filled: Sequence[str]) -> bool:
    allowed = len(filled) // STRAYS
    misses = 0
    for text in filled:
        if reader(text) is None:
            misses += 1
            if misses > allowed:
                return False
    return True


def _finish(kind: ColumnKind, unit: str, texts: Sequence[str], reader: _Reader) -> Reading:
    values = tuple(None if is_missing(text) else or_text(reader(text), text) for text in texts)
    return by_unit(kind, unit, values)


def by_unit(kind: ColumnKind, unit: str, values: tuple[CellValue, ...]) -> Reading:
    """What the unit in a header adds: numbers under 万元 are money, numbers under % percentages."""
    if kind == "number" and _MONEY_UNIT.fullmatch(unit):
        return Reading("money", unit, values)
    if kind == "number" and unit in ("%", "％"):
        return Reading("percent", unit, tuple(_hundredth(value) for value in values))
    return Reading(kind, unit or ("元" if kind == "money" else ""), values)


def or_text(value: CellValue, text: str) -> CellValue:
    return text if value is None else value


def _hundredth(value: CellValue) -> CellValue:
    return value if value is None or isinstance(value, str | bool) else float(Decimal(str(value)) / 100)


def _plain(amount: Decimal) -> int | float:
    return int(amount) if amount == amount.to_integral_value() else float(amount)
