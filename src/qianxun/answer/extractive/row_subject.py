"""Whether a row of a table is about what a question names, and not about another thing of the same kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.extractive.rows import Row
from qianxun.answer.extractive.sentence_scores import SHORT, Line, Weighed, held
from qianxun.question.evidence_query import EvidenceQuery
from qianxun.text.chinese import fold

_ENDING: Final = re.compile("(?<=..)(?:[省市区县]|公司|集团)$")  # 北京市 may be called 北京, 华为公司 华为技术
_OF: Final = "的"


def of_subject(asked: EvidenceQuery, weighed: Sequence[Weighed]) -> list[Weighed]:
    """The same, with rows about something else not its own. All rows of a table share its headers: a row answers by
    what its cells say. Who compares or sums up asks of several rows, and each says only its part."""
    if asked.kind in ("comparison", "summary"):
        return list(weighed)
    return [replace(each, is_own=False) if _is_of_another(asked, each.line) else each for each in weighed]


@dataclass(frozen=True, slots=True)
class _Table:
    """A row as a question meets it, folded: the names of its columns, its cells, what stands around the table."""

    header: str
    cells: tuple[str, ...]
    setting: str

    def names(self, word: str) -> bool:
        return _has(word, self.header)

    def tells(self, word: str) -> bool:
        return any(_has(word, cell) for cell in self.cells)

    def lacks(self, word: str) -> bool:
        return not (self.names(word) or self.tells(word) or _has(word, self.setting))


def _is_of_another(asked: EvidenceQuery, line: Line) -> bool:
    if line.row is None:
        return False
    table = _table(line.row, line.setting)
    words = {word for run in asked.runs for word in run if word != _OF}
    if any(table.lacks(word) for word in words & asked.proper):
        return True
    own = [word for word in words if not table.names(word) and not _has(word, table.setting)]
    if own and not any(map(table.tells, own)):
        return True  # all that it has of the question is in its headers: as well any other row would do
    return any(_differs(name, begin, end, table) for run in asked.runs for name, begin, end in _told(run, table))


def _table(row: Row, setting: str) -> _Table:
    return _Table("\n".join(fold(name) for name, _ in row.named), tuple(fold(cell) for _, cell in row.named), setting)


def _told(run: Sequence[str], table: _Table) -> Iterator[tuple[str, bool, bool]]:
    """The words that cells tell, and whether the question's name begins before them, or goes on after them, in words
    that the table lacks: 南京 of 南京分公司, 建材 of 节能建材的成本."""
    padded = ("", *run, "", "")
    for at, word in enumerate(run, start=1):
        before, after, then = padded[at - 1], padded[at + 1], padded[at + 2]
        if word == _OF or not table.tells(word):
            continue
        begins = before not in ("", _OF) and table.lacks(before)
        is_closed = then == _OF or (then != "" and table.names(then))
        yield word, begins, after not in ("", _OF) and is_closed and table.lacks(after)


def _differs(word: str, begins: bool, goes_on: bool, table: _Table) -> bool:
    """Whether every cell with the word has another name there: 北京分公司 begins otherwise, too."""
    if not begins and not goes_on:
        return False
    places = [(cell, cell.find(word)) for cell in table.cells if word in cell]
    return bool(places) and all(
        (begins and cell[:at][-1:].isalnum()) or (goes_on and cell[at + len(word) :][:1].isalnum())
        for cell, at in places
    )


def _has(word: str, text: str) -> bool:
    return held(word, text) >= SHORT or _ENDING.sub("", word) in text
