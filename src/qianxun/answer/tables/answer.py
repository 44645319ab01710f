"""Exact answers over tables, without a language model: planned, carried out on typed rows, cited by the cell.

A wrong answer is worse than none: a question with more in it than the plan explains is declined, and the rows that come
closest are named instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.tables.fitness import broken, misfit
from qianxun.answer.tables.match import match, match_column, places
from qianxun.answer.tables.periods import shown_parts, with_wholes
from qianxun.answer.tables.plan import decisive, read_question
from qianxun.answer.tables.run import Outcome, Unanswerable, run, with_unit
from qianxun.answer.tables.sheet import Sheet
from qianxun.core.layered_types import CitedCell, Condition, Plan, TableAnswer, TableInput, Understood, Unsure
from qianxun.core.ports import never
from qianxun.question.question import read
from qianxun.question.table_query import TableQuery, hits, plain, runs, span, union
from qianxun.question.words import cue

SURE: Final = 0.66  # of lookups between .65 and .75 eight in ten were right on imtqa, above that more; docs/quality.md
_CLEARLY: Final = 0.1  # a table that leaves the same words open must be named this much closer to be the right one
_SURE_OF_WORK: Final = 0.09  # more than that for a count or a sum: a wrong one is not seen at a glance
_MOST_QUESTION: Final = 200
NEAREST: Final = "；下面是最接近的行"  # what a reason ends in, where there are such rows
_MOST_SHOWN: Final = 20
_SHOWS_CELLS: Final = ("lookup", "filter", "list", "max", "min", "top")  # as they are, and not what is computed of them
_NAMES_TABLE: Final = re.compile("(?:表|单|册|明细|目录|统计|汇总|台账|一览|记录)$")
_LISTS: Final = re.compile(f"(?:登记|一览|明细|汇总|统计)?{_NAMES_TABLE.pattern}")
_DATED: Final = re.compile(r"[(（][^()（）]{0,40}[)）]|^\d{4}年?度?|\d{4}年?度?$")
_WHICH: Final = re.compile("哪(?:些|几|一)?[个家张种款所名位台间]?")
_VERB: Final = re.compile("[\u4e00-\u9fff](?=[了过])")
_LONGEST_KIND: Final = 4  # characters of what the rows are called
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class OutOfTime(Exception):
    """The time was over before every table was read: another could contradict an answer, so that there is none."""


def answer_from_tables(
    question: str, tables: Sequence[TableInput | Sheet], *, sure: float = SURE, stop: Callable[[], bool] = never
) -> TableAnswer:
    """The answer to a question from the table that explains it best; without one, the rows that come closest. A table
    that is asked often may be given as the `Sheet` that was made of it.

    A table that explains all that another does and more outdoes it. Two tables that answer differently, and neither of
    which does, are no answer. Raises OutOfTime once ``stop()`` is True before a table is read.
    """
    if len(question) > _MOST_QUESTION:
        return _declined(f"问题超过 {_MOST_QUESTION} 个字，请问得短些")
    query = read(question).for_tables
    tried = []
    for table in tables:
        if stop():
            raise OutOfTime
        tried.append(_try(query, table, sure))
    tried = [_of_own_rows(query, one, tried) for one in tried]
    certain = [one for one in tried if one.answer.sure]
    if not certain:
        nearest = max(
            (one.answer for one in tried),
            key=lambda answer: (answer.understood, answer.confidence, bool(answer.rows)),
            default=None,
        )
        return nearest or _declined("没有可查的表格")
    certain = _of_registers(query, certain)
    best = [one for one in certain if not any(_explains_more(other, one) for other in certain)]
    first = max((one.answer for one in best), key=lambda answer: answer.confidence)
    if any(one.answer.text != first.text and one.answer.confidence > first.confidence - _CLEARLY for one in best):
        return _declined("不止一张表能回答，而答案不同", first.table, first.rows, first.confidence)
    return first


@dataclass(frozen=True, slots=True)
class _Tried:
    """What one table answers, which characters of the question it leaves unexplained, and which of them only its
    surroundings explain."""

    answer: TableAnswer
    sheet: Sheet
    open: int
    around: int = 0


def _of_registers(query: TableQuery, certain: list[_Tried]) -> list[_Tried]:
    """Where tables count differently, those whose rows are what is counted, each once: people are those of the list of
    the staff, and not whoever stands in a list of expenses; customers are not those of a list of orders."""
    if any(one.answer.operation != "count" for one in certain):
        return certain
    if cue("number.of_people").search(query.text):
        return [one for one in certain if _lists_staff(one.sheet)] or certain
    return [one for one in certain if _lists_once(query, one)] or certain


def _lists_once(query: TableQuery, one: _Tried) -> bool:
    """Returns True if what is counted is in a column that the question names, and in one row each."""
    columns = {cell.column for cell in one.answer.cells}
    return all(
        one.sheet.variety(column) == 1.0 and match_column(one.sheet.names[column], query.text).mask
        for column in columns
    )


def _lists_staff(sheet: Sheet) -> bool:
    label = sheet.label
    is_of_people = label is not None and cue("table.person_column").search(sheet.columns[label].name)
    return bool(is_of_people) and any(cue("table.staff_column").search(column.name) for column in sheet.columns)


def _of_own_rows(query: TableQuery, one: _Tried, tried: Sequence[_Tried]) -> _Tried:
    """Declined where what is asked for are the rows of another table: 单价最高的会议室, of a table of things to buy in
    a file that is called 办公用品与会议室."""
    if not one.answer.sure:
        return one
    words = [query.text[start:end] for start, end in runs(one.around) if end - start > 1]
    others = [name for other in tried if other is not one for name in _names_of_rows(other.sheet)]
    word = next((word for word in words if word in others), None)
    if word is None:
        return one
    reason = f"“{word}”是另一张表里的"
    return replace(one, answer=_declined(reason, one.answer.table, one.answer.rows[:10], 0.2))


def _names_of_rows(sheet: Sheet) -> list[str]:
    """What a table calls its rows: by the column that names them, and by its title."""
    label = [] if sheet.label is None else [sheet.plain_names[sheet.label]]
    return [*label, plain(sheet.table.title)]


def _explains_more(one: _Tried, other: _Tried) -> bool:
    """Returns True if it explains all that the other does and more: 住院, where the other is about 门诊."""
    return one.open != other.open and one.open & ~other.open == 0


def _try(query: TableQuery, table: TableInput | Sheet, sure: float) -> _Tried:
    sheet = table if isinstance(table, Sheet) else Sheet(table)
    whole, parts = with_wholes(sheet.table, query.text)
    if whole is not sheet.table:
        sheet = Sheet(replace(sheet.given, table=whole), parts)
    read = read_question(query, sheet) if len(sheet) else Unsure("表格没有数据行")
    if isinstance(read, Unsure):
        nearest = _declined(read.reason, table.id, read.rows, 0.1 if read.rows else 0.0)
        return _Tried(nearest, sheet, query.informative)
    open_ = _open(query, sheet, read)
    own = read.explained | match(plain(sheet.table.title), query.text).mask | _requested_rows(query, sheet)
    return _Tried(_answer(query, sheet, read, sure), sheet, open_, query.unexplained(own) & ~open_)


def _answer(query: TableQuery, sheet: Sheet, read: Understood, sure: float) -> TableAnswer:
    plan = read.plan
    confidence, doubt = _confidence(query, sheet, read)
    clear = confidence >= (sure if plan.operation == "lookup" else sure + _SURE_OF_WORK)
    try:
        outcome = run(plan, sheet)
    except Unanswerable as reason:
        return replace(_declined(str(reason), sheet.id, plan.rows or (), confidence * 0.5), understood=clear)
    reading = _reading(sheet, plan)
    if wrong := _refusal(query, sheet, read, outcome):
        empty = clear and bool(broken(read, outcome))
        return replace(_declined(wrong, sheet.id, outcome.rows[:10], 0.2), reading=reading, understood=empty)
    if not clear:
        return replace(_declined(doubt, sheet.id, outcome.rows[:10], confidence), reading=reading)
    cells = tuple(CitedCell(sheet.id, row, column) for row, column in sheet.parts.cells(outcome.cells))
    return TableAnswer(
        True,
        _text(query, sheet, plan, outcome),
        reading,
        plan.operation,
        outcome.values,
        cells,
        confidence,
        sheet.id,
        tuple(dict.fromkeys(cell.row for cell in cells)) if sheet.parts.rows else outcome.rows,
        leftover=_leftover(query, sheet, read),
    )


def _text(query: TableQuery, sheet: Sheet, plan: Plan, outcome: Outcome) -> str:
    """What is shown, numbers with the unit of their column: 18,930 below 金额（万元） is 18,930万元; each with its row
    where it is asked which of several."""
    shown = outcome.shown[:_MOST_SHOWN]
    if plan.operation in _SHOWS_CELLS:
        shown = tuple(with_unit(sheet, cell, text) for cell, text in zip(outcome.cells, shown, strict=False))
    rows = {row for row, _ in outcome.cells}
    is_which = plan.operation == "lookup" and _WHICH.search(query.text) is not None and len(rows) == len(shown) > 1
    if is_which and sheet.label is not None and sheet.label not in plan.outputs:
        names = [sheet.table.texts[row][sheet.label] for row, _ in outcome.cells]
        shown = tuple(f"{name} {text}" for name, text in zip(names, shown, strict=False))
    text = "、".join(shown)
    return text if len(outcome.shown) <= _MOST_SHOWN else f"{text}等 {len(outcome.shown)} 项"


def _leftover(query: TableQuery, sheet: Sheet, read: Understood) -> str:
    """The words of a question that its answer leaves out; a single character (里, 时, 各) says nothing by itself.

    A sum is that of what the rows are of. What only the table's surroundings explain may be another thing, whose total
    is not in the rows: 云帆技术服务合同总金额, of a table of its 付款节点. A question that names the table itself
    (采购清单的总金额) or all its rows (所有城市) means the rows.
    """
    left = _open(query, sheet, read)
    if read.plan.operation == "sum" and not read.plan.conditions and not _names_label(query, sheet, read):
        around = query.unexplained(read.explained) & ~left & ~_requested_unit(query, sheet, read)
        left |= union(span(*run) for run in runs(around) if not _means_rows(sheet, query.text, *run))
    return "、".join(query.text[start:end] for start, end in runs(left) if end - start > 1)


def _names_label(query: TableQuery, sheet: Sheet, read: Understood) -> bool:
    """Returns True if a question names what the rows are: 付款节点的金额合计."""
    return sheet.label is not None and bool(match_column(sheet.names[sheet.label], query.text).mask & read.explained)


def _means_rows(sheet: Sheet, text: str, start: int, end: int) -> bool:
    """Returns True for 采购清单, for 所有城市, and for 采购合同 of a table that is called 2025年采购合同台账."""
    named = text[start:end]
    title = _DATED.sub("", plain(sheet.table.title))
    listed = re.compile(f"{re.escape(named)}(?:登记|一览|明细|汇总|统计)?{_NAMES_TABLE.pattern}")
    own = next((title[: hit.start()] for hit in [_LISTS.search(title)] if hit), "")  # 采购合同 of 采购合同台账
    is_title = listed.fullmatch(title) is not None or (len(own) > 1 and own in text and named in own)
    is_year = bool(_NUMBER.fullmatch(named.rstrip("年度"))) and named.rstrip("年度") in plain(sheet.table.title)
    return (
        is_title or is_year or bool(_NAMES_TABLE.search(named)) or cue("several.rows").search(text[:start]) is not None
    )


def _refusal(query: TableQuery, sheet: Sheet, read: Understood, outcome: Outcome) -> str:
    """Why what was found is no answer, however well the names match; empty if it is one."""
    if len({sheet.columns[column].name for column in read.plan.outputs}) < len(read.plan.outputs):
        return "几列同名，分不清问的是哪一列"
    if read.plan.operation == "lookup" and any(_repeats(text, query, read) for text in outcome.shown):
        return "查到的就是问题里说的"
    return misfit(query, sheet, read, outcome, _open(query, sheet, read))


def _open(query: TableQuery, sheet: Sheet, read: Understood) -> int:
    """The informative characters that neither the plan nor the table's surroundings explain."""
    named = read.explained | sheet.about_in(query.text) | _requested_rows(query, sheet) | _done(query, sheet)
    return query.unexplained(named | _requested_unit(query, sheet, read))


def _requested_rows(query: TableQuery, sheet: Sheet) -> int:
    """The characters of 哪家店 or 哪些卡 that say what the rows are: as their column is called, or all of them end; of
    员工, where they are people with a post."""
    if sheet.label is None:
        return 0
    named = _requested_people(query, sheet, sheet.label) | _requested_goods(query, sheet, sheet.label)
    if named:
        return named
    name = sheet.plain_names[sheet.label]
    cells = [cell for row, cell in enumerate(sheet.plain_cells(sheet.label)) if cell and row not in sheet.totals]
    for hit in _WHICH.finditer(query.text):
        for size in range(_LONGEST_KIND, 0, -1):
            noun = query.text[hit.end() : hit.end() + size]
            is_kind = name.endswith(noun) or all(cell.endswith(noun) for cell in cells)
            if len(noun) == size and is_kind:
                return span(hit.start(), hit.end() + size)
    return 0


def _requested_people(query: TableQuery, sheet: Sheet, label: int) -> int:
    """The characters of 工资最高的员工: a column of names (姓名) need not call them so, where others tell it: 岗位; or
    学号, of 同学."""
    if not cue("table.person_column").search(sheet.columns[label].name):
        return 0
    kinds = (("table.staff", "table.staff_column"), ("table.pupil", "table.pupil_column"))
    nouns = [noun for noun, column in kinds if any(cue(column).search(one.name) for one in sheet.columns)]
    return union(span(*hit.span()) for noun in nouns for hit in hits(noun, query.text))


def _requested_goods(query: TableQuery, sheet: Sheet, label: int) -> int:
    """The characters of 哪些产品, where the rows are named by a 品名."""
    if not cue("table.goods_column").search(sheet.columns[label].name):
        return 0
    return union(span(*hit.span()) for hit in hits("table.goods", query.text))


def _done(query: TableQuery, sheet: Sheet) -> int:
    """The verb of 借了多少次, where a column or the title is called by it: 借出日期."""
    names = "".join((plain(sheet.table.title), *map(sheet.bare_name, range(len(sheet.columns)))))
    return union(span(*hit.span()) for hit in _VERB.finditer(query.text) if hit.group() in names)


def _requested_unit(query: TableQuery, sheet: Sheet, read: Understood) -> int:
    """The characters of 多少万元 that name the unit of the column in question."""
    plan = read.plan
    columns = {plan.measure, *plan.outputs, *(column for _, column in plan.against)}
    units = {unit for column in columns if column is not None and (unit := plain(sheet.unit(column)))}
    hits = (re.finditer(f"(?:多少|几)(?:个)?({re.escape(unit)})", query.text) for unit in units)
    return union(span(*hit.span(1)) for found in hits for hit in found)


def _repeats(text: str, query: TableQuery, read: Understood) -> bool:
    """Returns True if a cell only repeats the question: then it is a name beside the answer, not the answer. A part
    of a longer name does not count: 医院 of 怡宁医院."""
    cell = plain(text)
    if len(cell) < 2 or cell.isdigit():
        return False
    longer = runs(read.explained)
    return any(
        not any(begin <= start and end <= stop and (begin, stop) != (start, end) for begin, stop in longer)
        for start, end in runs(places(cell, query.text))
    )


def _confidence(query: TableQuery, sheet: Sheet, read: Understood) -> tuple[float, str]:
    """How much of the question the plan explains, and how closely its names match."""
    about = sheet.about_in(query.text)
    open_ = _open(query, sheet, read)
    left = "".join(mark for at, mark in enumerate(query.text) if open_ >> at & 1)
    doubt = f"问题里的“{left}”在表中找不到" if left else "名称对得不够准"
    if _NUMBER.search(left) or decisive(query.text, open_) or _negates(query.text, read.explained | about):
        return 0.3, doubt
    if open_ and read.strict:
        return 0.3, doubt
    share = open_.bit_count() / (query.informative.bit_count() or 1)
    if read.plan.operation == "lookup":
        return read.closeness * (1 - share), doubt
    # A word left out of a computation may be a condition, or what is to be counted: 有几家学校 of a table of hospitals.
    has_word = any(end - start > 1 for start, end in runs(open_))
    return read.closeness * max(0.0, (0.7 if has_word else 1.0) - 2 * share), doubt


def _negates(text: str, explained: int) -> bool:
    explained |= union(span(*hit.span()) for hit in hits("small_talk.begging", text))
    return any(not span(*hit.span()) & explained for hit in hits("negation.any", text))


def _declined(reason: str, table: str = "", rows: Sequence[int] = (), confidence: float = 0.0) -> TableAnswer:
    hint = NEAREST if rows else ""
    return TableAnswer(False, "", "", table=table, rows=tuple(rows), confidence=confidence, reason=f"{reason}{hint}")


# ── how it was understood ────────────────────────────────────────────────────────────────────────

_DOES: Final = {
    "count": "数行数",
    "sum": "求和",
    "average": "求平均",
    "max": "取最大",
    "min": "取最小",
    "difference": "求差",
    "ratio": "求倍数",
    "filter": "列出",
    "list": "列出",
    "lookup": "查",
}


def _reading(sheet: Sheet, plan: Plan) -> str:
    where = f"在《{sheet.table.title}》中" if sheet.table.title else "在表中"
    conditions = "，".join(f"“{sheet.columns[one.column].name}”{_written(sheet, one)}" for one in plan.conditions)
    parts = [where]
    if conditions:
        parts.append(f"找{conditions}的行")
    if stated := [row for row in plan.rows or () if row not in sheet.parts.rows]:
        parts.append("第 " + "、".join(str(row + 1) for row in stated[:5]) + " 行")
    does = _DOES.get(plan.operation, "查")
    if plan.operation == "count" and plan.distinct:
        does = "数不同的"
    if plan.operation == "top":
        does = f"取{'最小' if plan.distinct else '最大'}的 {plan.limit} 个"
    columns = "、".join(f"“{name}”" for name in _names_read(sheet, plan))
    measure = f"按“{sheet.columns[plan.measure].name}”" if plan.measure is not None else ""
    if columns or measure or plan.operation != "lookup":  # 查 is of something
        parts.append(f"{measure}{does}{columns}")
    used = (plan.measure, *plan.outputs, *(column for _, column in plan.against))
    rows = (*(plan.rows or ()), *(row for row, _ in plan.against))
    parts.append(shown_parts(sheet.table, sheet.parts, [one for one in used if one is not None], rows))
    return "，".join(filter(None, parts))


def _written(sheet: Sheet, condition: Condition) -> str:
    """A condition with its cells as they are in the table."""
    written = condition.written
    for value in condition.values:
        rows = sheet.rows_by_text(condition.column).get(str(value), ()) if isinstance(value, str) else ()
        for row in rows[:1]:
            written = written.replace(f"“{value}”", f"“{sheet.table.texts[row][condition.column].strip()}”")
    return written


def _names_read(sheet: Sheet, plan: Plan) -> list[str]:
    """What the values are called: by their columns, or in a form by the cell on their left."""
    if plan.operation != "lookup" or not plan.against:
        return [sheet.columns[column].name for column in plan.outputs]
    beside = (_name_beside(sheet, *place) for place in plan.against)
    return [name for name in dict.fromkeys(beside) if name]


def _name_beside(sheet: Sheet, row: int, column: int) -> str:
    header = [names.path[-1] if names.path else "" for names in sheet.columns]
    cells = header if row < 0 else sheet.table.texts[row]
    return next((text.strip().rstrip("：:") for text in reversed(cells[:column]) if text.strip()), "")
