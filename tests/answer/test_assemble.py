"""What a generator is given: nothing twice, whole sentences, never more than the budget."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.answer.assemble import assemble, is_beside, passage
from qianxun.answer.prompt import answer_messages
from qianxun.core.answer_types import AnswerContext, Passage
from qianxun.core.errors import BadInput
from qianxun.core.graph_types import Community, Entity, GraphContext, Relation
from qianxun.core.types import ArmScore, Attributes, Chunk, ChunkKind, Found
from qianxun.text.tokens import context_tokens, tokens
from tests.hypothesis_settings import examples

CONTENT = "糖尿病是慢性病。它的症状是多饮、多尿。并发症可以预防！治疗要听医生的。饮食须清淡，不可多糖。"


def found(
    start: int, end: int, *, doc: str = "手册", content: str = CONTENT, lead: str = "", score: float = 0.9
) -> Found:
    kind: ChunkKind = "table" if lead else "text"
    chunk = Chunk(
        key=start,
        chunk_id=f"c_1_{doc}_{start}",
        doc_id=doc,
        doc_name=f"{doc}.pdf",
        index=start,
        text=lead + content[start:end],
        start=start,
        end=end,
        kind=kind,
        headings=("第一章",),
        page=3,
        generation=1,
        attributes=Attributes(doc, metadata={"年份": 2024, "作者": ("甲", "乙")}),
    )
    return Found(chunk, score, "hybrid", {"vector": ArmScore(1, score, score)})


def test_a_passage_has_text_source_and_score() -> None:
    told = assemble([found(0, 8), found(8, 18, score=0.5)])
    assert [each.number for each in told.passages] == [1, 2]
    first = told.passages[0]
    assert (first.text, first.score, first.doc_id, first.chunk_id) == ("糖尿病是慢性病。", 0.9, "手册", "c_1_手册_0")
    assert first.metadata == {
        "source": "手册.pdf",
        "chunk_id": "c_1_手册_0",
        "found_by": "hybrid",
        "kind": "text",
        "headings": ["第一章"],
        "page": 3,
        "document": {"年份": 2024, "作者": ["甲", "乙"]},
    }


def test_where_chunks_overlap_the_later_says_only_what_is_new() -> None:
    told = assemble([found(0, 19), found(8, 27)])
    assert [each.text for each in told.passages] == ["糖尿病是慢性病。它的症状是多饮、多尿。", "并发症可以预防！"]


def test_a_sentence_that_begins_inside_the_overlap_stays_whole() -> None:
    told = assemble([found(0, 22), found(8, len(CONTENT))])  # the first chunk was cut within 并发症可以预防
    second = told.passages[1]
    assert second.text.startswith("并发症可以预防！")
    assert CONTENT[second.start : second.end] == second.text


def test_what_stands_within_a_better_passage_is_left_out_and_not_counted() -> None:
    told = assemble([found(0, 30), found(8, 18), found(0, 30, doc="抄本")])
    assert len(told.passages) == 1
    assert told.left_out == 0


def test_the_same_span_of_another_document_is_another_passage() -> None:
    other = "".join(reversed(CONTENT))
    assert len(assemble([found(0, 18), found(0, 18, doc="另一本", content=other)]).passages) == 2


def test_a_table_keeps_its_header_and_says_how_long_it_is() -> None:
    rows = "甲 | 1\n乙 | 2\n"
    told = assemble([found(0, len(rows), content=rows, lead="名 | 数\n")])
    assert told.passages[0].text == "名 | 数\n甲 | 1\n乙 | 2\n"
    assert told.passages[0].metadata["lead"] == len("名 | 数\n")


def test_a_first_passage_that_is_too_large_is_cut_after_a_whole_sentence() -> None:
    told = assemble([found(0, len(CONTENT)), found(0, 8, doc="另一本")], budget=60)
    assert [each.text for each in told.passages] == ["糖尿病是慢性病。它的症状是多饮、多尿。"]
    assert (told.passages[0].start, told.passages[0].end) == (0, 19)
    assert told.left_out == 1
    rows = "甲 | 1\n乙 | 2\n"
    table = assemble([found(0, len(rows), content=rows, lead="名 | 数\n")], budget=48)
    assert table.passages[0].text == "名 | 数\n甲 | 1\n"
    assert table.passages[0].end == len("甲 | 1\n")


def test_what_had_no_room_has_not_been_said() -> None:
    told = assemble([found(0, 8), found(8, len(CONTENT)), found(19, 27)], budget=92)
    assert [each.text for each in told.passages] == ["糖尿病是慢性病。", "并发症可以预防！"]
    assert told.left_out == 1


def test_what_came_with_the_question_stands_first() -> None:
    given_table = Passage(0, "", "随问题给出的表格", "", "血糖 | 7.8")
    told = assemble([found(0, 8)], given=[given_table])
    assert [(each.number, each.text) for each in told.passages] == [(1, "血糖 | 7.8"), (2, "糖尿病是慢性病。")]


def test_a_graph_leaves_room_for_passages() -> None:
    entities = tuple(Entity(f"e{at}", "糖尿病" * 5, "DISEASE") for at in range(200))
    told = assemble([found(0, 8)], budget=200, graph=GraphContext(entities))
    assert told.passages[0].text == "糖尿病是慢性病。"
    assert 0 < context_tokens(told.graph) <= 50


def test_the_prompt_costs_no_more_than_the_context_says() -> None:
    entities = tuple(Entity(f"e{at}", "糖尿病", "DISEASE") for at in range(20))
    relations = tuple(Relation("e0", each.id, "相关", 1.0) for each in entities)
    graph = GraphContext(entities, relations, (Community("c", (), "病", "糖尿病是慢性病。", (), "extractive"),))
    several = [found(at, at + 7, doc=f"手册{at}") for at in range(12)]
    bare = tokens(answer_messages("症状？", AnswerContext())[-1].content)
    for budget in (200, 500, 1000):
        told = assemble(several, budget=budget, graph=graph)
        asked = answer_messages("症状？", told)[-1].content
        wrapping = tokens("<关系>\n</关系>\n（<关系> 只供理解，不能作为依据引用。）\n")
        assert tokens(asked) - bare - wrapping <= told.tokens <= budget


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(BadInput, match="预算"):
        assemble([], budget=-1)


spans = st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(1, len(CONTENT))).filter(lambda pair: pair[0] < pair[1])
offered = st.lists(st.tuples(spans, st.sampled_from(["手册", "抄本"]), st.sampled_from(["", "名 | 数\n"])), max_size=8)


@given(offered, st.one_of(st.integers(0, 300), st.just(2000)), st.integers(0, 5))
@examples(200)
def test_budgets_hold_and_every_passage_stands_in_its_document(
    several: list[tuple[tuple[int, int], str, str]], budget: int, known: int
) -> None:
    graph = GraphContext(
        tuple(Entity(f"e{at}", "胰岛素", "MEDICINE") for at in range(known)),
        tuple(Relation("e0", f"e{at}", "治疗", 1.0) for at in range(known)),
        (Community("c", (), "病", "糖尿病是慢性病。", (), "extractive"),) * (known > 3),
    )
    results = [found(*span, doc=doc, lead=lead) for span, doc, lead in several]
    told = assemble(results, budget=budget, graph=graph)
    assert sum(tokens(each.text) for each in told.passages) + context_tokens(told.graph) <= told.tokens <= budget
    assert [each.number for each in told.passages] == list(range(1, len(told.passages) + 1))
    for each in told.passages:
        lead = each.metadata.get("lead", 0)
        assert CONTENT[each.start : each.end] == each.text[lead:]
    covered = {(each.doc_id, at) for each in told.passages for at in range(each.start, each.end)}
    if budget == 2000:
        said = {at for _, at in covered}  # one document is a copy of the other
        assert {at for (start, end), _, _ in several for at in range(start, end)} <= said


def test_a_result_as_a_passage() -> None:
    assert passage(found(0, 8), 4).number == 4


# ── what stands around a passage ─────────────────────────────────────────────────────────────────


def test_what_stands_around_a_passage_is_read_with_it() -> None:
    hit = found(8, 19)
    before, after = found(0, 8).chunk, found(19, 27).chunk
    (whole,) = assemble([hit], beside=[before, after]).passages
    assert (whole.text, whole.start, whole.end) == (CONTENT[:27], 0, 27)
    assert whole.chunk_id == hit.chunk.chunk_id


def test_neighbours_come_only_as_far_as_there_is_room_and_never_twice() -> None:
    hit, after = found(8, 19), found(19, 27)
    alone = assemble([hit])
    assert assemble([hit], beside=[after.chunk], budget=alone.tokens + 2) == alone  # not one sentence more fits
    assert [one.text for one in assemble([hit, after], beside=[after.chunk]).passages] == [
        CONTENT[8:19],
        CONTENT[19:27],
    ]
    overlapping = found(15, 27).chunk
    assert [one.text for one in assemble([hit], beside=[overlapping]).passages] == [CONTENT[8:27]]
    assert [one.text for one in assemble([hit], beside=[found(27, 36).chunk]).passages] == [CONTENT[8:19]]  # a gap


def test_a_neighbour_comes_with_its_own_heading() -> None:
    hit = found(8, 19)
    before = replace(found(0, 8).chunk, headings=("第一条",))
    after = replace(found(19, 27).chunk, headings=("第三条",))
    (whole,) = assemble([hit], beside=[before, after]).passages
    places = [CONTENT.index(part) for part in ("糖尿病", "它的症状", "并发症")]
    assert [whole.headings_at(at) for at in places] == [("第一条",), ("第一章",), ("第三条",)]
    (alone,) = assemble([hit]).passages
    assert (alone.sections, alone.headings_at(3)) == ((), ("第一章",))
    (same,) = assemble([hit], beside=[found(0, 8).chunk]).passages
    assert (same.sections, same.headings_at(0)) == ((), ("第一章",))


def test_neighbours_are_of_the_same_section() -> None:
    one, other = found(0, 8).chunk, replace(found(8, 19).chunk, index=1)
    assert is_beside(one, other)
    assert not is_beside(one, replace(other, generation=2))
    assert not is_beside(one, replace(other, kind="table"))
    assert not is_beside(one, replace(other, headings=("第二章",)))
    article = replace(one, headings=("第一章", "第一条"))
    assert is_beside(article, replace(other, headings=("第一章", "第二条")))
    assert not is_beside(replace(article, text="长" * 300), replace(other, headings=("第一章", "第二条")))
