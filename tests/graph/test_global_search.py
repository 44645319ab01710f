"""The communities that a question is about, and the chunks that tell of them."""

from __future__ import annotations

from qianxun.graph.network.global_search import central_themes, global_search
from qianxun.graph.network.knowledge_graph import KnowledgeGraph, graph_from_facts
from qianxun.question.graph_query import graph_query
from qianxun.text.chinese import Analyser
from tests.graph.telling import triple

ANALYSER = Analyser()
FILMS = [triple(at, "卡塞尔", "代表作品", f"电影{at}") for at in range(1, 6)]
TOWNS = [triple(at, "绍兴", "下辖地区", f"{at}号镇") for at in range(11, 16)]


def seen(graph: KnowledgeGraph, text: str) -> tuple[list[set[str]], list[int]]:
    found = global_search(graph, graph_query(text, ANALYSER))
    return [{graph.name(row) for row in theme.entities} for theme in found.themes], found.chunks.keys.tolist()


def test_the_community_that_is_asked_about_comes_first() -> None:
    themes, chunks = seen(graph_from_facts([*FILMS, *TOWNS]), "绍兴的情况")
    assert "绍兴" in themes[0]
    assert set(chunks[:5]) == {11, 12, 13, 14, 15}


def test_a_kind_of_relation_is_enough_to_ask_for() -> None:
    _, chunks = seen(graph_from_facts([*FILMS, *TOWNS]), "有哪些代表作品")
    assert set(chunks[:5]) == {1, 2, 3, 4, 5}


def test_a_question_about_everything_hears_of_every_community() -> None:
    themes, chunks = seen(graph_from_facts([*FILMS, *TOWNS]), "主要讲了什么")
    assert len(themes) == 2
    assert set(chunks) == {*range(1, 6), *range(11, 16)}


def test_scores_are_within_bounds_and_sorted() -> None:
    found = global_search(graph_from_facts([*FILMS, *TOWNS]), graph_query("绍兴的下辖地区", ANALYSER))
    assert all(0.0 < hit.score <= 1.0 for hit in found.chunks.hits)
    assert found.chunks.hits == tuple(sorted(found.chunks.hits, key=lambda hit: (-hit.score, hit.key)))
    assert [theme.score for theme in found.themes] == sorted((each.score for each in found.themes), reverse=True)


def test_a_graph_of_nothing_has_no_themes() -> None:
    assert seen(graph_from_facts([]), "绍兴") == ([], [])


def test_without_a_question_the_communities_of_most_weight_come_whole() -> None:
    graph = graph_from_facts([*FILMS, *TOWNS, triple(31, "甲", "乙", "丙")])
    themes = [{graph.name(row) for row in theme.entities} for theme in central_themes(graph, 5)]
    assert len(themes) == 3
    assert themes[-1] == {"甲", "丙"}
    assert {len(each) for each in themes[:2]} == {6}
    assert len(central_themes(graph, 1)) == 1
