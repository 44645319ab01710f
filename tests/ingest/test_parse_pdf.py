"""PDF pages as they are written by hand: what is on them is taken in, and only heads and feet are left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pytest

from qianxun.core.types import Heading, Paragraph, ParsedFile, TableBlock
from qianxun.ingest.assemble import assemble
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.serial import from_json, to_json

LIMITS = ParseLimits(ocr=False)
_FONT = (
    "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UTF16-H /DescendantFonts [<< /Type /Font "
    "/Subtype /CIDFontType0 /BaseFont /STSong-Light /DW 1000 /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) "
    "/Supplement 5 >> >>] >>"
)


def text(x: int, y: int, words: str) -> str:
    return f"BT /F 10 Tf 1 0 0 1 {x} {y} Tm <{words.encode('utf-16-be').hex()}> Tj ET\n"


def pdf(path: Path, pages: Sequence[str], annotations: str = "", *more: str) -> ParsedFile:
    """A file with one content stream per page; ``annotations`` stand on every page, ``more`` objects behind all."""
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [] /DR << /Font << /F {_FONT} >> >> >> >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
    ]
    for at, content in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F {_FONT} >> >> "
            f"/Contents {4 + 2 * at} 0 R /Annots [{annotations}] >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}endstream")
    objects += more
    written = "%PDF-1.7\n"
    places = []
    for at, held in enumerate(objects, 1):
        places.append(len(written))
        written += f"{at} 0 obj\n{held}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    written += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    written += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{written.rindex('xref')}\n%%EOF"
    path.write_bytes(written.encode("latin-1"))
    return parse(path, LIMITS)


def lines(file: ParsedFile) -> list[str]:
    return [block.text for block in file.blocks if isinstance(block, Heading | Paragraph)]


def test_heads_and_page_numbers_go_and_the_figures_at_the_edges_of_pages_stay(tmp_path: Path) -> None:
    amounts = (1250, 380, 99, 4720, 615, 2300)
    file = pdf(
        tmp_path / "收据.pdf",
        [
            text(50, 800, "某某公司收据")
            + text(50, 780, f"收据编号：{73921 * (at + 3) % 100000}")
            + text(50, 760, f"今收到{name}公司货款。")
            + text(50, 740, f"合计金额：{amount} 元")
            + text(280, 30, f"第 {at + 1} 页 共 6 页")
            for at, (name, amount) in enumerate(zip("甲乙丙丁戊己", amounts, strict=True))
        ],
    )
    assert lines(file)[:4] == ["收据编号：21763", "今收到甲公司货款。", "合计金额：1250 元", "收据编号：95684"]
    assert [line for line in lines(file) if "合计" in line] == [f"合计金额：{amount} 元" for amount in amounts]


def test_a_clause_that_every_paragraph_ends_in_is_no_foot(tmp_path: Path) -> None:
    clause = "逾期未检的须说明原因，并签字后归档。"
    file = pdf(
        tmp_path / "手册.pdf",
        [
            text(50, 820, "某某公司 内部资料")
            + "".join(
                text(50, 780 - 60 * at, f"设备{page}{at}每周巡检，责任人为王强。") + text(50, 765 - 60 * at, clause)
                for at in range(8)
            )
            + text(280, 20, f"第 {page + 1} 页")
            for page in range(6)
        ],
    )
    whole = "".join(lines(file))
    assert whole.count(clause) == 6 * 8
    assert "内部资料" not in whole
    assert "页" not in whole


def test_a_title_that_the_head_of_every_page_repeats_stays(tmp_path: Path) -> None:
    rest = "".join(text(50, 700 - 20 * at, f"第{at}项说明各不相同。") for at in range(9))
    first = text(50, 820, "巡检手册") + text(50, 800, "甲公司") + text(50, 780, "乙部门") + text(50, 760, "巡检手册")
    pages = [first + rest, *(text(50, 820, "巡检手册") + rest for _ in range(4))]
    assert "".join(lines(pdf(tmp_path / "手册.pdf", pages))).count("巡检手册") == 1


def test_what_was_filled_into_a_form_or_typed_onto_a_page_is_taken_in(tmp_path: Path) -> None:
    filled, typed = ("\ufeff李四光".encode("utf-16-be").hex(), "\ufeff同意".encode("utf-16-be").hex())
    annotations = (
        f"<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V <{filled}> /DA (/F 10 Tf) /Rect [120 690 220 710] /F 4 >> "
        f"<< /Type /Annot /Subtype /FreeText /Contents <{typed}> /Rect [50 600 250 620] /AP << /N 5 0 R >> /F 4 >>"
    )
    shown = text(0, 5, "审批意见：同意")
    appearance = (
        f"<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F {_FONT} >> >> "
        f"/Length {len(shown)} >>\nstream\n{shown}endstream"
    )
    page = text(50, 695, "申请人姓名：")
    read = lines(pdf(tmp_path / "表单.pdf", [page], annotations, appearance))
    assert "".join(read).replace(" ", "") == "申请人姓名：李四光审批意见：同意"  # lines depend on the machine's fonts


def test_a_page_of_outlined_type_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    drawn = "".join(f"{50 + at * 14} 700 10 12 re f\n" for at in range(20))
    file = pdf(tmp_path / "转曲.pdf", [text(50, 700, "封面上的文字。"), drawn, ""])
    assert lines(file) == ["封面上的文字。"]
    assert file.warnings == ("1 页没有文字层，也未能识别（需要 qianxun[ocr] 并打开 ocr）",)


def ruled(rows: Sequence[Sequence[str]], top: int) -> str:
    """A table with lines around every cell."""
    places = (50, 200, 350, 500)
    drawn = "".join(f"50 {top - 20 * at} m 500 {top - 20 * at} l S\n" for at in range(len(rows) + 1))
    drawn += "".join(f"{x} {top} m {x} {top - 20 * len(rows)} l S\n" for x in places)
    cells = ((x, top - 20 * at - 14, cell) for at, row in enumerate(rows) for x, cell in zip(places, row, strict=False))
    return drawn + "".join(text(x + 4, y, cell) for x, y, cell in cells)


HEADER = ("姓名", "部门", "工资（元）")
STAFF = [
    (name, "研发部", str(5000 + 100 * at)) for at, name in enumerate(("张三", "李四", "王五", "赵六", "钱七", "孙八"))
]


@pytest.mark.parametrize("repeated", [True, False])
def test_a_table_that_goes_on_over_pages_is_one_table_and_its_rows_keep_their_pages(
    tmp_path: Path, repeated: bool
) -> None:
    again = [HEADER] if repeated else []
    file = pdf(
        tmp_path / "工资表.pdf",
        [
            text(50, 800, "表1 员工工资表") + ruled([HEADER, *STAFF[:2]], 780),
            text(50, 800, "续表1") + ruled([*again, *STAFF[2:4]], 780),
            ruled([*again, *STAFF[4:]], 780) + text(50, 600, "以上数据截至年底。"),
        ],
    )
    (block,) = (block for block in from_json(to_json(file)).blocks if isinstance(block, TableBlock))
    assert block.table.title == "表1 员工工资表"
    assert [column.name for column in block.table.columns] == list(HEADER)
    assert [row[2] for row in block.table.rows] == [5000, 5100, 5200, 5300, 5400, 5500]
    assert block.row_pages == (1, 1, 2, 2, 3, 3)
    pieces = ChunkSplitter(45, 0).pieces(assemble(file))
    assert {piece.page for piece in pieces if "钱七" in piece.body or "孙八" in piece.body} == {3}
    assert pieces[-1].page == 3


def test_a_sentence_above_a_table_is_not_its_title(tmp_path: Path) -> None:
    said = text(50, 800, "2 上传限制") + text(50, 770, "单次上传不超过 100 MB。")
    file = pdf(tmp_path / "接口.pdf", [said + ruled([HEADER, *STAFF[:2]], 740)])
    (block,) = (block for block in file.blocks if isinstance(block, TableBlock))
    assert block.table.title == "2 上传限制"


def test_another_table_on_the_next_page_stays_another(tmp_path: Path) -> None:
    other = [("产品", "型号", "数量"), ("水泵", "A1", "12"), ("阀门", "B2", "30")]
    file = pdf(tmp_path / "两张.pdf", [ruled([HEADER, *STAFF[:2]], 780), ruled(other, 780)])
    assert [len(block.table.rows) for block in file.blocks if isinstance(block, TableBlock)] == [2, 2]


def test_a_row_that_two_bills_have_in_common_is_no_repeated_header(tmp_path: Path) -> None:
    header = ("项目", "备注", "金额（元）")
    bills = [
        [header, ("房租", "无", "1200"), ("水费", "无", "35")],
        [header, ("房租", "无", "1200"), ("电费", "无", "80")],
    ]
    file = pdf(tmp_path / "账单.pdf", [ruled(bill, 780) for bill in bills])
    rows = [row[0] for block in file.blocks if isinstance(block, TableBlock) for row in block.table.rows]
    assert rows == ["房租", "水费", "房租", "电费"]


def test_forms_of_one_kind_on_pages_of_their_own_are_not_one_table(tmp_path: Path) -> None:
    people = (("张三", "财务部"), ("李四", "技术部"), ("王五", "市场部"), ("赵六", "行政部"))
    forms = [[("姓名", name, "照片"), ("部门", part, "职员"), ("学历", "本科", "党员")] for name, part in people]
    file = pdf(tmp_path / "登记表.pdf", [text(260, 800, "员工登记表") + ruled(form, 780) for form in forms])
    found = [block for block in file.blocks if isinstance(block, TableBlock)]
    assert [block.page for block in found] == [1, 2, 3, 4]


@pytest.mark.parametrize("foot", ["第 {} 页 共 {} 页", "Page {} of {}", "- {} -"])
def test_page_numbers_of_files_that_were_put_together_go_too(tmp_path: Path, foot: str) -> None:
    lengths = (2, 3, 2, 1, 2)
    feet = [foot.format(at, length) for length in lengths for at in range(1, length + 1)]
    said = ("甲方交货", "乙方付款", "双方保密", "违约赔偿", "争议仲裁", "协议终止", "附则", "清单", "签字", "盖章")
    file = pdf(tmp_path / "合订.pdf", [text(60, 700, said[at]) + text(260, 30, one) for at, one in enumerate(feet)])
    assert lines(file) == list(said)


LEFT = (
    "成人高血压按血压水平分级，收缩压在140～159mmHg为一级，收缩压在160～179mmHg为二级，收缩压达到180mmHg为三级。血压在非同日"
    "测量三次以后才作诊断，家庭自测血压的界值比诊室血压低五个毫米汞柱，动态血压监测又另有界值，三者不能混用，诊断时应写明所用的方法。"
)
RIGHT = (
    "生活方式干预对所有患者都适用，包括减少钠盐摄入，增加钾的摄入，合理膳食，控制体重，不吸烟，限制饮酒，增加运动，减轻精神压力，"
    "保持心理平衡。药物治疗从小剂量开始，优先使用长效制剂，必要时联合应用并且个体化，五类药物都可以作为初始用药，至少每三个月随访一次。"
)


def broken(paragraph: str, width: int = 22) -> list[str]:
    """Lines as they are set: a word of letters and digits is not broken, a mark does not begin a line."""
    rows = [""]
    for word in re.findall(r"(?:[0-9A-Za-z]+|.)[，。～]?", paragraph):
        if len(rows[-1] + word) > width:
            rows.append("")
        rows[-1] += word
    return rows


def columns(rows: Sequence[tuple[str, str]], apart: int = 0) -> str:
    """Two columns, written from row to row; the right one may stand a little lower."""
    return "".join(
        text(50, 760 - 14 * at, left) + text(310, 760 - 14 * at - apart, right) for at, (left, right) in enumerate(rows)
    )


@pytest.mark.parametrize("apart", [0, 4])
def test_columns_are_read_one_after_the_other_and_no_figure_is_cut_apart(tmp_path: Path, apart: int) -> None:
    page = text(150, 800, "高血压防治要点") + columns(
        list(zip_longest(broken(LEFT), broken(RIGHT), fillvalue="")), apart
    )
    assert lines(pdf(tmp_path / "双栏.pdf", [page])) == ["高血压防治要点", LEFT, RIGHT]


def test_what_stands_side_by_side_without_being_columns_of_text_stays_in_its_rows(tmp_path: Path) -> None:
    prices = [(f"第{name}号套餐", f"每月{at}9元，流量{at}0GB") for at, name in enumerate("甲乙丙丁戊己庚辛", 1)]
    assert lines(pdf(tmp_path / "价目.pdf", [columns(prices)])) == [" ".join(row) for row in prices]


@pytest.mark.parametrize("pages", [2, 3])
def test_heads_and_feet_of_a_short_document_go_and_its_titles_stay(tmp_path: Path, pages: int) -> None:
    head, foot = "医保经办手册 内部资料", "市医保中心 第 {} 页 共 {} 页"
    body = ["住院备案在入院三日内办理。", "门诊慢特病每年复审一次。", "异地就医先备案，后结算。"]
    file = pdf(
        tmp_path / "手册.pdf",
        [
            # Word writes heads and feet in front of the text.
            text(200, 810, head)
            + text(200, 25, foot.format(at + 1, pages))
            + text(250, 800, "二〇二四年版")
            + text(60, 730, "填写须知").replace("/F 10 Tf", "/F 16 Tf")
            + text(60, 700, body[at])
            + text(60, 680, "办理时请带身份证。")
            for at in range(pages)
        ],
    )
    assert lines(file) == [line for at in range(pages) for line in ("填写须知", body[at], "办理时请带身份证。")]


def test_the_number_of_a_single_page_goes_and_a_number_in_the_text_stays(tmp_path: Path) -> None:
    page = text(60, 700, "第 1 页") + text(60, 660, "本文件有效期一年。") + text(290, 30, "- 1 -")
    assert lines(pdf(tmp_path / "一页.pdf", [page])) == ["第 1 页", "本文件有效期一年。"]
