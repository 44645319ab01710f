"""A small library to ask: prose, an alias, a table, a chain of facts; and an engine on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qianxun.core.answer_types import Answer
from qianxun.core.types import Document
from qianxun.engine.settings import load as load_settings
from tests.answer.asked import Opened

DOCUMENTS = (
    Document(
        "dm",
        "糖尿病是一组以高血糖为特征的代谢性疾病。糖尿病的主要症状是多饮、多尿、多食和体重下降。"
        "治疗糖尿病要控制饮食，并按医嘱使用胰岛素。",
        name="糖尿病.md",
        user_id="张三",
    ),
    Document(
        "hbp",
        "高血压是以动脉血压升高为特征的疾病。高血压的主要症状是头晕和头痛。治疗高血压要限盐，并按医嘱服用降压药。",
        name="高血压.md",
        user_id="李四",
    ),
    Document(
        "hlm", "《红楼梦》的作者是曹雪芹。曹雪芹出生于江宁。江宁位于今天的南京。", name="红楼梦.md", user_id="张三"
    ),
    Document(
        "yb",
        "职工住院的报销比例为百分之八十五，起付标准为八百元。门诊的报销比例为百分之六十。",
        name="医保手册.md",
        user_id="张三",
    ),
    Document(
        "price",
        "# 价目表\n\n| 项目 | 价格（元） | 科室 |\n| --- | --- | --- |\n| 血常规 | 25 | 检验科 |\n"
        "| 胸片 | 80 | 放射科 |\n| 心电图 | 40 | 心内科 |\n",
        name="价目表.md",
        format="markdown",
        user_id="李四",
    ),
)


class Asking(Opened):
    """The library, opened; without a vector model unless told otherwise."""

    def __init__(
        self,
        folder: Path,
        *models: Any,
        told: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        model: str = "none",
    ) -> None:
        settings = load_settings(arguments={"data": str(folder), **(told or {})})
        super().__init__(folder, DOCUMENTS, *models, config=config, model=model, settings=settings)

    def answer(self, question: str, **options: Any) -> Answer:
        return self.run(self.engine.ask(self.kb, question, **options))

    def events(self, question: str, **options: Any) -> list[Any]:
        async def heard() -> list[Any]:
            return [event async for event in self.engine.ask_stream(self.kb, question, **options)]

        return self.run(heard())


def said(answer: Answer, node: str) -> list[Mapping[str, Any]]:
    """What the steps of that name said, in order."""
    return [step.said for step in answer.trace if step.node == node]


def forms(answer: Answer) -> dict[str, str]:
    """By step, in which form it last ran."""
    return {step.node: step.form for step in answer.trace}


def is_sound(answer: Answer) -> bool:
    """Every mark has its source, every source its mark, every citation lies within the answer."""
    marked = {source.number for source in answer.sources if f"[{source.number}]" in answer.answer}
    cited = {number for citation in answer.citations for number in citation.numbers}
    within = all(0 <= each.start <= each.end <= len(answer.answer) for each in answer.citations)
    return marked == cited == {source.number for source in answer.sources} and within
