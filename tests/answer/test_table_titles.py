"""What stands above a table names it, and answers nothing."""

from __future__ import annotations

from qianxun.answer.extractive.passage_lines import lines
from qianxun.core.answer_types import Passage


def test_the_title_of_a_table_and_its_unit_are_no_sentences() -> None:
    text = "办公耗材报价单（2024年10月起执行）\n单位：元（含税）\n| 品名 | 零售价 |\n| 硒鼓 | 385 |\n说明：质保一年。"
    passage = Passage(1, "d", "耗材.xlsx", "c", text, 0, len(text), 0.9, {})
    assert [line.text for line in lines([passage])] == ["品名：硒鼓；零售价：385", "说明：质保一年。"]
    stated = "盘点日期：2024年11月30日\n| 品名 | 库存 |\n| 硒鼓 | 5 |"
    passage = Passage(1, "d", "耗材.xlsx", "c", stated, 0, len(stated), 0.9, {})
    assert lines([passage])[0].text == "盘点日期：2024年11月30日"
