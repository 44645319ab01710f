"""Headings without a heading style: 一、适用范围, （二）申报材料, 3. 报销比例, 1.2.3 …, 附件1, 第三条, 第一章.

Precision over recall. `numbered_headings` reads numbered lines as runs (一、二、三 …), one inside another. A run has
headings if most of its lines read like titles and have text below them: list items, a table of contents, running
heads and numbered sentences stay text. Articles of a law need only follow each other. No text is lost, changed or
moved. `outline` and `heading_level` find the chapters of plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

from qianxun.core.documents import Block, Heading, Paragraph, TableBlock

_OPENS: Final = re.compile(r"\s{0,8}[一二三四五六七八九十（(附第\d]")  # most lines do not
_NUMBERED: Final = re.compile(
    r"\s{0,8}(?P<label>(?P<counted>[一二三四五六七八九十]{1,3})\s?(?=[、．.])"
    r"|[（(]\s?(?P<bracketed>[一二三四五六七八九十]{1,3})\s?[)）]"
    r"|(?P<outlined>\d{1,2}(?:[.．]\d{1,2}){1,3})(?![.．]?\d)"
    r"|(?P<listed>\d{1,2})(?=[、．.]\D|\s))"
    r"(?P<sign>[、．.]?\s{0,8})(?P<title>\S.*)"
)
_ATTACHED: Final = re.compile(
    r"\s{0,8}(?P<label>附[件录]\s?(?:[一二三四五六七八九十\d]{1,2}|[A-Z])?)(?:\s?[:：]|\s|$).*"
)
_ARTICLE: Final = re.compile(  # 第三条本办法… begins an article, 第三条规定的… and 第三条路… a sentence
    r"\s{0,8}(?P<label>第\s?(?P<number>[零一二三四五六七八九十百千]{1,9}|\d{1,4})\s?条(?:之[一二三四五六七八九十])?)"
    r"(?!道?路|消息|新闻|短信|建议|理由|[规款项的所、和或至，,及与中第之])(?P<title>.*)"
)
_SENTENCE: Final = re.compile(r"[。；;！!]|[.、，,和与及或—-]$|[，,](?!.{0,60}[？?]$)")  # a question may have clauses
_CONTENTS: Final = re.compile(  # page numbers, rows of a table
    r"(?:(?<![.…·])[.…·]{2,}+|[\s∣])\s?\d{1,4}$|[|｜]|\.{4,}|…{2,}"
)
_AMOUNT: Final = re.compile(r"[%％‰°万亿元角分倍个名人次年月日天岁克米吨升寸里亩度号点时]|[a-zA-Z]{1,3}\b")
_LED: Final = re.compile(r"[:：]\s{0,4}$")
_WIDEST: Final = 80  # columns, of which a Chinese character takes two
_WIDEST_LED: Final = 32  # of a line that leads on with a colon: 联系方式：, but not 有下列情形之一的，不予报销：
_TOP: Final = 1  # level of a title
_FEWEST: Final = 2
_MOST: Final = 0.6
_IN_ORDER: Final = 0.8  # of the articles: some lines only speak of one
_FEWEST_ARTICLES: Final = 3
_BELOW: Final = {"counted": 10, "bracketed": 24, "outlined": 24, "listed": 30, "attached": 24}  # characters, at least
_TABLE: Final = 60  # characters that a table below a heading counts as
_UNBROKEN: Final = 20  # characters: where no line of a paragraph is longer, none was broken at a margin
_BROKEN: Final = 0.75
_ONES: Final = {sign: value for value, sign in enumerate("零一二三四五六七八九")}
_UNITS: Final = {"十": 10, "百": 100, "千": 1000}

Place: TypeAlias = tuple[int, int]  # block, line
Kind: TypeAlias = tuple[str, ...]  # how a line is numbered, with the numbers above its own: 1.2.3 is the third of 1.2


_ATTACHMENT: Final[Kind] = ("attached",)
_LAW: Final[Kind] = ("article",)


@dataclass(frozen=True, slots=True)
class _Item:
    """A numbered line with its place among the lines and the characters."""

    place: Place
    start: int
    end: int
    kind: Kind
    number: int
    label: str
    title: str
    is_title: bool

    def follows(self, other: _Item) -> bool:
        return self.number == other.number + 1 or (self.number == other.number and "之" in self.label)


@dataclass(slots=True)
class _Run:
    """Lines that are numbered one after the other, inside the run that was open when it began."""

    within: _Run | None
    items: list[_Item] = field(default_factory=list)
    end: int = 0  # of the text below its last line

    @property
    def kind(self) -> Kind:
        return self.items[0].kind

    def goes_on_with(self, item: _Item) -> bool:
        return self.kind == item.kind != _ATTACHMENT and item.follows(self.items[-1])

    def ends_at(self, first: _Item) -> bool:
        """Whether the first line of another run, of the same kind or of an outer kind, ends this one."""
        if first.kind[0] == "outlined":
            return self.kind[0] == "outlined" and len(self.kind) >= len(first.kind)
        return first.kind in (self.kind, _ATTACHMENT)

    def above(self) -> Iterator[_Run]:
        run = self.within
        while run is not None:
            yield run
            run = run.within


def numbered_headings(blocks: Sequence[Block], *, only_articles: bool = False) -> list[Block]:
    """The blocks, with unstyled headings marked as such, at levels below all headings that are marked already.

    An unstyled title is marked above all of them. ``only_articles``: for formats that mark headings, but not 第三条.
    """
    runs = [run for run in _runs(_stretches(blocks)) if run.kind == _LAW or not only_articles]
    with_headings = {id(run) for pool in _pools(runs) if _has_headings(pool) for run in pool}
    if not with_headings:
        return list(blocks)
    title = None if only_articles else _title(blocks)
    known = [block.level for block in blocks if isinstance(block, Heading)]
    deepest = max(known, default=0 if title is None else _TOP)
    found = {
        item.place: (item, deepest + 1 + sum(id(above) in with_headings for above in run.above()))
        for run in runs
        if id(run) in with_headings
        for item in run.items
    }
    if title is not None:
        found.setdefault(title.place, (title, _TOP))
    touched = {block for block, _ in found}
    return [
        part
        for at, block in enumerate(blocks)
        for part in (_divided(block, at, found) if at in touched and isinstance(block, Paragraph) else (block,))
    ]


def _title(blocks: Sequence[Block]) -> _Item | None:
    """The first line, where it reads like a title and no heading is as high as one."""
    first = blocks[0]
    if not isinstance(first, Paragraph) or any(isinstance(block, Heading) and block.level <= _TOP for block in blocks):
        return None
    lines = first.text.split("\n")
    line = lines[0]
    if _is_broken(lines, 0, max(map(len, lines))) or _numbered(line) or _LED.search(line) or not _is_title(line):
        return None
    return _Item((0, 0), 0, len(line), ("title",), 0, "", line, True)


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def _stretches(blocks: Sequence[Block]) -> Iterator[tuple[list[_Item], int]]:
    """The numbered lines between one known heading and the next, and how many characters there are up to there."""
    items: list[_Item] = []
    passed = 0
    for at, block in enumerate(blocks):
        if isinstance(block, TableBlock):
            passed += _TABLE
        elif isinstance(block, Heading):
            yield items, passed
            items = []
        else:
            items += _items(block.text, at, passed)
            passed += len(block.text)
    yield items, passed


def _items(text: str, block: int, passed: int) -> Iterator[_Item]:
    lines = text.split("\n")
    longest = max(map(len, lines))
    for at, line in enumerate(lines):
        if _OPENS.match(line):
            item = _item(line, (block, at), passed, not _is_broken(lines, at, longest))
            if item is not None:
                yield item
        passed += len(line) + 1


def _is_broken(lines: Sequence[str], at: int, longest: int) -> bool:
    """Whether a line goes on in the next: it is about as long as the longest."""
    return at + 1 < len(lines) and longest > _UNBROKEN and len(lines[at]) >= longest * _BROKEN


def _item(line: str, place: Place, start: int, is_whole: bool) -> _Item | None:
    read = _numbered(line)
    if read is None:
        return None
    kind, number, label = read
    title = line.strip().removeprefix(label)
    return _Item(place, start, start + len(line), kind, number, label, title, is_whole and _is_title(line))


def _numbered(line: str) -> tuple[Kind, int, str] | None:
    """How a line is numbered, its number, and the label as written."""
    if found := _ARTICLE.fullmatch(line):
        number = found["number"]
        return _LAW, int(number) if number.isdecimal() else _counted(number), "".join(found["label"].split())
    if found := _ATTACHED.fullmatch(line):
        return _ATTACHMENT, 1, found["label"].strip()
    found = _NUMBERED.fullmatch(line)
    if found is None or (found["outlined"] and not found["sign"] and _AMOUNT.match(found["title"])):
        return None
    kind, number = _style(found)
    return kind, number, found["label"].strip()


def _style(found: re.Match[str]) -> tuple[Kind, int]:
    for style in ("counted", "bracketed"):
        if found[style]:
            return (style,), _counted(found[style])
    if found["listed"]:
        return ("listed", found["sign"][:1].strip()), int(found["listed"])  # 1、 and 1. are not numbered together
    *above, number = re.split("[.．]", found["outlined"])
    return ("outlined", *above), int(number)


def _counted(signs: str) -> int:
    """一千零四十七 → 1047."""
    total = ones = 0
    for sign in signs:
        if sign in _UNITS:
            total += (ones or 1) * _UNITS[sign]
            ones = 0
        else:
            ones = _ONES[sign]
    return total + ones


def _is_title(line: str) -> bool:
    """Whether a line reads like a title: short, no sentence, no line of a table of contents."""
    line = line.strip()
    width = len(line) + sum(sign >= "\u2e80" for sign in line[:_WIDEST])
    if width > (_WIDEST_LED if _LED.search(line) else _WIDEST) or _CONTENTS.search(line):
        return False
    return _SENTENCE.search(line) is None


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


def _runs(stretches: Iterable[tuple[list[_Item], int]]) -> list[_Run]:
    runs: list[_Run] = []
    for items, end in stretches:
        opened: list[_Run] = []
        for item in items:
            going_on = next((depth for depth, run in enumerate(opened) if run.goes_on_with(item)), None)
            if going_on is not None:
                _close(opened, going_on + 1, item.start)
            elif item.number == 1 or item.kind == _LAW:  # its articles go on in the next chapter
                _close(
                    opened, next((at for at, run in enumerate(opened) if run.ends_at(item)), len(opened)), item.start
                )
                opened.append(_Run(opened[-1] if opened else None))
                runs.append(opened[-1])
            else:
                continue  # a number that nothing leads up to
            opened[-1].items.append(item)
        _close(opened, 0, end)
    return runs


def _close(opened: list[_Run], depth: int, at: int) -> None:
    for run in opened[depth:]:
        run.end = at
    del opened[depth:]


def _pools(runs: Sequence[_Run]) -> list[list[_Run]]:
    """The runs that are decided together: all of 1.1, 1.2 … 2.1 …, of which many are short, and all articles; others
    one by one."""
    pools: dict[tuple[str, int], list[_Run]] = {}
    for at, run in enumerate(runs):
        together = (run.kind[0], len(run.kind)) if run.kind[0] in ("outlined", "article") else ("", at)
        pools.setdefault(together, []).append(run)
    return list(pools.values())


def _has_headings(pool: Sequence[_Run]) -> bool:
    """Whether most of the lines read like titles, and most of those that are followed by another have text below, and
    it says something else: 1 年度报告, 2 年度报告 are page footers."""
    items = [item for run in pool for item in run.items]
    kind = items[0].kind[0]
    if kind == "article":
        in_order = sum(later.follows(item) for item, later in pairwise(items))
        return len(items) >= _FEWEST_ARTICLES and in_order >= _IN_ORDER * (len(items) - 1)
    if len(items) < (1 if kind == "attached" else _FEWEST):
        return False
    followed = [pair for run in pool for pair in pairwise(run.items)]
    if sum(item.title != later.title for item, later in followed) < _MOST * len(followed):
        return False
    below = [later.start - item.end for item, later in followed]
    below = below or [run.end - run.items[-1].end for run in pool]
    titles = sum(item.is_title for item in items)
    return titles >= _MOST * len(items) and sum(length >= _BELOW[kind] for length in below) >= _MOST * len(below)


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


def _divided(block: Paragraph, at: int, found: Mapping[Place, tuple[_Item, int]]) -> Iterator[Block]:
    """A paragraph at its headings. A sentence that is numbered among headings opens a section by its number alone."""
    current = Paragraph("", block.page, block.opens, block.level)
    lines: list[str] = []
    for number, line in enumerate(block.text.split("\n")):
        if (at, number) in found:
            yield from _filled(current, lines)
            item, level = found[at, number]
            lines = [] if item.is_title else [line]
            current = Paragraph("", block.page) if item.is_title else Paragraph("", block.page, item.label, level)
            if item.is_title:
                yield Heading(" ".join(line.split()), level, block.page)
        else:
            lines.append(line)
    yield from _filled(current, lines)


def _filled(paragraph: Paragraph, lines: Sequence[str]) -> Iterator[Paragraph]:
    text = "\n".join(lines)
    if text.strip():
        yield replace(paragraph, text=text)


# ── chapters of plain text: 第一回, 第三章, 第二节 on a line of their own ─────────────────────────

_CHAPTER: Final = re.compile(
    r"[\s　]{0,8}(?:[^\s。！？]{1,12}[\s　]{1,4})?第[\s　]?[〇零一二两三四五六七八九十百千\d]{1,7}[\s　]?"
    r"(?P<unit>[部编卷篇集回章节])(?P<rest>.{0,60})"
)
_ENGLISH_CHAPTER: Final = re.compile(
    r"\s{0,8}(?P<unit>Part|Book|Chapter|CHAPTER|PART)\s(?:\d{1,3}|[IVXLC]{1,7})\b(?P<rest>.{0,60})"
)
_CHAPTER_LEVELS: Final = {"部": 1, "编": 1, "卷": 1, "篇": 1, "集": 1, "回": 2, "章": 2, "节": 3}
_LONGEST_CHAPTER: Final = 60
_PAGE_NUMBER: Final = re.compile(r"^\s{0,8}\d{1,4}\s|[\s.…·∣|]\d{1,4}\s{0,8}$")  # a running head, a line of contents
_CLAUSE: Final = re.compile(r"[。！？；…，,：:]")
_RUN_OF_CONTENTS: Final = 3  # as many headings in a row are a table of contents


def heading_level(line: str) -> int | None:
    """The level of a line that is a numbered heading, else None. 第三章 opens a chapter, 第三章规定，… does not."""
    if len(line) > _LONGEST_CHAPTER or ("第" not in line and line.lstrip()[:4].lower() not in ("part", "book", "chap")):
        return None
    found = _CHAPTER.fullmatch(line.rstrip()) or _ENGLISH_CHAPTER.fullmatch(line.rstrip())
    if found is None or _CLAUSE.search(found["rest"]) or _PAGE_NUMBER.search(line):
        return None
    rest = found["rest"]
    # 第一章总则 is a heading, 第一章主要介绍…、… the beginning of a sentence; chapters of novels are long (回).
    if rest and not rest[0].isspace() and found["unit"] != "回" and (len(rest) > 14 or "、" in rest):
        return None
    return _CHAPTER_LEVELS.get(found["unit"], 1 if found["unit"].lower() in ("part", "book") else 2)


def may_have_headings(lines: Iterable[str]) -> bool:
    """False where neither `outline` nor `numbered_headings` can find any: most texts of a paragraph are spared both."""
    return any(_OPENS.match(line) or heading_level(line) is not None for line in lines)


def outline(lines: Sequence[str]) -> list[Block]:
    """Lines as headings and paragraphs; an empty line ends a paragraph."""
    blocks: list[Block] = []
    paragraph: list[str] = []
    for line in (*lines, ""):
        level = heading_level(line)
        if level is None and line.strip():
            paragraph.append(line.rstrip())
            continue
        if paragraph:
            blocks.append(Paragraph("\n".join(paragraph)))
            paragraph = []
        if level is not None:
            blocks.append(Heading(" ".join(line.split()), level))
    return without_contents(blocks)


def without_contents(blocks: Iterable[Block]) -> list[Block]:
    """A run of headings with nothing between them is a table of contents: one paragraph."""
    result: list[Block] = []
    run: list[Heading] = []
    for block in blocks:
        if isinstance(block, Heading) and (not run or block.level >= run[0].level):
            run.append(block)
            continue
        result.extend(_unless_contents(run))
        run = []
        if isinstance(block, Heading):
            run.append(block)
        else:
            result.append(block)
    return result + _unless_contents(run)


def _unless_contents(run: list[Heading]) -> list[Block]:
    levels = [heading.level for heading in run]
    if any(levels.count(level) >= _RUN_OF_CONTENTS for level in set(levels)):
        # The last heading of the run is followed by text: it is the one that counts.
        return [Paragraph("\n".join(heading.text for heading in run[:-1]), run[0].page), run[-1]]
    return list(run)
