"""What a relation has of a question: the words that both have, and words that mean the same."""

from __future__ import annotations

import pytest

from qianxun.question.graph_query import GraphQuery, graph_query, units_of
from qianxun.text.chinese import Analyser
from qianxun.text.synonyms import user_thesaurus

ANALYSER = Analyser()


def asked(text: str) -> GraphQuery:
    return graph_query(text, ANALYSER)


def telling(question: GraphQuery) -> str:
    return "".join(unit for at, unit in enumerate(question.units) if question.informative >> at & 1)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("你知道文森特的代表作品是什么吗？", "文森特代表作品"),
        ("请问住院报销比例是多少", "住院报销比例"),
        ("What is the capital of France?", "capitalfrance"),
    ],
)
def test_words_that_lead_up_to_a_question_tell_nothing(text: str, left: str) -> None:
    assert telling(asked(text)) == left


def test_a_question_of_such_words_alone_still_has_something_to_say() -> None:
    assert telling(asked("是什么")) == "是什么"


@pytest.mark.parametrize(
    ("text", "relation", "other"),
    [
        ("苏格拉底的主要研究领域有哪些", "主要领域", "主要作品"),
        ("珠穆朗玛峰有多高", "海拔", "面积"),
        ("他的老婆是谁", "妻子", "儿子"),
        ("物业是什么类型", "物业类型", "物业公司电话"),
        ("who directed the film", "director", "producer"),
        ("кто режиссёр фильма", "режиссёр", "продюсер"),
    ],
)
def test_the_relation_that_is_meant_fits_best(text: str, relation: str, other: str) -> None:
    question = asked(text)
    assert question.fit(relation).share > question.fit(other).share


def test_fit_is_the_share_of_the_relations_own_words() -> None:
    question = asked("甲公司的注册资本")
    assert question.fit("注册资本").share == 1.0
    assert question.share(question.fit("注册资本").bits) == pytest.approx(4 / 7)
    assert question.fit("英文名").share == 0.0


def test_a_lone_character_counts_for_less_than_a_word() -> None:
    question = asked("这里的人口")
    assert question.fit("人口").share == 1.0
    assert question.fit("负责人").share < 0.3


def test_a_bases_own_synonyms_are_heard() -> None:
    own = user_thesaurus([["掌门", "董事长"]])
    assert graph_query("甲公司的掌门是谁", ANALYSER, own).fit("董事长").share > 0.9
    assert asked("甲公司的掌门是谁").fit("董事长").share < 0.5


def test_a_relation_without_any_unit_that_is_sought_does_not_fit() -> None:
    relations = ("注册资本", "资本金", "的", "妻子", "海拔", "英文名", "主要领域", "代表作品", "capital", "公司", "")
    for text in ("甲公司的注册资本", "珠穆朗玛峰有多高", "他的老婆是谁", "what is the capital", "是什么", "公司的的"):
        question = asked(text)
        for relation in relations:
            own = units_of(relation)
            assert question.fit(relation) == question._fit(own), (text, relation)
            assert not question.sought.isdisjoint(own) or question.fit(relation).share == 0.0
