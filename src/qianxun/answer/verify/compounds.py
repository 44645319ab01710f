"""Numbers that are one thing together: a range 7–40, a level 4/5, a kind 2型. A source that has each of them somewhere,
and never so, does not bear them out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from qianxun.answer.verify.table_rows import is_rule
from qianxun.text.chinese import fold
from qianxun.text.figures import Number, Share, figures
from qianxun.text.quantities import han_number

MOST_COMPOUNDS: Final = 12  # of a sentence
_NUMBER: Final = r"(?<![\d.:/,-])\d{1,6}(?:\.\d{1,4})?"
_RANGE: Final = re.compile(
    rf"({_NUMBER})\s?(?:[a-z%°℃μ]{{1,6}}|[^\d\s，。；、日月年时点:/a-z]?)\s?(?:-|–|—|~|～|至|(?<![高降升加少低减增长])到)+\s?(\d{{1,6}}(?:\.\d{{1,4}})?)(?![\d:.,]|\s?-\d|[年月日号时点])"
)
_SLASHED: Final = re.compile(r"(?<![a-z0-9./-])(\d{1,3})\s?/\s?(\d{1,3})(?![a-z0-9./])")
_KIND: Final = re.compile(
    r"(?<![分共第\d.a-z])(\d{1,3}|[一二三四五六七八九十]{1,3}|[ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹ]|[ivx]{1,4})(型|级|类|期|号线|号楼|层)(?![以及别])"
)
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_SENTENCES: Final = re.compile(r"[^。！？!?；;\n]+")


def torn(sentence: str, sources: Sequence[str]) -> list[str]:
    """Those of a sentence of whose parts the sources have each, but none has them together."""
    folded = fold(sentence)
    ranges = list(_RANGE.finditer(folded))[:MOST_COMPOUNDS]
    slashed = list(_SLASHED.finditer(folded))[:MOST_COMPOUNDS]
    kinds = list(_KIND.finditer(folded))[:MOST_COMPOUNDS]
    if not (ranges or slashed or kinds):
        return []
    plain = "\n".join(map(fold, sources))
    found = [one.group() for one in slashed if not re.search(rf"(?<![\d.]){one[1]}\s?/\s?{one[2]}(?!\d)", plain)]
    if ranges:
        together = [_values(part) for part in _SENTENCES.findall(plain) if not is_rule(part)]
        found += [one.group() for one in ranges if not _are_together(one, together)]
    return [*found, *(one.group() for one in kinds if _is_other_kind(one, plain))]


def _values(text: str) -> frozenset[Decimal]:
    return frozenset(
        value
        for one in figures(text)
        if isinstance(one, Number | Share)
        for value in ((value * 100 for value in one.values) if isinstance(one, Share) else one.values)
    )


def _are_together(range_: re.Match[str], sentences: Sequence[frozenset[Decimal]]) -> bool:
    ends = {Decimal(range_[1]), Decimal(range_[2])}
    return len(ends) > 1 and any(ends <= values for values in sentences)


def _is_other_kind(kind: re.Match[str], plain: str) -> bool:
    """8型糖尿病, where the sources have 2型 and no 8型; 有3类 counts them."""
    if kind.string[: kind.start()].endswith("有") and kind[2] != "型":
        return False
    values = set(_kinds(kind[2], plain))
    return bool(values) and _size(kind[1]) not in values


def _kinds(classifier: str, plain: str) -> Iterator[int | None]:
    return (_size(match[1]) for match in _KIND.finditer(plain) if match[2] == classifier)


def _size(written: str) -> int | None:
    if written.isdigit():
        return int(written)
    return _ROMAN.index(written) + 1 if written in _ROMAN else han_number(written)
