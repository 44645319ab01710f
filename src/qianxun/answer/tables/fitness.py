"""Whether what was found is the kind of thing that is asked for: a price is no reason, one of four is no list."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from qianxun.answer.tables.match import match_column
from qianxun.answer.tables.run import Outcome, matching_rows
from qianxun.answer.tables.sheet import Sheet
from qianxun.core.layered_types import Understood
from qianxun.question.table_query import TableQuery, hits, plain, runs, span, union
from qianxun.question.words import cue

_SHORT: Final = 12


def misfit(query: TableQuery, sheet: Sheet, read: Understood, outcome: Outcome, open_: int) -> str:
    """Why the outcome is not the kind of answer that the question asks for; empty if it is. ``open_`` are the
    characters of the question that nothing explains."""
    if wrong := broken(read, outcome):
        return wrong
    if _free("explain.table_why", query.text, read.explained) and not _names(
        "explain.reason_column", sheet, read, outcome
    ):
        return "问的是为什么，表里没有原因"
    if _is_whether(query.text, read.explained) and not all(
        cue("whether.truth").fullmatch(plain(text)) for text in outcome.shown
    ):
        return "问的是是不是、好不好，不是查什么"
    if _is_how(query.text, read.explained, open_, outcome):
        return "问的是怎么样、怎么做，不是查一个数"
    if "多少" in query.text and all(cue("table.bare_unit").fullmatch(text.strip()) for text in outcome.shown):
        return "查到的只有单位，没有数"
    if read.plan.operation == "lookup" and not _are_numbers(outcome) and _is_beyond(query, sheet, read, open_):
        return "问题最后问的，表里没有"
    if kind := _other_kind(query.text, sheet, read, outcome):
        return f"问的是{kind}，查到的不是"
    if len(outcome.shown) == 1 and (other := _other_column(query, sheet, read)):
        return f"“{other}”也可能是问的那一列"
    if hidden := _hidden(query, sheet, read, outcome):
        return f"第 {hidden[0] + 1} 行起有空格，可能与上一行同属一组，列不全"
    return ""


def broken(read: Understood, outcome: Outcome) -> str:
    """What Excel writes where it has no value answers nothing; in a list it is one item among others."""
    formula = next((text for text in outcome.shown if cue("table.unsolved").fullmatch(text)), None)
    if formula is not None:
        return f"单元格是公式（{formula}），没有保存计算结果；用 Excel 打开并保存一次，再添加"
    wrong = [text for text in outcome.shown if cue("table.error").fullmatch(text.strip())]
    if wrong and (read.plan.operation == "lookup" or len(wrong) == len(outcome.shown)):
        return f"单元格是错误值（{wrong[0]}），没有数"
    return ""


def _free(name: str, text: str, explained: int) -> bool:
    """Returns True if a cue is in a question outside of what the table's own names explain."""
    return any(not span(*hit.span()) & explained for hit in hits(name, text))


def _names(kind: str, sheet: Sheet, read: Understood, outcome: Outcome) -> bool:
    """Returns True if a column that is shown, or a short cell of its row, is called something of a kind."""
    names = [sheet.columns[column].name for column in read.plan.outputs]
    labels = [text for row in outcome.rows if row >= 0 for text in sheet.table.texts[row] if len(text) <= _SHORT]
    return any(cue(kind).search(name) for name in (*names, *labels))


def _is_whether(text: str, explained: int) -> bool:
    polite = (hit for name in ("small_talk.begging", "whether.but_not") for hit in hits(name, text))
    return _free("whether.table", text, explained | union(span(*hit.span()) for hit in polite))


def _is_how(text: str, explained: int, open_: int, outcome: Outcome) -> bool:
    """怎么安装, of which the table has nothing; or 怎么样, of which a number is no description."""
    free = [hit for hit in hits("explain.how", text) if not span(*hit.span()) & explained]
    return bool(free) and (_are_numbers(outcome) or any(open_ >> hit.end() & 1 for hit in free))


def _are_numbers(outcome: Outcome) -> bool:
    return all(isinstance(value, int | float) for value in outcome.values)


def _are_measured(sheet: Sheet, read: Understood, outcome: Outcome) -> bool:
    """Returns True if all that is shown are numbers that measure something: neither days nor years."""
    return _are_numbers(outcome) and bool(read.plan.outputs) and all(map(sheet.is_measure, read.plan.outputs))


def _other_kind(text: str, sheet: Sheet, read: Understood, outcome: Outcome) -> str:
    """What a question asks for, where a cell is plainly something else: a place, a time or a price, a person."""
    if _free("where.fitness", text, read.explained) and not _names("where.place", sheet, read, outcome):
        return "在哪里"
    if cue("number.numbered").search(text) and not all(cue("number.numeral").search(shown) for shown in outcome.shown):
        return "时间或价钱"
    if _free("who.fitness", text, read.explained) and _are_numbers(outcome):
        return "谁"
    if _free("when.table", text, read.explained) and _are_measured(sheet, read, outcome):
        return "什么时候"
    return ""


def _is_beyond(query: TableQuery, sheet: Sheet, read: Understood, open_: int) -> bool:
    """Returns True if what is asked for belongs to a noun that is unexplained at the end: 供货商电话 is no 供货商, and
    是什么级别的公园 asks for the level of a park, which need not be that of a place worth seeing. A noun after a kind
    only names the kind."""
    named = union(match_column(sheet.names[column], query.text).mask for column in read.plan.outputs)
    for start, end in runs(open_)[-1:]:
        before = query.text[:start].removesuffix("的")
        of_a_name = bool(before) and named >> (len(before) - 1) & 1 and not cue("table.kind_end").search(before)
        is_question = cue("which.fitness").search(query.text[start:end])  # 账龄几年了
        if end - start > 1 and of_a_name and not is_question and not query.informative >> end:
            return True
    return False


def _other_column(query: TableQuery, sheet: Sheet, read: Understood) -> str:
    """Another column that 哪些专业 may ask for, where a single cell is no list: 招生专业 and 教学环节专业."""
    if len(read.plan.outputs) != 1:
        return ""
    (chosen,) = read.plan.outputs
    noun = plain(sheet.columns[chosen].name)[-2:]
    listed = re.search(
        f"(?:哪些|哪几.?|有什么){re.escape(noun)}|{re.escape(noun)}都?(?:有|是|包括)?哪[些几]", query.text
    )
    if listed is None or match_column(sheet.names[chosen], query.text).verbatim:
        return ""
    others = [column.name for c, column in enumerate(sheet.columns) if c != chosen]
    return next((name for name in others if plain(name).endswith(noun)), "")


# ── rows of a group whose name is written once ───────────────────────────────────────────────────


def _hidden(query: TableQuery, sheet: Sheet, read: Understood, outcome: Outcome) -> list[int]:
    """Rows that may belong to those found, the name of their group being written only in its first row."""
    plan = read.plan
    if plan.operation == "lookup":
        return _hidden_after(query, sheet, plan.rows or (), plan.outputs)
    grouping = [c for c in plan.conditions if c.comparison == "in" and _writes_once(sheet, c.column)]
    if not grouping:
        return []
    others = matching_rows(sheet, [condition for condition in plan.conditions if condition not in grouping])
    blank = [row for row in others if all(not sheet.plain_cells(c.column)[row] for c in grouping)]
    return [row for row in blank if _group_head(sheet, grouping[0].column, row) in outcome.rows]


def _hidden_after(query: TableQuery, sheet: Sheet, rows: tuple[int, ...], outputs: tuple[int, ...]) -> list[int]:
    found = []
    for row in rows:
        cells = [plain(text) for text in sheet.table.texts[row]]
        in_query = [column for column, cell in enumerate(cells) if len(cell) > 1 and cell in query.text]
        after = row + 1
        if not in_query or after >= len(sheet) or any(sheet.table.texts[after][column] for column in in_query):
            continue
        if any(sheet.table.texts[after][column] for column in outputs):
            found.append(after)
    return found


def _writes_once(sheet: Sheet, column: int) -> bool:
    """Returns True if a column looks as if it named a group in the first of its rows only: it is on the left, begins
    with a name, and never has the same name twice in turn."""
    cells = sheet.plain_cells(column)
    label = sheet.label
    left = column == 0 or (label is not None and column < label)
    twice = any(one == other != "" for one, other in pairwise(cells))
    return left and bool(cells[0]) and "" in cells and not twice


def _group_head(sheet: Sheet, column: int, row: int) -> int:
    cells = sheet.plain_cells(column)
    while row > 0 and not cells[row]:
        row -= 1
    return row
