"""Everyday words that ask for a column without naming it: 多少钱 for the price, 找谁 for who is in charge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.tables.match import plain, span
from qianxun.answer.tables.sheet import Sheet
from qianxun.answer.tables.words import COUNTED


@dataclass(frozen=True, slots=True)
class Hint:
    """The column that is asked for (none where several could be, or none is), and the characters that say so."""

    targets: tuple[int, ...]
    mask: int


@dataclass(frozen=True, slots=True)
class _Asks:
    cue: re.Pattern[str]
    column: re.Pattern[str]
    never: re.Pattern[str] = re.compile("(?!)")
    dates: bool = True
    label: re.Pattern[str] = re.compile("(?!)")  # of a row: beside 续航时间 stands how long


_UNITS: Final = f"{COUNTED}把包盒瓶斤箱袋克吨升米"
_UNIT_COLUMN: Final = re.compile("(?:计量|计价)?单位")
_EVERYDAY: Final = (
    _Asks(
        re.compile(
            f"(?:[一每](?P<before>[{_UNITS}]))?多少钱(?:[一每]?(?P<after>[{_UNITS}]))?|什么价[格钱位]?|啥价|几块钱|怎么卖|咋卖|(?:怎么|如何)收费"
            "|价格|价钱|售价|价位"
        ),
        re.compile("单价|价格|售价|票价|定价|报价|房价|价钱|金额|收费|租金|学费|费用|价$|费$"),
        re.compile("成本|进价|进货|采购|原价|市场价|评价|比价|溢价|差价|均价|合计|小计|同比|率"),
        dates=False,
    ),
    _Asks(
        re.compile("多久|几天|多长时间|多少天"),
        re.compile("期限|天数|时长|工期|周期|时限|用时"),
        label=re.compile("时间|期"),
    ),
    _Asks(re.compile("(?:怎么|如何|咋)联系|联系方式|打什么电话"), re.compile("电话|手机|联系方式")),
    _Asks(
        re.compile(f"在?(?:哪里|哪儿|什么地方|何处)|在哪(?![{COUNTED}些一二两几年天月级类])"),
        re.compile("地址|位置|地点|所在地|住址"),
    ),
    _Asks(
        re.compile("谁来?负责|归?谁管|找谁|联系谁"),
        re.compile("负责人|联系人|经办人|责任人|管理人|管理员"),
    ),
    _Asks(re.compile("几点"), re.compile("时间"), dates=False),
    _Asks(re.compile("什么时候|啥时候|何时|哪天|哪一天"), re.compile("时间|日期")),
)


def everyday(text: str, sheet: Sheet, rows: Sequence[int], labels: Sequence[str]) -> Hint | None:
    """What everyday words of a question ask for; None without such words, and where the ``labels`` of the rows say
    themselves what kind of value stands beside them: 学费多少钱."""
    for asks in _EVERYDAY:
        found = asks.cue.search(text)
        if found is None:
            continue
        if any(asks.column.search(label) or asks.label.search(label) for label in labels):
            return None
        fits = tuple(column for column in range(len(sheet.columns)) if _fits(asks, sheet, column))
        clear = len(fits) == 1 and _in_unit(found, sheet, rows, fits[0])
        return Hint(fits if clear else (), span(*found.span()))
    return None


def _in_unit(found: re.Match[str], sheet: Sheet, rows: Sequence[int], price: int) -> bool:
    """Whether a price is that of the unit asked for: 多少钱一支 is not answered by the price of a box."""
    held = {name: word for name, word in found.groupdict().items() if word}
    units = [c for c, column in enumerate(sheet.columns) if _UNIT_COLUMN.fullmatch(plain(column.name))]
    said = [sheet.plain_cells(column)[row] for column in units for row in rows]
    _, _, per = sheet.unit(price).partition("/")
    return all(word in unit for word in held.values() for unit in (*said, per) if unit)


def _fits(asks: _Asks, sheet: Sheet, column: int) -> bool:
    kind = sheet.columns[column].kind
    if kind == "percent" or (kind == "date" and not asks.dates):
        return False
    ways = sheet.names[column].parts[-1] if sheet.names[column].parts else ()
    named = any(asks.column.search(way) for way in ways)
    return named and not any(asks.never.search(way) for way in ways)
