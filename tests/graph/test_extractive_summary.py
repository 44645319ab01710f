"""A summary says what its sources say, word for word."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.graph_types import CO_OCCURRENCE, Entity, Evidence, Relation
from qianxun.graph.network.summaries import BUDGET, _ends, _whole, digest, evidence_for, extractive_summary
from qianxun.text.tokens import tokens
from tests.hypothesis_settings import examples

DIABETES = Entity("e1", "糖尿病", "DISEASE", chunks=3, importance=1.0)
INSULIN = Entity("e2", "胰岛素", "MEDICINE", chunks=2, importance=0.5)
SUGAR = Entity("e3", "血糖", "TERM", chunks=2, importance=0.4)
TEXTS = {
    1: "概述\n糖尿病是一种慢性病。胰岛素可以治疗糖尿病，但并非人人适用！其他略。",
    2: "  血糖升高是糖尿病的主要表现。",
    3: "胰岛素可以治疗糖尿病，但并非人人适用！",
}


def at(chunk: int, part: str) -> Evidence:
    start = TEXTS[chunk].index(part)
    return Evidence(chunk, start, start + len(part))


TREATS = Relation("e2", "e1", "治疗", 2.0, (at(1, "胰岛素可以治疗糖尿病"), at(3, "胰岛素可以治疗糖尿病")))
SHOWS = Relation("e1", "e3", CO_OCCURRENCE, 1.0, (at(2, "血糖升高是糖尿病的主要表现"),))


def test_a_summary_is_whole_sentences_each_with_its_place() -> None:
    found = extractive_summary([INSULIN, DIABETES, SUGAR], [TREATS, SHOWS], TEXTS)
    assert found.summary == "胰岛素可以治疗糖尿病，但并非人人适用！\n血糖升高是糖尿病的主要表现。"  # 但 is not cut off
    assert found.sources == (at(1, "胰岛素可以治疗糖尿病，但并非人人适用！"), at(2, "血糖升高是糖尿病的主要表现。"))
    assert (found.entities, found.title, found.origin) == (("e1", "e2", "e3"), "糖尿病、胰岛素、血糖", "extractive")


def test_a_sentence_that_leans_on_the_one_before_it_comes_second() -> None:
    texts = {1: "它用于治疗糖尿病的药物中，胰岛素最早。", 2: "治疗糖尿病的药物中，胰岛素出现得最早。"}
    relation = Relation("e2", "e1", "治疗", 1.0, (Evidence(1, 3, 8), Evidence(2, 0, 5)))
    assert extractive_summary([DIABETES, INSULIN], [relation], texts).summary == texts[2]


def test_members_without_relations_are_told_of_by_where_they_stand() -> None:
    found = extractive_summary([SUGAR], [], TEXTS, mentions=[at(2, "血糖")])
    assert found.summary == "血糖升高是糖尿病的主要表现。"


def test_a_place_without_a_text_is_not_quoted() -> None:
    assert extractive_summary([DIABETES, INSULIN], [TREATS], {}).summary == ""
    assert extractive_summary([DIABETES, INSULIN], [TREATS], {1: "短"}).sources == ()


def test_what_is_read_is_said_before() -> None:
    assert evidence_for([SHOWS, TREATS]) == (*TREATS.evidence, *SHOWS.evidence)
    assert evidence_for([], [at(2, "血糖")]) == (at(2, "血糖"),)


def test_another_text_at_the_source_is_another_summary() -> None:
    one = extractive_summary([DIABETES, INSULIN], [TREATS], TEXTS)
    other = extractive_summary(
        [DIABETES, INSULIN], [TREATS], {key: text.replace("并非人人", "人人都") for key, text in TEXTS.items()}
    )
    assert one.id == other.id
    assert digest(one) != digest(other)


def test_the_keys_of_chunks_decide_nothing() -> None:
    renamed = {key + 100: TEXTS[4 - key] for key in (1, 2, 3)}

    def moved(relation: Relation) -> Relation:
        return replace(
            relation, evidence=tuple(replace(each, chunk=104 - each.chunk) for each in reversed(relation.evidence))
        )

    one = extractive_summary([DIABETES, INSULIN, SUGAR], [TREATS, SHOWS], TEXTS)
    other = extractive_summary([SUGAR, INSULIN, DIABETES], [moved(SHOWS), moved(TREATS)], renamed)
    assert (one.id, one.summary) == (other.id, other.summary)


words = st.text(st.sampled_from("糖尿病胰岛素血糖a1 。！？\n，“”"), max_size=60)


@given(texts=st.lists(words, min_size=1, max_size=5), data=st.data(), budget=st.integers(0, 60))
@examples(150)
def test_every_line_of_a_summary_stands_at_its_source_and_none_is_over_budget(
    texts: list[str], data: st.DataObject, budget: int
) -> None:
    held = dict(enumerate(texts))
    places = st.builds(Evidence, st.integers(0, 6), st.integers(0, 30), st.integers(0, 60))
    relations = [
        Relation(one, other, kind, 1.0, tuple(data.draw(st.lists(places, max_size=5))))
        for one, other, kind in (("e1", "e2", "治疗"), ("e2", "e3", CO_OCCURRENCE), ("e3", "e9", "属于"))
    ]
    found = extractive_summary([DIABETES, INSULIN, SUGAR], relations, held, budget=budget)
    assert "\n".join(held[each.chunk][each.start : each.end] for each in found.sources) == found.summary
    assert tokens(found.summary) <= budget
    for each in found.sources:
        assert _whole(held[each.chunk], _ends(held[each.chunk]), (each.start, each.end)) == (
            each.start,
            each.end,
        )  # nothing is cut
        assert any(
            each.chunk == place.chunk and each.start <= place.end and place.start <= each.end
            for relation in relations
            for place in relation.evidence
        )


def test_a_sentence_too_long_is_passed_over_for_one_that_fits() -> None:
    texts = {1: "糖尿病" + "很" * BUDGET + "常见。", 2: "糖尿病很常见。"}
    relation = Relation("e1", "e2", "治疗", 1.0, (Evidence(1, 0, 3), Evidence(2, 0, 3)))
    assert extractive_summary([DIABETES, INSULIN], [relation], texts).summary == "糖尿病很常见。"
