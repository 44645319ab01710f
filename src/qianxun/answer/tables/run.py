"""A plan carried out on typed rows: exact numbers, and the cells they come from."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, getcontext
from typing import Any, Final

from qianxun.answer.tables.sheet import Sheet
from qianxun.core.layered_types import Comparison, Condition, Plan
from qianxun.core.types import CellValue
from qianxun.question.words import cue

_BARE: Final = re.compile(r"[-+−]?[\d,，.]+")
_EMPTY: Final = "（空）"  # one of several cells that are asked for
_ORDER: Final = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True, slots=True)
class Outcome:
    """``values`` with the cells (row, column) they come from; ``rows`` are those that met the conditions."""

    values: tuple[CellValue, ...]
    shown: tuple[str, ...]
    cells: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]


class Unanswerable(Exception):
    """The rows do not allow the answer that the question asks for; the message says why."""


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def matching_rows(sheet: Sheet, conditions: Sequence[Condition]) -> list[int]:
    """The rows that meet every condition, in their order; neither rows of totals nor empty ones. What the parts of a
    year add up to is a row where it is asked for by its name."""
    empty = {r for r, row in enumerate(sheet.table.rows) if all(value is None or value == "" for value in row)}
    wholes = {row for row in sheet.parts.rows if any(_names(sheet, condition, row) for condition in conditions)}
    found = [row for row in range(len(sheet)) if row in wholes or (row not in sheet.totals and row not in empty)]
    for condition in conditions:
        found = _meeting(sheet, condition, found)
    return found


def _names(sheet: Sheet, condition: Condition, row: int) -> bool:
    return condition.comparison in ("=", "in") and sheet.plain_cells(condition.column)[row] in condition.values


def _meeting(sheet: Sheet, condition: Condition, rows: list[int]) -> list[int]:
    column = condition.column
    if condition.than is not None:
        return [row for row in rows if _meets_column(condition, condition.than, sheet.table.rows[row])]
    if sheet.columns[column].kind == "date":
        return [row for row in rows if _meets_date(condition, sheet.table.rows[row][column])]
    bounds = [value for value in condition.values if isinstance(value, Decimal)]
    if bounds:
        numbers = ((row, number(sheet.table.rows[row][column])) for row in rows)
        pairs = ((row, [(value, bound) for bound in bounds]) for row, value in numbers if value is not None)
        return [row for row, compared in pairs if _compare(condition.comparison, compared)]
    cells = sheet.plain_cells(column)
    texts = {str(value) for value in condition.values}
    match condition.comparison:
        case "=" | "in":
            return [row for row in rows if cells[row] in texts]
        case "!=" | "not in":
            return [row for row in rows if cells[row] and cells[row] not in texts]
        case "not contains":
            return [row for row in rows if cells[row] and not any(part in cells[row] for part in texts)]
        case _:
            return [row for row in rows if any(part in cells[row] for part in texts)]


def _meets_column(condition: Condition, other: int, cells: Sequence[CellValue]) -> bool:
    value, bound = number(cells[condition.column]), number(cells[other])
    return value is not None and bound is not None and _compare(condition.comparison, [(value, bound)])


def _meets_date(condition: Condition, value: CellValue) -> bool:
    """Dates are compared as far as the question goes: 2023年以后 begins after the last day of 2023."""
    if not isinstance(value, str) or not value[:4].isdigit():
        return False
    pairs = [(value[: len(str(bound))], str(bound)) for bound in condition.values]
    if any(len(part) < len(bound) for part, bound in pairs):
        return False  # a year cannot be compared with a day
    return _compare(condition.comparison, pairs)


def _compare(comparison: Comparison, pairs: Sequence[tuple[Any, Any]]) -> bool:
    """Pairs of a value and a bound: one, the alternatives, or both ends of a range."""
    match comparison:
        case "=" | "in":
            return any(value == bound for value, bound in pairs)
        case "!=" | "not in":
            return all(value != bound for value, bound in pairs)
        case ">" | ">=" | "<" | "<=":
            return bool(_ORDER[comparison](*pairs[0]))
        case _:
            return bool(pairs[0][0] >= pairs[0][1] and pairs[-1][0] <= pairs[-1][1])


def number(value: CellValue) -> Decimal | None:
    """A cell's number, exactly as written; texts and booleans have none."""
    return None if value is None or isinstance(value, str | bool) else Decimal(str(value))


# ── operations ───────────────────────────────────────────────────────────────────────────────────


def run(plan: Plan, sheet: Sheet) -> Outcome:
    """The outcome of a plan. Raises Unanswerable."""
    match plan.operation:
        case "lookup":
            return _looked_up(plan, sheet)
        case "difference" | "ratio":
            return _compared(plan, sheet)
    rows = matching_rows(sheet, plan.conditions)
    _refuse_parts(sheet, plan, rows)
    match plan.operation:
        case "count":
            return _counted(plan, sheet, rows)
        case "sum" | "average":
            return _aggregated(plan, sheet, rows)
        case "max" | "min" | "top":
            return _extreme(plan, sheet, rows)
        case _:
            return _listed(plan, sheet, rows)


def _refuse_parts(sheet: Sheet, plan: Plan, rows: list[int]) -> None:
    """Rows that are parts of others (其中：) would be counted twice."""
    if plan.operation not in ("count", "sum", "average") or sheet.label is None:
        return
    cells = sheet.plain_cells(sheet.label)
    if any(cue("table.part_row").match(cells[row]) for row in rows):
        raise Unanswerable("有的行是别的行的一部分（其中、加、减），加起来会重复")
    if plan.operation == "count" and len(sheet.columns) > 2:
        filled = ([column for column, text in enumerate(sheet.table.texts[row]) if text] for row in rows)
        if any(columns == [sheet.label] for columns in filled):
            raise Unanswerable("有的行只有名称，可能是小标题，数出来会多")


def _looked_up(plan: Plan, sheet: Sheet) -> Outcome:
    lines = {tuple(sheet.table.texts[row][c] for c in plan.outputs): row for row in reversed(plan.rows or ())}
    cells = plan.against or tuple((row, column) for row in sorted(lines.values()) for column in plan.outputs)
    shown = [_shown(sheet, cell) for cell in cells]
    if not any(text.strip() for text in shown):
        raise Unanswerable("对应的单元格是空的")
    shown = [text if text.strip() else _EMPTY for text in shown]
    return _outcome(sheet, cells, shown, (row for row, _ in cells))


def _outcome(
    sheet: Sheet, cells: Sequence[tuple[int, int]], shown: Iterable[str], rows: Iterable[int], proof: Sequence[Any] = ()
) -> Outcome:
    values = tuple(_value(sheet, cell) for cell in cells)
    return Outcome(values, tuple(shown), (*cells, *proof), tuple(dict.fromkeys(rows)))


def _shown(sheet: Sheet, cell: tuple[int, int]) -> str:
    row, column = cell
    return sheet.columns[column].path[-1] if row < 0 else sheet.table.texts[row][column]


def with_unit(sheet: Sheet, cell: tuple[int, int], text: str) -> str:
    """A number as its cell has it, with the unit of its column, where the cell does not state one."""
    row, column = cell
    is_bare = row >= 0 and number(sheet.table.rows[row][column]) is not None and _BARE.fullmatch(text.strip())
    return f"{text.strip()}{sheet.unit(column)}" if is_bare else text


def _value(sheet: Sheet, cell: tuple[int, int]) -> CellValue:
    row, column = cell
    return _shown(sheet, cell) if row < 0 else sheet.table.rows[row][column]


def _compared(plan: Plan, sheet: Sheet) -> Outcome:
    first, second = (number(_value(sheet, cell)) for cell in plan.against)
    if first is None or second is None:
        raise Unanswerable("要比较的单元格不是数")
    if plan.operation == "ratio":
        if not second:
            raise Unanswerable("不能除以零")
        result = first / second
    else:
        result = abs(first - second) if plan.distinct else first - second
    column = plan.against[0][1]
    value = as_number(result)
    shown = f"{round(float(result), 4):g}倍" if plan.operation == "ratio" else show(sheet, column, value)
    if plan.operation == "difference" and sheet.columns[column].kind == "percent":
        shown = shown.removesuffix("%") + "个百分点"
    return Outcome((value,), (shown,), plan.against, tuple(dict.fromkeys(row for row, _ in plan.against)))


def _counted(plan: Plan, sheet: Sheet, rows: list[int]) -> Outcome:
    column = plan.outputs[0] if plan.outputs else sheet.label
    filled = rows
    if column is not None:
        texts = sheet.plain_cells(column)
        filled = [row for row in rows if texts[row]] if plan.outputs else rows
        firsts = list({texts[row]: row for row in reversed(filled)}.values())
        if plan.distinct:
            filled = sorted(firsts)
        elif len(firsts) < len(filled) and plan.outputs:
            raise Unanswerable("名称有重复，分不清要数行还是数名称")
    cells = tuple((row, column or 0) for row in filled)
    return Outcome((len(filled),), (str(len(filled)),), cells, tuple(rows))


def _aggregated(plan: Plan, sheet: Sheet, rows: list[int]) -> Outcome:
    measured = _measured(plan, sheet, rows)
    if not measured:
        raise Unanswerable("没有符合条件的数")
    column = plan.measure or 0
    total = sum((value for _, value in measured), Decimal(0))
    if plan.operation == "sum" and not plan.conditions:
        _check_total(sheet, column, total)
    result = total if plan.operation == "sum" else total / len(measured)
    value = as_number(result)
    shown = show(sheet, column, value if plan.operation == "sum" else _readable(result))
    return Outcome((value,), (shown,), tuple((row, column) for row, _ in measured), tuple(rows))


def _readable(average: Decimal) -> int | float:
    """Four places, as people read them; below one, as many figures: 11648.723123123124 says no more than 11648.7231."""
    return as_number(_rounded(average, max(4, 3 - average.adjusted()) if average else 4))


def _rounded(value: Decimal, places: int) -> Decimal:
    """As it is where it has no such places: 28 digits are all that a Decimal is worked out to."""
    return round(value, places) if value.adjusted() + places < getcontext().prec - 1 else value


def _measured(plan: Plan, sheet: Sheet, rows: Sequence[int]) -> list[tuple[int, Decimal]]:
    values = sheet.values(plan.measure or 0)
    measured = []
    for row in rows:
        value = number(values[row])
        if value is not None:
            measured.append((row, value))
        elif values[row] is not None:
            raise Unanswerable(f"第 {row + 1} 行的“{values[row]}”不是数，算出来会少一行")
    return measured


def _check_total(sheet: Sheet, column: int, total: Decimal) -> None:
    """A row of totals that differs means that some rows are parts of others."""
    stated = [value for row in sorted(sheet.totals) if (value := number(sheet.table.rows[row][column])) is not None]
    if stated and all(abs(total - value) > abs(value) * Decimal("0.0001") + Decimal("0.05") for value in stated):
        raise Unanswerable("各行相加与表中的合计不一致")


def _extreme(plan: Plan, sheet: Sheet, rows: list[int]) -> Outcome:
    column = plan.measure or 0
    ranked = _ranked(plan, sheet, rows)
    if not ranked:
        raise Unanswerable("没有符合条件的数")
    steps = sorted({value for _, value in ranked}, reverse=plan.operation == "max" or not plan.distinct)
    outputs = plan.outputs or (column,)
    if plan.operation == "top":
        chosen = _top(ranked, plan.limit, steps)
    elif plan.nth > len(steps):
        raise Unanswerable("没有那么多不同的值")
    else:
        chosen = [row for row, value in ranked if value == steps[plan.nth - 1]]
        chosen = chosen[:1] if outputs == (column,) else chosen
        chosen = sorted({tuple(sheet.table.texts[row][c] for c in outputs): row for row in reversed(chosen)}.values())
    cells = [(row, c) for row in chosen for c in outputs]
    proof = [(row, column) for row in chosen if column not in outputs]
    return _outcome(sheet, cells, (sheet.table.texts[row][c] for row, c in cells), chosen, proof)


def _ranked(plan: Plan, sheet: Sheet, rows: list[int]) -> list[tuple[int, Any]]:
    """Rows with what they are ranked by: numbers, or dates."""
    column = plan.measure or 0
    if sheet.columns[column].kind != "date":
        return list(_measured(plan, sheet, rows))
    values = sheet.values(column)
    return [(row, value) for row in rows if isinstance(value := values[row], str) and value[:4].isdigit()]


def _top(ranked: Sequence[tuple[int, Any]], limit: int, steps: Sequence[Any]) -> list[int]:
    """The first rows by their measure, ties in the order of the table; a tie across the border is no answer."""
    place = {step: at for at, step in enumerate(steps)}
    order = sorted(ranked, key=lambda one: (place[one[1]], one[0]))
    if len(order) > limit and order[limit - 1][1] == order[limit][1]:
        raise Unanswerable("有并列，分不出名次")
    return [row for row, _ in order[:limit]]


def _listed(plan: Plan, sheet: Sheet, rows: list[int]) -> Outcome:
    lines = {tuple(sheet.table.texts[row][column] for column in plan.outputs): row for row in reversed(rows)}
    first = sorted(row for line, row in lines.items() if any(line))
    cells = [(row, column) for row in first for column in plan.outputs]
    if not cells:
        raise Unanswerable("没有符合条件的行")
    return _outcome(sheet, cells, (sheet.table.texts[row][column] for row, column in cells), rows)


def as_number(result: Decimal) -> int | float:
    return int(result) if result == result.to_integral_value() else float(result)


def show(sheet: Sheet, column: int, value: int | float) -> str:
    """A computed number with its unit, as people write it."""
    if sheet.columns[column].kind == "percent":
        share = Decimal(str(value)) * 100
        return f"{_rounded(share, 4).normalize():f}%"
    text = str(value) if isinstance(value, int) else f"{Decimal(str(value)):f}"
    return f"{text}{sheet.unit(column)}"
