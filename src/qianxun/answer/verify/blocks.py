"""Tables and lists in a reply: a row or an item that cites nothing itself rests on what its table or list cites.

A model cites a table in its header, in some of its rows, or in the line before or after it; a list in the line that
leads on to it. A table is given once it is over: only then is known what it cites.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from qianxun.answer.verify.citations import Fragment, Reading, Sentence

_CLOSING_BAR: Final = re.compile(r"(?<![ \t])[ \t]*+\|[ \t]*+\Z")
_RULE: Final = re.compile(r"[\s|:]*+-[\s|:\-]*+")
_ITEM: Final = re.compile(r"\s*(?:[-*+•·]\s|\d{1,2}[.、)）]|[（(]\d{1,2}[）)]|[①-⑳])")
_LEADS_ON: Final = re.compile(r"[：:][^\w：:]*+\Z")
_HEADED_UNIT: Final = re.compile(r"[（(]\s*(?:单位[:：]?\s*)?([^（()）]{1,8})[)）]\s*\Z")
_INDENTS: Final = (" ", "\t", "\u3000")
_BARE_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:\s*[-–~～至]\s*\d[\d,]*(?:\.\d+)?)?")


@dataclass(frozen=True, slots=True)
class Row:
    """``read_as``: the row as a text, its values after the names of their columns."""

    sentence: Sentence
    read_as: str


@dataclass(frozen=True, slots=True)
class Table:
    """``head``: the names of its columns and the rule below them, where it has any; ``shared``: all that it cites."""

    head: tuple[Sentence, ...]
    rows: tuple[Row, ...]
    shared: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A sentence of a list whose leading line cites ``shared``."""

    sentence: Sentence
    shared: tuple[int, ...]


Block: TypeAlias = Reading | Table | Item


class BlockReader:
    """Takes what is read of a reply, and gives it with its tables whole and its items as such."""

    def __init__(self) -> None:
        self._rows: list[Sentence] = []
        self._pending: list[Reading] = []  # the sentence after a table, which may cite its source
        self._line: list[int] = []  # what the line cites so far
        self._led_by: tuple[int, ...] = ()  # what the line before cites
        self._listed: tuple[int, ...] = ()  # what the line that leads on to this list cites
        self._begins_line, self._is_indented = True, False
        self._text = ""  # of the sentence so far

    def feed(self, reading: Reading) -> Iterator[Block]:
        yield from self._fragment(reading) if isinstance(reading, Fragment) else self._sentence(reading)

    def close(self) -> Iterator[Block]:
        yield from self._released()

    def _fragment(self, fragment: Fragment) -> Iterator[Block]:
        is_first = not self._text.strip()
        self._text += fragment.text
        if is_row(self._text) or not self._text.strip():
            return  # the next words decide
        shown = Fragment(self._text) if is_first else fragment
        if self._rows and not self._cited():
            self._pending.append(shown)
            return
        yield from self._released()
        yield shown

    def _sentence(self, sentence: Sentence) -> Iterator[Block]:
        text, self._text = self._text, ""
        if text and not text.strip():
            self._pending.append(Fragment(text))
        if is_row(sentence.text):
            self._rows.append(_without_bar(sentence))
            self._begins_line, self._is_indented = True, False
            if "\n\n" in sentence.space and self._cited():
                yield from self._released()
            return
        self._pending.append(sentence)
        yield from self._released(sentence.numbers)

    def _in_list(self, sentence: Sentence) -> Block:
        if self._begins_line:
            self._line.clear()
            if not _ITEM.match(sentence.text) and not self._is_indented:
                self._listed = ()
        listed = self._listed
        self._line.extend(sentence.numbers)
        self._begins_line, self._is_indented = "\n" in sentence.space, sentence.space[-1:] in _INDENTS
        if self._begins_line:
            self._led_by = tuple(self._line)
            if _LEADS_ON.search(sentence.text):
                self._listed = tuple(dict.fromkeys((*self._listed, *self._line)))
        return Item(sentence, listed) if listed and not sentence.numbers else sentence

    def _cited(self) -> tuple[int, ...]:
        own = (number for row in self._rows for number in row.numbers)
        return tuple(dict.fromkeys((*self._led_by, *own)))

    def _released(self, after: Sequence[int] = ()) -> Iterator[Block]:
        """The table, and the sentence after it, which was held back with it."""
        if self._rows:
            yield _table(self._rows, self._cited() or tuple(after))
            self._rows, self._led_by, self._listed = [], (), ()
        pending, self._pending = self._pending, []
        for reading in pending:
            yield reading if isinstance(reading, Fragment) else self._in_list(reading)


def is_row(text: str) -> bool:
    return text.lstrip().startswith("|")


def _without_bar(row: Sentence) -> Sentence:
    """Marks go into the last cell: after the last bar they would not be shown."""
    found = _CLOSING_BAR.search(row.text)
    if found is None or not row.text[: found.start()].strip():
        return row
    return replace(row, text=row.text[: found.start()], space=f"{found.group()}{row.space}")


def _table(rows: Sequence[Sentence], shared: tuple[int, ...]) -> Table:
    has_head = len(rows) > 1 and _RULE.fullmatch(rows[1].text) is not None
    head, body = (tuple(rows[:2]), rows[2:]) if has_head else ((), rows)
    names = _cells(head[0].text) if head else []
    read = (Row(row, _read(_cells(row.text), names, at)) for at, row in enumerate(body, start=1))
    return Table(head, tuple(read), shared)


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _read(cells: Sequence[str], names: Sequence[str], at: int) -> str:
    """预算（万元） above 500 is 预算（万元）500万元; a number that only counts the rows is left out."""
    parts = []
    of_row = _HEADED_UNIT.search(cells[0])  # 预算（万元） may be before the numbers as well
    for place, cell in enumerate(cells):
        name = names[place] if place < len(names) else ""
        if place == 0 and cell == str(at):
            continue
        unit = _HEADED_UNIT.search(name)
        own = unit or (of_row if place else None)
        measure = own[1] if own and _BARE_NUMBER.fullmatch(cell) else ""
        parts.append(f"{name[: unit.start()] if unit else name}{cell}{measure}")
    return "，".join(filter(None, parts))
