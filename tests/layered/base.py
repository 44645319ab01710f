"""A base with prose and tables, and arms and models that fail when they are told to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import Document, Query, Ranking
from qianxun.retrieve.arms import STANDARD
from tests.answer.asked import Opened

PROSE = {
    "住院": "住院费用在出院时直接结算，三级医院的报销比例是百分之八十五，一级医院是百分之九十五。",
    "年休假": "入职满一年的员工享有带薪年休假，满十年的有十天，休假前一周向主管提出申请。",
    "茶馆": "山城的茶馆里坐满了人，说书先生拍了一下醒木，满堂都静了下来。",
    "灯塔": "雾港的灯塔每晚七点亮起，守塔人老周从不迟到，风再大也一样。",
}
PRICES = """
| 品名 | 规格 | 单价（元） | 库存 |
| --- | --- | --- | --- |
| 复印纸 | A4 | 22.5 | 120 |
| 中性笔 | 黑 | 2 | 900 |
| 订书机 | 大 | 18 | 35 |
"""
RATES = """
| 医院等级 | 起付线（元） | 报销比例 |
| --- | --- | --- |
| 一级 | 200 | 95% |
| 二级 | 400 | 90% |
| 三级 | 600 | 85% |
"""
DUTY = """
| 日期 | 值班人 | 电话 |
| --- | --- | --- |
| 周一 | 王芳 | 8001 |
| 周二 | 李强 | 8002 |
"""


def documents() -> list[Document]:
    prose = [Document(name, text, name=f"{name}.md") for name, text in PROSE.items()]
    tables = {
        "价目": f"# 办公用品价目表\n\n{PRICES}",
        "比例": f"# 住院报销比例\n\n{RATES}",
        "值班": f"# 值班表\n\n{DUTY}",
    }
    return prose + [Document(name, text, name=f"{name}.md", format="markdown") for name, text in tables.items()]


def opened(folder: Path, more: Sequence[Document] = (), **told: Any) -> Opened:
    return Opened(folder, [*documents(), *more], **told)


class _Failing(RetrieverArm):
    """An arm whose backend has gone."""

    def __init__(self, arm: RetrieverArm) -> None:
        self.name, self.label = arm.name, arm.label
        self.needs_vector, self.signal = arm.needs_vector, arm.signal

    async def search(self, query: Query, limit: int, context: ArmContext) -> Ranking:
        raise RetrieverUnavailable(f"{self.name} 的后端停了")


@contextmanager
def without(held: Opened, *arms: str) -> Iterator[None]:
    """While these arms fail."""
    base = held.run(held.engine.base(held.kb))
    base.arms = [_Failing(arm) if arm.name in arms else arm for arm in STANDARD]
    try:
        yield
    finally:
        base.arms = None
