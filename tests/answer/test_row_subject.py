"""A row of a table answers what is asked of it, not what is asked of another thing of the same kind."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Passage

CONTRACTS = """台账
| 合同编号 | 客户名称 | 签订日期 | 到期日 | 合同金额（万元） | 销售经理 |
| HT-001 | 华为技术 | 2023-01-05 | 2024-01-04 | 320.5 | 张伟 |
| HT-002 | 中兴通讯 | 2023-03-18 | 2023-12-31 | 150 | 李娜 |
| HT-003 | 比亚迪 | 2022-11-11 | 2023-11-10 | 560 | 张伟 |"""
BRANCHES = """各分公司经营情况
| 分公司 | 负责人 | 办公地址 | 备注 |
| 北京分公司 | 张伟 | 朝阳区 | |
| 上海分公司 | 李娜 | 浦东新区 | 年中搬迁 |"""
COSTS = """| 项目 | 本期成本 | 上期成本 |
| 节能工程施工 | 15,287,113.17 | 15,314,429.29 |
| 其他工程施工 | 500 | 400 |"""
SUBSIDIARIES = """| 子公司名称 | 注册地 | 业务性质 |
| 苏州新仪科学仪器有限公司 | 苏州 | 销售、研发 |
| 山东海能科学仪器有限公司 | 德州 | 生产、销售 |"""


def _answer(question: str, text: str, name: str = "资料.xlsx") -> str:
    return AnswerGenerator().generate(question, [Passage(1, "d", name, "c", text, score=0.8)]).answer


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("腾讯的合同什么时候到期", CONTRACTS),
        ("腾讯的合同金额是多少", CONTRACTS),
        ("HT-009的到期日是哪天", CONTRACTS),
        ("南京分公司的负责人怎么联系", BRANCHES),
        ("南京分公司的办公地址", BRANCHES),
        ("张伟在南京分公司的办公地址", BRANCHES),
        ("节能建材的本期成本和上期成本", COSTS),
        ("武汉海能科学仪器有限公司的业务性质", SUBSIDIARIES),
        ("最早的合同到期日", CONTRACTS),  # which row that is, no row says
    ],
)
def test_a_row_about_something_else_is_no_answer(question: str, text: str) -> None:
    assert "没有找到" in _answer(question, text)


@pytest.mark.parametrize(
    ("question", "text", "told"),
    [
        ("中兴的合同什么时候到期", CONTRACTS, "2023-12-31"),
        ("比亚迪的合同是谁签的", CONTRACTS, "HT-003"),
        ("华为公司的到期日", CONTRACTS.replace("华为技术", "华为技术有限公司"), "2024-01-04"),
        ("HT-001的到期日是哪天", CONTRACTS, "2024-01-04"),
        ("北京市分公司的办公地址", BRANCHES, "朝阳区"),
        ("北京分公司的备注是什么", BRANCHES, "北京分公司"),
        (
            "集团山东海能科学仪器有限公司的业务性质",
            SUBSIDIARIES,
            "生产、销售",
        ),  # a word before the name does not make it another
        ("山东海能科学仪器有限公司的业务性质", SUBSIDIARIES, "生产、销售"),
    ],
)
def test_a_row_about_what_is_asked_answers(question: str, text: str, told: str) -> None:
    assert told in _answer(question, text)


def test_what_stands_around_a_table_names_its_subject_too() -> None:
    assert "朝阳区" in _answer("腾讯北京分公司的办公地址", BRANCHES, "腾讯通讯录.xlsx")
    assert "没有找到" in _answer("腾讯北京分公司的办公地址", BRANCHES)
