"""Layered recalls as the engine gives them, made by hand: what the doors show is told from these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qianxun.core.layered_types import Cited, CitedCell, LayeredRecall, LayeredResult, LayerRun, TableAnswer, TableShown
from qianxun.core.types import Attributes, Chunk, ChunkKind, Column, Degraded, Generation

COLUMNS = (
    Column("类别", ("类别",)),
    Column("2024年 / 报销比例", ("2024年", "报销比例"), "percent", "%"),
    Column("2024年 / 起付线", ("2024年", "起付线"), "money", "元"),
)
TABLE = TableShown(
    id="手册#0",
    title="报销比例",
    type="price_list",
    columns=COLUMNS,
    rows=12,
    shown=(0, 4),
    source="Sheet1",
    notes="注：以当年公布的为准",
    cells=(("住院", "85%", "1300"), ("门诊", "70%", "[bold]900")),
)
ANSWER = TableAnswer(
    sure=True,
    text="85%",
    reading="在《报销比例》中，第 1 行，查“2024年 / 报销比例”",
    operation="lookup",
    values=(0.85,),
    cells=(CitedCell("手册#0", 0, 0), CitedCell("手册#0", 0, 1)),
    confidence=0.9,
    table="手册#0",
    rows=(0,),
)
CITED = (
    Cited("手册#0", 0, 0, "类别", "住院"),
    Cited("手册#0", 0, 1, "2024年 / 报销比例", "85%"),
)


def chunk(
    text: str, at: int = 0, kind: ChunkKind = "text", headings: tuple[str, ...] = (), page: int | None = None
) -> Chunk:
    told = Attributes("手册", metadata={"年份": 2024, "地区": ("北京", "上海")}, tags=("医保",), kind=kind)
    return Chunk(0, f"c_1_手册_{at}", "手册", "手册.md", at, text, 0, len(text), kind, headings, page, 1, told)


def result(of: Chunk, score: float = 0.8, layer: int = 1, strategy: str = "vector", **more: Any) -> LayeredResult:
    told: dict[str, Any] = {
        "content": of.text,
        "metadata": of.attributes.metadata,
        "match_details": {"vector": score, "matched": ["住院"], "expansion": {}},
    }
    return LayeredResult(
        doc=of, score=score, strategy=strategy, layer=layer, doc_id=of.doc_id, document_name=of.doc_name, **told | more
    )


TEXTS = LayeredRecall(
    query="住院怎样报销",
    kind="text",
    results=(
        result(chunk("住院费用凭发票报销。", headings=("报销",), page=3)),
        result(chunk("住院押金另计。", 1), 0.55, 2, "keyword"),
    ),
    layers=(
        LayerRun(1, "vector", True, count=1, best=0.8, seconds=0.012),
        LayerRun(2, "keyword", True, count=1, best=0.55, seconds=0.003),
        LayerRun(3, "expansion", True, "词库读不了", seconds=0.001),
    ),
    degraded=(Degraded("expansion", "词库读不了"),),
    wanted=10,
    seconds=0.02,
    trace_id="a" * 32,
    generation=Generation(7, 6, "m", "1"),
)
TABLES = LayeredRecall(
    query="住院的报销比例",
    kind="table",
    results=(
        result(
            chunk("报销比例\n| 类别 | 2024年 / 报销比例 |\n| 住院 | 85% |", 2, "table"),
            0.91,
            strategy="structure",
            content="报销比例\n| 住院 | 85% |",
            metadata={"年份": 2024, "table_title": "报销比例"},
            table=TABLE,
        ),
    ),
    layers=(
        LayerRun(1, "structure", True, count=1, best=0.91, seconds=0.02),
        LayerRun(2, "semantic", False, "已凑够目标的 80%"),
        LayerRun(3, "keyword", False, "设置里关了"),
        LayerRun(4, "expansion", False, "已凑够目标的 60%"),
    ),
    answer=ANSWER,
    cited=CITED,
    cells_total=2,
    wanted=1,
    seconds=0.03,
    trace_id="b" * 32,
    generation=Generation(7, 6, "m", "1"),
)
DECLINED = replace(
    TABLES,
    answer=TableAnswer(
        False, "", "", table="手册#0", rows=(0, 4), reason="问题里的“退休”在表中找不到；下面是最接近的行"
    ),
    cited=(),
    cells_total=0,
)
