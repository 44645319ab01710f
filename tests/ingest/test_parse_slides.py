"""Slides: charts, diagrams and equations are taken in, and every slide stands below its own heading."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from qianxun.core.types import Heading, TableBlock
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits

LIMITS = ParseLimits(ocr=False)
_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_MAIN = "http://schemas.openxmlformats.org/drawingml/2006/main"
_SHOW = "http://schemas.openxmlformats.org/presentationml/2006/main"
_TIES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def test_a_chart_is_the_table_it_was_drawn_from(tmp_path: Path) -> None:
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "业绩"
    data: Any = CategoryChartData()
    data.categories = ["一季度", "二季度"]
    data.add_series("销售额", (12.5, 18))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 999_999, 999_999, data)
    show.save(str(tmp_path / "a.pptx"))
    (table,) = (one.table for one in parse(tmp_path / "a.pptx", LIMITS).blocks if isinstance(one, TableBlock))
    assert (table.title, table.rows) == ("业绩", (("一季度", 12.5), ("二季度", 18)))


def test_a_chart_with_an_error_for_a_value_keeps_the_others(tmp_path: Path) -> None:
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    data: Any = CategoryChartData()
    data.categories = ["一季度", "二季度", "三季度"]
    data.add_series("销售额", (12.5, 18, None))
    frame: Any = slide.shapes.add_chart(XL_CHART_TYPE.LINE, 0, 0, 999_999, 999_999, data)
    values = frame.chart._chartSpace.xpath(".//c:val//c:v")
    values[1].text = "#N/A"
    show.save(str(tmp_path / "a.pptx"))
    file = parse(tmp_path / "a.pptx", LIMITS)
    (table,) = (one.table for one in file.blocks if isinstance(one, TableBlock))
    assert table.texts == (("一季度", "12.5"), ("二季度", ""), ("三季度", ""))
    assert file.warnings == ()


def test_the_days_of_a_chart_are_days(tmp_path: Path) -> None:
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    data: Any = CategoryChartData()
    data.categories = [date(2024, 1, 31), date(2024, 2, 29)]
    data.add_series("销售额", (12.5, 18))
    slide.shapes.add_chart(XL_CHART_TYPE.LINE, 0, 0, 999_999, 999_999, data)
    show.save(str(tmp_path / "a.pptx"))
    (table,) = (one.table for one in parse(tmp_path / "a.pptx", LIMITS).blocks if isinstance(one, TableBlock))
    assert table.texts == (("2024-01-31", "12.5"), ("2024-02-29", "18"))


def diagram(slide: Any, data: str) -> None:
    from lxml import etree
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI

    kind = "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml"
    part = Part(PackURI("/ppt/diagrams/data1.xml"), kind, slide.part.package, data.encode())
    tie = slide.part.relate_to(part, f"{_TIES}/diagramData")
    slide.shapes._spTree.append(
        etree.fromstring(
            f'<p:graphicFrame xmlns:p="{_SHOW}" xmlns:a="{_MAIN}"><p:nvGraphicFramePr><p:cNvPr id="40" name="图示"/>'
            f'<p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm><a:off x="0" y="9"/><a:ext cx="5" cy="5"/>'
            f'</p:xfrm><a:graphic><a:graphicData uri="{_DIAGRAM}"><d:relIds xmlns:d="{_DIAGRAM}" xmlns:r="{_TIES}" '
            f'r:dm="{tie}"/></a:graphicData></a:graphic></p:graphicFrame>'
        )
    )


def point(number: str, words: str, kind: str = "node") -> str:
    said = f"<a:p><a:r><a:t>{words}</a:t></a:r></a:p>" if words else "<a:p/>"
    return f'<pt modelId="{number}" type="{kind}"><t><a:bodyPr/>{said}</t></pt>'


def test_the_words_of_a_diagram_stand_in_its_order(tmp_path: Path) -> None:
    from pptx import Presentation

    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "流程"
    points = point("0", "", "doc") + point("2", "主管审批") + point("1", "提交申请") + point("3", "附发票")
    ties = "".join(
        f'<cxn modelId="t{target}" srcId="{source}" destId="{target}" srcOrd="{order}" destOrd="0"/>'
        for source, target, order in (("0", "1", 0), ("0", "2", 1), ("1", "3", 0))
    )
    arrow = point("9", "箭头", "sibTrans")
    held = f"<ptLst>{points}{arrow}</ptLst><cxnLst>{ties}</cxnLst>"
    diagram(slide, f'<dataModel xmlns="{_DIAGRAM}" xmlns:a="{_MAIN}">{held}</dataModel>')
    show.save(str(tmp_path / "a.pptx"))
    file = parse(tmp_path / "a.pptx", LIMITS)
    assert [getattr(block, "text", "") for block in file.blocks] == ["流程", "提交申请\n  附发票\n主管审批"]
    assert file.warnings == ()


def test_a_diagram_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    from pptx import Presentation

    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "流程"
    diagram(slide, "<dataModel")
    show.save(str(tmp_path / "a.pptx"))
    assert parse(tmp_path / "a.pptx", LIMITS).warnings == ("1 个图表或图示未能读出（第 1 页）",)


def test_a_slide_without_title_does_not_stand_below_the_one_before(tmp_path: Path) -> None:
    from pptx import Presentation

    show = Presentation()
    show.slides.add_slide(show.slide_layouts[5]).shapes.title.text = "产品介绍"
    for words in (
        "售后服务",
        "保修两年，人为损坏除外，自签收之日起计算；超出保修期的，按实际发生的费用收取，另计上门费，偏远地区除外。",
    ):
        slide = show.slides.add_slide(show.slide_layouts[6])
        slide.shapes.add_textbox(0, 0, 99, 99).text_frame.text = words
    show.save(str(tmp_path / "a.pptx"))
    file = parse(tmp_path / "a.pptx", LIMITS)
    assert [(one.text, one.page) for one in file.blocks if isinstance(one, Heading)] == [
        ("产品介绍", 1), ("售后服务", 2), ("第 3 页", 3),
    ]  # fmt: skip
