"""A plan carried out on typed rows: exact numbers, and the cells they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from qianxun.answer.tables.sheet import Sheet
from qianxun.core.table_answer_types import Condition, Plan
from qianxun.core.types import CellValue
from qianxun.question.words import cue


@dataclass(frozen=True, slots=True)
class Outcome:
    """``values`` with the cells (row, column) they come from; ``rows`` are those that met the conditions."""

    values: tuple[CellValue, ...]
    shown: tuple[str, ...]
    cells: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]


class Unanswerable(Exception):
    """The rows do not allow the answer that the question asks for; the message says why."""


def number(value: CellValue) -> Decimal | None:
    """A cell's number, exactly as written; texts and truths have none."""
    if value is None or isinstance(value, str | bool):
        return None
    return Decimal(str(value))


def kept(sheet: Sheet, conditions: Sequence[Condition], *, totals: bool = False) -> list[int]:
    """The rows that meet every condition, in their order; rows of totals only if asked for."""
    rows: Iterable[int] = range(len(sheet))
    if not totals:
        rows = [row for row in rows if row not in sheet.totals]
    blank = _blank_rows(sheet)
    found = [row for row in rows if row not in blank]
    for condition in conditions:
        found = _meeting(sheet, condition, found)
    return found


def _blank_rows(sheet: Sheet) -> frozenset[int]:
    return frozenset(r for r, row in enumerate(sheet.table.rows) if all(value is None or value == "" for value in row))


def _meeting(sheet: Sheet, condition: Condition, rows: list[int]) -> list[int]:
    if sheet.columns[condition.column].kind == "date" or any(isinstance(value, Decimal) for value in condition.values):
        values = sheet.values(condition.column)
        if sheet.columns[condition.column].kind == "date":
            return [row for row in rows if _date_holds(condition, values[row])]
        return [row for row in rows if _number_holds(condition, number(values[row]))]
    cells = sheet.plain_cells(condition.column)
    wanted = {str(value) for value in condition.values}
    match condition.comparison:
        case "=" | "in":
            return [row for row in rows if cells[row] in wanted]
        case "!=" | "not in":
            return [row for row in rows if cells[row] and cells[row] not in wanted]
        case "not contains":
            return [row for row in rows if cells[row] and not any(part in cells[row] for part in wanted)]
        case _:
            return [row for row in rows if any(part in cells[row] for part in wanted)]


def _number_holds(condition: Condition, held: Decimal | None) -> bool:
    if held is None:
        return False
    bounds = [value for value in condition.values if isinstance(value, Decimal)]
    match condition.comparison:
        case "=" | "in":
            return held in bounds
        case "!=" | "not in":
            return held not in bounds
        case ">":
            return held > bounds[0]
        case ">=":
            return held >= bounds[0]
        case "<":
            return held < bounds[0]
        case "<=":
            return held <= bounds[0]
        case _:
            return bounds[0] <= held <= bounds[-1]


def _date_holds(condition: Condition, held: CellValue) -> bool:
    """Dates are compared as far as the question goes: 2023年以后 begins after the last day of 2023."""
    if not isinstance(held, str) or not held[:4].isdigit():
        return False
    bounds = [str(value) for value in condition.values]
    short = [held[: len(bound)] for bound in bounds]
    if any(len(part) < len(bound) for part, bound in zip(short, bounds, strict=True)):
        return False  # a year cannot be compared with a day
    match condition.comparison:
        case "=" | "in":
            return any(part == bound for part, bound in zip(short, bounds, strict=True))
        case "!=" | "not in":
            return all(part != bound for part, bound in zip(short, bounds, strict=True))
        case ">":
            return short[0] > bounds[0]
        case ">=":
            return short[0] >= bounds[0]
        case "<":
            return short[0] < bounds[0]
        case "<=":
            return short[0] <= bounds[0]
        case _:
            return short[0] >= bounds[0] and short[-1] <= bounds[-1]


def run(plan: Plan, sheet: Sheet) -> Outcome:
    """The outcome of a plan. Raises Unanswerable."""
    match plan.operation:
        case "lookup":
            return _looked_up(plan, sheet)
        case "difference" | "ratio":
            return _compared(plan, sheet)
    rows = kept(sheet, plan.conditions)
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
    if plan.operation == "count" and any(_only_label(sheet, row) for row in rows):
        raise Unanswerable("有的行只有名称，可能是小标题，数出来会多")


def _only_label(sheet: Sheet, row: int) -> bool:
    filled = [column for column, text in enumerate(sheet.table.texts[row]) if text]
    return filled == [sheet.label] and len(sheet.columns) > 2


def _looked_up(plan: Plan, sheet: Sheet) -> Outcome:
    lines = {tuple(sheet.table.texts[row][c] for c in plan.outputs): row for row in reversed(plan.rows or ())}
    cells = plan.against or tuple((row, column) for row in sorted(lines.values()) for column in plan.outputs)
    shown = [_shown(sheet, cell) for cell in cells]
    if not any(text.strip() for text in shown):
        raise Unanswerable("对应的单元格是空的")
    values = tuple(_value(sheet, cell) for cell in cells)
    return Outcome(values, tuple(shown), cells, tuple(dict.fromkeys(row for row, _ in cells)))


def _shown(sheet: Sheet, cell: tuple[int, int]) -> str:
    row, column = cell
    return sheet.columns[column].path[-1] if row < 0 else sheet.table.texts[row][column]


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
    if column is None:
        cells = tuple((row, 0) for row in rows)
        return Outcome((len(rows),), (str(len(rows)),), cells, tuple(rows))
    texts = sheet.plain_cells(column)
    filled = [row for row in rows if texts[row]] if plan.outputs else rows
    firsts = list({texts[row]: row for row in reversed(filled)}.values())
    if plan.distinct:
        filled = sorted(firsts)
    elif len(firsts) < len(filled) and plan.outputs:
        raise Unanswerable("名称有重复，分不清要数行还是数名称")
    return Outcome((len(filled),), (str(len(filled)),), tuple((row, column) for row in filled), tuple(rows))


def _aggregated(plan: Plan, sheet: Sheet, rows: list[int]) -> Outcome:
    measured = _measured(plan, sheet, rows)
    if not measured:
        raise Unanswerable("没有符合条件的数")
    column = plan.measure or 0
    total = sum((held for _, held in measured), Decimal(0))
    if plan.operation == "sum" and not plan.conditions:
        _check_total(sheet, column, total)
    result = total if plan.operation == "sum" else total / len(measured)
    value = as_number(result)
    shown = show(sheet, column, value if plan.operation == "sum" else _readable(result))
    return Outcome((value,), (shown,), tuple((row, column) for row, _ in measured), tuple(rows))


def _readable(average: Decimal) -> int | float:
    """Four places, as people read them; below one, as many figures: 11648.723123123124 says no more than 11648.7231."""
    places = max(4, 3 - average.adjusted()) if average else 4
    return as_number(round(average, places))


def _measured(plan: Plan, sheet: Sheet, rows: Sequence[int]) -> list[tuple[int, Decimal]]:
    values = sheet.values(plan.measure or 0)
    measured = []
    for row in rows:
        held = number(values[row])
        if held is not None:
            measured.append((row, held))
        elif values[row] is not None:
            raise Unanswerable(f"第 {row + 1} 行的“{values[row]}”不是数，算出来会少一行")
    return measured


def _check_total(sheet: Sheet, column: int, total: Decimal) -> None:
    """A row of totals that says otherwise means that some rows are parts of others."""
    stated = [held for row in sorted(sheet.totals) if (held := number(sheet.table.rows[row][column])) is not None]
    if stated and all(abs(total - held) > abs(held) * Decimal("0.0001") + Decimal("0.05") for held in stated):
        raise Unanswerable("各行相加与表中的合计不一致")


def _extreme(plan: Plan, sheet: Sheet, rows: list[int]) -> Outcome:
    column = plan.measure or 0
    ranked = _ranked(plan, sheet, rows)
    if not ranked:
        raise Unanswerable("没有符合条件的数")
    steps = sorted({held for _, held in ranked}, reverse=plan.operation == "max" or not plan.distinct)
    if plan.operation == "top":
        chosen = _top(ranked, plan.limit, steps)
    else:
        if plan.nth > len(steps):
            raise Unanswerable("没有那么多不同的值")
        chosen = [row for row, held in ranked if held == steps[plan.nth - 1]]
    outputs = plan.outputs or (column,)
    if outputs == (column,):
        chosen = chosen[:1] if plan.operation != "top" else chosen
    if plan.operation != "top":
        chosen = sorted({tuple(sheet.table.texts[row][c] for c in outputs): row for row in reversed(chosen)}.values())
    cells = tuple((row, c) for row in chosen for c in outputs)
    shown = tuple(sheet.table.texts[row][c] for row, c in cells)
    proof = tuple((row, column) for row in chosen if column not in outputs)
    return Outcome(tuple(_value(sheet, cell) for cell in cells), shown, (*cells, *proof), tuple(chosen))


def _ranked(plan: Plan, sheet: Sheet, rows: list[int]) -> list[tuple[int, Decimal | str]]:
    column = plan.measure or 0
    if sheet.columns[column].kind == "date":
        values = sheet.values(column)
        return [(row, held) for row in rows if isinstance(held := values[row], str) and held[:4].isdigit()]
    return list(_measured(plan, sheet, rows))


def _top(ranked: Sequence[tuple[int, Decimal | str]], limit: int, steps: Sequence[Decimal | str]) -> list[int]:
    """The first rows by their measure, each tie in the order of the table; a tie across the border is no answer."""
    place = {step: at for at, step in enumerate(steps)}
    order = sorted(ranked, key=lambda one: (place[one[1]], one[0]))
    if len(order) > limit and order[limit - 1][1] == order[limit][1]:
        raise Unanswerable("有并列，分不出名次")
    return [row for row, _ in order[:limit]]


def _listed(plan: Plan, sheet: Sheet, rows: list[int]) -> Outcome:
    cells: list[tuple[int, int]] = []
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        line = tuple(sheet.table.texts[row][column] for column in plan.outputs)
        if line not in seen and any(line):
            seen.add(line)
            cells.extend((row, column) for column in plan.outputs)
    if not cells:
        raise Unanswerable("没有符合条件的行")
    shown = tuple(sheet.table.texts[row][column] for row, column in cells)
    return Outcome(tuple(_value(sheet, cell) for cell in cells), shown, tuple(cells), tuple(rows))


def as_number(result: Decimal) -> int | float:
    return int(result) if result == result.to_integral_value() else float(result)


def show(sheet: Sheet, column: int, value: int | float) -> str:
    """A computed number with its unit, as people write it."""
    if sheet.columns[column].kind == "percent":
        share = Decimal(str(value)) * 100
        return f"{share.quantize(Decimal('0.0001')).normalize():f}%"
    text = str(value) if isinstance(value, int) else f"{Decimal(str(value)):f}"
    return f"{text}{sheet.unit(column)}"
