"""Which questions ask for a tie, and what states it."""

from __future__ import annotations

import pytest

from qianxun.core.graph_types import RequestedRelation
from qianxun.graph.network.knowledge_graph import graph_from_facts
from qianxun.graph.network.local_search import local_search
from qianxun.question.graph_query import graph_query
from qianxun.text.chinese import Analyser
from tests.graph.telling import triple

ANALYSER = Analyser()
CAST = graph_from_facts(
    [
        triple(1, "沈长安", "妹妹", "沈长宁"),
        triple(2, "沈长安", "生父", "谢无咎"),
        triple(3, "顾清辞", "师父", "谢无咎"),
        triple(4, "沈长安", "仇人", "韩千秋"),
    ]
)


def asked(question: str) -> RequestedRelation | None:
    return local_search(CAST, graph_query(question, ANALYSER)).requested


def stating(question: str) -> set[int]:
    tie = asked(question)
    assert tie is not None
    return {place.chunk for place in tie.evidence}


@pytest.mark.parametrize(
    "question",
    [
        "沈长宁是沈长安的什么人",
        "沈长安是沈长宁的谁？",
        "沈长安和沈长宁是什么关系",
        "沈长宁与沈长安之间有什么关系？",
        "沈长安跟沈长宁的关系",
        "沈长安和沈长宁的关系是什么",
        "沈长安的妹妹是谁",
        "沈长安的亲妹妹叫什么名字？",
        "谁是沈长安的妹妹",
        "沈长宁是谁的妹妹",
        "谁的妹妹是沈长宁",
        "“沈长宁”是“沈长安”的什么人",
    ],
)
def test_what_states_the_tie_that_is_asked_for_is_known(question: str) -> None:
    assert stating(question) == {1}


def test_a_relation_has_a_direction() -> None:
    assert asked("沈长宁的妹妹是谁") is None
    assert asked("沈长安是谁的妹妹") is None


def test_one_name_may_have_a_tie_of_that_kind_to_several() -> None:
    assert stating("谢无咎是谁的师父") == {3}
    assert stating("谢无咎和顾清辞是什么关系") == {3}


def test_two_names_that_nothing_ties_are_asked_of_all_the_same() -> None:
    assert asked("沈长宁和韩千秋是什么关系") == RequestedRelation(("沈长宁", "韩千秋"))


@pytest.mark.parametrize(
    "question",
    [
        "沈长安的父仇是谁结下的",
        "沈长安为什么和韩千秋结仇",
        "沈长安的师父是谁",
        "沈长安的妹妹喜欢谁",
        "沈长安和沈长宁去了哪里",
        "沈长安的妹妹的师父是谁",
        "妹妹是谁",
    ],
)
def test_other_questions_ask_for_no_tie(question: str) -> None:
    assert asked(question) is None


def test_what_states_it_stands_before_all_else() -> None:
    crowd = [triple(100 + at, f"第{at}人", "妹妹", "沈长宁") for at in range(30)]
    graph = graph_from_facts([*crowd, triple(1, "沈长安", "妹妹", "沈长宁")])
    found = local_search(graph, graph_query("沈长安和沈长宁是什么关系", ANALYSER)).chunks
    assert found.hits[0] == (1, 1.0)
