"""A malformed workbook is refused with the sheet and the cell that is wrong; nothing is taken in, nothing is lost."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import xlsxwriter
from tests.ingest.sandboxed import parse_in_child

from qianxun import Engine
from qianxun.core.errors import Refused
from qianxun.core.limits import MIB
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits

LIMITS = ParseLimits()
SHEET = "xl/worksheets/sheet2.xml"  # 明细, the second sheet
Change = Callable[[dict[str, bytes]], dict[str, bytes]]


def sound() -> dict[str, bytes]:
    """The members of a workbook with two sheets: 总览, 明细."""
    held = io.BytesIO()
    book = xlsxwriter.Workbook(held)
    overview, detail = book.add_worksheet("总览"), book.add_worksheet("明细")
    for at, row in enumerate([["年份", "金额"], [2023, 5]]):
        overview.write_row(at, 0, row)
    for at, row in enumerate([["品名", "数量", "单价"], ["苹果", 3, 5.5], ["香蕉", 4, 6.5], ["合计"]]):
        detail.write_row(at, 0, row)
    detail.merge_range("B4:C4", 7, book.add_format())
    book.close()
    with zipfile.ZipFile(held) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def swap(part: str, old: str, new: str) -> Change:
    def change(members: dict[str, bytes]) -> dict[str, bytes]:
        changed, count = re.subn(old.encode(), new.encode(), members[part], count=1)
        assert count == 1, members[part]
        return members | {part: changed}

    return change


def without(part: str) -> Change:
    return lambda members: {name: content for name, content in members.items() if name != part}


WRONG: dict[str, tuple[Change, tuple[str, ...]]] = {
    "broken XML": (swap(SHEET, r'<c r="C3"[^>]*><v>6.5</v>', '<c r="C3"><v>6.5<'), ("明细", "单元格 C3", "XML")),
    "cut off XML": (lambda m: m | {SHEET: m[SHEET][: m[SHEET].index(b'r="B3"') + 8]}, ("明细", "单元格 B3", "XML")),
    "string beyond the table": (
        swap(SHEET, r'(<c r="A3"[^>]*t="s"[^>]*>)<v>\d+</v>', r"\1<v>9999</v>"),
        ("明细", "A3", "9999"),
    ),
    "negative string": (swap(SHEET, r'(<c r="A3"[^>]*t="s"[^>]*>)<v>\d+</v>', r"\1<v>-1</v>"), ("明细", "A3", "-1")),
    "no such cell": (swap(SHEET, 'r="B3"', 'r="3B"'), ("明细", "3B", "地址")),
    "column beyond the sheet": (swap(SHEET, 'r="C3"', 'r="XFE3"'), ("明细", "XFE3", "地址")),
    "row beyond the sheet": (swap(SHEET, '<row r="4"', '<row r="1048577"'), ("明细", "1048577")),
    "cell in another row": (swap(SHEET, 'r="B3"', 'r="B9"'), ("明细", "B9", "第 3 行")),
    "cell twice": (swap(SHEET, 'r="C3"', 'r="B3"'), ("明细", "B3", "两次")),
    "row twice": (swap(SHEET, '<row r="3"', '<row r="2"'), ("明细", "第 2 行", "两次")),
    "no number": (swap(SHEET, "<v>6.5</v>", "<v>6,5 元</v>"), ("明细", "C3", "6,5 元")),
    "not a number at all": (swap(SHEET, "<v>6.5</v>", "<v>NaN</v>"), ("明细", "C3", "NaN")),
    "no date": (
        swap(SHEET, r'<c r="C3"[^>]*><v>6.5</v>', '<c r="C3" t="d"><v>2023-02-30</v>'),
        ("明细", "C3", "2023-02-30", "日期"),
    ),
    "no truth": (swap(SHEET, r'<c r="C3"[^>]*><v>6.5</v>', '<c r="C3" t="b"><v>maybe</v>'), ("明细", "C3", "maybe")),
    "no such type": (swap(SHEET, r'<c r="C3"[^>]*>', '<c r="C3" t="z">'), ("明细", "C3", "类型")),
    "no such style": (swap(SHEET, r'<c r="C3"[^>]*>', '<c r="C3" s="77">'), ("明细", "C3", "样式", "77")),
    "merged beyond the sheet": (swap(SHEET, 'ref="B4:C4"', 'ref="B4:XFE4"'), ("明细", "B4:XFE4")),
    "merged backwards": (swap(SHEET, 'ref="B4:C4"', 'ref="C4:B3"'), ("明细", "C4:B3")),
    "merged twice": (
        swap(SHEET, '<mergeCell ref="B4:C4"( )?/>', '<mergeCell ref="B4:C4"/><mergeCell ref="C3:C5"/>'),
        ("明细", "C3:C5", "B4:C4", "重叠"),
    ),
    "sheet missing": (without(SHEET), ("明细", "sheet2.xml")),
    "broken strings": (swap("xl/sharedStrings.xml", "</si></sst>", "</sst>"), ("共享字符串表", "sharedStrings.xml")),
    "no workbook": (without("xl/workbook.xml"), ("workbook.xml",)),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_message_says_where(tmp_path: Path, name: str) -> None:
    change, told = WRONG[name]
    path = write(tmp_path / "账目.xlsx", change(sound()))
    with pytest.raises(Refused) as refused:
        parse(path, LIMITS)
    message = str(refused.value)
    assert all(part in message for part in told), message
    assert refused.value.hint


def test_a_sound_workbook_is_taken_in(tmp_path: Path) -> None:
    assert len(parse(write(tmp_path / "账目.xlsx", sound()), LIMITS).blocks) == 4


def test_damaged_bytes_of_a_sheet_name_the_sheet(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.xlsx", sound()).read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        start = archive.getinfo(SHEET).header_offset + 60
    bad = bytearray(whole)
    bad[start : start + 40] = bytes(40)
    path = tmp_path / "bad.xlsx"
    path.write_bytes(bad)
    with pytest.raises(Refused) as refused:
        parse(path, LIMITS)
    assert "sheet2.xml" in str(refused.value)


def test_a_truncated_file_and_a_bomb_say_what_they_can(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.xlsx", sound()).read_bytes()
    cut = tmp_path / "cut.xlsx"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Refused) as refused:
        parse_in_child(cut, LIMITS)
    assert "不完整" in str(refused.value)
    assert refused.value.hint
    bomb = write(tmp_path / "bomb.xlsx", sound() | {SHEET: b" " * (9 * MIB)})
    with pytest.raises(Refused) as refused:
        parse_in_child(bomb, ParseLimits(unpacked_bytes=8 * MIB))
    assert refused.value.word == "too_large"
    assert "sheet2.xml" in str(refused.value)


def test_nothing_is_taken_in_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "账目.xlsx"
    write(path, sound())

    async def run() -> None:
        async with Engine.open(tmp_path / "data") as engine:
            base = await engine.create_knowledge_base("账目", model="none")
            first = await engine.add(base.id, [path])
            before = [found.chunk.text for found in (await engine.retrieve(base.id, "香蕉 数量")).found]
            change, _ = WRONG["string beyond the table"]
            write(path, change(sound()))
            second = await engine.add(base.id, [path])
            after = [found.chunk.text for found in (await engine.retrieve(base.id, "香蕉 数量")).found]
            assert (first.added, second.added, len(second.refused)) == (1, 0, 1)
            assert "工作表“明细”的单元格 A3" in second.refused[0].reason
            assert before
            assert before == after

    asyncio.run(run())
