"""Headings that nobody styled are known; lists, contents, dates and sentences are not taken for them."""

from __future__ import annotations

from pathlib import Path

import docx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.types import Block, Heading, Mark, Paragraph, ParsedFile, Text
from qianxun.ingest.assemble import assemble
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.headings import may_have_headings, numbered_headings
from qianxun.ingest.headings import outline as chapters
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits

BODY = "参保人员在定点医疗机构发生的费用，由基金按规定支付，超出的部分由个人承担。"


def read(*lines: str) -> Text:
    """Each line a paragraph, as a page or a document has them."""
    return assemble(ParsedFile(tuple(numbered_headings([Paragraph(line) for line in lines])), "pdf"))


def outline(text: Text) -> list[tuple[int, str]]:
    return [(mark.level, mark.title) for mark in text.marks]


def bare(text: str) -> str:
    return "".join(text.split())


# ── what is one ──────────────────────────────────────────────────────────────────────────────────


def test_numbering_by_hand_has_a_hierarchy() -> None:
    text = read(
        "关于医疗保险的通知", "一、适用范围", BODY, "二、住院", "（一）报销比例", BODY, "1.在职人员", BODY,
        "2.退休人员", BODY, "（二）申报材料", BODY, "三、门诊", BODY,
    )  # fmt: skip
    assert outline(text) == [
        (1, "关于医疗保险的通知"), (2, "一、适用范围"), (2, "二、住院"), (3, "（一）报销比例"), (4, "1.在职人员"),
        (4, "2.退休人员"), (3, "（二）申报材料"), (2, "三、门诊"),
    ]  # fmt: skip
    assert [piece.headings for piece in ChunkSplitter().pieces(text)][2] == (
        "关于医疗保险的通知", "二、住院", "（一）报销比例", "1.在职人员"
    )  # fmt: skip


@pytest.mark.parametrize("first", ["各有关单位：", "现将有关事项通知如下。", "1.1 目的", "二、其他"])
def test_not_every_first_line_is_a_title(first: str) -> None:
    assert outline(read(first, "一、范围", BODY, "二、比例", BODY)) == [(1, "一、范围"), (1, "二、比例")]


def test_a_title_stands_above_chapters_but_not_beside_a_title_that_was_known() -> None:
    articles = [Paragraph(f"第{number}条 {BODY}") for number in "一二三"]
    chapters: list[Block] = [Paragraph("云溪市物业管理条例"), Heading("第一章 总则", 2), *articles]
    assert outline(assemble(ParsedFile(tuple(numbered_headings(chapters)), "txt")))[:3] == [
        (1, "云溪市物业管理条例"), (2, "第一章 总则"), (3, "第一条"),
    ]  # fmt: skip
    known: list[Block] = [Paragraph("首页"), Heading("云溪市物业管理条例", 1), *articles]
    assert outline(assemble(ParsedFile(tuple(numbered_headings(known)), "html")))[:2] == [
        (1, "云溪市物业管理条例"), (2, "第一条"),
    ]  # fmt: skip


def test_numbers_with_points_nest_by_their_parts() -> None:
    text = read(
        "1 总则", BODY, "1.1 目的", BODY, "1.2 人员范围", BODY, "2 报销", BODY, "2.1 比例", BODY, "2.1.1 住院",
        BODY, "2.1.2 门诊", BODY,
    )  # fmt: skip
    assert outline(text) == [
        (1, "1 总则"), (2, "1.1 目的"), (2, "1.2 人员范围"), (1, "2 报销"), (2, "2.1 比例"), (3, "2.1.1 住院"),
        (3, "2.1.2 门诊"),
    ]  # fmt: skip


def test_a_numbered_sentence_among_headings_opens_a_section_by_its_number() -> None:
    last = "三、本办法由医疗保障局负责解释，自发布之日起施行。"
    text = read("一、适用范围", BODY, "二、报销比例", BODY, last, "医疗保障局")
    assert outline(text) == [(1, "一、适用范围"), (1, "二、报销比例"), (1, "三")]
    assert [piece.body for piece in ChunkSplitter().pieces(text)][-1] == f"{last}\n\n医疗保障局"


def test_articles_of_a_law_are_known_by_their_numbers_through_its_chapters() -> None:
    blocks: list[Block] = [
        Heading("第一章 总则", 2), Paragraph("第一条 为了保障参保人员的权益，制定本办法。"),
        Paragraph("第二条本办法适用于本市。\n前款所称本市，包括各区。"), Heading("第二章 待遇", 2),
        Paragraph("第三条 有下列情形之一的，不予支付：\n（一）在境外就医的；\n（二）应当由第三人负担的。"),
        Paragraph("第三条之一 前条所称境外，不包括港澳台地区。"), Paragraph("第二条规定的待遇，按月发放。"),
        Paragraph("第四条 本办法自发布之日起施行。"),
    ]  # fmt: skip
    text = assemble(ParsedFile(tuple(numbered_headings(blocks, only_articles=True)), "markdown"))
    assert outline(text) == [
        (2, "第一章 总则"), (3, "第一条"), (3, "第二条"), (2, "第二章 待遇"), (3, "第三条"), (3, "第三条之一"),
        (3, "第四条"),
    ]  # fmt: skip
    assert text.content == assemble(ParsedFile(tuple(blocks), "markdown")).content


def test_a_contract_has_titled_articles() -> None:
    text = read("第一条 合同标的", BODY, "第二条 付款方式", BODY, "第三条 违约责任", BODY)
    assert outline(text) == [(1, "第一条 合同标的"), (1, "第二条 付款方式"), (1, "第三条 违约责任")]


@pytest.mark.parametrize("one", ["１", "1", "一"])
def test_articles_are_numbered_in_any_digits(one: str) -> None:
    text = read(f"第{one}条 本办法适用于本市。", "第２条 费用由基金支付。", "第3条 本办法自发布之日起施行。")
    assert [mark.title for mark in text.marks] == [f"第{'1' if one == '１' else one}条", "第2条", "第3条"]


def test_an_attachment_begins_anew() -> None:
    text = read("一、适用范围", BODY, "二、比例", BODY, "附件1：报销标准", "一、住院", BODY, "二、门诊", BODY)
    assert outline(text) == [
        (1, "一、适用范围"), (1, "二、比例"), (1, "附件1：报销标准"), (2, "一、住院"), (2, "二、门诊"),
    ]  # fmt: skip


def test_hand_made_headings_stand_below_the_ones_that_were_known() -> None:
    blocks: list[Block] = [
        Heading("通知", 1),
        *map(Paragraph, ("一、范围", BODY, "二、比例", BODY)),
        Heading("联系我们", 5),
    ]
    text = assemble(ParsedFile(tuple(numbered_headings(blocks)), "html"))
    assert outline(text) == [(1, "通知"), (6, "一、范围"), (6, "二、比例"), (5, "联系我们")]


# ── what is none ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["1. 苹果", "2. 香蕉", "3. 橘子", BODY], id="a list"),
        pytest.param(["（一）身份证", "（二）发票", "（三）出院小结", BODY], id="a list in brackets"),
        pytest.param(["一、住院待遇", "二、门诊待遇", "三、生育待遇", BODY], id="a list of subjects"),
        pytest.param(["一、总则......1", "二、待遇......3", "三、附则......9", BODY], id="contents"),
        pytest.param(["一、总则 1", BODY, "二、待遇 3", BODY], id="contents between text"),
        pytest.param([f"一、{BODY}", f"二、{BODY}", f"三、{BODY}"], id="numbered sentences"),
        pytest.param(["（一）重婚；", BODY, "（二）未到法定婚龄。", BODY], id="clauses"),
        pytest.param(["2024.1.5 会议纪要", BODY, "2024.1.6 会议纪要", BODY], id="dates"),
        pytest.param(["1.1万元以下", BODY, "1.2万元以上", BODY], id="amounts"),
        pytest.param(["三、附则", BODY, "五、其他", BODY], id="out of order"),
        pytest.param(["一、范围", BODY], id="one alone"),
        pytest.param(
            ["第三条规定的情形", BODY, "第四条规定的情形", BODY, "第五条的情形", BODY], id="articles spoken of"
        ),
        pytest.param(["第九条 甲。", "第二条 乙。", "第五条 丙。", "第一条 丁。"], id="articles out of order"),
        pytest.param(
            ["第一条路通往山顶。", BODY, "第二条路通往河边。", BODY, "第三条道路封闭。", BODY], id="ways, not articles"
        ),
        pytest.param(["1 年度报告", BODY, "2 年度报告", BODY, "3 年度报告", BODY], id="feet of pages"),
        pytest.param(["附件1：标准.pdf", "附件2：申请表.pdf", "附件3：说明.pdf"], id="a list of attachments"),
        pytest.param(["| 一、收入 | 3 |", BODY, "| 二、支出 | 4 |", BODY], id="rows"),
    ],
)
def test_not_every_number_makes_a_heading(lines: list[str]) -> None:
    assert outline(read("通知如下", *lines)) == []


def test_a_line_that_was_broken_at_the_margin_is_half_a_sentence() -> None:
    wrapped = (
        "一、本办法适用于在本市行政区域内参加城乡居民基本\n医疗保险的人员以及用人单位和社会团体以及其他组织\n"
        "二、参保人员应当按时缴纳保险费用以及其他有关费用\n并在每年年底以前到社会保险经办机构办理各项手续等"
    )
    assert outline(read(wrapped)) == []


# ── nothing is lost ──────────────────────────────────────────────────────────────────────────────

LIKELY = (
    "一、范围", "二、比例", "三、本办法自发布之日起施行。", "（一）住院", "（二）门诊", "1. 材料", "2. 流程",
    "1.1 目的", "1.2 依据", "第１条 甲。", "第一条 总则", "第二条 本法适用于本市。", "第三条规定的", "附件1：表",
    "附件", " 十、 其他 ", "1", "（", BODY, "",
)  # fmt: skip
LINES = st.one_of(
    st.sampled_from(LIKELY), st.text(alphabet="一二三十、（）.1１２٣²第条之附件：。 住院\u3000", max_size=12)
)
BLOCKS = st.lists(
    st.one_of(
        st.lists(LINES, min_size=1, max_size=8).map(lambda lines: Paragraph("\n".join(lines), 1)),
        st.sampled_from([Heading("标题", 1), Heading("第一章 总则", 2)]),
    ),
    max_size=8,
)


@given(BLOCKS, st.booleans())
def test_no_text_is_lost_changed_or_moved(blocks: list[Block], only_articles: bool) -> None:
    found = numbered_headings(blocks, only_articles=only_articles)
    before, after = (assemble(ParsedFile(tuple(each), "txt")) for each in (blocks, found))
    assert bare(after.content) == bare(before.content)
    known = [(mark.level, mark.title) for mark in before.marks]
    marks = iter(outline(after))
    assert all(mark in marks for mark in known), "a heading that was known is gone"
    for mark in after.marks:
        assert bare(after.content[mark.start :]).startswith(bare(mark.title))
    for piece in ChunkSplitter(60, 10).pieces(after):
        assert after.content[piece.start : piece.end] == piece.body


# ── in files ─────────────────────────────────────────────────────────────────────────────────────

FLAT = ("通知", "一、适用范围", BODY, "二、住院", "（一）比例", BODY, "（二）材料", BODY)
KNOWN = ["通知", "一、适用范围", "二、住院", "（一）比例", "（二）材料"]


def titles(path: Path) -> list[str]:
    return [mark.title for mark in assemble(parse(path, ParseLimits())).marks if isinstance(mark, Mark)]


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_in_plain_text(tmp_path: Path, gap: str) -> None:
    path = tmp_path / "通知.txt"
    path.write_text(gap.join(FLAT), encoding="utf-8")
    assert titles(path) == KNOWN


def test_in_word_where_lines_were_only_made_bold(tmp_path: Path) -> None:
    path, written = tmp_path / "通知.docx", docx.Document()
    for line in FLAT:
        written.add_paragraph().add_run(line).bold = line in KNOWN
    written.save(str(path))
    assert titles(path) == KNOWN


def test_on_a_page_without_heading_tags(tmp_path: Path) -> None:
    path = tmp_path / "通知.html"
    path.write_text("".join(f"<p><b>{line}</b></p>" for line in FLAT), encoding="utf-8")
    assert titles(path) == KNOWN


def test_markdown_knows_its_headings_but_articles_are_not_marked(tmp_path: Path) -> None:
    path = tmp_path / "办法.md"
    path.write_text(
        "# 办法\n\n一、范围\n\n正文\n\n二、比例\n\n第一条 甲。\n\n第二条 乙。\n\n第三条 丙。\n", encoding="utf-8"
    )
    assert titles(path) == ["办法", "第一条", "第二条", "第三条"]


_LINES = st.text(alphabet="一二、.（）(1附第章条节part 总则。，\t", max_size=12)


@given(st.lists(_LINES, max_size=6))
def test_lines_that_may_have_no_headings_have_none(lines: list[str]) -> None:
    if not may_have_headings(lines):
        assert not any(isinstance(block, Heading) for block in numbered_headings(chapters(lines)))


def test_lines_with_a_chapter_or_a_number_may_have_headings() -> None:
    assert may_have_headings(["总则", "第一章 适用范围"])
    assert may_have_headings(["一、适用范围"])
    assert not may_have_headings(["门诊报销比例为百分之六十。", "住院另行规定。"])
