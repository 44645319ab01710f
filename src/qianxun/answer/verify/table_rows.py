"""Tables that are drawn in a text: which of their rows and columns a sentence names, and the units of their heads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from qianxun.core.system.cache import cached_texts
from qianxun.text.chinese import fold
from qianxun.text.figures import placed, prepared

MOST_ROWS: Final = 400
MOST_CLAUSES: Final = 24  # of a sentence that are compared with every table: more take seconds
_TABLE: Final = re.compile(r"(?:^[^|\n]*+(?:\|[^|\n]*+)++$\n?+){2,}+", re.MULTILINE)
_RULE: Final = re.compile(r"[\s|:\-–—+=]+")
_UNIT: Final = re.compile(r"[（(]([^（()）\d]{1,6})[)）]\s*\Z")
_CAPTION_UNIT: Final = re.compile(r"单位[:：]\s?+(?:人民币)?+([^\s（()）\d，,。；;|]{1,6})")
_ABOVE: Final = 80  # characters above a table in which its unit may stand
_TOTAL: Final = re.compile("合计|总计|共计|合计数|总和|全公司|全部|total", re.IGNORECASE)
_EMPHASIS: Final = re.compile(r"[\s*_]")
_BARE: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_LETTERS: Final = re.compile(r"[^\W\d_]")


def tables(text: str) -> Iterator[list[str]]:
    """The lines of each table, its header first."""
    return (found.group().splitlines() for found in _TABLE.finditer(text))


def without_tables(text: str) -> str:
    """The prose alone: of the cells of a table its rows and columns tell what they are of."""
    return _TABLE.sub("\n", text) if "|" in text else text


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def is_rule(line: str) -> bool:
    return _RULE.fullmatch(line) is not None


def with_units(text: str) -> str:
    """The cells of a column 停机时长（小时） are hours: | 12 | becomes | 12小时 |; so are those below 单位：小时."""
    if "|" not in text:
        return text
    return _TABLE.sub(lambda found: "\n".join(_with_units(found.group().splitlines(), _unit_above(found))) + "\n", text)


def _unit_above(table: re.Match[str]) -> str:
    """What the line right above a table says of its cells."""
    lines = table.string[max(0, table.start() - _ABOVE) : table.start()].split("\n")
    stated = _CAPTION_UNIT.search(next((line for line in reversed(lines) if line.strip()), ""))
    return stated[1] if stated else ""


def _with_units(lines: Sequence[str], unit: str) -> Iterator[str]:
    units = [match[1] if (match := _UNIT.search(name)) else unit for name in cells(lines[0])]
    yield lines[0]
    for line in lines[1:]:
        row = cells(line)
        if any(units) and not is_rule(line):
            row = [
                f"{cell}{unit}" if unit and _BARE.fullmatch(cell) else cell
                for cell, unit in zip(row, [*units, *[""] * len(row)], strict=False)
            ]
            yield f"| {' | '.join(row)} |"
        else:
            yield line


def total_row(lines: Sequence[str]) -> list[str]:
    """The cells of the row that adds up the others; none where a table has no such row."""
    rows = (cells(line) for line in lines[1:])
    return next((row for row in rows if _TOTAL.fullmatch(_EMPHASIS.sub("", next(filter(None, row), "")))), [])


def named_in(names: Iterable[str], sentence: str) -> set[str]:
    """The names that a sentence has, the longest first: 陪产假 is no 产假, but beside it there may be one."""
    rest, found = sentence, set()
    for name in sorted({name for name in names if name}, key=len, reverse=True):
        if name in rest:
            found.add(name)
            rest = rest.replace(name, "\0")
    return found


def unnamed_rows(lines: Sequence[str], clause: str, sentence: str = "") -> frozenset[str]:
    """The rows of a table that a clause does not name, where it names some of them: those of which no other row has the
    same keys that it names, and more. 硕士 and 三等 name one row, 硕士 alone all of them."""
    rows = {line: [fold(cell) for cell in cells(line)] for line in lines[1:] if not is_rule(line)}
    if not rows or len(lines) > MOST_ROWS:
        return frozenset()
    keys = _keys(list(rows.values()), sentence or clause)
    labels = {line: {row[at] for at in keys if at < len(row) and _may_name(row[at], at)} for line, row in rows.items()}
    named = named_in((label for own in labels.values() for label in own), clause)
    found = {line: own & named for line, own in labels.items()}
    chosen = [line for line, own in found.items() if own and not any(own < other for other in found.values())]
    if len(chosen) > len(named):  # several rows of the same keys
        counts = {line: len(named_in(filter(_is_label, rows[line]), clause)) for line in chosen}
        chosen = [line for line in chosen if counts[line] == max(counts.values())]
    return frozenset(line for line in rows if line not in chosen) if chosen else frozenset()


def _keys(rows: Sequence[Sequence[str]], sentence: str) -> list[int]:
    """The columns that name the rows: from the first one on until no two rows are alike; where the sentence has none of
    their cells, the next one of which it has."""
    found: list[int] = []
    is_complete = is_named = False
    for at in range(max(map(len, rows))):
        if is_complete and is_named:
            break
        if column := _column(rows, at):
            found.append(at)
            is_complete = is_complete or len(set(column)) == len(rows)
            is_named = is_named or bool(named_in(column, sentence))
    return found


def _column(rows: Sequence[Sequence[str]], at: int) -> list[str]:
    return [row[at] for row in rows if at < len(row) and _may_name(row[at], at)]


def named_columns(header: Sequence[str], sentence: str) -> set[int]:
    """The columns that a sentence names whole, but for the first, which names the rows: 猫（元） by 猫."""
    names = [_UNIT.sub("", fold(name)).strip() for name in header]
    found = named_in(names[1:], sentence)
    return {at for at, name in enumerate(names) if at and name in found}


def _may_name(cell: str, at: int) -> bool:
    """The first column names rows by dates and years as well: 10月3日, 2015."""
    return _is_label(cell) or (at == 0 and (cell.isalpha() or len(cell) > 1) and (not cell.isdigit() or len(cell) == 4))


@cached_texts(4_096)
def _is_label(cell: str) -> bool:
    """A cell that names something rather than says how much: 注塑机1号, not 20分钟."""
    ready = prepared(cell)
    rest = list(ready)
    for hit in placed(ready):
        rest[hit.start : hit.end] = " " * (hit.end - hit.start)
    return len(_LETTERS.findall("".join(rest))) > 1 or (not cell[:1].isdigit() and len(_LETTERS.findall(cell)) > 1)
