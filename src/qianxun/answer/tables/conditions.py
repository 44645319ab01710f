"""The conditions of a question: which rows it asks about, by number, by date, by the words of cells."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from qianxun.answer.tables.match import places
from qianxun.answer.tables.sheet import WORDS, CellMention, Sheet
from qianxun.core.layered_types import Comparison, Condition
from qianxun.question.table_query import plain, runs, span, union
from qianxun.question.words import cue, entries, listed
from qianxun.text.chinese import words
from qianxun.text.quantities import Moment, Quantity, in_unit, moments, parts_of_year, quantities

_BEFORE: Final = tuple((sign, re.compile(f"(?:{words})[了到于在]?$")) for sign, words in entries("bound.before"))
_AFTER: Final = tuple((sign, re.compile(f"(?:之间|时)?(?:{words})")) for sign, words in entries("bound.after"))
_LOOSE: Final = re.compile(  # comparisons that must belong to a number
    "|".join(words for sign, words in entries("bound.before") if sign in (">", ">=", "<", "<="))
    + "|达到|以上|以下|介于|之间|之前|以前|之后|以后|以内"
)
_LONGEST_CATEGORY: Final = 12
# Whether it is denied, and whether more is meant.
_REACHED: Final[Mapping[tuple[bool, bool], tuple[Comparison, str]]] = MappingProxyType(
    {
        (False, False): (">=", "不低于"),
        (True, False): ("<", "低于"),
        (False, True): (">", "高于"),
        (True, True): ("<=", "不高于"),
    }
)
_WORDS_OF_SIGN: Final[Mapping[str, str]] = MappingProxyType({"<": "低于", ">": "高于", "<=": "不高于", ">=": "不低于"})
_CLAUSE: Final = re.compile("[,;。?!:]")


class Unclear(Exception):
    """A condition could be read in several ways, or in none; the message says which."""


@dataclass(frozen=True, slots=True)
class ColumnMention:
    """A place in the question where a column is named."""

    start: int
    end: int
    column: int


def numeric_conditions(
    text: str, sheet: Sheet, mentions: Sequence[ColumnMention], closed: int, about: int = 0
) -> list[Condition]:
    """Comparisons with numbers and dates. ``closed`` are characters that belong to names and cells of the table,
    ``about`` those that its title and surroundings explain."""
    numbers = [one for one in _stated_numbers(text) if not _is_closed(one, closed, about)]
    found: list[Condition] = []
    skip = -1
    for at, number in enumerate(numbers):
        if number.start < skip:
            continue
        after = numbers[at + 1] if at + 1 < len(numbers) else None
        bounds, start, end, sign = _comparison(text, number, after)
        if sign is None:
            continue
        if _is_label(sheet, text[number.start : end]):
            closed |= span(start, end)
            continue
        found.append(_bind(text, sheet, mentions, bounds, (start, end), sign))
        skip = end
    read = closed | about | union(condition.mask for condition in found)
    for loose in _LOOSE.finditer(text):
        if not span(loose.start(), loose.end()) & read:
            raise Unclear(f"“{loose.group()}”比较的不是一个数")
    return found


@lru_cache(maxsize=64)  # a question is read against several tables
def _stated_numbers(text: str) -> tuple[Quantity | Moment, ...]:
    stated: list[Quantity | Moment] = [*quantities(text), *moments(text)]
    return tuple(sorted(stated, key=lambda one: one.start))


def _is_closed(number: Quantity | Moment, closed: int, about: int) -> bool:
    """Returns True for what a name, a cell or the title says; 2024年3月 is more than the year of a title."""
    own = span(number.start, number.end)
    is_day = isinstance(number, Moment) and len(number.iso) > 4
    return bool(own & closed) or (not own & ~about if is_day else bool(own & about))


def period_conditions(text: str, sheet: Sheet, mentions: Sequence[ColumnMention], closed: int) -> list[Condition]:
    """3月, 第一季度 or 上半年, where all dates of the table are of one year: it need not be said which."""
    found: list[Condition] = []
    stated = [part for part in parts_of_year(text) if not span(part.start, part.end) & closed]
    years = {_year_of_dates(sheet, c) for c in range(len(sheet.columns) if stated else 0)} - {""}
    if len(stated) > 1 and len(years) == 1:
        raise Unclear("问的不止一个月份或季度")
    for part in stated if len(years) == 1 else ():
        (year,) = years
        first, last = (
            Moment(part.start, part.end, f"{year}-{month:02}", part.written) for month in (part.first, part.last)
        )
        bound = _bind(text, sheet, mentions, (first, last), (part.start, part.end), "between")
        if not _year_of_dates(sheet, bound.column):
            raise Unclear(f"不知道“{part.written}”说的是哪一年")
        until = f"至{last.iso}" if first.iso != last.iso else ""
        found.append(replace(bound, written=f"在{first.iso}{until}"))
    return found


def _year_of_dates(sheet: Sheet, column: int) -> str:
    """The year of all dates of a column; empty where they are of several, or are no dates."""
    if sheet.columns[column].kind != "date":
        return ""
    years = {value[:4] for value in sheet.values(column) if isinstance(value, str)}
    return years.pop() if len(years) == 1 and all(map(str.isdigit, years)) else ""


def _is_label(sheet: Sheet, phrase: str) -> bool:
    """Returns True if a phrase with a number in it is what a row is called: 1年以内."""
    worded = [c for c, column in enumerate(sheet.columns) if column.kind in WORDS]
    return len(phrase) > 2 and any(cell.startswith(phrase) for c in worded for cell in sheet.plain_cells(c))


def _comparison(
    text: str, number: Quantity | Moment, after: Quantity | Moment | None
) -> tuple[tuple[Quantity | Moment, ...], int, int, Comparison | None]:
    if after is not None and cue("bound.between").fullmatch(text[number.end : after.start]):
        tail = cue("bound.range_end").match(text, after.end)
        head = re.search("(?:介于|从|在)$", text[: number.start])
        if tail or head:
            start = head.start() if head else number.start
            return (number, after), start, tail.end() if tail else after.end, "between"
    before = next(((sign, hit) for sign, pattern in _BEFORE if (hit := pattern.search(text[: number.start]))), None)
    after_it = next(((sign, hit) for sign, pattern in _AFTER if (hit := pattern.match(text, number.end))), None)
    if re.search("最[多少高低大小]$", text[: number.start]):
        raise Unclear("“最多”“最少”后面直接跟数，意思不定")
    weak = before is None or before[0] == "="
    if after_it is not None and weak:
        start = before[1].start() if before else number.start
        return (number,), start, after_it[1].end(), _sign(after_it[0])
    if before is not None:
        if after_it is not None:
            raise Unclear(f"“{number.written}”前后都有比较的词")
        return (number,), before[1].start(), number.end, _sign(before[0])
    if isinstance(number, Moment):
        return (number,), number.start, number.end, "="
    return (number,), number.start, number.end, None


def _sign(sign: str) -> Comparison:
    signs: dict[str, Comparison] = {">": ">", ">=": ">=", "<": "<", "<=": "<=", "=": "=", "!=": "!="}
    return signs[sign]


def _bind(
    text: str,
    sheet: Sheet,
    mentions: Sequence[ColumnMention],
    bounds: tuple[Quantity | Moment, ...],
    place: tuple[int, int],
    sign: Comparison,
) -> Condition:
    start, end = place
    fits = [c for c in range(len(sheet.columns)) if _values(sheet, c, bounds) is not None]
    before = [mention for mention in mentions if mention.end <= start and mention.column in fits]
    column = max(before, key=lambda mention: (mention.end, mention.end - mention.start)).column if before else None
    nearer = [
        mention
        for mention in mentions
        if mention.end <= start and column is not None and mention.start > _end(before, column)
    ]
    if column is None or (nearer and _CLAUSE.search(text[_end(before, column) : start])):
        column = _only(text, sheet, mentions, fits, bounds, end) if column is None else column
    if column is None:
        raise Unclear(f"不知道“{text[start:end]}”说的是哪一列")
    values = _values(sheet, column, bounds)
    assert values is not None  # only columns that fit are chosen
    return Condition(column, sign, values, _written(text[start:end], bounds[0], sign), span(start, end))


def _written(words: str, bound: Quantity | Moment, sign: Comparison) -> str:
    """A condition in the question's words; 2020年以后 may begin with 2020 or after it, so that it is made explicit."""
    is_open = isinstance(bound, Moment) and sign in ("<", ">")
    return f"{words}（不含{bound.written}）" if is_open else words


def _end(mentions: Sequence[ColumnMention], column: int) -> int:
    return max(mention.end for mention in mentions if mention.column == column)


def _values(sheet: Sheet, column: int, bounds: Sequence[Quantity | Moment]) -> tuple[str | Decimal, ...] | None:
    """The bounds in the unit of a column; None where they do not fit it."""
    kind = sheet.columns[column].kind
    found: list[str | Decimal] = []
    for bound in bounds:
        if isinstance(bound, Moment):
            if kind == "date":
                found.append(bound.iso)
            elif len(bound.iso) == 4 and sheet.is_yearly(column):
                found.append(Decimal(bound.iso))
            else:
                return None
        else:
            value = in_unit(bound, sheet.unit(column), kind == "percent") if sheet.is_measure(column) else None
            if value is None:
                return None
            found.append(value)
    return tuple(found)


def _only(
    text: str,
    sheet: Sheet,
    mentions: Sequence[ColumnMention],
    fits: Sequence[int],
    bounds: Sequence[Quantity | Moment],
    end: int,
) -> int | None:
    """The one column that a number can speak of without naming it before: by its unit, as the only date, or as the
    date named right after it, at ``end``."""
    if isinstance(bounds[0], Moment):
        after = {one.column for one in mentions if one.column in fits and one.start == end}
        if len(after) == 1:  # 2023年签订的, where there is also a day on which it ends
            return after.pop()
        return fits[0] if len(fits) == 1 and _is_dated_by(text, sheet, mentions, fits[0]) else None
    shares = [c for c in fits if sheet.columns[c].kind == "percent"]
    money = [c for c in fits if sheet.columns[c].kind == "money"]
    unit = bounds[-1].unit if isinstance(bounds[-1], Quantity) else ""
    if unit == "%":
        return shares[0] if len(shares) == 1 else None
    if unit in ("元", "块", "块钱", "圆", "元人民币"):
        return money[0] if len(money) == 1 else None
    same = [c for c in fits if unit and (sheet.unit(c) == unit or _counts_in(sheet, c, unit))]
    return same[0] if len(same) == 1 else None


def _is_dated_by(text: str, sheet: Sheet, mentions: Sequence[ColumnMention], column: int) -> bool:
    """Returns True if a date may be one of this column: 2019年的销售额 is not the sales of those that opened
    (开业日期) in 2019."""
    found = cue("bound.dated").fullmatch(plain(sheet.columns[column].path[-1] if sheet.columns[column].path else ""))
    event = found["event"] if found else ""
    return (
        not event
        or any(mention.column == column for mention in mentions)
        or any(event[at : at + 2] in text for at in range(max(len(event) - 1, 1)))
    )


def _counts_in(sheet: Sheet, column: int, unit: str) -> bool:
    columns = entries("bound.unit_column")
    return unit in columns and bool(re.search(columns[unit], sheet.columns[column].name))


# ── words of cells ───────────────────────────────────────────────────────────────────────────────


def worded_conditions(text: str, cells: Sequence[CellMention], mentions: Sequence[ColumnMention]) -> list[Condition]:
    """Equality with cells that the question mentions: several of one column are alternatives, a negated one is
    excluded."""
    by_place: dict[int, list[CellMention]] = defaultdict(list)
    for cell in cells:
        by_place[cell.mask].append(cell)
    chosen_cells: dict[tuple[int, bool], list[CellMention]] = defaultdict(list)
    marks: dict[tuple[int, bool], int] = defaultdict(int)
    for mask, group in by_place.items():
        chosen = _one_column(text, group, mentions)
        denied = negation(text, mask)
        chosen_cells[chosen.column, denied != 0].append(chosen)
        marks[chosen.column, denied != 0] |= mask | denied
    return [
        Condition(
            column,
            ("not in" if denied else "in"),
            tuple(cell.text for cell in group),
            ("不是" if denied else "是") + "、".join(f"“{cell.text}”" for cell in group),
            marks[column, denied],
        )
        for (column, denied), group in chosen_cells.items()
    ]


def _one_column(text: str, group: Sequence[CellMention], mentions: Sequence[ColumnMention]) -> CellMention:
    """The column of words that are in several: the one named beside them, or any if the rows are the same."""
    if len(group) == 1 or len({cell.rows for cell in group}) == 1:
        return group[0]
    start = runs(group[0].mask)[0][0]
    near = [cell for cell in group for one in mentions if one.column == cell.column and 0 <= start - one.end <= 2]
    if len(near) == 1:
        return near[0]
    raise Unclear(f"“{group[0].text}”在不止一列里出现")


def negation(text: str, mask: int) -> int:
    """The characters that negate a cell: 不是三级, 除了北京以外."""
    start, end = runs(mask)[0]
    found = 0
    for hit in cue("negation.of_cell").finditer(text[:start]):
        between = text[hit.end() : start]
        if len(between) <= 2 and not _CLAUSE.search(between):
            found |= span(hit.start(), hit.end())
    after = cue("negation.except_after").match(text, end)
    if after:
        found |= span(after.start(), after.end())
    return found


def had_conditions(text: str, sheet: Sheet, mentions: Sequence[ColumnMention]) -> list[Condition]:
    """有投影仪的会议室, where a column has 有 or 无 for every row: those with the word in question. Raises Unclear
    where the column has something else, or nothing, for some: whether they have it is not known."""
    found = []
    having, without = listed("negation.having"), listed("negation.lacking")
    for mention in mentions:
        hit = cue("negation.had").search(text[: mention.start])
        after = text[mention.end :].rstrip("?了")
        asks_for_rows = cue("several.listing").search(text[: mention.start]) or cue("who.fitness").match(text)
        is_condition = after.startswith("的") or (not after and asks_for_rows)
        if hit is None and is_condition and (stated := _stated_condition(text, sheet, mention)):
            found.append(stated)
        if hit is None or (after and not after.startswith("的")):
            continue
        cells = set(sheet.plain_cells(mention.column))
        if not cells <= having | without:
            if blank := _blank_condition(sheet, mention, hit):
                found.append(blank)
                continue
            if not after:  # 哪个部门有经理
                continue
            raise Unclear(f"“{hit.group()}{text[mention.start : mention.end]}”说的是哪些行，分不清")
        values = tuple(sorted(cells & (having if hit["lacks"] is None else without)))
        found.append(Condition(mention.column, "in", values, f"是“{'、'.join(values)}”", span(*hit.span())))
    return found


def _blank_condition(sheet: Sheet, mention: ColumnMention, hit: re.Match[str]) -> Condition | None:
    """没有私教, where a column right of the names has somebody for some rows, and nothing for others: those with
    nothing."""
    cells = sheet.plain_cells(mention.column)
    own = [cell for row, cell in enumerate(cells) if row not in sheet.totals]
    names = [c for c in (sheet.number_column, sheet.label) if c is not None and sheet.variety(c) == 1.0]
    is_beside = any(c < mention.column for c in names)
    is_worded = sheet.columns[mention.column].kind in WORDS and any(own) and not all(own)
    if not hit["lacks"] or not is_beside or not is_worded:
        return None
    return Condition(mention.column, "in", ("",), "没有填", span(*hit.span()))


def _stated_condition(text: str, sheet: Sheet, mention: ColumnMention) -> Condition | None:
    """需要报修的故障, where a column says 是否需要报修 of every row, or only 是 or 否: those that are so;
    不需要报修的: the others."""
    path = sheet.columns[mention.column].path
    cells = set(sheet.plain_cells(mention.column))
    having, without = listed("negation.having"), listed("negation.lacking")
    has_both = bool(cells & having and cells & without)
    if not path or not cells <= having | without or not (has_both or cue("whether.column").match(plain(path[-1]))):
        return None
    denied = cue("negation.before_verb").search(text[: mention.start])
    values = tuple(sorted(cells & (without if denied else having)))
    mask = span(denied.start() if denied else mention.start, mention.end)
    return Condition(mention.column, "in", values, f"是“{'、'.join(values)}”", mask) if values else None


def reached_conditions(text: str, sheet: Sheet) -> list[Condition]:
    """没有完成目标, where a column has what was to be reached and another what was: the rows where that is less. Raises
    Unclear where there are several such pairs, and it is not said which is meant."""
    hit = cue("table.reached").search(text)
    pairs = _targets(sheet) if hit else []
    named = [pair for pair in pairs if pair[0] and pair[0] in text]
    pairs = named or pairs
    if hit is None or not pairs:
        return []
    if len(pairs) > 1:
        raise Unclear("不知道说的是哪一个目标")
    ((of, target, actual),) = pairs
    mask = (span(*hit.span()) & ~(span(*hit.span("of")) if hit["of"] else 0)) | (places(of, text) if of else 0)
    sign, words = _REACHED[hit["lacks"] is not None, bool(hit["more"] or hit["over"])]
    return [Condition(actual, sign, (), f"{words}“{sheet.columns[target].name}”", mask, than=target)]


def compared_conditions(text: str, sheet: Sheet, mentions: Sequence[ColumnMention]) -> list[Condition]:
    """期末库存低于安全库存, 超预算: the rows where one column is less or more than another. Where only the other is
    named, the one that goes with it. Raises Unclear where that may be several."""
    found = []
    for mention in mentions:
        if not sheet.is_measure(mention.column):
            continue
        before = next(((sign, hit) for sign, way in _BEFORE if (hit := way.search(text[: mention.start]))), None)
        if before is None or before[0] not in _WORDS_OF_SIGN:
            continue
        sign, hit = _sign(before[0]), before[1]
        own = [one for one in mentions if sheet.is_measure(one.column) and one.end == hit.start()]
        column = own[0].column if own else _goes_with(sheet, mention.column)
        start = own[0].start if own else hit.start()
        written = f"{_WORDS_OF_SIGN[sign]}“{sheet.columns[mention.column].name}”"
        found.append(Condition(column, sign, (), written, span(start, mention.end), than=mention.column))
    return found


def _goes_with(sheet: Sheet, column: int) -> int:
    """What is compared with a limit where it is not named: 实际 with 预算, 期末库存 with 安全库存."""
    pairs = [actual for _, target, actual in _targets(sheet) if target == column]
    head = sheet.bare_name(column)[-2:]
    alike = [c for c in range(len(sheet.columns)) if c != column and sheet.is_measure(c)]
    alike = [c for c in alike if sheet.bare_name(c).endswith(head)]
    current = [c for c in alike if cue("table.current_column").search(sheet.columns[c].name)]
    fits = pairs or (alike if len(alike) == 1 else current)
    if len(fits) != 1:
        raise Unclear(f"不知道和“{sheet.columns[column].name}”比的是哪一列")
    return fits[0]


def _targets(sheet: Sheet) -> list[tuple[str, int, int]]:
    """Pairs of columns, a target and what was achieved of it, and what stands above both of them."""
    above: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for c, column in enumerate(sheet.columns):
        *path, last = column.name.split(" / ")
        for kind, named in (("target", cue("table.target_column")), ("actual", cue("table.actual_column"))):
            if sheet.is_measure(c) and named.match(last) and column.kind != "percent":
                above[plain(" / ".join(path))][kind].append(c)
    return [
        (path, found["target"][0], found["actual"][0])
        for path, found in above.items()
        if len(found["target"]) == len(found["actual"]) == 1
    ]


def contained_conditions(text: str, sheet: Sheet, open_: int, label: int | None) -> list[Condition]:
    """Words that are part of the cells of just one column: 三级 of 三级甲等, 三级乙等."""
    found: list[Condition] = []
    for word in _distinct_words(text):
        at = text.find(word)
        if len(word) < 2 or at < 0 or span(at, at + len(word)) & ~open_:
            continue
        columns = [
            c for c, column in enumerate(sheet.columns) if column.kind in WORDS and _has_category(sheet, c, word)
        ]
        if len(columns) == 1 and columns[0] != label and not any(word in other.written for other in found):
            mask = span(at, at + len(word))
            denied = negation(text, mask)
            sign: Comparison = "not contains" if denied else "contains"
            found.append(Condition(columns[0], sign, (word,), f"{'不' * bool(denied)}含“{word}”", mask | denied))
    return found


@lru_cache(maxsize=64)
def _distinct_words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words(text)))


def _has_category(sheet: Sheet, column: int, word: str) -> bool:
    """Returns True if short cells of a column begin or end with a word."""
    cells = sheet.plain_cells(column)
    return any(len(cell) <= _LONGEST_CATEGORY and (cell.startswith(word) or cell.endswith(word)) for cell in cells)
