"""Figures of a table's other rows and columns: 强力洗的温度是40℃, where its row has 70 and another has 40."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from qianxun.answer.verify.arithmetic import is_computed
from qianxun.answer.verify.grounding import Evidence, is_in
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import Code, Day, Figure, figures

_TABLE: Final = re.compile(r"(?:^[ \t]*\|.*\|[ \t]*$\n?){2,}", re.MULTILINE)
_RULE: Final = re.compile(r"[\s|:\-–—+=]+")
_SHORTEST: Final = 2  # characters of a row's name
_MOST_ROWS: Final = 400


def of_other_rows(sentence: str, evidence: Evidence) -> list[Figure]:
    """The figures of a sentence that names rows of a table, which only rows that it does not name have, or only columns
    of another name."""
    stated: list[Figure] = [figure for figure in figures(sentence) if not isinstance(figure, Code | Day)]
    folded = fold(sentence)
    for text in evidence.texts if stated else ():
        for lines in tables(text):
            others = unnamed_rows(lines, folded)
            if not others:
                continue
            if misled := [one for one in stated if _is_of_other_column(one, lines, others, folded)]:
                return misled
            rest = Evidence(
                tuple(_without(one, others) if one == text else one for one in evidence.texts), evidence.names
            )
            wrong = [one for one in stated if not is_in(one, sentence, rest)]
            wrong = [one for one in wrong if not is_computed(one, sentence, evidence.figures)]
            wrong = [one for one in wrong if not is_computed(one, sentence, rest.figures)]
            if wrong:
                return wrong
    return []


def figures_of_named_rows(sentence: str, evidence: Evidence) -> list[Figure]:
    """Those of the rows of tables that a sentence names."""
    folded = fold(sentence)
    found: list[Figure] = []
    for text in evidence.texts:
        for lines in tables(text):
            if others := unnamed_rows(lines, folded):
                found += [one for line in lines[1:] if line not in others for one in figures(line)]
    return found


def tables(text: str) -> Iterator[list[str]]:
    """The lines of each table that is drawn in a text, its header first."""
    return (found.group().splitlines() for found in _TABLE.finditer(text))


def unnamed_rows(lines: Sequence[str], sentence: str) -> frozenset[str]:
    """The rows of a table that a sentence does not name, where it names one of them. Where several begin alike, those
    are named of which it has most cells: 硕士 and 三等."""
    rows = dict(_named(lines[1:])) if len(lines) <= _MOST_ROWS else {}
    named = [name for name in rows.values() if name in sentence]
    named = [name for name in named if not any(name != other and name in other for other in named)]
    if not named:
        return frozenset()
    chosen = [line for line, name in rows.items() if name in named]
    if len(chosen) > len(set(named)):
        counts = {line: sum(cell in sentence for cell in _labels(line)) for line in chosen}
        chosen = [line for line in chosen if counts[line] == max(counts.values())]
    return frozenset(line for line in rows if line not in chosen)


def _labels(line: str) -> list[str]:
    """Cells that name a row rather than say how much."""
    folded = [fold(cell) for cell in cells(line)]
    return [cell for cell in folded if len(cell) >= _SHORTEST and not any(mark.isdigit() for mark in cell)]


def _is_of_other_column(figure: Figure, lines: Sequence[str], others: frozenset[str], sentence: str) -> bool:
    """在职…89%, where the row has 84% below 在职报销比例 and 89% below 退休报销比例: by what sets the headers apart."""
    header = cells(lines[0])
    pairs = [frozenset(gram for gram in grams(name) if len(gram) > 1) for name in header]
    own = [one - frozenset().union(*(other for other in pairs if other is not one)) for one in pairs]
    named = {at for at, one in enumerate(own) if at and one & frozenset(grams(sentence))}  # 0 names the rows
    rows = [cells(line) for line in lines[1:] if line not in others and not _RULE.fullmatch(line)]
    places = {at for row in rows for at, cell in enumerate(row) if is_in(figure, sentence, Evidence.of((cell,)))}
    rivals = [row[at] for row in rows for at in named if at < len(row) and figures(row[at])]
    alike = [one for cell in rivals for one in figures(cell) if type(one) is type(figure)]
    return bool(places) and not places & named and bool(alike) and len(named) == 1


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _named(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name = fold(line.strip().strip("|").split("|")[0]).strip()
        if len(name) >= _SHORTEST and not _RULE.fullmatch(line) and not name.isdigit():
            yield line, name


def _without(text: str, others: frozenset[str]) -> str:
    return "\n".join(line for line in text.splitlines() if line not in others)
