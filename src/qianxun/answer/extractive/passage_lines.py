"""The sentences and table rows of passages, each with what it stands in: its heading, its list, the sentence before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

from qianxun.core.answer_types import Passage
from qianxun.core.system.cache import cached_texts
from qianxun.question.words import joined
from qianxun.text.chinese import fold, sentence_ends

_LONG: Final = 200  # characters
_LONGEST_HEADING: Final = 12
_LONGEST_TITLE: Final = 40  # characters of a line above a table
_BRACKETED: Final = re.compile(r"[（(\[【][^（(\[【）)\]】\n]{0,40}[）)\]】]")
_UNIT: Final = re.compile(r"(?:金额|计量|货币|数量)?的?单位\s?[:：]\s?[^\s:：，,。；;]{1,8}")
_ENDED: Final = re.compile(r"[。！？；：.!?;:…]$")
# 问：发票丢了怎么办？ or 3、发票丢了怎么办？ is what the lines after it answer, and no answer.
_QUESTION: Final = re.compile(
    r"(?:[问Qq]\d{0,3} ?[：:、.．]|(?:\d{1,3}|[一二三四五六七八九十]{1,3})[、.．)）]).{2,100}[？?]$"
)
_NO_HEADING: Final = re.compile(r"[\d，。！？；、,.!?;|]")
_CLOSED: Final = re.compile(r"[。！？；：.!?;:…”」』）)]$")  # a line without it goes on, or is one of several
_STATES: Final = re.compile(rf"\S\s*[:：]\s*\S|(?:{joined('subject.role')})\s+\S")  # 级别：三级 and 审判长 某某
_ITEM: Final = re.compile(
    r"\s*(?:[（(][一二三四五六七八九十\d]{1,3}[)）]|[①-⑳]|\d{1,2}[、.．)）](?!\d)|[一二三四五六七八九十]{1,3}、|[-*•·–])\s*\S"
)
# 既往史：… or 【证据】…: what a paragraph is called, all of its sentences are about.
_LABEL: Final = re.compile(r"\s*(?:【([^【】\n]{2,12})】|\*\*([^*\n]{2,12})\*\*|([\u4e00-\u9fff]{2,8})[：:](?!\s*$))")
_NUMBERED: Final = re.compile(r"\s*(\d{1,2})[、.．)）]")
_OPENS: Final = re.compile(r"[：:]\s*$|(?:如下|下列|以下)[^。]{0,16}[。：:]?\s*$")
_ROW: Final = re.compile(r"\s*\|.*\|\s*")
_RULE: Final = re.compile(r"[\s|:\-–—+=]+")
_PARTED: Final = re.compile(r"(?<!\\)\|")
_VALUE: Final = re.compile(r"[\d.,，%％+\-–—/:：¥￥$ ]+")
NO_SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of a passage, and the one before it."""

    text: str
    folded: str
    before: str
    first: str  # of the passage
    around: str  # the whole passage, folded
    name: str  # of its document, folded
    passage: Passage
    start: int  # in the passage's text
    at: int  # its place among all lines
    row: Row | None = None  # of a table: its text has the values with their columns
    setting: str = ""  # of a row: the document's name and the text around the table, folded
    heading: str = ""  # of the sections that it stands in, the innermost last, folded
    opening: int = -1  # of an item: the place of the line that opens its list (有下列情形之一的：)
    opened: str = ""  # … and that line, folded
    list_at: int = -1  # of an item: the place of the first one of its list
    label: str = ""  # what its paragraph is called, folded: 既往史

    @property
    def is_row(self) -> bool:
        return self.row is not None

    def is_of(self, name: str) -> bool:
        return name in self.name or name in self.around


def lines(passages: Sequence[Passage], subjects: Mapping[str, tuple[str, ...]] = NO_SUBJECTS) -> list[Line]:
    """The sentences of the passages; a row of a table is one. Titles are left out. ``subjects``: by document's id, whom
    it is about, which counts as its name."""
    found: list[Line] = []
    for passage in passages:
        before = first = ""
        around, name = folded_text(passage.text), folded_text(passage.doc_name)
        headings = folded_headings(passage, 0)
        below = {heading for part in passage.sections for heading in folded_headings(passage, part.start)}
        titles = {name, PurePath(name).stem, *headings, *below}
        name = "\n".join((name, *subjects.get(passage.doc_id, ())))
        heading = "\n".join(headings)
        sentences = _sentences(passage.text)
        opening, opened, list_at, number = -1, "", -1, 0
        label, ended, is_open = "", 0, False
        setting = "\n".join([*sorted(titles), *(folded for _, _, folded, row in sentences if row is None)])
        for start, text, folded, row in sentences:
            if passage.sections and headings != (own := folded_headings(passage, start)):
                headings, heading = own, "\n".join(own)
                before, first, opening, opened, list_at = "", "", -1, "", -1
            is_heading = len(text) <= _LONGEST_HEADING and not _NO_HEADING.search(text) and not _STATES.search(text)
            is_heading = is_heading and not (is_open and passage.text[ended:start].count("\n") == 1)
            if _QUESTION.match(text) is not None or (row is None and _is_table_title(text, passage.text[start:])):
                is_heading, before = True, ""
            if folded in titles or (is_heading and row is None):
                heading = heading if folded in titles else "\n".join((*headings, folded))
                list_at, is_open = -1, False
                continue
            if "\n" in passage.text[ended:start] or not ended:
                label = _label(text) if row is None else ""
            ended = start + len(text)
            is_open = row is None and not _CLOSED.search(text)
            earlier = "" if row else before  # a row is complete by itself
            around_row = setting if row else ""
            is_item = row is None and (_ITEM.match(text) is not None or _goes_on(text, number if list_at >= 0 else 0))
            number = int(counted.group(1)) if is_item and (counted := _NUMBERED.match(text)) else 0
            opening, opened = (opening, opened) if is_item else (-1, "")
            list_at = (len(found) if list_at < 0 else list_at) if is_item else -1
            place = (passage, start, len(found), row, around_row, heading, opening, opened, list_at, label)
            found.append(Line(text, folded, earlier, first, around, name, *place))
            if row is None and not is_item and _OPENS.search(text):
                opening, opened = len(found) - 1, folded
            before, first = folded, first or ("" if row else folded)
    return found


def _is_table_title(text: str, rest: str) -> bool:
    """Returns True for a line right above a table that says nothing but what the table is called, and for one that only
    has its unit: an answer is in the rows. ``rest``: the passage from there on."""
    bare = _bare(text)
    if _UNIT.fullmatch(bare):
        return True
    below = next(
        (line for line in rest[len(text) :].splitlines() if line.strip() and not _UNIT.fullmatch(_bare(line))), ""
    )
    return is_row(below) and len(text) <= _LONGEST_TITLE and not _ENDED.search(bare) and not _STATES.search(bare)


def _bare(line: str) -> str:
    return _BRACKETED.sub("", line).strip()


def folded_headings(passage: Passage, start: int) -> list[str]:
    """Those of what stands there in its text."""
    return [fold(heading) for heading in passage.headings_at(start)]


def _label(text: str) -> str:
    """What the paragraph is called that a sentence begins, folded; "" where it is not called anything."""
    found = _LABEL.match(text)
    return fold(next(filter(None, found.groups()))) if found else ""


def _goes_on(text: str, number: int) -> bool:
    """Returns True if a line has the number after that of the item before it: 3.2型糖尿病 after 2.高血压."""
    counted = _NUMBERED.match(text)
    return bool(number) and counted is not None and int(counted.group(1)) == number + 1


folded_text = cached_texts(256, longest=4_000)(fold)
"""`fold`, remembered: the same passages are searched for names, cut into lines, and read for every wording."""


@cached_texts(512, longest=4_000)
def _sentences(text: str) -> tuple[tuple[int, str, str, Row | None], ...]:
    """(start, sentence, the same folded, the row of a table that it is, if it is one). Cached: what several wordings of
    a question find is read for each."""
    return tuple((start, sentence, fold(sentence), row) for start, sentence, row in _cut(text))


def _cut(text: str) -> Iterator[tuple[int, str, Row | None]]:
    at = 0
    whole = text.splitlines(keepends=True)
    for line, row in zip(whole, table_rows(whole), strict=True):
        if row is None:
            yield from ((at + start, sentence, None) for start, sentence in _parted(line))
        elif row.text:
            yield at + len(line) - len(line.lstrip()), row.text, row
        at += len(line)


def _parted(line: str) -> Iterator[tuple[int, str]]:
    """Whole ones: a semicolon ends one only where it would be too long otherwise."""
    start = 0
    for mark in sentence_ends(line):
        if mark.group()[0] in "；;" and mark.end() - start < _LONG:
            continue
        if sentence := line[start : mark.end()].strip():
            yield line.index(sentence, start), sentence
        start = mark.end()
    if sentence := line[start:].strip():
        yield line.index(sentence, start), sentence


# ── rows of tables ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, with the names of their columns ("" where these have none)."""

    named: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The row as a text, its values as they are; "" for a header or a rule."""
        return "；".join(f"{name}：{cell}" if name else cell for name, cell in self.named if cell)


def table_rows(lines: Sequence[str]) -> list[Row | None]:
    """The rows of tables among the lines of a passage; None for a line that is none."""
    rows: list[Row | None] = []
    header: tuple[str, ...] | None = None
    for at, line in enumerate(lines):
        if not is_row(line):
            rows.append(None)
            header = None
        elif header is None and (header := _header(lines, at)):
            rows.append(Row())
        else:
            header = header or ()
            rows.append(Row() if _RULE.fullmatch(line) else _read(header, _cells(line)))
    return rows


def is_row(line: str) -> bool:
    return line.count("|") > 2 and _ROW.fullmatch(line) is not None


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
