"""Ways through the graph that say what a question says, and the walk from what it names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qianxun.core.types import Scores
from qianxun.graph.network import local_search as searching
from qianxun.graph.network import walk as walking
from qianxun.graph.network.knowledge_graph import KnowledgeGraph, entity_id, graph_from_facts
from qianxun.graph.network.local_search import LocalResult, _paths, local_search
from qianxun.graph.network.walk import Transitions, TypeFit, walk
from qianxun.question.graph_query import graph_query
from qianxun.text.chinese import Analyser
from tests.graph.telling import prose, triple

ANALYSER = Analyser()
FILMS = [
    triple(1, "文森特·卡塞尔", "代表作品", "美女与野兽"),
    triple(2, "美女与野兽", "imdb编码", "tt2316801"),
    triple(3, "美女与野兽", "导演", "克里斯多夫"),
    triple(4, "文森特·卡塞尔", "国籍", "法国"),
    triple(5, "法国", "首都", "巴黎"),
    triple(6, "美丽人生", "imdb编码", "tt0118799"),
]


def asked(graph: KnowledgeGraph, text: str) -> LocalResult:
    return local_search(graph, graph_query(text, ANALYSER))


def test_both_steps_of_a_question_stand_before_all_else() -> None:
    found = asked(graph_from_facts(FILMS), "你知道文森特·卡塞尔的代表作品的imdb编码是多少吗？").chunks
    assert set(found.keys[:2].tolist()) == {1, 2}
    assert found.scores[1] > 2 * found.scores[2]


def test_a_relation_is_followed_against_its_direction_too() -> None:
    found = asked(graph_from_facts(FILMS), "谁的代表作品是美女与野兽").chunks
    assert found.keys[0] == 1


def test_a_busy_crossing_does_not_drown_what_is_asked_for() -> None:
    crowd = [triple(100 + at, f"{at}号演员", "国籍", "法国") for at in range(300)]
    found = asked(graph_from_facts([*FILMS, *crowd]), "文森特·卡塞尔的国籍的首都是哪里").chunks
    assert set(found.keys[:2].tolist()) == {4, 5}


def test_scores_are_within_bounds_sorted_and_ties_by_key() -> None:
    crowd = [triple(100 + at, f"{at}号演员", "国籍", "法国") for at in range(30)]
    found = asked(graph_from_facts([*FILMS, *crowd]), "法国有哪些演员").chunks
    assert ((found.scores > 0) & (found.scores <= 1)).all()
    assert found.hits == tuple(sorted(found.hits, key=lambda hit: (-hit.score, hit.key)))


def test_a_question_that_names_nothing_finds_nothing() -> None:
    found = asked(graph_from_facts(FILMS), "今天天气如何")
    assert (len(found.chunks), found.entities, found.relations) == (0, {}, {})


def test_prose_is_reached_over_the_name_that_two_chunks_share() -> None:
    texts = [
        prose(1, "The Hukilau Song", "Jack Owens"),
        prose(2, "Jack Owens", "Tecumseh"),
        prose(3, "Someone Else", "Elsewhere"),
    ]
    found = asked(graph_from_facts(texts), "Where was the writer of The Hukilau Song born?").chunks
    assert found.keys.tolist()[:2] == [1, 2]
    assert 3 not in found.keys


def test_a_chunk_that_begins_with_a_name_is_about_it() -> None:
    graph = graph_from_facts([prose(1, "周作人", "鲁迅"), prose(2, "鲁迅", "许广平")])
    assert asked(graph, "鲁迅的生平").chunks.keys.tolist() == [2, 1]


def test_the_same_question_gives_the_same_answer() -> None:
    one, other = graph_from_facts(FILMS), graph_from_facts(FILMS[::-1])
    text = "文森特·卡塞尔的代表作品"
    assert asked(one, text).chunks == asked(other, text).chunks
    assert asked(one, text).entities == asked(other, text).entities


def test_other_wordings_walk_again_only_where_they_ask_for_another_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []

    def counted(*given: Any) -> Any:
        walked.append(1)
        return walk(*given)

    monkeypatch.setattr(searching, "walk", counted)
    graph = graph_from_facts(FILMS)
    texts = ["美女与野兽的情况", "美女与野兽的情节", "美女与野兽的导演", "法国的情况", "美女与野兽的情况"]
    for text, times in zip(texts, (1, 1, 2, 3, 4), strict=True):
        found = asked(graph, text)
        assert len(walked) == times
        fresh = local_search(graph_from_facts(FILMS), graph_query(text, ANALYSER))
        walked.pop()
        assert (found.chunks, found.entities, found.relations) == (fresh.chunks, fresh.entities, fresh.relations)


def test_a_walk_ends_where_it_began_and_loses_nobody() -> None:
    graph = graph_from_facts(FILMS)
    start = np.zeros(len(graph.transitions))
    start[graph.row(entity_id("美女与野兽"))] = 2.0
    there = walk(graph.transitions, start, lambda kinds: np.zeros(len(kinds)))
    assert there.sum() == pytest.approx(1.0)
    assert int(there.argmax()) == graph.row(entity_id("美女与野兽"))


def _walked_in_full(graph: Transitions, start: Scores, fit: TypeFit) -> Scores:
    """The walk by its definition: every share of every step worked out anew."""
    here, left, visited = start / start.sum(), 1.0, np.zeros(len(graph))
    for _ in range(walking.STEPS):
        visited += walking.RESTART * left * here
        left *= 1.0 - walking.RESTART
        front = np.flatnonzero(here)
        front = np.sort(front[np.lexsort((front, -here[front]))[: walking.FRONTIER]])
        reached = np.zeros(len(graph))
        for node in front.tolist():
            own = slice(graph.begins[node], graph.begins[node + 1])
            is_relation = graph.type[own] >= 0
            drawn = np.where(is_relation, walking.OTHER_TYPE_WEIGHT + fit(graph.type[own]), 1.0) * graph.weight[own]
            # Summed one after the other, as `np.bincount` does.
            by_relations, by_chunks = (sum(drawn[mask].tolist(), 0.0) for mask in (is_relation, ~is_relation))
            to_chunks = (walking.TO_CHUNKS if by_chunks else 0.0) if by_relations else 1.0
            related, other = (1.0 - to_chunks) / max(by_relations, 1e-300), to_chunks / max(by_chunks, 1e-300)
            for to, weight in zip(
                graph.to[own], here[node] * (drawn * np.where(is_relation, related, other)), strict=True
            ):
                reached[to] += weight
        here = reached
    return visited + left * here


@pytest.mark.parametrize("frontier", [2, 7, 1_000])
def test_a_walk_has_the_very_digits_of_its_definition(frontier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "FRONTIER", frontier)
    crowd = [triple(100 + at, f"{at}号演员", "国籍" if at % 3 else "代表作品", "法国") for at in range(40)]
    texts = [prose(200 + at, f"{at}号演员", "巴黎", "法国") for at in range(20)]
    graph = graph_from_facts([*FILMS, *crowd, *texts])
    for text in ("法国有哪些演员的国籍", "文森特·卡塞尔的代表作品", "巴黎的情况"):
        question = graph_query(text, ANALYSER)
        start = searching._start(graph, question, graph.find(question.folded))
        fits = searching.TypeFits(graph, question)
        found = walk(graph.transitions, start, fits)
        assert np.count_nonzero(found) > 5
        assert found.tolist() == _walked_in_full(graph.transitions, start, fits).tolist()


def test_relations_among_some_entities_are_those_with_both_ends_there() -> None:
    crowd = [triple(100 + at, f"{at}号演员", "国籍", "法国") for at in range(30)]
    graph = graph_from_facts([*FILMS, *crowd])
    names = ("法国", "巴黎", "文森特·卡塞尔", "3号演员")
    rows = graph.rows(map(entity_id, names))
    ends = zip(graph.relations.source.tolist(), graph.relations.target.tolist(), strict=True)
    among = [at for at, (one, other) in enumerate(ends) if one in rows and other in rows]
    assert len(among) == 3
    assert graph.relations_among(rows).tolist() == among
    assert graph.relations_among([]).tolist() == []


def test_a_walk_prefers_what_is_asked_for() -> None:
    graph = graph_from_facts(FILMS)
    start = np.zeros(len(graph.transitions))
    start[graph.row(entity_id("美女与野兽"))] = 1.0
    wanted = graph.types.index("导演")
    there = walk(graph.transitions, start, lambda kinds: (kinds == wanted).astype(np.float64))
    director, code = graph.row(entity_id("克里斯多夫")), graph.row(entity_id("tt2316801"))
    assert director is not None
    assert code is not None
    assert there[director] > 2 * there[code]


def test_a_way_goes_no_tie_twice() -> None:
    graph = graph_from_facts(FILMS)
    question = graph_query("文森特·卡塞尔的代表作品的代表作品", ANALYSER)
    for way, score in _paths(graph, question, graph.find(question.folded)):
        assert len(set(way.relations)) == len(way.relations)
        assert 0.0 <= score <= 1.0
