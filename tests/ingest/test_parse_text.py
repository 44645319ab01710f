"""Plain text, Markdown, HTML, CSV and JSON: the right characters, the right structure."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.shared import DATA, needs_data

from qianxun.core.errors import Refused, TooLarge, Unreadable, UnsupportedFile
from qianxun.core.types import Heading, Paragraph, ParsedFile, QAPair, TableBlock
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse import parse
from qianxun.ingest.parse.sniff import OldFormat, sniff
from qianxun.ingest.preprocess import TextPreprocessor
from qianxun.ingest.sandbox.limits import ParseLimits

LIMITS = ParseLimits()
INGEST = DATA / "ingest"
SIMPLIFIED = "高血压患者能吃党参吗？医保报销比例为85%，血压应低于140/90mmHg。"
TRADITIONAL = "發票開立後，請於七日內寄送給買受人。本公司保留變更的權利。"


def parsed(path: Path, content: bytes | str) -> ParsedFile:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return parse(path, LIMITS)


def tables(file: ParsedFile) -> list[TableBlock]:
    return [block for block in file.blocks if isinstance(block, TableBlock)]


# ── encodings ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "codec", "named"),
    [
        (SIMPLIFIED, "utf-8", "utf-8"),
        (SIMPLIFIED, "utf-8-sig", "utf-8"),
        (SIMPLIFIED, "utf-16", "utf-16"),
        (SIMPLIFIED + "\n123 abc 456\n", "utf-16-le", "utf-16-le"),
        (SIMPLIFIED + "\n123 abc 456\n", "utf-16-be", "utf-16-be"),
        (SIMPLIFIED, "gb18030", "gb18030"),
        ("中文", "gbk", "gb18030"),
        ("价格：￥12.50", "gbk", "gb18030"),
        ("汉字㐀𠀀都在", "gb18030", "gb18030"),
        (TRADITIONAL, "gb18030", "gb18030"),
        (TRADITIONAL, "big5", "big5"),
        ("臺灣", "big5", "big5"),
        ("測試", "big5", "big5"),
        ("發票", "big5", "big5"),
        ("plain ASCII text", "ascii", "utf-8"),
    ],
)
def test_text_is_read_in_the_encoding_it_was_written_in(tmp_path: Path, text: str, codec: str, named: str) -> None:
    file = parsed(tmp_path / "a.txt", text.encode(codec))
    assert assemble(file).content == text.strip()
    assert file.metadata["encoding"] == named


@needs_data
@pytest.mark.parametrize(("codec", "named"), [("gb18030", "gb18030"), ("big5", "big5"), ("utf-16", "utf-16")])
def test_every_stretch_of_a_real_novel_is_recognised_whatever_its_encoding(
    tmp_path: Path, codec: str, named: str
) -> None:
    import opencc

    novel = (INGEST / "novels/三国演义.txt").read_text("utf-8")
    if codec == "big5":
        novel = opencc.OpenCC("s2t").convert(novel[:200_000])
    wrong = []
    for start in range(3_000, 180_000, 3_000):
        for length in (12, 40, 400):
            written = novel[start : start + length].encode(codec, "ignore")
            text = written.decode(codec).strip()
            file = parsed(tmp_path / "a.txt", written)
            if file.metadata["encoding"] != named:
                wrong.append(text)
    assert len(wrong) <= 2, wrong  # of 177; twelve characters can be undecidable


def test_a_few_broken_bytes_do_not_cost_the_file(tmp_path: Path) -> None:
    content = (SIMPLIFIED * 200).encode("utf-8")
    file = parsed(tmp_path / "a.txt", content[:3000] + b"\xff" + content[3000:])
    assert "无法按 utf-8 解读" in file.warnings[0]
    assert "医保报销比例" in assemble(file).content


# ── plain text ───────────────────────────────────────────────────────────────────────────────────


@needs_data
def test_a_novel_has_a_heading_per_chapter() -> None:
    text = assemble(parse(INGEST / "novels/三国演义.txt", LIMITS))
    headings = [mark.title for mark in text.marks]
    assert len(headings) == 120
    assert headings[0] == "第一回 宴桃园豪杰三结义 斩黄巾英雄首立功"
    assert headings[119] == "第一百二十回 荐杜预老将献新谋 降孙皓三分归一统"
    assert "话说天下大势，分久必合，合久必分。" in text.content
    assert all(text.content[mark.start :].startswith(mark.title) for mark in text.marks)


@needs_data
def test_a_table_of_contents_is_not_a_hundred_empty_chapters() -> None:
    assert len(assemble(parse(INGEST / "novels/歇浦潮.txt", LIMITS)).marks) == 100


def test_a_sentence_about_a_chapter_is_no_heading(tmp_path: Path) -> None:
    file = parsed(
        tmp_path / "a.txt",
        "第三章 合同的效力\n\n第三章规定，合同自成立时生效。\n\n第五章主要介绍知识图谱的概念、历史与应用\n",
    )
    assert [mark.title for mark in assemble(file).marks] == ["第三章 合同的效力"]


# ── markdown ─────────────────────────────────────────────────────────────────────────────────────


@needs_data
def test_the_civil_code_keeps_its_outline_and_loses_its_comments() -> None:
    text = assemble(parse(INGEST / "markdown/民法典/合同编.md", LIMITS))
    assert "INFO END" not in text.content
    assert "第四百六十四条 合同是民事主体之间设立、变更、终止民事法律关系的协议。" in text.content
    assert ("第二章 合同的订立", 3) in [(mark.title, mark.level) for mark in text.marks]


def test_markdown_gives_tables_lists_and_code(tmp_path: Path) -> None:
    source = (
        "---\ntitle: 报销说明\n---\n\n## 比例\n\n| 项目 | 比例 | 限额（元） |\n|---|---|---|\n| 住院 | 85% | 1,000 |\n"
        "| 门诊 | 60% | 500 |\n\n1. 先**登记**\n2. 后[报销](http://example.com/x)\n\n```python\nif a:\n    b = 1\n```\n"
    )
    file = parsed(tmp_path / "a.md", source)
    table = tables(file)[0].table
    assert file.title == "报销说明"
    assert [column.kind for column in table.columns] == ["text", "percent", "money"]
    assert table.rows == (("住院", 0.85, 1000), ("门诊", 0.6, 500))
    assert table.texts[0] == ("住院", "85%", "1,000")
    content = assemble(file).content
    assert "1. 先登记\n2. 后报销" in content
    assert "if a:\n    b = 1" in content


def test_markdown_keeps_escaped_characters_entities_and_footnotes(tmp_path: Path) -> None:
    source = (
        "# user\\_name 字段\n\n肌酐 &lt;5 且 A&amp;B，共 3\\*4 项\\[注\\]，保修两年[^1]，见[说明][ref]。\n\n"
        "| 键 | 值 |\n|---|---|\n| user\\_id | &ge;3 |\n\n[^1]: 自签收之日起计算。\n\n[ref]: https://example.com/x\n"
    )
    file = parsed(tmp_path / "a.md", source)
    content = assemble(file).content
    assert file.title == "user_name 字段"
    assert "肌酐 <5 且 A&B，共 3*4 项[注]，保修两年[^1]，见说明。" in content
    assert tables(file)[0].table.texts == (("user_id", "≥3"),)
    assert content.endswith("[^1]: 自签收之日起计算。")
    assert "[^1]: 自签收之日起计算。" in TextPreprocessor().preprocess(source, "markdown")


def test_a_table_in_html_inside_markdown_is_a_table(tmp_path: Path) -> None:
    source = (
        "前文\n\n<table><tr><td>项目</td><td>价（元）</td></tr><tr><td>甲</td><td>5</td></tr></table>\n\n<br>\n\n后文\n"
    )
    file = parsed(tmp_path / "a.md", source)
    assert [type(block) for block in file.blocks] == [Paragraph, TableBlock, Paragraph]
    assert tables(file)[0].table.rows == (("甲", 5),)


# ── html ─────────────────────────────────────────────────────────────────────────────────────────


def test_html_keeps_what_a_reader_reads(tmp_path: Path) -> None:
    source = (
        "<html><head><title>T</title><style>p{}</style></head><body><nav><a href=/>首页</a></nav>"
        "<ul class=menu><li><a>一</a><li><a>二</a><li><a>三</a><li><a>四</a></ul>"
        "<h1>医保<b>政策</b></h1><script>alert('坏')</script><p>第一段&nbsp;&lt;正文&gt;<br>换行</p>"
        "<div style='display: none'>看不见</div><p>第二段</p></body></html>"
    )
    file = parsed(tmp_path / "a.html", source)
    assert file.blocks == (Heading("医保政策", 1), Paragraph("第一段 <正文>\n换行"), Paragraph("第二段"))


def test_rowspan_and_colspan_become_header_paths_and_repeated_cells(tmp_path: Path) -> None:
    source = (
        "<table><caption>销售</caption><tr><th rowspan=2>地区</th><th colspan=2>2023年</th></tr>"
        "<tr><th>销售额（万元）</th><th>增长</th></tr>"
        "<tr><td rowspan=2>华东</td><td>1,200.5</td><td>5%</td></tr><tr><td>-30</td><td>-1.5%</td></tr></table>"
    )
    table = tables(parsed(tmp_path / "a.html", source))[0].table
    assert table.title == "销售"
    assert [column.path for column in table.columns] == [("地区",), ("2023年", "销售额（万元）"), ("2023年", "增长")]
    assert [(column.kind, column.unit) for column in table.columns[1:]] == [("money", "万元"), ("percent", "")]
    assert table.rows == (("华东", 1200.5, 0.05), ("华东", -30, -0.015))


def test_the_charset_a_page_declares_is_used_and_a_lying_one_is_not(tmp_path: Path) -> None:
    page = "<html><head><meta charset='{}'></head><body><p>中文网页</p></body></html>"
    honest = parsed(tmp_path / "a.html", page.format("gb2312").encode("gbk"))
    lying = parsed(tmp_path / "b.html", page.format("gb2312").encode("utf-8"))
    assert honest.blocks == lying.blocks == (Paragraph("中文网页"),)


@needs_data
def test_admission_pages_answer_their_questions() -> None:
    """Of every page whose question names a row and a column, the cell there is the answer; what all have is gone."""
    checked = 0
    pages = Counter[str]()
    for answer_file in sorted((INGEST / "html").glob("*.qa.json")):
        asked = json.loads(answer_file.read_text("utf-8"))
        file = parse(answer_file.with_name(answer_file.name.replace(".qa.json", ".html")), LIMITS)
        answers = {option for options in asked["answers"] for option in options}
        pages.update({block.text for block in file.blocks if isinstance(block, Heading | Paragraph)})
        for block in tables(file):
            checked += _check_scores(block, asked["question"], answers)
    assert checked >= 40
    assert {line: count for line, count in pages.items() if count > 20} == {}
    assert pages["2020年度录取分数线"] == 20


def _check_scores(block: TableBlock, question: str, answers: set[str]) -> int:
    names = [column.name for column in block.table.columns]
    branch = "文史/历史类" if ("文史" in question or "历史" in question) else "理工/物理类"
    wanted = branch + ("最高" if "最高" in question else "最低")
    if wanted not in names:
        return 0
    labels = sorted((row[0] for row in block.table.texts if row[0] and row[0] in question), key=len)
    if not labels:
        return 0
    row = next(row for row in block.table.texts if row[0] == labels[-1])
    assert row[names.index(wanted)] in answers, question
    return 1


LINKS = "".join(f"<li><a href=/{at}>关于{name}工作安排的第{at}号通知</a></li>" for at, name in enumerate("甲乙丙丁"))
TEXT = "<p>职工医保住院报销比例为百分之八十五，退休人员为百分之九十，起付线以上的部分按此计算。</p>" * 3


def shown(path: Path, body: str) -> str:
    return assemble(parsed(path, f"<html><head><title>医保</title></head><body>{body}</body></html>")).content


def test_heads_menus_breadcrumbs_side_columns_and_feet_of_a_page_go(tmp_path: Path) -> None:
    content = shown(
        tmp_path / "a.html",
        "<header><h1>某市医保局</h1><a href=/>首页</a><p>欢迎访问</p></header>"
        "<div>您现在的位置：<a href=/>首页</a> &gt; <a href=/n>政策</a> &gt; 正文</div>"
        f"<div><div><article><h1>报销比例</h1>{TEXT}<div><h4>相关阅读</h4><ul>{LINKS}</ul></div></article></div>"
        f"<div class=col-3><h3>公示专栏</h3><ul>{LINKS}</ul></div></div>"
        "<div class=share><span>分享到：</span><a></a></div><p>上一篇：<a>去年的比例</a></p>"
        "<div class=page-foot><h5>联系我们</h5><p>12393</p></div>"
        "<div><p>版权所有 © 2024 某市医保局 京ICP备12345678号</p></div><p><a href=#>返回顶部</a></p>",
    )
    assert content.startswith("报销比例\n\n职工医保住院报销比例")
    assert content.endswith("按此计算。")


def test_text_that_only_looks_like_the_edge_of_a_page_stays(tmp_path: Path) -> None:
    index = shown(tmp_path / "index.html", f"<h2>最新动态</h2><ul>{LINKS}</ul><p>版权所有 © 2024</p>")
    assert "关于丁工作安排的第3号通知" in index
    flow = shown(tmp_path / "flow.html", f"<div>{TEXT}<div><p>附件：</p><ul>{LINKS}</ul></div><p>特此通知</p></div>")
    assert "第3号通知" in flow
    assert flow.endswith("特此通知")
    law = shown(
        tmp_path / "law.html",
        "<div class=bottom><p>作品上写明“版权所有”或者 Copyright 的，不影响著作权自创作完成之日起产生，"
        "也不影响署名权的行使。</p></div>",
    )
    assert "署名权" in law
    plain = shown(tmp_path / "plain.html", "<header><h1>报销须知</h1><p>2024年3月1日</p></header><p>住院报销85%</p>")
    assert plain.split() == ["报销须知", "2024年3月1日", "住院报销85%"]


@needs_data
def test_a_page_with_spans_gives_its_fees() -> None:
    file = parse(INGEST / "html/ruc_65.html", LIMITS)
    assert file.title == "中国人民大学2024年澳门保送生招生简章"
    first = tables(file)[0].table
    assert [column.name for column in first.columns] == ["序号", "招生专业", "所属院系", "教学环节专业"]
    assert first.rows[0][:3] == (1, "○统计学类", "统计学院")
    content = assemble(file).content
    assert "版权所有" not in content
    assert "javascript" not in content


# ── csv ──────────────────────────────────────────────────────────────────────────────────────────


@needs_data
def test_the_gbk_csv_gives_its_cells_and_its_questions() -> None:
    file = parse(INGEST / "encoding/toyhom_gbk.csv", LIMITS)
    table = tables(file)[0].table
    assert file.metadata == {"encoding": "gb18030", "delimiter": ","}
    assert [column.name for column in table.columns] == ["department", "title", "ask", "answer"]
    assert table.texts[0][:2] == ("心血管科", "高血压患者能吃党参吗？")
    assert table.texts[0][3].startswith("高血压病人可以口服党参的。")
    assert len(file.pairs) == len(table.rows)
    assert file.pairs[0].question.startswith("高血压患者能吃党参吗？\n我有高血压这两天女婿来的时候")


@needs_data
def test_government_tables_are_typed() -> None:
    table = tables(parse(INGEST / "csv_kg/加油站.csv", LIMITS))[0].table
    kinds = {column.name: column.kind for column in table.columns}
    assert kinds["buildTime"] == "date"
    assert kinds["latitude"] == "number"
    assert kinds["isMajorDangerSource"] == "boolean"
    first = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
    assert (first["name"], first["buildTime"]) == ("嘉兴市加油加气站有限公司东栅站", "2011-03-17")


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_the_delimiter_is_recognised(tmp_path: Path, delimiter: str) -> None:
    rows = [["姓名", "电话", "备注"], ["张三", "0571-1", '他说"好,的"；行'], ["李四", "13800000000", "两\n行"]]
    source = "\n".join(delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    table = tables(parsed(tmp_path / "a.csv", source))[0].table
    assert table.texts[0] == ("张三", "0571-1", '他说"好,的"；行')
    assert table.columns[1].kind == "text"


def test_a_table_of_a_hundred_thousand_columns_is_kept_as_text(tmp_path: Path) -> None:
    """A question is compared with the name of each column of the tables it finds: of these it took three seconds."""
    wide = [",".join(f"{row}{column}" for column in range(100_000)) for row in "甲乙"]
    file = parsed(tmp_path / "a.csv", "\n".join(wide))
    assert not tables(file)
    assert "甲99999" in assemble(file).content
    assert "乙99999" in assemble(file).content


def test_a_csv_without_header_has_none(tmp_path: Path) -> None:
    table = tables(parsed(tmp_path / "a.csv", "张三,18,3.5\n李四,20,4.0\n王五,19,2.5\n"))[0].table
    assert [column.path for column in table.columns] == [(), (), ()]
    assert table.rows[0] == ("张三", 18, 3.5)


def test_too_many_cells_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 100, "utf-8")
    with pytest.raises(TooLarge, match="单元格"):
        parse(path, ParseLimits(cells=100))


# ── json ─────────────────────────────────────────────────────────────────────────────────────────


def test_flat_objects_become_a_table(tmp_path: Path) -> None:
    file = parsed(tmp_path / "a.json", json.dumps([{"名称": "苹果", "价格": 3.5}, {"名称": "梨", "产地": "河北"}]))
    table = tables(file)[0].table
    assert [column.name for column in table.columns] == ["名称", "价格", "产地"]
    assert table.rows == (("苹果", 3.5, None), ("梨", None, "河北"))


@pytest.mark.parametrize(
    ("question", "answer"), [("question", "answer"), ("问题", "答案"), ("instruction", "output"), ("query", "response")]
)
def test_questions_and_answers_become_pairs(tmp_path: Path, question: str, answer: str) -> None:
    lines = [{question: f"问{i}？", answer: f"答{i}。", "id": i} for i in range(3)]
    file = parsed(tmp_path / "a.jsonl", "\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    assert file.pairs == tuple(QAPair(f"问{i}？", f"答{i}。") for i in range(3))


def test_nested_json_reads_as_paths(tmp_path: Path) -> None:
    file = parsed(tmp_path / "a.json", '{"订单": {"明细": [{"名称": "苹果", "数量": 2}], "备注": null}}')
    assert assemble(file).content == "订单.明细[0].名称：苹果\n订单.明细[0].数量：2"


def test_a_number_of_thousands_of_digits_is_kept_as_written(tmp_path: Path) -> None:
    """Python makes no integer of it; the rest of the document is worth no less."""
    digits = "9" * 5_000
    file = parsed(tmp_path / "a.json", f'{{"订单": {{"编号": {digits}, "数量": 2}}, "备注": null}}')
    assert assemble(file).content == f"订单.编号：{digits}\n订单.数量：2"


def test_a_broken_line_of_json_lines_is_said_and_skipped(tmp_path: Path) -> None:
    file = parsed(tmp_path / "a.jsonl", '{"a": "1", "b": "x"}\n{bad\n{"a": "2", "b": "y"}\n')
    assert file.warnings == ("有 1 行不是有效的 JSON，已跳过",)


# ── names that lie ───────────────────────────────────────────────────────────────────────────────


def test_content_counts_more_than_the_name(tmp_path: Path) -> None:
    rows = "<tr><td>姓名</td><td>分</td></tr><tr><td>甲</td><td>9</td></tr>"
    file = parsed(tmp_path / "报表.xls", f"<html><table>{rows}</table>")
    assert file.format == "html"
    assert "已按网页解析" in file.warnings[0]
    assert tables(file)[0].table.rows == (("甲", 9),)


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("库存.xlsx", "物料,数量\n螺丝M4,12000\n轴承6204,350\n", "csv"),
        ("库存.et", "物料\t数量\n螺丝M4\t12000\n", "csv"),
        ("导出.xls", '<meta charset="utf-8"><table><tr><th>物料</th></tr><tr><td>螺丝M4</td></tr></table>', "html"),
        ("导出.xlsx", "<table border=1><tr><td>物料</td></tr><tr><td>螺丝M4</td></tr></table>", "html"),
        (
            "导出.doc",
            "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\n"
            "Content-Type: text/html; charset=utf-8\n\n<h1>制度</h1><p>螺丝M4 归一号库。</p>\n--b--\n",
            "mail",
        ),
    ],
)
def test_what_other_programs_export_under_the_name_of_office_is_read(
    tmp_path: Path, name: str, content: str, format: str
) -> None:
    file = parsed(tmp_path / name, content)
    text = assemble(file).content
    assert file.format == format
    assert "螺丝M4" in text
    assert "<" not in text
    assert "主题" not in text
    assert "已按" in file.warnings[0]


@pytest.mark.parametrize(
    "content", ["服务器忙，请稍后再试。\n", '{"error": "登录已过期",\n "code": 401,\n "data": null}\n']
)
def test_a_message_that_was_saved_as_a_workbook_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "库存.xlsx").write_text(content, "utf-8")
    with pytest.raises(Refused, match="而是普通文字"):
        parse(tmp_path / "库存.xlsx", LIMITS)


@pytest.mark.parametrize(("program", "target"), [("Excel.Sheet", "xlsx"), ("Word.Document", "docx")])
def test_xml_of_office_2003_is_an_old_format(tmp_path: Path, program: str, target: str) -> None:
    xml = f'<?xml version="1.0"?>\n<?mso-application progid="{program}"?>\n<Workbook/>'
    (tmp_path / "导出.xls").write_text(xml, "utf-8")
    with pytest.raises(OldFormat) as refused:
        sniff(tmp_path / "导出.xls")
    assert refused.value.target == target


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("笔记.txt", "Café déjà vu naïve".encode("latin-1"), "另存为 UTF-8"),
        ("扫描.tiff", b"II*\x00" + bytes(range(256)) * 4, "另存为 PNG、JPEG 或 PDF"),
        ("视频.mp4", bytes(range(256)) * 4, "可以放入 TXT"),
    ],
)
def test_a_refusal_says_what_to_do(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Refused, match=said):
        parse(tmp_path / name, LIMITS)


@pytest.mark.parametrize("name", ["a.html", "a.md"])
def test_a_power_is_no_longer_number(tmp_path: Path, name: str) -> None:
    line = "白细胞 4×10<sup>9</sup>/L，面积 20 m<sup>2</sup>，浓度 10<sup>-3</sup>，据统计<sup>1</sup>。"
    cells = "<table><tr><th>项目</th><th>范围</th></tr><tr><td>白细胞</td><td>4×10<sup>9</sup>/L</td></tr>"
    cells += "<tr><td>粒子</td><td>10<sup>23</sup></td></tr></table>"
    file = parsed(tmp_path / name, f"<p>{line}</p>\n\n{cells}" if name == "a.html" else f"{line}\n\n{cells}\n")
    first = file.blocks[0]
    assert isinstance(first, Paragraph)
    assert first.text == "白细胞 4×10⁹/L，面积 20 m²，浓度 10⁻³，据统计1。"
    assert tables(file)[0].table.texts == (("白细胞", "4×10⁹/L"), ("粒子", "10²³"))


def test_what_is_set_high_and_no_power_is_read_like_other_text(tmp_path: Path) -> None:
    mark = "<sup><style>.mw{color:red}</style><!-- 注 --><a href='#1'>[1]</a></sup>"
    page = f"<p>面积 25 m<sup><b>2</b></sup>，据统计{mark}。</p><div>甲<sup>乙<p>第一段</p><p>第二段</p></sup></div>"
    texts = [block.text for block in parsed(tmp_path / "a.html", page).blocks if isinstance(block, Paragraph)]
    assert texts == ["面积 25 m²，据统计[1]。", "甲乙", "第一段", "第二段"]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.pdf", "只是文字".encode(), Unreadable),
        ("a.docx", b"\x00\x01\x02\x03" * 100, Unreadable),
        ("a.bin", bytes(range(256)) * 8, UnsupportedFile),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600, UnsupportedFile),
        ("a.txt", b" \n\t \n", Unreadable),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, name: str, content: bytes, error: type[Exception]) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error):
        parse(tmp_path / name, LIMITS)
