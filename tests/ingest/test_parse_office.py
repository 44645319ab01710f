"""Word, PowerPoint, Excel and PDF."""

from __future__ import annotations

import zipfile
from datetime import date, datetime
from pathlib import Path

import openpyxl
import pytest
from tests.shared import DATA, needs_data

from qianxun.core.errors import MissingExtra, Unreadable
from qianxun.core.types import Heading, Paragraph, ParsedFile, Table, TableBlock
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse import parse
from qianxun.ingest.parse.office.package import inspect
from qianxun.ingest.sandbox.limits import ParseLimits

LIMITS = ParseLimits(ocr=False)
OFFICE = DATA / "ingest/office_pdf"


def tables(file: ParsedFile) -> list[Table]:
    return [block.table for block in file.blocks if isinstance(block, TableBlock)]


# ── excel ────────────────────────────────────────────────────────────────────────────────────────


@needs_data
def test_a_real_workbook_gives_its_rows() -> None:
    (table,) = tables(parse(OFFICE / "langchain-ChatGLM_closed.xlsx", LIMITS))
    assert [column.name for column in table.columns] == ["列1", "title", "file", "url", "detail", "id"]
    assert len(table.rows) == 172
    assert table.rows[1][:2] == (1, "当前的运行环境是什么，windows还是Linux")
    assert table.source == "Sheet1"


def test_a_sheet_with_titles_merged_headers_notes_and_two_tables(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.title = "销售"
    for row in [
        ["2023年销售统计表", None, None, None],
        ["地区", "上半年", None, "签约日"],
        [None, "金额（万元）", "占比", None],
        ["华东", 1200.5, 0.25, date(2023, 1, 5)],
        ["华南", 800, 0.125, date(2023, 2, 1)],
        ["注：不含税", None, None, None],
        [],
        ["姓名", "工号", "在职"],
        ["张三", "007", True],
        ["李四", "008", False],
    ]:
        sheet.append(row)
    for merged in ("A1:D1", "A2:A3", "B2:C2", "D2:D3", "A6:D6"):
        sheet.merge_cells(merged)
    for row in (4, 5):
        sheet.cell(row, 3).number_format = "0.0%"
    sheet.cell(9, 5).value = datetime(2024, 5, 6, 7, 8)
    book.create_sheet("内部").sheet_state = "hidden"
    path = tmp_path / "a.xlsx"
    book.save(path)
    file = parse(path, LIMITS)
    first, second = tables(file)[:2]
    assert first.title == "2023年销售统计表"
    assert first.notes == "注：不含税"
    assert [column.path for column in first.columns] == [
        ("地区",), ("上半年", "金额（万元）"), ("上半年", "占比"), ("签约日",),
    ]  # fmt: skip
    assert first.columns[1].name == "上半年 / 金额（万元）"
    assert [column.kind for column in first.columns] == ["text", "money", "percent", "date"]
    assert first.rows[0] == ("华东", 1200.5, 0.25, "2023-01-05")
    assert first.texts[0] == ("华东", "1200.5", "25.0%", "2023-01-05")
    assert [column.name for column in second.columns][:3] == ["姓名", "工号", "在职"]
    assert second.rows[0][:3] == ("张三", "007", True)
    assert file.warnings == ("工作表“内部”是隐藏的，未收录",)


def test_money_is_shown_as_excel_shows_it(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in [["项目", "金额", "次数"], ["甲", 1234567.5, 3], ["乙", 20, 12000]]:
        sheet.append(row)
    for row in (2, 3):
        sheet.cell(row, 2).number_format = '"¥"#,##0.00'
        sheet.cell(row, 3).number_format = "#,##0"
    path = tmp_path / "a.xlsx"
    book.save(path)
    (table,) = tables(parse(path, LIMITS))
    assert table.texts == (("甲", "¥1,234,567.50", "3"), ("乙", "¥20.00", "12,000"))
    assert table.columns[1].kind == "money"
    assert table.rows[0] == ("甲", 1234567.5, 3)


def test_formulas_without_a_saved_result_are_said(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in [["品名", "数量"], ["甲", 3], ["合计", "=SUM(B2:B2)"]]:
        book.worksheets[0].append(row)
    path = tmp_path / "a.xlsx"
    book.save(path)  # openpyxl writes formulas without results
    file = parse(path, LIMITS)
    assert tables(file)[0].rows == (("甲", 3), ("合计", "=SUM(B2:B2)"))
    assert file.warnings[0].startswith("1 个公式没有保存计算结果")


def test_an_empty_row_does_not_end_a_table_and_two_tables_may_stand_side_by_side(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in [["品名", "价"], ["苹果", 3], ["梨", 4], [], ["桃", 5]]:
        sheet.append(row)
    for offset, row in enumerate([["城市", "人口"], ["杭州", 1200], ["宁波", 950]], 1):
        sheet.cell(offset, 4).value, sheet.cell(offset, 5).value = row
    path = tmp_path / "a.xlsx"
    book.save(path)
    found = {table.columns[0].name: table for table in tables(parse(path, LIMITS))}
    assert found["城市"].rows == (("杭州", 1200), ("宁波", 950))
    assert ("苹果", 3) in found["品名"].rows


# ── word and powerpoint ──────────────────────────────────────────────────────────────────────────


@needs_data
def test_a_law_in_word_has_its_outline() -> None:
    file = parse(OFFICE / "kag_default.docx", LIMITS)
    headings = [(block.text, block.level) for block in file.blocks if isinstance(block, Heading)]
    assert headings[:3] == [("第一编 总 则", 1), ("第一章 基本规定", 2), ("第二章 自 然 人", 2)]
    assert "第四条 民事主体在民事活动中的法律地位一律平等。" in assemble(file).content


@needs_data
def test_text_and_table_of_word_and_powerpoint() -> None:
    word, show = parse(OFFICE / "ocr_test.docx", LIMITS), parse(OFFICE / "ocr_test.pptx", LIMITS)
    for file, corner in ((word, "我是表格2"), (show, "我是表格5")):
        assert any(isinstance(block, Heading | Paragraph) and block.text == "我是文字" for block in file.blocks)
        (table,) = tables(file)
        assert [column.name for column in table.columns] == ["我是表格1", corner]
        assert table.texts == (("我是表格3", "我是表格4"),)
        assert file.warnings == ("1 张图片未识别",)
    assert {block.page for block in show.blocks} == {1}


def test_merged_cells_headings_and_boxes_of_a_written_document(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("报销办法", 1)
    document.add_heading("比例", 2)
    document.add_paragraph("按下表执行。")
    table = document.add_table(4, 3)
    texts = [["医院", "比例", ""], ["", "在职", "退休"], ["三级", "85%", "90%"], ["二级", "90%", "95%"]]
    for r, row in enumerate(texts):
        for c, text in enumerate(row):
            table.cell(r, c).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(0, 0).merge(table.cell(1, 0))
    path = tmp_path / "a.docx"
    document.save(str(path))
    file = parse(path, LIMITS)
    (found,) = tables(file)
    assert [(b.text, b.level) for b in file.blocks if isinstance(b, Heading)] == [("报销办法", 1), ("比例", 2)]
    assert found.title == "比例"
    assert [column.path for column in found.columns] == [("医院",), ("比例", "在职"), ("比例", "退休")]
    assert found.rows[1] == ("二级", 0.9, 0.95)


# ── pdf ──────────────────────────────────────────────────────────────────────────────────────────


@needs_data
def test_wrapped_lines_of_a_pdf_are_paragraphs_again() -> None:
    file = parse(OFFICE / "kag_test_pdf.pdf", LIMITS)
    content = assemble(file).content
    assert "您也可以设定一声信号音来确认车辆是否已经锁止。可以通过车载电脑开启和关闭信号音。" in content
    assert "1. 车辆再次锁止。\n\n2. 防盗系统再次启用。" in content
    assert [page.page for page in assemble(file).pages] == [1, 2, 3, 4]


@needs_data
def test_a_book_loses_its_running_heads_and_keeps_its_outline() -> None:
    file = parse(OFFICE / "kag_KnowledgeGraphTutorialSub.pdf", LIMITS)
    text = assemble(file)
    titles = [mark.title for mark in text.marks]
    assert "1.1 什么是知识图谱" in titles
    assert not any("∣" in title for title in titles)
    assert text.content.count("∣知识图谱：方法、实践与应用") == 0


@needs_data
def test_ruled_tables_of_a_pdf() -> None:
    found = {table.columns[0].name: table for table in tables(parse(OFFICE / "langchain.pdf", LIMITS))}
    assert [column.name for column in found["Task"].columns] == ["Task", "Prompt"]
    assert found["Task"].texts[1][0] == "Writing a response"
    english = tables(parse(OFFICE / "mineru_demo3.pdf", LIMITS))
    nations = next(table for table in english if table.columns[0].name == "Nation")
    assert nations.rows[0] == ("Great Britain", 2, 1, 2)
    speeds = next(t for t in tables(parse(OFFICE / "mineru_demo2.pdf", LIMITS)) if t.columns[0].name == "Method")
    assert dict(zip((c.name for c in speeds.columns), speeds.rows[0], strict=True))["FPS2"] == 90


@needs_data
def test_a_scan_without_recognition_says_so() -> None:
    from qianxun.core.errors import Unreadable

    with pytest.raises(Unreadable, match="没有可收录的文字") as refused:
        parse(OFFICE / "mineru_small_ocr.pdf", LIMITS)
    assert "8 页没有文字层" in refused.value.hint


@pytest.mark.parametrize(
    ("module", "file", "extra"),
    [
        ("docx", "ocr_test.docx", "office"),
        ("pptx", "ocr_test.pptx", "office"),
        ("pypdfium2", "kag_test_pdf.pdf", "pdf"),
    ],
)
@needs_data
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str, file: str, extra: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtra) as missing:
        parse(OFFICE / file, LIMITS)
    assert missing.value.extra == extra


@pytest.mark.parametrize("before", ["", " " * 70_000, "<!--<x>-->" + " " * 70_000])
def test_a_document_type_is_refused_wherever_it_comes_before_the_first_element(tmp_path: Path, before: str) -> None:
    path = tmp_path / "实体.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f'<?xml version="1.0"?>{before}<!DOCTYPE x [<!ENTITY e "哈">]><x>&e;</x>')
    with pytest.raises(Unreadable, match="实体定义"):
        inspect(path, ParseLimits())


def test_a_part_in_two_byte_characters_is_read(tmp_path: Path) -> None:
    path = tmp_path / "宽.docx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", '<?xml version="1.0" encoding="UTF-16"?><x/>'.encode("utf-16"))
        archive.writestr("docProps/empty.xml", "")
    assert inspect(path, ParseLimits()) == ["word/document.xml", "docProps/empty.xml"]
