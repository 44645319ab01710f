"""Bounds that a text sets (5万元至50万元, 超过60分钟的), and whether a question's quantity is within them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from qianxun.question.words import cue, entries
from qianxun.text.quantities import Quantity, quantities

_INCLUSIVE: Final = re.compile("[(（]?[不]?含(?:本数)?[)）]?")
_BEFORE: Final = tuple((sign, re.compile(f"(?:{words})$")) for sign, words in entries("bound.before") if sign != "=")
_AFTER: Final = tuple((sign, re.compile(words)) for sign, words in entries("bound.after"))


@dataclass(frozen=True, slots=True)
class Tier:
    low: Decimal | None
    high: Decimal | None
    unit: str

    def has(self, quantity: Quantity) -> bool:
        return (self.low is None or quantity.value >= self.low) and (self.high is None or quantity.value < self.high)


def tiers(text: str) -> list[Tier]:
    """The bounds in a text. A lower one is part of its tier, an upper one is not, as those of a row of tiers."""
    text = _INCLUSIVE.sub("", text)
    stated = [one for one in quantities(text) if one.unit]
    found: list[Tier] = []
    taken = -1
    for at, one in enumerate(stated):
        if at <= taken:
            continue
        after = stated[at + 1] if at + 1 < len(stated) else None
        if after is not None and after.unit == one.unit and cue("bound.between").fullmatch(text[one.end : after.start]):
            found.append(Tier(one.value, after.value, one.unit))
            taken = at + 1
        elif sign := _sign(text, one):
            is_lower = sign.startswith(">")
            found.append(Tier(one.value if is_lower else None, None if is_lower else one.value, one.unit))
    return found


def _sign(text: str, quantity: Quantity) -> str:
    after = next((sign for sign, words in _AFTER if words.match(text, quantity.end)), "")
    before = next((sign for sign, words in _BEFORE if words.search(text[: quantity.start])), "")
    sign = after or before
    return sign if sign[:1] in ("<", ">") else ""


def is_in_tier(question: str, cells: Sequence[str]) -> bool | None:
    """Whether a row with these cells is the one whose tier has a quantity of the question; None if it has no tier of
    such a unit."""
    wanted = [one for one in quantities(question) if one.unit and not one.is_share]
    found = [tier.has(one) for cell in cells for tier in tiers(cell) for one in wanted if one.unit == tier.unit]
    return any(found) if found else None


def bounds_quantity(question: str, text: str) -> bool:
    """Returns True if a text sets a bound for something that the question states how much it is of."""
    units = {one.unit for one in quantities(question) if one.unit and not one.is_share}
    return bool(units) and any(tier.unit in units for tier in tiers(text))
