"""The sentences and table rows of passages, each with what it stands in: its heading, its list, the sentence before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

from qianxun.core.answer_types import Passage, Section
from qianxun.core.limits import MIB
from qianxun.core.system.cache import cached_texts, sized_texts
from qianxun.question.words import joined
from qianxun.text.chinese import fold, is_folded_by_case, sentence_ends
from qianxun.text.figures import without_gaps
from qianxun.text.line_breaks import in_one_line, wrap_breaks

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
_CLOSED: Final = tuple("。！？；：.!?;:…”」』）)")  # a line without it goes on, or is one of several
_STATES: Final = re.compile(rf"\S\s*[:：]\s*\S|(?:{joined('subject.role')})\s+\S")  # 级别：三级 and 审判长 某某
_ITEM: Final = re.compile(
    r"\s*(?:[（(][一二三四五六七八九十\d]{1,3}[)）]|[①-⑳]|\d{1,2}[、.．)）](?!\d)|[一二三四五六七八九十]{1,3}、|[-*•·–])\s*\S"
)
# 既往史：… or 【证据】…: what a paragraph is called, all of its sentences are about.
_LABEL: Final = re.compile(r"\s*(?:【([^【】\n]{2,12})】|\*\*([^*\n]{2,12})\*\*|([\u4e00-\u9fff]{2,8})[：:](?!\s*$))")
_NUMBERED: Final = re.compile(r"\s*(\d{1,2})[、.．)）]")
_OPENS: Final = re.compile(r"[：:]\s*$|(?:如下|下列|以下)[^。]{0,16}[。：:]?\s*$")
_OPENING_MARKS: Final = ("：", ":", "下")  # that a line which opens a list has one of at least
_ROW: Final = re.compile(r"\s*\|.*\|\s*")
_RULE: Final = re.compile(r"[\s|:\-–—+=]+")
_PARTED: Final = re.compile(r"(?<!\\)\|")
_MODEL: Final = re.compile(r"([a-z]{1,8})-?\d")
_VALUE: Final = re.compile(r"[\d.,，%％+\-–—/:：¥￥$ ]+")
_MOST_BYTES: Final = 16 * MIB  # of passages that are cut: some 1,500 of the usual size
_SENTENCE_BYTES: Final = 500  # what a sentence takes beside its text
NO_SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class Line(NamedTuple):
    """A sentence of a passage, and the one before it. A tuple: a question is compared with a hundred, and to make so
    many values with as many fields takes longer than to look for a word in them."""

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
        return name in self.name or name in self.around or self.is_of_series(name)

    def is_of_series(self, model: str) -> bool:
        """Returns True if its document is about all models of a series: AX系列 for AX-30."""
        series = _MODEL.match(model)
        return series is not None and f"{series.group(1)}系列" in self.name


def lines(passages: Sequence[Passage], subjects: Mapping[str, tuple[str, ...]] = NO_SUBJECTS) -> list[Line]:
    """The sentences of the passages; a row of a table is one. Titles are left out. ``subjects``: by document's id, whom
    it is about, which counts as its name."""
    found: list[Line] = []
    for passage in passages:
        own = _cut_passage(passage.doc_name, passage.headings_at(0), passage.sections, passage.text)
        name = "\n".join((own.name, *subjects.get(passage.doc_id, ())))
        around, first = own.around, len(found)
        for at, one in enumerate(own.sentences, start=first):
            opening = first + one.opening if one.opening >= 0 else -1
            list_at = first + one.list_at if one.list_at >= 0 else -1
            before = (one.text, one.folded, one.before, one.first, around, name, passage, one.start, at, one.row)
            found.append(Line(*before, one.setting, one.heading, opening, one.opened, list_at, one.label))
    return found


class _Sentence(NamedTuple):
    """What a `Line` is by its passage alone; ``opening`` and ``list_at`` are places among the sentences of that."""

    text: str
    folded: str
    before: str
    first: str
    start: int
    row: Row | None
    setting: str
    heading: str
    opening: int
    opened: str
    list_at: int
    label: str


@dataclass(frozen=True, slots=True)
class _CutPassage:
    around: str
    name: str
    sentences: tuple[_Sentence, ...]

    @property
    def size(self) -> int:
        """About what it takes in memory: its text four times, whole and in sentences, as it is and folded."""
        settings = max((len(one.setting) for one in self.sentences), default=0)
        return 2 * (4 * len(self.around) + settings) + _SENTENCE_BYTES * (len(self.sentences) + 1)


@sized_texts(_MOST_BYTES, lambda cut: cut.size)
def _cut_passage(doc_name: str, shown: tuple[str, ...], sections: tuple[Section, ...], text: str) -> _CutPassage:
    """Cached: what is asked has no part in it, and other questions find the same passages. ``shown``: the headings of
    where it begins."""
    around, name = folded_text(text), folded_text(doc_name)
    headings = first_headings = [folded_text(heading) for heading in shown]
    below = {heading for part in sections for heading in _headings_at(sections, part.start, first_headings)}
    titles = {name, PurePath(name).stem, *headings, *below}
    sentences = list(_sentences(text))
    setting = "\n".join([*sorted(titles), *(folded for _, _, folded, row in sentences if row is None)])
    cut: list[_Sentence] = []
    before = first = ""
    heading = "\n".join(headings)
    opening, opened, list_at, number = -1, "", -1, 0
    label, ended, is_open = "", 0, False
    for start, sentence, folded, row in sentences:
        if sections and headings != (own := _headings_at(sections, start, first_headings)):
            headings, heading = own, "\n".join(own)
            before, first, opening, opened, list_at = "", "", -1, "", -1
        is_heading = len(sentence) <= _LONGEST_HEADING and not _NO_HEADING.search(sentence)
        is_heading = is_heading and not _STATES.search(folded)
        is_heading = is_heading and not (is_open and text[ended:start].count("\n") == 1)
        if _QUESTION.match(folded) is not None or (row is None and _is_table_title(sentence, text[start:])):
            is_heading, before = True, ""
        if folded in titles or (is_heading and row is None):
            heading = heading if folded in titles else "\n".join((*headings, folded))
            list_at, is_open = -1, False
            continue
        if "\n" in text[ended:start] or not ended:
            label = _label(sentence) if row is None else ""
        ended = start + len(sentence)
        is_open = row is None and not sentence.endswith(_CLOSED)
        earlier = "" if row else before  # a row is complete by itself
        around_row = setting if row else ""
        is_item = row is None and (
            _ITEM.match(sentence) is not None or _goes_on(sentence, number if list_at >= 0 else 0)
        )
        number = int(counted.group(1)) if is_item and (counted := _NUMBERED.match(sentence)) else 0
        opening, opened = (opening, opened) if is_item else (-1, "")
        list_at = (len(cut) if list_at < 0 else list_at) if is_item else -1
        place = (start, row, around_row, heading, opening, opened, list_at, label)
        cut.append(_Sentence(sentence, folded, earlier, first, *place))
        may_open = row is None and not is_item and any(mark in sentence for mark in _OPENING_MARKS)
        if may_open and _OPENS.search(sentence):
            opening, opened = len(cut) - 1, folded
        before, first = folded, first or ("" if row else folded)
    return _CutPassage(around, name, tuple(cut))


def _headings_at(sections: Sequence[Section], start: int, first: list[str]) -> list[str]:
    """Those of what stands there in the text of a passage, folded; the ``first`` before any of its sections."""
    own = next((part.headings for part in reversed(sections) if part.start <= start), None)
    return first if own is None else [folded_text(heading) for heading in own]


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


def _label(text: str) -> str:
    """What the paragraph is called that a sentence begins, folded; "" where it is not called anything."""
    found = _LABEL.match(text)
    return without_gaps(fold(next(filter(None, found.groups())))) if found else ""


def _goes_on(text: str, number: int) -> bool:
    """Returns True if a line has the number after that of the item before it: 3.2型糖尿病 after 2.高血压."""
    counted = _NUMBERED.match(text)
    return bool(number) and counted is not None and int(counted.group(1)) == number + 1


@cached_texts(256, longest=4_000)
def folded_text(text: str) -> str:
    """Folded, without gaps. Cached: the same passages are searched for names, cut into lines, and read for every
    wording."""
    return without_gaps(fold(text))


def _sentences(text: str) -> Iterator[tuple[int, str, str, Row | None]]:
    """(start, sentence, the same folded, the row of a table that it is, if it is one)."""
    by_case = is_folded_by_case(text)
    for start, sentence, row in _cut(text):
        whole = in_one_line(sentence)
        yield start, sentence, without_gaps(whole.lower() if by_case and row is None else fold(whole)), row


def _cut(text: str) -> Iterator[tuple[int, str, Row | None]]:
    at = 0
    whole = list(_lines(text))
    for line, row in zip(whole, table_rows(whole), strict=True):
        if row is None:
            yield from ((at + start, sentence, None) for start, sentence in _parted(line))
        elif row.text:
            yield at + len(line) - len(line.lstrip()), row.text, row
        at += len(line)


def _lines(text: str) -> Iterator[str]:
    """Lines with their ends; one that is broken at the width of a page is one with those that it goes on in."""
    breaks, whole = set(wrap_breaks(text)), ""
    at = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        whole += line
        if at - 1 not in breaks:
            yield whole
            whole = ""


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
