"""Pictures and scans: the right words in the right rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.ingest.recognised import PICTURES, as_written_down
from tests.shared import DATA, needs_data, needs_ocr

from qianxun.core.types import Paragraph, Table, TableBlock
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits

LIMITS = ParseLimits()
OFFICE = DATA / "ingest/office_pdf"
pytestmark = [needs_data, needs_ocr]


TableIn = Callable[[str], Table]


@pytest.fixture(params=["written down", pytest.param("recognised", marks=pytest.mark.long)])
def table_in(request: pytest.FixtureRequest) -> TableIn:
    """The table made of a picture and of what was once recognised in it, or is now."""

    def made(name: str) -> Table:
        with as_written_down(name) if request.param == "written down" else nullcontext():
            found = [block.table for block in parse(PICTURES / name, LIMITS).blocks if isinstance(block, TableBlock)]
        assert len(found) == 1
        return found[0]

    return made


def test_a_table_without_upright_lines(table_in: TableIn) -> None:
    table = table_in("tsr_lineless_table_recognition.jpg")
    assert [column.name for column in table.columns][:5] == ["姓名", "年龄", "性别", "身高/m", "体重/kg"]
    assert [row[:5] for row in table.rows[:3]] == [
        ("Duke", 34, "男", 1.74, 70),
        ("Ella", 26, "女", 1.6, 58),
        ("Eartha", 8, "女", 1.34, 29),
    ]
    assert len(table.rows) == 8


def test_merged_headers_and_a_caption(table_in: TableIn) -> None:
    table = table_in("tsr_row_span.png")
    assert table.title == "果园收成表"
    assert [column.path for column in table.columns] == [
        ("名称",), ("产量 (吨)",), ("环比", "增长量(吨)"), ("环比", "增长率(%)"),
    ]  # fmt: skip
    assert table.rows[0] == ("荔枝", 11, 1, 0.1)
    assert table.rows[2] == ("香蕉", 6, 1, 0.2)


def test_a_table_that_rules_only_its_head(table_in: TableIn) -> None:
    table = table_in("tsr_table.jpg")
    assert [column.name for column in table.columns] == ["Methods", "R", "P", "F", "FPS"]
    assert table.texts[0] == ("SegLink [26]", "70.0", "86.0", "77.0", "8.9")
    assert table.texts[10] == ("PAN [34]", "83.8", "84.4", "84.1", "30.2")


def test_a_ruled_table_with_a_title_row(table_in: TableIn) -> None:
    table = table_in("tsr_table3.jpg")
    assert [column.name for column in table.columns][1] == "产品描述"
    assert len(table.rows) == 7
    assert table.texts[4][1] == "财务报表智能分类、识别、提取、匹配、试算产品"
    assert table.texts[5][0].endswith("合同比对机器人")


def test_merged_cells_down_the_side(table_in: TableIn) -> None:
    table = table_in("tsr_wired_table.png")
    assert "步兵班战斗编组表" in table.title
    assert [row[0] for row in table.texts] == ["编两个组", "编两个组", "编三个组", "编三个组"]
    assert table.texts[0][2].startswith("第一组(5人)：班长、火箭筒正副射手、机枪正副射手。")
    assert table.notes == "注：此表为8、9人步兵班编组方案。"


def test_headers_of_two_lines(table_in: TableIn) -> None:
    table = table_in("tsr_lineless_table.png")
    assert [column.name for column in table.columns][2:] == ["Molecular weight cut-off (kDa)", "Pore size (nm)"]
    assert [row[0] for row in table.rows] == ["CA1", "CA5"]
    assert [row[2:] for row in table.rows] == [(2, 2), (75, 10)]


def test_a_picture_is_read_upright_by_its_exif_orientation() -> None:
    assert parse(PICTURES / "rapidocr_img_exif_orientation.jpg", LIMITS).blocks == (Paragraph("我是中国人"),)
    labels = [block.text for block in parse(OFFICE / "ocr_test.jpg", LIMITS).blocks if isinstance(block, Paragraph)]
    assert sorted(labels) == ["English text", "横向文本框", "竖向文本框"]


@pytest.mark.long
def test_a_scanned_page_reads_as_paragraphs(tmp_path: Path) -> None:
    """The upper half of one page of the scan: recognition takes seconds a page."""
    pdfium = pytest.importorskip("pypdfium2")
    scan, page = pdfium.PdfDocument(OFFICE / "mineru_small_ocr.pdf"), pdfium.PdfDocument.new()
    page.import_pages(scan, [1])
    width, height = page[0].get_size()
    page[0].set_mediabox(0, height / 2, width, height)
    page[0].set_cropbox(0, height / 2, width, height)
    page.save(tmp_path / "page.pdf")
    file = parse(tmp_path / "page.pdf", LIMITS)
    content = assemble(file).content
    assert file.metadata == {"pages": 1, "ocr_pages": 1}
    assert "我们再拿两种商品例如小麦和铁来说。不管二者的交换比例怎样，总是可以用一个等式来表示" in content
    assert "某种特殊的商品，例如一夸特小麦，按各种极不相同的比例同别的商品交换。" in content


def test_pictures_inside_a_document_are_read() -> None:
    content = assemble(parse(OFFICE / "ocr_test.docx", LIMITS)).content
    assert "我是文字" in content
    assert "横向文本框" in content
