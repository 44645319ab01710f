"""Rows of tables as they read: 列名：值；列名：值. Every value is as it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_ROW: Final = re.compile(r"\s*\|.*\|\s*")
_RULE: Final = re.compile(r"[\s|:\-–—+=]+")
_PARTED: Final = re.compile(r"(?<!\\)\|")
_VALUE: Final = re.compile(r"[\d.,，%％+\-–—/:：¥￥$ ]+")


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, each with the name of its column ("" where it has none)."""

    named: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """How it reads; "" where it says nothing by itself: a header, a rule."""
        return "；".join(f"{name}：{cell}" if name else cell for name, cell in self.named if cell)


def readable(lines: Sequence[str]) -> list[Row | None]:
    """For each line of a passage its row, if it is one of a table; None where it is none."""
    told: list[Row | None] = []
    header: tuple[str, ...] | None = None
    for at, line in enumerate(lines):
        if not is_row(line):
            told.append(None)
            header = None
        elif header is None and (header := _header(lines, at)):
            told.append(Row())
        else:
            header = header or ()
            told.append(Row() if _RULE.fullmatch(line) else _read(header, _cells(line)))
    return told


def is_row(line: str) -> bool:
    return _ROW.fullmatch(line) is not None and line.count("|") > 2


def _header(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """A first row with a row below it names the columns, unless it has values itself."""
    if at + 1 >= len(lines) or not is_row(lines[at + 1]):
        return ()
    cells = _cells(lines[at])
    is_ruled = _RULE.fullmatch(lines[at + 1]) is not None
    return cells if is_ruled or not any(_VALUE.fullmatch(cell) for cell in cells if cell) else ()


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("\\|", "|") for cell in _PARTED.split(line.strip())[1:-1])


def _read(header: Sequence[str], cells: Sequence[str]) -> Row:
    names = header if len(header) == len(cells) else [""] * len(cells)
    return Row(tuple(zip(names, cells, strict=True)))
