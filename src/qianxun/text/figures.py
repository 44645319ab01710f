"""Figures in running text: numbers, shares, dates, doses, codes; each by its value, however it is written.

1361万 = 1,361万人 = 13,610,000; 百分之五 = 5%; 二〇一八年一月 lies within 2018-01-15; 0.5g = 500毫克.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from math import prod
from string import ascii_lowercase
from typing import Final, TypeAlias

from qianxun.core.system.cache import cached_texts
from qianxun.text.chinese import fold
from qianxun.text.quantities import han_number, unit_sizes


@dataclass(frozen=True, slots=True)
class Number:
    """``values``: what it may be; 5 of 5至10万元 is 5 or 50000."""

    written: str
    values: tuple[Decimal, ...]
    unit: str = ""
    digits: str = ""  # as they stand there, without a scale: 1361 of 1361万
    is_count: bool = False  # a small Chinese number that counts things: 三种


@dataclass(frozen=True, slots=True)
class Share:
    written: str
    values: tuple[Decimal, ...]


@dataclass(frozen=True, slots=True)
class Day:
    """A year, month or day, and what is known of it."""

    written: str
    year: int | None
    month: int | None = None
    day: int | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """ISO14001, H7N9, 京A12345: not a number, but nothing to be got wrong either."""

    written: str
    plain: str


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day in minutes: 下午1点 is 13:00. ``minutes``: what it may be, where 上午 or 下午 is not said."""

    written: str
    minutes: tuple[int, ...]


Figure: TypeAlias = Number | Share | Day | Code | Clock

# ── units ────────────────────────────────────────────────────────────────────────────────────────


_UNITS: Final = unit_sizes("text")
_COUNTED: Final = (
    "人次|人|个|家|所|名|位|次|件|台|套|册|辆|户|页|种|款|项|条|部|本|座|届|只|支|张|间|栋|门|场|票|集|层|起|份|例|片|粒|枚|颗|章|节|笔"
    "|批|类|点|步|方|大|轮|期|代|类|股|道|处|队|组|对|盒|袋|瓶|支|剂|针|滴|口|亩|分"
)
_ANY_UNIT: Final = frozenset(["", "个", "分", "点", "度", "款", "期"])  # 4个 may be 4个小时: no kind of thing
_UNIT: Final = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))  # longest first: 平方米 before 米

# ── reading ──────────────────────────────────────────────────────────────────────────────────────

_HAN_DIGIT: Final = "零〇一二两三四五六七八九"
_HAN: Final = f"{_HAN_DIGIT}十百千万亿"
_SCALE: Final = r"(?:[十百千]?[万亿]{1,2}|[百千](?![分])|million|billion|trillion|thousand)"
_ARABIC: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_SHARE: Final = r"(?:\d{1,3}(?:,\d{3}){1,10}(?!\d)|\d{1,30})(?:\.\d{1,30})?"  # may begin at any digit: hence bounded
_TAIL: Final = (
    rf"(?:[多余几来](?={_SCALE}))?(?:\s?(?P<scale>{_SCALE}))?(?:[多余几来])?"
    rf"\s?(?P<unit>年级|(?:{_UNIT})(?![a-z])|{_COUNTED})?"
)
_YEAR: Final = r"(?:[12]\d{3}|[〇零一二三四五六七八九]{4})"
_MONTH: Final = r"(?:1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])"
_DAY: Final = r"(?:3[01]|[12]\d|0?[1-9]|三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九])"
_DATE: Final = re.compile(
    rf"(?<!\d)(?P<y>{_YEAR})年度?(?:\s?(?P<m>{_MONTH})月份?(?:\s?(?P<d>{_DAY})[日号])?)?"
    rf"|(?<![\d.])(?P<y2>[12]\d{{3}})(?P<sep>[-/.])(?P<m2>1[0-2]|0?[1-9])(?P=sep)(?P<d2>3[01]|[12]\d|0?[1-9])(?!\d)"
    rf"|(?<![\d.])(?P<y3>[12]\d{{3}})[-/](?P<m3>1[0-2]|0[1-9])(?![\d-])"
    rf"|(?<![\d{_HAN}个.])(?P<m4>{_MONTH})月(?!龄)(?:份|(?P<d4>{_DAY})[日号])?"
    rf"|(?<![\d{_HAN}.,])(?P<d5>{_DAY})[日号](?![均常内志历语程])"
)
_HOUR: Final = r"(?:2[0-4]|1\d|0?\d|二十[一二三四]?|十[一二三四五六七八九]?|[零一二两三四五六七八九])"
_PERIOD: Final = "凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上|晚间|夜间|夜里|当晚|晚"
_CLOCK: Final = re.compile(
    rf"(?P<period>{_PERIOD})?\s?(?<![\d.:])(?P<hour>2[0-4]|1\d|0?\d):(?P<minute>[0-5]\d)(?::[0-5]\d)?(?![\d:])"
    rf"|(?P<period2>{_PERIOD})\s?(?P<hour2>{_HOUR})[点时](?!\d+[项条个])(?:钟|整|(?P<half2>半)|(?P<minute2>[0-5]?\d)分?)?"
    rf"|(?<![\d.第])(?P<hour3>{_HOUR})[点时](?:钟|整|(?P<half3>半)|(?P<minute3>[0-5]\d)分|(?=[以之]?[前后]|至|到|许|左右|[-—~～]))"
    rf"|(?<=[至到—~～-])\s?(?P<hour4>{_HOUR})[点时]"
)
_QUARTER: Final = re.compile(r"第?(?P<q>[一二三四1-4])季度?|(?<![a-z0-9])q(?P<q2>[1-4])(?![a-z0-9])")
# 八成五 is 85%, but 八成一线员工 are 80% of them: nothing that it could belong to comes second it.
_HUNDREDTHS: Final = r"(?P<more>[一二三四五六七八九](?=[\s，。；、,.;：:！？!?)）”|的]|左右|以[上下]|\Z))?"
_PARTS: Final = re.compile(
    rf"(?P<whole>百|千|万)分之(?P<share>{_ARABIC}|[{_HAN}]+(?:点[{_HAN}]+)?)"
    rf"|(?P<below>[{_HAN_DIGIT}十]{{1,30}}|\d{{1,30}})分之(?P<above>[{_HAN_DIGIT}十]{{1,30}}|\d{{1,30}})"
    rf"|(?P<percent>{_SHARE})\s?(?:%|个?百分点)|(?P<points>[{_HAN}]{{1,12}}(?:点[{_HAN}]{{1,6}})?)个百分点|(?P<mille>{_SHARE})\s?‰"
    rf"|(?P<tenths>[{_HAN_DIGIT}]|\d)成(?![立为员本功绩交就分都长熟果])(?P<half>半)?{_HUNDREDTHS}|(?P<halved>一半|各半|对半)"
)
_CODE: Final = re.compile(
    r"(?<![a-z0-9])[a-z]+(?:[-/]?\d+(?:[.-]\d+)*[a-z]*)+(?![a-z0-9])|(?<![\d.])\d+(?:\.\d+){2,}(?![\d])"
)
_ROMAN: Final = re.compile(r"(?<![a-z])(?P<roman>i{1,3}|iv|vi{0,3}|ix|x)(?=[型期级度类])")
_NUMBER: Final = re.compile(rf"(?<![\d.])(?P<arabic>{_ARABIC}){_TAIL}")
_CHINESE: Final = re.compile(rf"(?P<before>[第这那同该某每几数])?(?P<han>[{_HAN}]+(?:点[{_HAN_DIGIT}]+)?){_TAIL}")
_EVERY: Final = re.compile("每(?P<unit>日|天|周|月|年|小时)")
_HALF: Final = re.compile(
    rf"(?:(?P<whole>[{_HAN_DIGIT}十]|\d{{1,2}})个|(?<![上下前后大小多{_HAN}\d]))半个?(?P<unit>年|月|小时|天|日)"
)
_RANGE: Final = re.compile(r"\s?(?:-|–|—|~|～|至|到)+\s?")
_ROMANS: Final = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8, "ix": 9, "x": 10}
_SCALES: Final = {
    **{"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8},
    **{"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12},
}
_PLAIN_WORDS: Final = re.compile(
    rf"[上下前后另]一(?=个?[年月周天季]|次|期|届|轮)|(?<![{_HAN_DIGIT}])十分(?![之钟])|千万(?=不|别|要|勿)|(?<![{_HAN}\d])(?:万一|一一(?![{_HAN}]))|百分百|一五一十|三三两两|千百|百万富翁"
)
_LIST_MARK: Final = re.compile(
    r"(?m)^[^\S\n]*(?:[-*•·#]+[^\S\n]*)?(?:\d{1,2}(?:[、)）]|[.．](?!\d))"
    rf"|\d{{1,2}}(?:\.\d{{1,2}}){{1,3}}[ \t\u3000]+(?!(?:{_UNIT}|{_COUNTED}|{_SCALE}))(?=[^\W\d_])"  # 3.5 定时
    rf"|(?<=#)[ \t]*\d{{1,2}}[ \t\u3000]+(?!(?:{_UNIT}|{_COUNTED}|{_SCALE}))(?=[^\W\d_])"  # ## 4 排水方式
    r"|[(（](?:\d{1,2}|[一二三四五六七八九十]{1,2})[)）]|[一二三四五六七八九十]{1,2}、)"
)
_BRACKETED_MARK: Final = re.compile(r"[(（](?:\d{1,2}|[一二三四五六七八九十]{1,2})[)）](?=\s*[^\W\d_])")
_ORDINAL_MARK: Final = re.compile("第[一二三四五六七八九十](?=[,，、:：]|点|步|方面)|其[一二三四五](?=[,，、:：])")

# As amounts are written on contracts and receipts: nothing can be made of them by adding a stroke.
_FORMAL_AMOUNT: Final = re.compile("[零壹贰叁肆伍陆柒捌玖拾佰仟万亿]{2,24}[元圆]")
_FORMAL_NUMERAL: Final = re.compile("[壹贰叁肆伍陆柒捌玖拾佰仟圆]")
_FORMAL_NUMERALS: Final = str.maketrans("壹贰叁肆伍陆柒捌玖拾佰仟圆", "一二三四五六七八九十百千元")

# Every figure, and every mark of a list, has one of these at least.
_SIGN: Final = re.compile(rf"[\d{_HAN}壹贰叁肆伍陆柒捌玖拾佰仟半每ivx]")

_Reader: TypeAlias = Callable[[re.Match[str], str], Figure | None]


_FORMULAS: Final = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\\(?:text|textbf|mathrm|mathbf|operatorname)\s*\{([^{}\n]{0,80})\}", r"\1"),
        (r"\\sim(?![A-Za-z])", "~"),
        (r"\\(?:leq?|geq?|approx|pm)(?![A-Za-z])", " "),
        (r"\\(?:times|cdot)(?![A-Za-z])", "×"),
        (r"\^\s*\{?\\circ\}?\s*C?", "℃"),
        (r"\{,\}", ","),
        (r"\\([%$])", r"\1"),
        (r"\\[,;:!()\[\] ]|\$", ""),
    )
)


def without_formulas(text: str) -> str:
    """Figures that a model sets as formulas, as plain text: $60\\%$ is 60%, \\(5\\sim10\\,\\text{mg}\\) is 5~10mg."""
    if "\\" not in text and "$" not in text:
        return text
    for pattern, plain in _FORMULAS:
        text = pattern.sub(plain, text)
    return text


_GAP: Final = re.compile(
    r"(?m)(?P<mark>^[^\S\n]*(?:#+[^\S\n]*\d{1,2}|\d{1,2}(?:\.\d{1,2}){1,3})[^\S\n]+)"  # the number of a section
    r"|(?<=[\da-zA-Z%])[^\S\n]{1,2}(?=[\u4e00-\u9fff])(?![\u4e00-\u9fff]{1,8}[:：])"  # 14:10 手术者：… another field
    r"|(?<=[\u4e00-\u9fff])[^\S\n]{1,2}(?=[\da-zA-Z])"
)


def without_gaps(text: str) -> str:
    """Without the blanks that many writers and programs put between Chinese and figures, or Latin letters: 2025 年."""
    return _GAP.sub(lambda found: found["mark"] or "", text)


@dataclass(frozen=True, slots=True)
class Placed:
    """A figure, and where it is in the folded text."""

    start: int
    end: int
    figure: Figure


def figures(text: str) -> list[Figure]:
    """Every figure of a text, in order. Marks of a list (1. 2. 第一，) are none."""
    return list(_figures(text))


@cached_texts(8_192)
def _figures(text: str) -> tuple[Figure, ...]:
    """Cached: a sentence is read for its own figures, as the one before the next, and by every check of an answer."""
    return tuple(one.figure for one in placed(prepared(text)))


def has_signs(folded: str) -> bool:
    """Returns False if a folded text has no sign that any figure is made of."""
    return _SIGN.search(folded) is not None


def prepared(text: str) -> str:
    """Folded, without gaps, with what is no figure blanked out, and 壹佰玖拾叁万元 as 一百九十三万元."""
    folded = without_gaps(fold(without_formulas(text)).replace("％", "%"))
    if not has_signs(folded):  # nothing that any of these could find
        return folded
    if _FORMAL_NUMERAL.search(folded):
        folded = _FORMAL_AMOUNT.sub(lambda found: found.group().translate(_FORMAL_NUMERALS), folded)
    for pattern in (_LIST_MARK, _BRACKETED_MARK, _ORDINAL_MARK, _PLAIN_WORDS):
        folded = pattern.sub(lambda found: "\n" * len(found.group()), folded)
    return folded


def placed(text: str) -> list[Placed]:
    """The figures of a prepared text, in order."""
    if not has_signs(text):
        return []
    taken, signs = bytearray(len(text)), set(text)
    found: list[Placed] = []
    for pattern, reader, needs in _READERS:
        if needs and signs.isdisjoint(needs):
            continue
        for match in pattern.finditer(text):
            start, end = match.span()
            if any(taken[start:end]):
                continue
            figure = reader(match, text)
            if figure is not None:
                found.append(Placed(start, end, figure))
                taken[start:end] = b"\x01" * (end - start)
    return _compounded(sorted(found, key=lambda hit: hit.start), text)


def _compounded(found: list[Placed], text: str) -> list[Placed]:
    """一年八个月 is one time, and so are 1小时15分 and 一年半; 三元六角 is one sum."""
    whole: list[Placed] = []
    for hit in found:
        before = whole[-1] if whole else None
        sum_ = (
            _together(before.figure, hit.figure)
            if before and text[before.end : hit.start] in ("", "零", "又")
            else None
        )
        if before and sum_ is not None:
            whole[-1] = Placed(before.start, hit.end, replace(sum_, written=text[before.start : hit.end]))
        else:
            whole.append(hit)
    return [_with_half(hit, text) for hit in whole]


def _together(one: Figure, other: Figure) -> Number | None:
    if not isinstance(one, Number) or not isinstance(other, Number) or measured(one.unit) not in ("月", "秒", "元"):
        return None
    unit = "分钟" if other.unit == "分" else other.unit
    is_smaller = measured(unit) == measured(one.unit) and _UNITS[unit][1] < _UNITS[one.unit][1]
    if not is_smaller or len(one.values) > 1 or len(other.values) > 1:
        return None
    ratio = _UNITS[one.unit][1] / _UNITS[unit][1]
    return Number("", (one.values[0] * ratio + other.values[0],), unit)


def _with_half(hit: Placed, text: str) -> Placed:
    figure = hit.figure
    is_time = isinstance(figure, Number) and measured(figure.unit) in ("月", "秒") and len(figure.values) == 1
    if not is_time or text[hit.end : hit.end + 1] != "半" or not isinstance(figure, Number):
        return hit
    half = replace(figure, written=f"{figure.written}半", values=(figure.values[0] + Decimal("0.5"),), digits="")
    return Placed(hit.start, hit.end + 1, half)


def _date(match: re.Match[str], _: str) -> Figure | None:
    year = match["y"] or match["y2"] or match["y3"]
    month = match["m"] or match["m2"] or match["m3"] or match["m4"]
    day = match["d"] or match["d2"] or match["d4"] or match["d5"]
    return Day(match.group(), _whole(year), _whole(month), _whole(day))


def _whole(written: str | None) -> int | None:
    if written is None:
        return None
    return int(written) if written.isdigit() else han_number(written)


def _share(match: re.Match[str], text: str) -> Figure | None:
    if match["halved"]:
        return Share(match.group(), (Decimal("0.5"),))
    if match["below"]:
        below, above = _whole(match["below"]), _whole(match["above"])
        return Share(match.group(), (Decimal(above or 0) / below,)) if below else None
    size = 1000 if match["mille"] else 10 if match["tenths"] else _SCALES[match["whole"] or "百"]
    value = _decimal(match["tenths"] or match["mille"] or match["share"] or match["percent"] or match["points"] or "")
    if value is None:
        return None
    if match["more"]:
        value += Decimal(han_number(match["more"]) or 0) / 10
    return Share(match.group(), ((value + (Decimal("0.5") if match["half"] else 0)) / size,))


def _decimal(written: str) -> Decimal | None:
    if written[:1].isdigit():
        return Decimal(written.replace(",", ""))
    whole, point, fraction = written.partition("点")
    number = han_number(whole)
    if number is None or (point and any(mark not in _HAN_DIGIT for mark in fraction)):
        return None
    digits = "".join(str(han_number(mark)) for mark in fraction)
    return Decimal(f"{number}.{digits}") if digits else Decimal(number)


def _clock(match: re.Match[str], text: str) -> Figure | None:
    written = match["hour"] or match["hour2"] or match["hour3"] or match["hour4"]
    hour = _whole(written)
    minute = match["minute"] or match["minute2"] or match["minute3"]
    if hour is None:
        return None
    total = hour * 60 + (30 if match["half2"] or match["half3"] else int(minute or 0))
    period = match["period"] or match["period2"] or _period_before(text, match.start())
    if hour > 12 or (written.startswith("0") and not period):  # 04时 is of the 24 hours
        return Clock(match.group(), (total,))
    if not period:
        return Clock(match.group(), (total, (total + 720) % 1440))
    is_late = period in ("下午", "傍晚", "晚上", "晚间", "夜间", "夜里", "当晚", "晚") or (
        period == "中午" and hour < 11
    )
    return Clock(match.group(), ((total + 720 if is_late and hour < 12 else total) % 1440,))


_RANGE_BEFORE: Final = re.compile(rf"(?P<period>{_PERIOD})\s?[^，。；、\n]{{1,7}}?(?:-|–|—|~|～|至|到)+\s?\Z")


def _period_before(text: str, at: int) -> str:
    """下午2时至4时: what is said of the first time holds for the second."""
    found = _RANGE_BEFORE.search(text[max(0, at - 14) : at])
    return found["period"] if found else ""


def _number(match: re.Match[str], text: str) -> Figure | None:
    digits = match["arabic"].replace(",", "")
    value = Decimal(digits)
    scale, unit = _size(match["scale"]), match["unit"] or ""
    if ranged := _RANGE.match(text, match.end()):
        return _of_range(match, text, ranged.end(), value, scale, unit)
    return Number(match.group(), (value * scale,), unit, digits if scale == 1 or match["scale"] else "")


def _of_range(match: re.Match[str], text: str, at: int, value: Decimal, scale: int, unit: str) -> Figure:
    """10 of 10-20%, 5 of 5至10万元: what is after the second number may hold for the first."""
    digits = match["arabic"].replace(",", "")
    second = _PARTS.match(text, at)
    if second and second["percent"] and scale == 1 and not unit:
        return Share(match.group(), (value / 100,))
    other = _NUMBER.match(text, at)
    if other is None or unit or scale != 1:
        return Number(match.group(), (value * scale,), unit, digits)
    values = dict.fromkeys((value, value * _size(other["scale"])))
    return Number(match.group(), tuple(values), other["unit"] or "", digits)


def _size(written: str | None) -> int:
    if not written or written in _SCALES:
        return _SCALES[written] if written else 1
    return prod(_SCALES[mark] for mark in written)


def _half(match: re.Match[str], _: str) -> Figure | None:
    """半年, 两个半小时."""
    whole = (_whole(match["whole"]) or 0) if match["whole"] else 0
    unit = "个月" if match["unit"] == "月" else match["unit"]
    return Number(match.group(), (whole + Decimal("0.5"),), unit)


def _chinese(match: re.Match[str], _: str) -> Figure | None:
    """A Chinese number where it is one: 三种, 二十三, 三百万元; not 一 of 一些, 三 of 三级, 一年 of 这一年."""
    written, unit, before = match["han"], match["unit"] or "", match["before"] or ""
    value = _decimal(written)
    if value is None or before in ("几", "数"):
        return None
    if before == "第":
        return Number(match.group(), (value,))
    is_digit = len(written) == 1
    is_interval = before == "每" and unit in _UNITS  # 每十天
    if (is_digit and (not unit or (before and not is_interval))) or (written == "一" and unit not in _UNITS):
        return None  # 一个, 一种: an article
    count = is_digit and unit not in _UNITS and written not in "百千万亿"
    return Number(match.group(), (value * _size(match["scale"]),), unit, is_count=count)


# With signs of which a text has one at least where the pattern finds anything; "": any may do.
_READERS: Final[tuple[tuple[re.Pattern[str], _Reader, str], ...]] = (
    (_DATE, _date, "年月日号-/."),
    (_CLOCK, _clock, ":点时"),
    (_QUARTER, lambda hit, _: Number(hit.group(), (Decimal(_whole(hit["q"] or hit["q2"]) or 0),), "季度"), "季q"),
    (_PARTS, _share, "分成半%‰"),
    (_CODE, lambda hit, _: Code(hit.group(), re.sub(r"[\s/-]", "", hit.group())), f"{ascii_lowercase}."),
    (_ROMAN, lambda hit, _: Number(hit.group(), (Decimal(_ROMANS[hit["roman"]]),)), "型期级度类"),
    (_HALF, _half, "半"),
    (_NUMBER, _number, ""),
    (_EVERY, lambda hit, _: Number(hit.group(), (Decimal(1),), hit["unit"]), "每"),
    (_CHINESE, _chinese, _HAN),
)


def measured(unit: str) -> str:
    """What a unit measures: 克 for 毫克 and kg; "" for what only counts."""
    return _UNITS[unit][0] if unit in _UNITS else unit if unit == "季度" else ""


# ── comparing ────────────────────────────────────────────────────────────────────────────────────


def amount(value: Decimal, unit: str) -> Decimal:
    """A value in the unit that others of its kind are compared in."""
    return value * _UNITS[unit][1] if unit in _UNITS else value


def same_amount(left: Number, right: Number) -> bool:
    """Equal in value; where both are measured, in what they measure too."""
    if "季度" in (left.unit, right.unit) and left.unit != right.unit:
        return False
    one, other = _UNITS.get(left.unit), _UNITS.get(right.unit)
    if one is not None and other is not None:
        return one[0] == other[0] and any(a * one[1] == b * other[1] for a in left.values for b in right.values)
    if (one is None) != (other is None) and (right.unit if one else left.unit) not in _ANY_UNIT:
        return False
    return any(a == b for a in left.values for b in right.values)
