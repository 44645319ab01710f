"""Figures that are said to be rounded: 约1400万, 近1400万, 超过1300万, 1300多万 for 1361万.

A word beside the figure must say so, and in the right direction; how far it may be from the source's figure follows
from its last digit that is not zero.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from qianxun.text.chinese import fold
from qianxun.text.figures import Figure, Number, Share, amount, measured

Hedge: TypeAlias = Literal["about", "above", "below"]

_LINKS: Final = r"(?:[为是有达到了至]|[^，。；、\d]{0,9}的)?\s*\Z"  # 略高于其月收入的五分之一
_BEFORE: Final[dict[Hedge, re.Pattern[str]]] = {
    "above": re.compile(rf"(?:超过?|逾(?!期)|突破|不止|高于|多于|大于|至少|more than|over|above){_LINKS}"),
    "below": re.compile(
        rf"(?:(?<![最附临新])近|将近|接近|不到|不足|低于|少于|小于|nearly|less than|under|below){_LINKS}"
    ),
    "about": re.compile(
        rf"(?:(?<![合条签预违公节制])约(?!定)|大概|大致|差不多|上下|估计|about|around|approximately|roughly){_LINKS}"
    ),
}
_AFTER: Final[dict[Hedge, re.Pattern[str]]] = {
    "above": re.compile(r"[多余]|以上|出头|有余"),
    "below": re.compile(r"不到"),
    "about": re.compile(r"左右|上下|来"),
}
_WITHIN: Final = re.compile("[多余]")  # 1300多万
_REACH: Final = 14  # characters before a figure
_FARTHEST: Final = Decimal("0.15")  # of what is said to be 约, though its last digit would allow for more


def hedge_of(figure: Figure, sentence: str) -> Hedge | None:
    """How a sentence says that a figure is rounded; None where it does not."""
    if not isinstance(figure, Number | Share):
        return None
    folded = fold(sentence)
    at = folded.find(figure.written)
    if at < 0:
        return None
    before, after = folded[max(0, at - _REACH) : at], folded[at + len(figure.written) :]
    if _WITHIN.search(figure.written):
        return "above"
    after = after.lstrip()
    return next(
        (hedge for hedge in _BEFORE if _BEFORE[hedge].search(before) or _AFTER[hedge].match(after)),
        None,
    )


def is_rounded(figure: Figure, hedge: Hedge, known: Figure) -> bool:
    """Returns True if a figure, rounded in this direction, may be the source's."""
    if isinstance(figure, Share) and isinstance(known, Share):
        pairs = [(stated, value) for stated in figure.values for value in known.values]
    elif isinstance(figure, Number) and isinstance(known, Number) and _may_measure(figure, known):
        pairs = [
            (amount(stated, figure.unit), amount(value, known.unit))
            for stated in figure.values
            for value in known.values
        ]
    else:
        return False
    return any(_fits(stated, value, hedge) for stated, value in pairs)


def _may_measure(figure: Number, known: Number) -> bool:
    """人口约1400万 may be 1361万人: what is counted need not be repeated."""
    kinds = {measured(one.unit) or one.unit for one in (figure, known)}
    return len(kinds) == 1 or (not figure.unit and not measured(known.unit))


def _fits(stated: Decimal, value: Decimal, hedge: Hedge) -> bool:
    if not stated or not value:  # 超过0 says nothing
        return False
    step = _step(stated)
    if step <= _step(value):
        return False
    if hedge == "above":
        return Decimal(0) <= value - stated <= step
    if hedge == "below":
        return Decimal(0) <= stated - value <= min(step, value)
    return abs(value - stated) * 2 <= step and abs(value - stated) <= _FARTHEST * value


def _step(stated: Decimal) -> Decimal:
    """What the last digit that is not zero counts: 100 of 1400, 1000 of 5000."""
    exponent = stated.normalize().as_tuple().exponent
    return Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
