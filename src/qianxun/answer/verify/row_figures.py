"""Figures of a table's other rows and columns: 强力洗的温度是40℃, where its row has 70 and another has 40."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from qianxun.answer.verify.derivation import derived, is_computing
from qianxun.answer.verify.grounding import Evidence, is_in
from qianxun.answer.verify.misplaced import is_rival
from qianxun.answer.verify.table_rows import (
    MOST_CLAUSES,
    cells,
    is_rule,
    named_columns,
    tables,
    total_row,
    unnamed_rows,
)
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import Code, Day, Figure, Number, figures

_COUNTS: Final = frozenset(["个", "种", "家", "名", "项", "款", "台", "件", "位", "类", "条"])
_CLAUSES: Final = re.compile(r"[，；。！？;!?\n]|,(?!\d)")


def of_other_rows(sentence: str, evidence: Evidence) -> list[Figure]:
    """The figures of a sentence that names rows of a table, which only rows that it does not name have."""
    stated, folded = _stated_in(sentence, evidence), fold(sentence)
    for text in evidence.with_units if stated else ():
        for lines in tables(text):
            others = unnamed_rows(lines, folded)
            if not others:
                continue
            rest = Evidence(
                tuple(_without(one, others) if one == text else one for one in evidence.with_units), evidence.names
            )
            wrong = [one for one in stated if not is_in(one, sentence, rest)]
            pools = [*figures_of_named_rows(sentence, evidence), rest.figures, evidence.figures]
            wrong = [one for one in wrong if derived(one, sentence, pools, ()) != "surely"]
            if wrong:
                return wrong
    return []


def of_other_columns(sentence: str, evidence: Evidence) -> list[Figure]:
    """The figures of a sentence that names a row and a column, which only columns of another name have."""
    stated, folded = _stated_in(sentence, evidence), fold(sentence)
    for text in evidence.with_units if stated else ():
        for lines in tables(text):
            others = unnamed_rows(lines, folded)
            if others and (misled := [one for one in stated if _is_of_other_column(one, lines, others, folded)]):
                return misled
    return []


def _stated_in(sentence: str, evidence: Evidence) -> list[Figure]:
    return [one for one in figures(sentence) if _is_stated(one) and is_in(one, sentence, evidence)]


def of_other_cells(sentence: str, evidence: Evidence) -> list[Figure]:
    """The figures that a clause states of one row, and that only other rows have in the column that is named:
    销售人员是8人，财务人员则是23人, where it is the other way round."""
    folded = fold(sentence)
    for text in evidence.with_units:
        for lines in tables(text):
            rows = [line for line in lines[1:] if not is_rule(line)]
            header = cells(lines[0])
            for clause in _CLAUSES.split(folded)[:MOST_CLAUSES]:
                others = unnamed_rows(lines, clause, folded)
                columns = named_columns(header, clause) or named_columns(header, folded)
                if len(rows) - len(others) != 1 or len(columns) != 1:
                    continue
                at = next(iter(columns))
                own = Evidence.of("\n".join(cells(line)) for line in rows if line not in others)
                column = [cells(line)[at] for line in rows if line in others and at < len(cells(line))]
                stated: list[Figure] = [one for one in figures(clause) if _is_stated(one)]
                wrong = [
                    one
                    for one in stated
                    if not is_in(one, clause, own)
                    and any(is_in(one, clause, Evidence.of((cell,))) for cell in column)
                    and not is_computing(one, clause)
                ]
                if wrong:
                    return wrong
    return []


def of_named_cells(sentence: str, evidence: Evidence) -> list[Figure]:
    """The figures of a clause that names a row and a column, where their cell has another of its kind and the sentence
    does not have that: 华中关闭1家, where the cell has 8家, wherever 1家 may be from; and the number of rows, where it
    counts others: 佳印品牌共有9种商品."""
    folded = fold(sentence)
    found: list[Figure] = []
    counted: list[list[str]] = []
    for text in evidence.with_units:
        for lines in tables(text):
            others = unnamed_rows(lines, folded)
            rows = [cells(line) for line in lines[1:] if line not in others and not is_rule(line)]
            header = cells(lines[0])
            counted += rows if others else []
            if not others or len(rows) != 1:
                continue
            for clause in _CLAUSES.split(folded)[:MOST_CLAUSES]:
                columns = named_columns(header, clause) or _distinguished(header, clause)
                at = next(iter(columns), len(rows[0]))
                own = figures(rows[0][at]) if len(columns) == 1 and at < len(rows[0]) else []
                rivals = [one for one in figures(clause) if any(is_rival(one, cell) for cell in own)]
                stated = [one for one in rivals if not is_computing(one, clause)]
                if len(own) == len(stated) == 1 and not is_in(own[0], sentence, Evidence.of((folded,))):
                    found += stated
    return [*found, *(_of_other_count(folded, counted) if len(counted) > 1 else ())]


def _of_other_count(sentence: str, rows: Sequence[Sequence[str]]) -> list[Figure]:
    stated = [one for one in figures(sentence) if isinstance(one, Number) and one.unit in _COUNTS]
    counts = [one for one in stated if len(stated) == 1 and re.search(rf"共有?{re.escape(one.written)}", sentence)]
    cells_ = [figure for row in rows for cell in row for figure in figures(cell)]
    known = [one for one in cells_ if isinstance(one, Number)]
    return [one for one in counts if one.values[0] != len(rows) and not any(one.unit == cell.unit for cell in known)]


def _is_stated(figure: Figure) -> bool:
    return not isinstance(figure, Code | Day) and not (isinstance(figure, Number) and figure.is_count)


def figures_of_named_rows(sentence: str, evidence: Evidence) -> list[Sequence[Figure]]:
    """Those of the rows of tables that a sentence names, with how many rows they are, of the total where it names none;
    and those of the columns that it names by themselves."""
    folded = fold(sentence)
    found: list[Sequence[Figure]] = []
    for text in evidence.with_units:
        for lines in tables(text):
            others = unnamed_rows(lines, folded)
            rows = [cells(line) for line in lines[1:] if line not in others and not is_rule(line)]
            header = cells(lines[0])
            columns = named_columns(header, folded) or _distinguished(header, folded)
            chosen = [one for row in rows for at in columns if at < len(row) for one in figures(row[at])]
            found.append(chosen)
            if others:
                count = Number("", (Decimal(len(rows)),), is_count=True)
                found.append([*(one for row in rows for cell in row for one in figures(cell)), count])
            else:
                found.append([one for cell in total_row(lines) for one in figures(cell)])
    return [group for group in found if group]


def _is_of_other_column(figure: Figure, lines: Sequence[str], others: frozenset[str], sentence: str) -> bool:
    """在职…89%, where the row has 84% below 在职报销比例 and 89% below 退休报销比例: by the header, or by what sets the
    headers apart."""
    header = cells(lines[0])
    clause = next((part for part in _CLAUSES.split(sentence) if figure.written in part), sentence)
    of_clause = named_columns(header, clause)
    named = of_clause or _distinguished(header, sentence)
    rows = [cells(line) for line in lines[1:] if line not in others and not is_rule(line)]
    places = {at for row in rows for at, cell in enumerate(row) if is_in(figure, sentence, Evidence.of((cell,)))}
    rivals = [row[at] for row in rows for at in named if at < len(row) and figures(row[at])]
    alike = [one for cell in rivals for one in figures(cell) if type(one) is type(figure)]
    if not places or places & named or not alike or len(named) != 1:
        return False
    # 由上年末的60.86万元增至178.03万元: the column that is named has its own figure beside it.
    return not any(is_in(one, sentence, Evidence.of(rivals)) for one in figures(clause if of_clause else sentence))


def _distinguished(header: Sequence[str], sentence: str) -> set[int]:
    pairs = [frozenset(gram for gram in grams(name) if len(gram) > 1) for name in header]
    own = [one - frozenset().union(*(other for other in pairs if other is not one)) for one in pairs]
    return {at for at, one in enumerate(own) if at and one & frozenset(grams(sentence))}  # 0 names the rows


def _without(text: str, others: frozenset[str]) -> str:
    return "\n".join(line for line in text.splitlines() if line not in others)
