from __future__ import annotations

import pytest

from qianxun.question.steps import MARK, MOST_STEPS, filled, steps


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("2025年下半年销售最高的大区的负责人是谁", ("2025年下半年销售最高的大区是哪个", "#1的负责人是谁")),
        ("面积最大的仓库的管理员的分机是多少？", ("面积最大的仓库是哪个", "#1的管理员是谁", "#2的分机是多少")),
        ("华东大区的负责人的导师是谁", ("华东大区的负责人是谁", "#1的导师是谁")),
        ("张三的妻子的父亲的职业是什么", ("张三的妻子是谁", "#1的父亲是谁", "#2的职业是什么")),
        ("传感器组的组长的导师毕业于哪里", ("传感器组的组长是谁", "#1的导师是谁", "#2毕业于哪里")),
        ("审批住宿标准的人在哪里办公", ("审批住宿标准的是谁", "#1在哪里办公")),
        ("销售最高的是哪个大区，它的负责人是谁", ("销售最高的是哪个大区", "#1的负责人是谁")),
        ("《伽利略的星空》的作者的国籍是什么", ("《伽利略的星空》的作者是谁", "#1的国籍是什么")),
    ],
)
def test_a_question_is_read_as_steps(question: str, expected: tuple[str, ...]) -> None:
    assert steps(question).questions == expected


@pytest.mark.parametrize(
    "question",
    [
        "产假有多少天",
        "北京分公司的经理是谁",
        "一线城市的住宿标准是多少",
        "哪个大区的销售最高",
        "我的汽车事故我的保险会上涨吗？",
        "Medigap保险的目的是什么？",
        "你知道,该公司原材料的期末余额是多少吗？",
        "部门不少于5个员工的职称有哪些，他们最高薪资多少",
        "张静美的〈哑妻〉改编自琼瑶的哪部小说？",
        "的" * 90,
    ],
)
def test_a_question_that_is_one_has_no_steps(question: str) -> None:
    assert steps(question).questions == ()


def test_a_comparison_asks_the_same_of_each() -> None:
    compared = steps("甲合同、乙合同、丙合同哪个的总价最低")
    assert compared.questions == ("甲合同的总价是多少", "乙合同的总价是多少", "丙合同的总价是多少")
    assert (compared.choice, compared.names) == ("least", ("甲合同", "乙合同", "丙合同"))


def test_a_step_points_only_at_those_before_it_and_there_are_not_too_many() -> None:
    for question in ("甲的妻子的父亲的妻子的父亲的妻子的父亲的职业是什么", "面积最大的仓库的管理员的导师的分机是多少"):
        questions = steps(question).questions
        assert len(questions) <= MOST_STEPS
        assert all(int(mark) <= at for at, one in enumerate(questions) for mark in MARK.findall(one))


def test_answers_take_the_places_of_their_marks() -> None:
    assert filled("#2的分机是多少", ("二号仓库", "方砚")) == "方砚的分机是多少"
    assert filled("#3的分机", ("二号仓库",)) == "#3的分机"
