"""The graph is a function of the facts: whatever came first, and whatever else was there before."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.graph_types import CO_OCCURRENCE, Alias, ChunkFacts, Evidence
from qianxun.graph.network.columns import FactColumns
from qianxun.graph.network.knowledge_graph import KnowledgeGraph, derive_graph, entity_id, graph_from_facts
from tests.graph.telling import TERM, alias, prose, triple
from tests.hypothesis_settings import examples

FACTS = [
    triple(11, "文森特·卡塞尔", "代表作品", "美女与野兽"),
    triple(12, "美女与野兽", "imdb编码", "tt2316801"),
    triple(13, "龙晶（游戏）", "繁体", "龍晶"),
    prose(21, "鲁迅", "周作人", "绍兴"),
    prose(22, "鲁迅", "绍兴"),
    alias(31, "世界卫生组织", "世卫组织"),
    prose(32, "世卫组织", "日内瓦"),
]


def names(graph: KnowledgeGraph) -> set[str]:
    return {each.name for each in graph.entities}


def shape(graph: KnowledgeGraph) -> tuple[object, ...]:
    """Everything that is shown of a graph."""
    relations = graph.relations_of(each.id for each in graph.entities)
    return graph.entities, relations, graph.communities.labels.tolist(), graph.chunks.tolist()


def test_an_entitys_id_is_made_of_its_name_alone() -> None:
    graph = graph_from_facts(FACTS)
    entity = graph.entity(entity_id("鲁迅"))
    assert entity is not None
    assert (entity.name, entity.type, entity.chunks) == ("鲁迅", "PERSON", 2)
    assert entity_id("魯迅 ") == entity_id("鲁迅")
    assert graph.entity(entity_id("老舍")) is None


def test_a_relation_has_its_direction_and_the_characters_that_say_so() -> None:
    graph = graph_from_facts(FACTS)
    (relation,) = graph.relations_of([entity_id("文森特·卡塞尔")])
    assert (relation.source, relation.target) == (entity_id("文森特·卡塞尔"), entity_id("美女与野兽"))
    assert (relation.type, relation.weight) == ("代表作品", 1.0)
    assert relation.evidence == (Evidence(11, 0, len("文森特·卡塞尔 的 代表作品 是 美女与野兽")),)


def test_names_that_share_sentences_are_tied_by_how_many() -> None:
    graph = graph_from_facts(FACTS)
    relation_columns = {
        frozenset((each.source, each.target)): each
        for each in graph.relations_of([entity_id("鲁迅")])
        if each.type == CO_OCCURRENCE
    }
    pair = frozenset((entity_id("鲁迅"), entity_id("绍兴")))
    assert relation_columns[pair].weight == 2.0
    assert [each.chunk for each in relation_columns[pair].evidence] == [21, 22]


def test_what_is_stated_needs_no_co_occurrence_beside_it() -> None:
    graph = graph_from_facts([triple(1, "甲公司", "总部", "上海")])
    assert [each.type for each in graph.relations_of([entity_id("甲公司")])] == ["总部"]


def test_a_candidate_in_a_single_chunk_is_no_entity_unless_something_is_stated_of_it() -> None:
    once, twice = prose(1, "散步", "天气", kind=TERM), prose(2, "天气", kind=TERM)
    assert names(graph_from_facts([once, twice])) == {"天气"}
    assert names(graph_from_facts([triple(1, "散步", "好处", "放松")])) == {"散步", "放松"}


def test_an_alias_that_a_text_states_is_the_same_entity() -> None:
    graph = graph_from_facts(FACTS)
    entity = graph.entity(entity_id("世界卫生组织"))
    assert entity is not None
    assert (entity.aliases, entity.chunks) == (("世卫组织",), 2)
    assert graph.entity(entity_id("世卫组织")) is None
    assert graph.chunks_of([entity.id]).tolist() == [31, 32]


def test_an_alias_that_two_texts_give_to_two_things_is_neithers() -> None:
    graph = graph_from_facts([alias(1, "甲有限公司", "公司"), alias(2, "乙有限公司", "公司")])
    assert names(graph) == {"甲有限公司", "乙有限公司", "公司"}


def test_what_people_decide_holds_and_can_be_taken_back() -> None:
    columns = FactColumns()
    columns.add(FACTS)
    merged = derive_graph(columns, [Alias("鲁迅", "周作人")])
    assert "周作人" not in names(merged)
    assert shape(derive_graph(columns)) == shape(graph_from_facts(FACTS))


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_arrival_makes_no_difference(seed: int) -> None:
    mixed = FACTS.copy()
    random.Random(seed).shuffle(mixed)
    assert shape(graph_from_facts(mixed)) == shape(graph_from_facts(FACTS))


def test_what_was_there_before_makes_no_difference() -> None:
    columns = FactColumns()
    columns.add([prose(key, f"某人{key}", "鲁迅", "美女与野兽") for key in range(100, 300)])
    before = derive_graph(columns)
    assert len(before.communities) > 0
    columns.add(FACTS)
    columns.remove(range(100, 300))
    after = derive_graph(columns, before=before)
    assert shape(after) == shape(graph_from_facts(FACTS))


def test_a_chunk_read_again_counts_once() -> None:
    columns = FactColumns()
    columns.add(FACTS)
    columns.add([triple(11, "文森特·卡塞尔", "职业", "演员")])
    graph = derive_graph(columns)
    assert [each.type for each in graph.relations_of([entity_id("文森特·卡塞尔")])] == ["职业"]


_NAMES = st.sampled_from(["甲", "乙方", "丙公司", "丁（人物）", "戊·己", "庚辛"])
_CHUNKS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(_NAMES, min_size=2, max_size=4, unique=True)), min_size=1, max_size=12
)


def _made(chunks: list[tuple[int, list[str]]]) -> list[ChunkFacts]:
    made = []
    for key, (kind, held) in enumerate(chunks, 1):
        if kind == 0:
            made.append(triple(key, held[0], "关系", held[1]))
        else:
            made.append(prose(key, *held) if kind == 1 else alias(key, held[0], held[1]))
    return made


@examples(60)
@given(_CHUNKS, st.sets(st.integers(1, 12)))
def test_restricted_is_what_the_other_chunks_would_have_given(
    chunks: list[tuple[int, list[str]]], kept: set[int]
) -> None:
    facts = _made(chunks)
    allowed = [each for each in facts if each.chunk in kept]
    assert shape(graph_from_facts(facts).restricted(kept)) == shape(graph_from_facts(allowed))


def test_importance_is_between_zero_and_one_and_the_hub_has_one() -> None:
    graph = graph_from_facts([triple(key, f"县{key}", "属于", "省") for key in range(1, 8)])
    hub = graph.entity(entity_id("省"))
    assert hub is not None
    assert hub.importance == 1.0
    assert all(0.0 < each.importance <= 1.0 for each in graph.entities)


def test_an_empty_graph_answers_everything_with_nothing() -> None:
    graph = graph_from_facts([])
    assert (len(graph), graph.entities, graph.relations_of(["e_1"]), graph.find("鲁迅")) == (0, (), (), ())
    assert graph.chunks_of(["e_1"]).tolist() == []
    assert len(graph.communities) == 0
    assert graph.restricted({1}).chunks.tolist() == []


# ── names in a question ──────────────────────────────────────────────────────────────────────────


def found(graph: KnowledgeGraph, text: str) -> list[str]:
    return [graph.name(each.entity) for each in graph.find(text)]


def test_a_longer_name_stands_before_the_shorter_one_inside_it() -> None:
    graph = graph_from_facts([prose(1, "北京大学", "北京"), prose(2, "大学城", "北京")])
    matches = graph.find("北京大学的校长是谁？")
    assert [(graph.name(each.entity), each.is_nested) for each in matches] == [("北京大学", False), ("北京", True)]
    assert matches[0].weight > 2 * matches[1].weight


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("龙晶的繁体怎么写", "龙晶"),
        ("龍晶（遊戲）的繁体", "龙晶（游戏）"),
        ("卡塞尔演过什么", "文森特·卡塞尔"),
        ("ＴＴ2316801是哪部电影", "tt2316801"),
        ("世卫组织在哪里", "世界卫生组织"),
        ("文森特·卡塞耳演过什么", "文森特·卡塞尔"),  # as nobody writes it
    ],
)
def test_things_are_found_by_every_form_of_their_name(text: str, name: str) -> None:
    assert name in found(graph_from_facts(FACTS), text)


def test_a_name_does_not_begin_inside_a_word_or_number() -> None:
    graph = graph_from_facts([prose(1, "art", "12")])
    assert found(graph, "2012 department") == []
    assert set(found(graph, "the art of 12")) == {"art", "12"}


def test_a_name_that_merely_looks_alike_is_taken_only_where_none_stands() -> None:
    graph = graph_from_facts(FACTS)
    assert found(graph, "世界卫生组积与鲁迅") == ["鲁迅"]
    (match,) = graph.find("世界卫生组积")
    assert (graph.name(match.entity), match.start, match.end) == ("世界卫生组织", 0, 5)
    assert match.weight < 0.5


def test_names_of_others_take_nobodys_place() -> None:
    crowd = [prose(100 + at, f"世界卫生组织{at}号", "某地") for at in range(200)]
    graph = graph_from_facts([*FACTS, *crowd]).restricted({31, 32})
    assert found(graph, "世界卫生组积") == ["世界卫生组织"]


def test_many_names_inside_one_another_are_found_in_time() -> None:
    graph = graph_from_facts([prose(at, "哈" * at, "呵" * at) for at in range(2, 60)])
    assert found(graph, "哈" * 400)[0] == "哈" * 59


def test_a_restricted_graph_finds_no_name_of_others() -> None:
    graph = graph_from_facts(FACTS).restricted({21, 22})
    assert found(graph, "卡塞尔与鲁迅和世卫组织") == ["鲁迅"]
    assert np.array_equal(graph.chunks, [21, 22])


def test_a_name_that_only_others_tell_is_not_seen_where_people_made_it_one_with_another() -> None:
    facts = [triple(1, "青松公司", "位于", "杭州"), triple(2, "玄武计划", "代号", "黑水"), prose(3, "朱雀计划", "上海")]
    given = [Alias("玄武计划", "青松公司"), Alias("玄武计划", "朱雀计划")]
    graph = graph_from_facts(facts, given)
    assert "玄武计划" in names(graph)
    seen = graph.restricted({1, 3})
    assert "玄武计划" not in repr(seen.entities)
    assert seen.entity(entity_id("玄武计划")) is None
    assert [entity for entity in seen.entities if entity.aliases == ("青松公司",)]  # still one thing
    assert not seen.find("玄武计划的代号")
    alone = seen.restricted({1})
    assert {"青松公司", "杭州"} == names(alone)
    assert not alone.find("朱雀计划")
    assert not alone.find("玄武计划")


def test_a_name_that_people_gave_and_no_text_tells_is_seen_under_every_filter() -> None:
    graph = graph_from_facts([triple(1, "青松公司", "位于", "杭州")], [Alias("松松", "青松公司")])
    assert "松松" in names(graph.restricted({1}))
    assert graph.restricted({1}).find("松松在哪里")


def test_names_that_texts_give_an_entity_are_shown_and_what_people_call_it_as_they_write_it() -> None:
    facts = [alias(1, "世界卫生组织", "WHO"), prose(2, "世界卫生组织", "日内瓦")]
    bare = [replace(each, facts=replace(each.facts, mentions=each.facts.mentions[:1])) for each in facts[:1]]
    graph = graph_from_facts([*bare, *facts[1:]])
    entity = graph.entity(entity_id("世界卫生组织"))
    assert entity is not None
    assert entity.aliases == ("WHO",)
    renamed = graph_from_facts(facts, [Alias("UN Health", "世界卫生组织")])
    assert "UN Health" in names(renamed)


def test_where_texts_close_a_circle_of_decisions_all_go_by_the_name_that_people_merged_no_further() -> None:
    facts = [alias(1, "世界卫生组织", "世卫组织"), prose(2, "WHO", "日内瓦")]
    graph = graph_from_facts(facts, [Alias("世卫组织", "WHO"), Alias("WHO", "世界卫生组织")])
    assert graph.entity(entity_id("WHO")) is None
    assert "世卫组织" in names(graph)
