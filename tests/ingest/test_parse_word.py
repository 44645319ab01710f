"""What Word shows and its text does not hold: counted numbers, notes, equations, content controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qianxun.core.types import Heading, Paragraph, TableBlock
from qianxun.ingest.parse import parse
from qianxun.ingest.parse.office.word_numbering import shown_number
from qianxun.ingest.sandbox.limits import ParseLimits

LIMITS = ParseLimits(ocr=False)
_NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)


def element(xml: str) -> Any:
    from docx.oxml import parse_xml

    name, rest = xml[1:].split(">", 1)
    return parse_xml(f"<{name} {_NAMESPACES}>{rest}")


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def written(path: Path, *body: str, numbering: tuple[str, ...] = (), notes: str = "") -> list[str]:
    """The blocks of a document with this body, as lines."""
    import docx
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    document = docx.Document()
    root = document.part.numbering_part.element
    for one in numbering:
        root.insert(0, element(one)) if one.startswith("<w:abstractNum ") else root.append(element(one))
    for one in body:
        document.element.body.insert(len(document.element.body) - 1, element(one))
    if notes:
        kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
        blob = f"<w:footnotes {_NAMESPACES}>{notes}</w:footnotes>".encode()
        part = Part(PackURI("/word/footnotes.xml"), kind, blob, document.part.package)
        document.part.relate_to(part, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes")
    document.save(str(path))
    return [shown(block) for block in parse(path, LIMITS).blocks]


def shown(block: Heading | Paragraph | TableBlock) -> str:
    if isinstance(block, TableBlock):
        return str(block.table.texts)
    return f"{'#' * block.level} {block.text}" if isinstance(block, Heading) else block.text


def level(depth: int, format: str, text: str, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{format}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def numbered(text: str, number: int, depth: int, style: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    counted = f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>'
    return f"<w:p><w:pPr>{named}{counted}</w:pPr>{run(text) if text else ''}</w:p>"


def cells(left: str, right: str) -> str:
    return f"<w:tr><w:tc>{left}</w:tc><w:tc>{right}</w:tc></w:tr>"


LISTS = (
    '<w:abstractNum w:abstractNumId="90">'
    + level(0, "chineseCountingThousand", "第%1章")
    + level(1, "decimal", "%1.%2", "<w:isLgl/>")
    + level(2, "chineseCountingThousand", "（%3）")
    + "</w:abstractNum>",
    '<w:abstractNum w:abstractNumId="91">' + level(0, "chineseCounting", "第%1条") + "</w:abstractNum>",
    '<w:abstractNum w:abstractNumId="92">' + level(0, "bullet", "•") + "</w:abstractNum>",
    '<w:num w:numId="90"><w:abstractNumId w:val="90"/></w:num>',
    '<w:num w:numId="91"><w:abstractNumId w:val="91"/></w:num>',
    '<w:num w:numId="92"><w:abstractNumId w:val="92"/></w:num>',
    '<w:num w:numId="93"><w:abstractNumId w:val="91"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>'
    "</w:lvlOverride></w:num>",
)


def test_the_numbers_that_word_counts_stand_before_headings_clauses_and_in_cells(tmp_path: Path) -> None:
    rows = cells(f"<w:p>{run('条')}</w:p>", f"<w:p>{run('名称')}</w:p>") + "".join(
        cells(numbered("", 93, 0), f"<w:p>{run(name)}</w:p>") for name in ("甲公司", "乙公司")
    )
    assert written(
        tmp_path / "a.docx",
        numbered("总则", 90, 0, "Heading1"),
        numbered("范围", 90, 1, "Heading2"),
        numbered("甲方应当在三十日内付款。", 91, 0),
        numbered("乙方应当按期交货。", 91, 0),
        numbered("附则", 90, 0, "Heading1"),
        numbered("解释", 90, 1, "Heading2"),
        numbered("由人事部解释。", 90, 2),
        numbered("要点。", 92, 0),
        f"<w:tbl><w:tblPr/><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid>{rows}</w:tbl>",
        numbering=LISTS,
    ) == [
        "# 第一章 总则", "## 1.1 范围", "第一条 甲方应当在三十日内付款。", "第二条 乙方应当按期交货。", "# 第二章 附则",
        "## 2.1 解释", "（一）由人事部解释。", "要点。", "(('第一条', '甲公司'), ('第二条', '乙公司'))",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "format", "written"),
    [
        (10, "chineseCounting", "十"),
        (21, "chineseCountingThousand", "二十一"),
        (105, "chineseCountingThousand", "一百〇五"),
        (110, "chineseCountingThousand", "一百一十"),
        (1001, "chineseCountingThousand", "一千〇一"),
        (12, "chineseLegalSimplified", "拾贰"),
        (3, "decimalEnclosedCircleChinese", "③"),
        (2, "ideographTraditional", "乙"),
        (28, "lowerLetter", "bb"),
        (49, "upperRoman", "XLIX"),
        (7, "decimalZero", "07"),
        (7, "thaiNumbers", "7"),
    ],
)
def test_numbers_are_written_as_word_writes_them(number: int, format: str, written: str) -> None:
    assert shown_number(number, format) == written


def test_notes_equations_signs_and_content_controls_are_taken_in(tmp_path: Path) -> None:
    square = "<m:sSup><m:e><m:r><m:t>r</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    share = "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    tick = '<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>'
    control = "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>"
    name, value = f"<w:tc><w:p>{run('姓名')}</w:p></w:tc>", f"<w:tc><w:p>{run('张三丰')}</w:p></w:tc>"
    section, place = f"<w:tc><w:p>{run('部门')}</w:p></w:tc>", f"<w:tc><w:p>{run('研发中心')}</w:p></w:tc>"
    header = f"<w:tr><w:tc><w:p>{run('项目')}</w:p></w:tc><w:tc><w:p>{run('内容')}</w:p></w:tc></w:tr>"
    rows = f"{header}<w:tr>{name}{control.format(value)}</w:tr>" + control.format(f"<w:tr>{section}{place}</w:tr>")
    assert written(
        tmp_path / "a.docx",
        f'<w:p>{run("保修期为两年")}<w:r><w:footnoteReference w:id="2"/></w:r>{run("。")}</w:p>',
        f"<w:p>{run('面积')}<m:oMath><m:r><m:t>S=π</m:t></m:r>{square}</m:oMath>{run('，均值')}"
        f"<m:oMath>{share}</m:oMath></w:p>",
        f"<w:p>{run('电话 010')}<w:r><w:noBreakHyphen/></w:r>{run('88886666')}{tick}{run('同意')}</w:p>",
        f"<w:tbl><w:tblPr/><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid>{rows}</w:tbl>",
        f"<w:customXml><w:p>{run('包着的一段')}</w:p></w:customXml>",
        notes=f'<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r>{run("自签收之日起计算。")}</w:p></w:footnote>',
    ) == [
        "保修期为两年。", "注：自签收之日起计算。", "面积S=πr^2，均值(a+b)/2", "电话 010-88886666☑同意",
        "(('姓名', '张三丰'), ('部门', '研发中心'))", "包着的一段",
    ]  # fmt: skip


def test_a_power_is_no_longer_number(tmp_path: Path) -> None:
    high = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{}</w:t></w:r>'
    body = run("白细胞 4×10") + high.format("9") + run("/L，据统计") + high.format("1") + run("。")
    assert written(tmp_path / "a.docx", f"<w:p>{body}</w:p>") == ["白细胞 4×10⁹/L，据统计1。"]


def test_a_style_that_only_says_its_level_takes_the_list_from_the_one_it_is_based_on(tmp_path: Path) -> None:
    import docx
    from docx.oxml import parse_xml

    document = docx.Document()
    root = document.part.numbering_part.element
    root.insert(0, element(LISTS[0]))
    root.append(element(LISTS[3]))
    for name, more in (
        ("H1", '<w:pPr><w:numPr><w:numId w:val="90"/></w:numPr></w:pPr>'),
        ("H2", '<w:basedOn w:val="H1"/><w:pPr><w:numPr><w:ilvl w:val="1"/></w:numPr></w:pPr>'),
    ):
        style = f'<w:style {_NAMESPACES} w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/>{more}</w:style>'
        document.styles.element.append(parse_xml(style))
    for name, words in (("H1", "总则"), ("H2", "目的"), ("H2", "范围"), ("H1", "分则"), ("H2", "职责")):
        styled = f'<w:p><w:pPr><w:pStyle w:val="{name}"/></w:pPr>{run(words)}</w:p>'
        document.element.body.insert(len(document.element.body) - 1, element(styled))
    document.save(str(tmp_path / "a.docx"))
    shown_lines = [shown(block) for block in parse(tmp_path / "a.docx", LIMITS).blocks]
    assert shown_lines == ["## 第一章 总则", "1.1 目的", "1.2 范围", "## 第二章 分则", "2.1 职责"]


def test_damaged_notes_cost_no_document(tmp_path: Path) -> None:
    body = f'<w:p>{run("正文")}<w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    assert written(tmp_path / "a.docx", body, notes='<w:footnote w:id="2"><w:p>') == ["正文"]
    (warning,) = parse(tmp_path / "a.docx", LIMITS).warnings
    assert "脚注已损坏" in warning
