"""Exact answers over tables, without a language model: understood, carried out on typed rows, cited by the cell.

Being wrong is worse than saying nothing: a question that speaks of more than the reading explains is declined, and the
rows that come closest are named instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.tables.fitness import broken, misfit
from qianxun.answer.tables.match import places
from qianxun.answer.tables.plan import decisive, read_question
from qianxun.answer.tables.run import Outcome, Unanswerable, run
from qianxun.answer.tables.sheet import Sheet
from qianxun.core.ports import never
from qianxun.core.table_answer_types import AskedTable, CitedCell, Condition, Plan, TableAnswer, Understood, Unsure
from qianxun.question.question import read
from qianxun.question.table_query import TableQuery, plain, runs, span
from qianxun.question.words import cue

SURE: Final = 0.66  # of lookups between .65 and .75 eight in ten were right on imtqa, above that more; docs/quality.md
_CLEARLY: Final = 0.1  # a table that leaves the same words open must be named this much closer to be the one meant
_SURE_OF_WORK: Final = 0.09  # more than that for a count or a sum: nobody sees at a glance that it is wrong
_MOST_QUESTION: Final = 200
NEAREST: Final = "；下面是最接近的行"  # what a reason ends in, where there are such rows
_MOST_SHOWN: Final = 20
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class OutOfTime(Exception):
    """The time was over before every table was read: what one says another may deny, so that there is no answer."""


def answer_from_tables(
    question: str, tables: Sequence[AskedTable], *, sure: float = SURE, stop: Callable[[], bool] = never
) -> TableAnswer:
    """The answer to a question from the table that explains it best; without one, the rows that come closest.

    A table that explains all that another does and more outdoes it. Two tables that answer differently, and neither of
    which does, are no answer. Where ``stop`` says so, before a table is read, OutOfTime is raised.
    """
    if len(question) > _MOST_QUESTION:
        return _declined(f"问题超过 {_MOST_QUESTION} 个字，请问得短些")
    asked = read(question).for_tables
    tried = []
    for table in tables:
        if stop():
            raise OutOfTime
        tried.append(_try(asked, table, sure))
    certain = [each for each in tried if each.answer.sure]
    if not certain:
        answers = [each.answer for each in tried]
        nearest = max(answers, key=_nearness, default=None)
        return nearest or _declined("没有可查的表格")
    best = [each for each in certain if not any(_explains_more(other, each) for other in certain)]
    first = max((each.answer for each in best), key=lambda each: each.confidence)
    if any(_is_rival(each.answer, first) for each in best):
        return _declined("不止一张表能回答，而答案不同", first.table, first.rows, first.confidence)
    return first


def _nearness(answer: TableAnswer) -> tuple[bool, float, bool]:
    return answer.understood, answer.confidence, bool(answer.rows)


@dataclass(frozen=True, slots=True)
class _Tried:
    """What one table answers, and which characters of the question it leaves unexplained."""

    answer: TableAnswer
    open: int


def _explains_more(one: _Tried, other: _Tried) -> bool:
    """Whether it explains all that the other does and more: 住院 of a question, where the other is about 门诊."""
    return one.open != other.open and one.open & ~other.open == 0


def _is_rival(answer: TableAnswer, first: TableAnswer) -> bool:
    return answer.text != first.text and answer.confidence > first.confidence - _CLEARLY


def _try(asked: TableQuery, table: AskedTable, sure: float) -> _Tried:
    sheet = Sheet(table)
    read = read_question(asked, sheet) if len(sheet) else Unsure("表格没有数据行")
    if isinstance(read, Unsure):
        return _Tried(_declined(read.reason, table.id, read.rows, 0.1 if read.rows else 0.0), asked.telling)
    return _Tried(_answer(asked, sheet, read, sure), _open(asked, sheet, read))


def _answer(asked: TableQuery, sheet: Sheet, read: Understood, sure: float) -> TableAnswer:
    plan = read.plan
    confidence, doubt = _confidence(asked, sheet, read)
    clear = confidence >= (sure if plan.operation == "lookup" else sure + _SURE_OF_WORK)
    try:
        outcome = run(plan, sheet)
    except Unanswerable as reason:
        return replace(_declined(str(reason), sheet.id, plan.rows or (), confidence * 0.5), understood=clear)
    reading = _reading(sheet, plan)
    if wrong := _refusal(asked, sheet, read, outcome):
        empty = clear and bool(broken(read, outcome))
        return replace(_declined(wrong, sheet.id, outcome.rows[:10], 0.2), reading=reading, understood=empty)
    if not clear:
        return replace(_declined(doubt, sheet.id, outcome.rows[:10], confidence), reading=reading)
    cells = tuple(CitedCell(sheet.id, row, column) for row, column in outcome.cells)
    text = _text(outcome)
    return TableAnswer(True, text, reading, plan.operation, outcome.values, cells, confidence, sheet.id, outcome.rows)


def _refusal(asked: TableQuery, sheet: Sheet, read: Understood, outcome: Outcome) -> str:
    """Why what was found is no answer, however well the names were said; empty if it is one."""
    if len({sheet.columns[column].name for column in read.plan.outputs}) < len(read.plan.outputs):
        return "几列同名，分不清问的是哪一列"
    if read.plan.operation == "lookup" and any(_repeats(text, asked, read) for text in outcome.shown):
        return "查到的就是问题里说的"
    return misfit(asked, sheet, read, outcome, _open(asked, sheet, read))


def _open(asked: TableQuery, sheet: Sheet, read: Understood) -> int:
    """The telling characters that neither the reading nor what stands around the table explains."""
    return asked.unexplained(read.explained | sheet.about_in(asked.text))


def _repeats(text: str, asked: TableQuery, read: Understood) -> bool:
    """Whether a cell only says what the question says: then it is a name beside the answer, not the answer. What is
    said within a longer name does not count: 医院 of 怡宁医院."""
    said = plain(text)
    if len(said) < 2 or said.isdigit():
        return False
    longer = runs(read.explained)
    return any(
        not any(begin <= start and end <= stop and (begin, stop) != (start, end) for begin, stop in longer)
        for start, end in runs(places(said, asked.text))
    )


def _confidence(asked: TableQuery, sheet: Sheet, read: Understood) -> tuple[float, str]:
    """How much of the question the reading explains, and how closely the names it uses were said."""
    about = sheet.about_in(asked.text)
    open_ = _open(asked, sheet, read)
    left = "".join(mark for at, mark in enumerate(asked.text) if open_ >> at & 1)
    doubt = f"问题里的“{left}”在表中找不到" if left else "名称对得不够准"
    if _NUMBER.search(left) or decisive(asked.text, open_) or _denies(asked.text, read.explained | about):
        return 0.3, doubt
    if open_ and read.strict:
        return 0.3, doubt
    telling = asked.telling.bit_count() or 1
    share = open_.bit_count() / telling
    if read.plan.operation == "lookup":
        return read.closeness * (1 - share), doubt
    # A word left out of a computation may be a condition, or what is to be counted: 有几家学校 of a table of hospitals.
    worded = any(end - start > 1 for start, end in runs(open_))
    return read.closeness * max(0.0, (0.7 if worded else 1.0) - 2 * share), doubt


def _denies(text: str, explained: int) -> bool:
    for begging in cue("small_talk.begging").finditer(text):
        explained |= span(*begging.span())
    return any(not span(*hit.span()) & explained for hit in cue("negation.any").finditer(text))


def _declined(reason: str, table: str = "", rows: Sequence[int] = (), confidence: float = 0.0) -> TableAnswer:
    hint = NEAREST if rows else ""
    return TableAnswer(False, "", "", table=table, rows=tuple(rows), confidence=confidence, reason=f"{reason}{hint}")


def _text(outcome: Outcome) -> str:
    shown = "、".join(outcome.shown[:_MOST_SHOWN])
    return shown if len(outcome.shown) <= _MOST_SHOWN else f"{shown}等 {len(outcome.shown)} 项"


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
    conditions = "，".join(_said(sheet, condition) for condition in plan.conditions)
    parts = [where]
    if conditions:
        parts.append(f"找{conditions}的行")
    if plan.rows is not None:
        parts.append("第 " + "、".join(str(row + 1) for row in plan.rows[:5]) + " 行")
    does = _DOES.get(plan.operation, "查")
    if plan.operation == "count" and plan.distinct:
        does = "数不同的"
    if plan.operation == "top":
        does = f"取{'最小' if plan.distinct else '最大'}的 {plan.limit} 个"
    columns = "、".join(f"“{sheet.columns[c].name}”" for c in plan.outputs)
    measure = f"按“{sheet.columns[plan.measure].name}”" if plan.measure is not None else ""
    parts.append(f"{measure}{does}{columns}")
    return "，".join(parts)


def _said(sheet: Sheet, condition: Condition) -> str:
    return f"“{sheet.columns[condition.column].name}”{condition.written}"
