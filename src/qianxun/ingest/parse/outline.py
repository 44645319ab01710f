"""Headings in plain Chinese text: 第一回, 第三章, 第二节 … on a line of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from qianxun.core.types import Block, Heading, Paragraph

_NUMBERED: Final = re.compile(
    r"[\s　]{0,8}(?:[^\s。！？]{1,12}[\s　]{1,4})?第[\s　]?[〇零一二两三四五六七八九十百千\d]{1,7}[\s　]?"
    r"(?P<unit>[部编卷篇集回章节])(?P<rest>.{0,60})"
)
_ENGLISH: Final = re.compile(
    r"\s{0,8}(?P<unit>Part|Book|Chapter|CHAPTER|PART)\s(?:\d{1,3}|[IVXLC]{1,7})\b(?P<rest>.{0,60})"
)
_LEVELS: Final = {"部": 1, "编": 1, "卷": 1, "篇": 1, "集": 1, "回": 2, "章": 2, "节": 3}
_LONGEST: Final = 60
_PAGE_NUMBER: Final = re.compile(r"^\s{0,8}\d{1,4}\s|[\s.…·∣|]\d{1,4}\s{0,8}$")  # a running head, a line of contents
_SENTENCE: Final = re.compile(r"[。！？；…，,：:]")
_RUN_OF_CONTENTS: Final = 3  # as many headings in a row are a table of contents


def heading_level(line: str) -> int | None:
    """The level of a line that is a numbered heading, else None. 第三章 opens a chapter, 第三章规定，… does not."""
    if len(line) > _LONGEST or ("第" not in line and line.lstrip()[:4].lower() not in ("part", "book", "chap")):
        return None
    found = _NUMBERED.fullmatch(line.rstrip()) or _ENGLISH.fullmatch(line.rstrip())
    if found is None or _SENTENCE.search(found["rest"]) or _PAGE_NUMBER.search(line):
        return None
    rest = found["rest"]
    # 第一章总则 is a heading, 第一章主要介绍…、… the beginning of a sentence; chapters of novels are long (回).
    if rest and not rest[0].isspace() and found["unit"] != "回" and (len(rest) > 14 or "、" in rest):
        return None
    return _LEVELS.get(found["unit"], 1 if found["unit"].lower() in ("part", "book") else 2)


def outlined(lines: Sequence[str], page: int | None = None) -> list[Block]:
    """Lines as headings and paragraphs; an empty line ends a paragraph."""
    blocks: list[Block] = []
    open_lines: list[str] = []
    for line in lines:
        level = heading_level(line)
        if level is None and line.strip():
            open_lines.append(line.rstrip())
            continue
        _close(open_lines, blocks, page)
        if level is not None:
            blocks.append(Heading(" ".join(line.split()), level, page))
    _close(open_lines, blocks, page)
    return without_contents(blocks)


def _close(open_lines: list[str], blocks: list[Block], page: int | None) -> None:
    if open_lines:
        blocks.append(Paragraph("\n".join(open_lines), page))
        open_lines.clear()


def without_contents(blocks: Iterable[Block]) -> list[Block]:
    """A run of headings with nothing between them is a table of contents: one paragraph."""
    result: list[Block] = []
    run: list[Heading] = []
    for block in blocks:
        if isinstance(block, Heading) and (not run or block.level >= run[0].level):
            run.append(block)
            continue
        result.extend(_settled(run))
        run = []
        if isinstance(block, Heading):
            run.append(block)
        else:
            result.append(block)
    return result + _settled(run)


def _settled(run: list[Heading]) -> list[Block]:
    levels = [heading.level for heading in run]
    if any(levels.count(level) >= _RUN_OF_CONTENTS for level in set(levels)):
        # The last heading of the run is followed by text: it is the one that counts.
        last = run[-1]
        listed = [heading.text for heading in run[:-1]]
        return [Paragraph("\n".join(listed), run[0].page), last]
    return list(run)
