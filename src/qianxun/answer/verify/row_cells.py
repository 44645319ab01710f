"""Words of a table's other rows: 公章由会计主管保管, where the row of 公章 has 机要秘书 and another has 会计主管."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from qianxun.answer.verify.contradiction import is_denied
from qianxun.answer.verify.table_rows import MOST_CLAUSES, cells, is_rule, tables, unnamed_rows
from qianxun.text.chinese import fold

_CLAUSES: Final = re.compile(r"[，,；;。！？!?\n]")
_PARTS: Final = re.compile("[、，,；;]")  # 巧克力、红酒
_SHORTEST: Final = 2  # characters of a cell that tells rows apart


def contradicted_by_row(sentence: str, sources: Sequence[str]) -> str:
    """The row of a table that has something else than the sentence says of it; "" where there is none."""
    folded = fold(sentence)
    for text in sources:
        for lines in tables(text):
            outside = fold(text.replace("\n".join(lines), " "))
            for clause in _about_one_row(folded, lines):
                if row := _other_row(clause, folded, lines, outside):
                    return row
    return ""


def _about_one_row(sentence: str, lines: Sequence[str]) -> list[str]:
    """The clauses that name a row, and the whole sentence where only one of them does."""
    naming = [one for one in _CLAUSES.split(sentence)[:MOST_CLAUSES] if unnamed_rows(lines, one, sentence)]
    return [sentence] if len(naming) == 1 else naming


def _other_row(clause: str, sentence: str, lines: Sequence[str], outside: str) -> str:
    others = unnamed_rows(lines, clause, sentence)
    rows = [line for line in lines[1:] if not is_rule(line)]
    named = [line for line in rows if line not in others]
    if len(named) != 1 or not others:
        return ""
    header, own = _folded(lines[0]), _folded(named[0])
    for at, cell in enumerate(own):
        if at == 0 or not cell:
            continue
        column = header[at] if at < len(header) else ""
        if any(is_denied(clause, part, column) for part in _CLAUSES.split(cell)):
            return named[0].strip()
        beside = [_folded(line)[at] for line in rows if line in others and at < len(cells(line))]
        own_parts = set(_PARTS.split(cell))
        rivals = {part for one in beside for part in (one, *_PARTS.split(one))} - {cell} - own_parts
        names_column = column in clause and sum(one in clause for one in header if one) == 1
        elsewhere = (
            [] if names_column else own
        )  # 夜班由程浩值守: that he is on call elsewhere in the row does not matter
        stated = [one for one in rivals if _is_stated(one, clause) and not any(one in mine for mine in elsewhere)]
        if not any(part in clause for part in own_parts if part) and any(
            one not in outside and one not in header for one in stated
        ):
            return named[0].strip()
    return ""


def _is_stated(cell: str, clause: str) -> bool:
    """Words only: figures of other rows are found by their values."""
    return len(cell) >= _SHORTEST and cell in clause and not any(mark.isdigit() for mark in cell)


def _folded(line: str) -> list[str]:
    return [fold(cell) for cell in cells(line)]
