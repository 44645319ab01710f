"""What kind of question a text is, by its words."""

from __future__ import annotations

import pytest

from qianxun.core.answer_types import QuestionKind
from qianxun.question.kinds import is_small_talk, kind_of, without_courtesy, without_greeting


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("你好", "greeting"),
        ("您好！在吗？", "greeting"),
        ("好的谢谢", "greeting"),
        ("Hello", "greeting"),
        ("你是谁？", "greeting"),
        ("什么是医保统筹？", "definition"),
        ("RAG是什么意思？", "definition"),
        ("异地就医备案的定义", "definition"),
        ("住院报销比例是多少？", "fact"),
        ("2022年营业收入为多少万元", "fact"),
        ("糖尿病有哪些症状", "list"),
        ("列出所有三级医院", "list"),
        ("门诊和住院的报销比例有什么区别", "comparison"),
        ("甲公司与乙公司哪个成立得更早", "comparison"),
        ("Which magazine was started first, Arthur's Magazine or First for Women?", "comparison"),
        ("总结一下这份报告", "summary"),
        ("这本书讲了什么", "summary"),
        ("他用哪句话总结了易卜生的斥责？", "fact"),
        ("一共有多少家医院", "count"),
        ("平均工资是多少", "count"),
        ("《红楼梦》作者的祖父的官职是什么", "multi_hop"),
        ("阿司匹林的生产商的总部在哪里", "multi_hop"),
        ("Who directed the film that won the award which Smith founded?", "multi_hop"),
    ],
)
def test_a_kind_is_told_by_its_words(text: str, kind: QuestionKind) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    "text", ["你好吗这个词怎么翻译", "好的合同应当具备什么", "早产儿如何护理", "谢谢参与活动的奖品是什么"]
)
def test_a_question_that_begins_like_a_greeting_is_none(text: str) -> None:
    assert not is_small_talk(text)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("您好！请问住院报销多少？", "请问住院报销多少？"),
        ("你好，在吗，住院报销多少", "住院报销多少"),
        ("你好", "你好"),
        ("住院，报销多少", "住院，报销多少"),
    ],
)
def test_a_greeting_before_a_question_is_not_searched_for(text: str, rest: str) -> None:
    assert without_greeting(text) == rest


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("能不能告诉我糖尿病的症状", "糖尿病的症状"),
        ("请问一下，我想知道住院报销多少？", "住院报销多少？"),
        ("麻烦您帮我查一下起付标准", "起付标准"),
        ("Could you tell me who wrote it", "who wrote it"),
        ("你知道红楼梦的作者是谁吗？", "红楼梦的作者是谁？"),
        ("你知道糖尿病会遗传吗", "糖尿病会遗传吗"),
        ("麻烦告诉下注册地", "注册地"),
        ("能不能报销", "能不能报销"),
        ("可以异地就医吗", "可以异地就医吗"),
        ("告诉我", "告诉我"),
        ("知道权是什么", "知道权是什么"),
    ],
)
def test_what_is_said_for_politeness_is_not_searched_for(text: str, rest: str) -> None:
    assert without_courtesy(text) == rest


def test_what_can_be_read_in_many_ways_is_read_at_once() -> None:
    for text in ("嗯" * 2000 + "x", "好" + "哈哈哦" * 600 + "x", "谢谢" * 900 + "x", "的" * 2000, "that who " * 200):
        assert kind_of(text) != "greeting"
