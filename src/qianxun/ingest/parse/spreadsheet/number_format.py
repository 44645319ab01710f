"""A number as Excel shows it under its format, and what the format says of it: money, a share, a unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final

from qianxun.core.types import CellValue, ColumnKind
from qianxun.ingest.tables.cells import is_measure, is_money_unit

_TOKEN: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]|\[[^\]]*\]'
    r"|(?P<pattern>General|@|[0#?][0#?,]*(?:\.[0#?]*)?,*(?:[Ee][+-][0#?]+)?)|(?P<literal>.)"
)
_CURRENCIES: Final = {
    **{"¥": "元", "￥": "元", "RMB": "元", "CNY": "元", "HK$": "港元", "$": "美元", "US$": "美元", "USD": "美元"},
    **{"€": "欧元", "EUR": "欧元", "£": "英镑", "GBP": "英镑"},
}


_LARGEST_SET: Final = Decimal(10) ** 18  # beyond it a pattern would only add noughts


@dataclass(frozen=True, slots=True)
class _Format:
    """One section of a number format: what stands before and after the digits, and how these are set."""

    before: str
    after: str
    digits: str  # "" where the format is General, or one that is not understood
    percent: bool


@dataclass(frozen=True, slots=True)
class ShownNumber:
    text: str
    value: CellValue
    kind: ColumnKind
    unit: str = ""


def shown_number(value: int | float, number_format: str) -> ShownNumber:
    """Excel keeps fifteen digits of a number; what lies beyond is noise of binary fractions."""
    held = value if isinstance(value, int) else _whole(float(f"{value:.15g}"))
    shape = _read(number_format)
    if shape.percent:
        return ShownNumber(f"{_set(Decimal(str(held)) * 100, shape.digits or '0')}%", held, "percent")
    if re.fullmatch("00+", shape.digits) and isinstance(held, int) and not shape.before + shape.after:
        text = str(held).zfill(len(shape.digits))  # a code: 000123 is no quantity
        return ShownNumber(text, text, "text")
    bare = _set(Decimal(str(held)), shape.digits)
    before, after = shape.before, shape.after
    text = f"-{before}{bare[1:]}{after}" if bare.startswith("-") else f"{before}{bare}{after}"
    if after.strip() in ("%", "％"):
        return ShownNumber(text, float(Decimal(str(held)) / 100), "percent")
    unit = after.strip() or _CURRENCIES.get(before.strip(), "")
    if is_money_unit(unit) or before.strip() in _CURRENCIES:
        return ShownNumber(text, held, "money", unit)
    return ShownNumber(text, held, "number", unit if is_measure(unit) else "")


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


@lru_cache(maxsize=1_000)
def _read(number_format: str) -> _Format:
    before = after = digits = ""
    percent = False
    for token in _TOKEN.finditer(number_format.split(";")[0]):
        if token["pattern"] is not None:
            if digits:  # 0!.0, and 000-0000: not one number with words around it
                return _Format("", "", "", percent)
            digits = token["pattern"]
            continue
        words = token["quoted"] or token["escaped"] or token["currency"] or token["literal"] or ""
        if token["literal"] == "%":
            percent = True
        elif digits:
            after += words
        else:
            before += words
    plain = digits in ("General", "@") or "e" in digits.lower() or digits.endswith(",")
    marks = before.strip("( ") + after.strip(") ")
    if plain and not marks:
        return _Format("", "", "", percent)
    return _Format(before.replace("(", "").strip(), after.replace(")", "").rstrip(), "" if plain else digits, percent)


def _set(number: Decimal, digits: str) -> str:
    """A number under a pattern such as #,##0.00; as it is where there is none."""
    whole, dot, after = digits.partition(".")
    if not digits or abs(number) >= _LARGEST_SET:
        return f"{number.normalize():f}" if number else "0"
    most = len(after) if dot else 0
    least = len(after.rstrip("#?")) if dot else 0
    text = f"{number.quantize(Decimal(1).scaleb(-most), rounding=ROUND_HALF_UP):f}"
    if most > least:
        head, _, tail = text.partition(".")
        tail = tail.rstrip("0").ljust(least, "0")
        text = f"{head}.{tail}" if tail else head
    if text.startswith("-") and not any(mark in "123456789" for mark in text):
        text = text[1:]
    if "," in whole:
        sign = "-" if text.startswith("-") else ""
        head, point, tail = text.lstrip("-").partition(".")
        text = f"{sign}{int(head or 0):,}{point}{tail}"
    return text
