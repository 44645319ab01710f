"""Answers without a language model: every step by rules, every sentence from the sources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.answer_types import Done, SentenceCited, SourcesFound, Token
from qianxun.core.codec.plain import plain
from qianxun.core.errors import BadQuery, NotFound, RecallFailed
from qianxun.core.options import QUERY_MODES, QueryMode
from qianxun.core.types import Document, Eq
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings
from qianxun.testing.scripted import HashEmbedding
from tests.answer.answers_base import DOCUMENTS, Asking, forms, is_sound, said

SYMPTOMS = "糖尿病的主要症状是什么？"
BEFORE = [{"role": "user", "content": SYMPTOMS}, {"role": "assistant", "content": "多饮、多尿[1]。"}]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with Asking(tmp_path_factory.mktemp("answers")) as opened:
        yield opened


def test_an_answer_is_the_sources_own_sentence_with_its_place(asking: Asking) -> None:
    answer = asking.answer(SYMPTOMS)
    assert answer.answer == "糖尿病的主要症状是多饮、多尿、多食和体重下降。[1]"
    (source,) = answer.sources
    assert DOCUMENTS[0].content[source.start : source.end] == source.text
    assert (answer.form, answer.mode, answer.is_declined) == ("extractive", "mix", False)
    assert is_sound(answer)


@pytest.mark.parametrize("mode", QUERY_MODES)
def test_every_mode_answers_and_is_the_one_that_was_asked_for(asking: Asking, mode: QueryMode) -> None:
    answer = asking.answer(SYMPTOMS, mode=mode)
    assert answer.mode == mode
    assert is_sound(answer)
    assert [each["mode"] for each in said(answer, "retrieve")] == ([] if mode == "bypass" else [mode])
    if mode == "bypass":
        assert (answer.form, answer.sources) == ("direct", ())
        assert "没有查阅资料" in answer.answer
    else:
        assert "多饮、多尿" in answer.answer
        assert answer.sources


def test_every_step_says_in_which_form_it_ran(asking: Asking) -> None:
    answer = asking.answer(SYMPTOMS)
    assert forms(answer) == {
        "analyze_query": "rules",
        "route_query": "rules",
        "retrieve": "rules",
        "grade_documents": "rules",
        "generate_answer": "rules",
    }
    assert said(answer, "analyze_query")[0]["entities"] == ["糖尿病"]


def test_what_the_sources_do_not_say_is_declined(asking: Asking) -> None:
    answer = asking.answer("火星基地的驻留人数是多少？")
    assert answer.is_declined
    assert answer.answer.startswith("资料中没有找到")
    assert "最接近的是" in answer.answer
    assert [source.number for source in answer.sources] == [1]
    assert 1 <= len(said(answer, "refine_query")) <= 4
    searched = [each["query"] for each in said(answer, "retrieve")]
    assert len(searched) == len(set(searched)) <= 4  # never the same again, at most three times more


def test_a_question_is_not_searched_again_without_one_of_its_words(asking: Asking) -> None:
    """That finds nothing new, and puts first what answers another question."""
    answer = asking.answer("糖尿病的主要症状在火星基地是什么？")
    assert [each["by"] for each in said(answer, "refine_query")] == ["none"]
    assert len(said(answer, "retrieve")) == 1


@pytest.mark.parametrize("question", ["你好", "谢谢！", "再见", "您好，在吗"])
def test_small_talk_looks_nothing_up(asking: Asking, question: str) -> None:
    answer = asking.answer(question)
    assert answer.form == "direct"
    assert not answer.sources
    assert not said(answer, "retrieve")


@pytest.mark.parametrize(("question", "mode"), [("Hello!", "mix"), ("thanks", "mix"), ("What is it?", "bypass")])
def test_who_speaks_english_is_answered_so_where_nobody_writes(asking: Asking, question: str, mode: QueryMode) -> None:
    answer = asking.answer(question, mode=mode)
    assert answer.form == "direct"
    assert answer.answer.isascii()


def test_a_cell_answers_exactly_and_is_cited_with_its_row(asking: Asking) -> None:
    answer = asking.answer("胸片的价格是多少")
    assert answer.form == "table"
    assert answer.answer.startswith("80")
    assert is_sound(answer)
    (source,) = answer.sources
    assert "胸片" in source.text
    assert source.doc_id == "price"
    assert "价格" in source.metadata["reading"]


@pytest.mark.parametrize("mode", ["naive", "local", "global", "hybrid"])
def test_tables_are_computed_with_in_the_mode_that_looks_in_every_way_alone(asking: Asking, mode: QueryMode) -> None:
    assert asking.answer("胸片的价格是多少", mode=mode).form != "table"


@pytest.mark.parametrize(
    ("question", "answered", "source"),
    [("它怎么治疗？", "胰岛素", "dm"), ("那高血压呢？", "头晕和头痛", "hbp"), ("高血压怎么治疗？", "限盐", "hbp")],
)
def test_a_follow_up_question_is_understood(asking: Asking, question: str, answered: str, source: str) -> None:
    answer = asking.answer(question, history=BEFORE)
    assert answered in answer.answer
    assert [each.doc_id for each in answer.sources] == [source]


def test_whom_the_last_answer_named_a_follow_up_can_mean(asking: Asking) -> None:
    before = [{"role": "user", "content": "红楼梦的作者是谁？"}, {"role": "assistant", "content": "曹雪芹[1]。"}]
    answer = asking.answer("他出生于哪里？", history=before)
    assert said(answer, "analyze_query")[0]["question"] == "曹雪芹出生于哪里"
    assert "江宁" in answer.answer


def test_a_comparison_answers_for_both_sides(asking: Asking) -> None:
    answer = asking.answer("糖尿病和高血压的症状有什么区别？")
    assert {source.doc_id for source in answer.sources} >= {"dm", "hbp"}
    assert is_sound(answer)


def test_a_question_about_everything_is_answered_from_the_communities(asking: Asking) -> None:
    answer = asking.answer("总结一下这些资料", mode=None)
    assert answer.mode == "global"
    assert len(answer.sources) >= 2
    assert is_sound(answer)
    held = {document.id: document.content for document in DOCUMENTS}
    prose = [source for source in answer.sources if source.metadata["kind"] == "text"]
    assert prose
    assert all(held[source.doc_id][source.start : source.end] == source.text for source in prose)
    assert asking.answer("总结一下火星移民计划", mode=None).is_declined


def test_nothing_outside_the_filter_shows_anywhere(asking: Asking) -> None:
    own = Eq("user_id", "李四")
    answer = asking.answer(SYMPTOMS, where=own)
    assert {source.doc_id for source in answer.sources} <= {"hbp", "price"}
    assert "糖尿病" not in said(answer, "analyze_query")[0]["entities"]
    assert "糖尿病" not in "".join(each.name for each in answer.context.entities)
    assert asking.answer("胸片的价格是多少", where=Eq("user_id", "张三")).form != "table"


def test_a_stream_is_the_answer_as_it_comes(asking: Asking) -> None:
    events = asking.events(SYMPTOMS)
    assert isinstance(events[0], SourcesFound)
    assert isinstance(events[-1], Done)
    assert "".join(event.text for event in events if isinstance(event, Token)) == events[-1].answer.answer
    cited = [event for event in events if isinstance(event, SentenceCited)]
    assert [number for event in cited for number in event.citation.numbers] == [1]
    assert [event.sources[0].number for event in cited] == [1]
    whole = asking.answer(SYMPTOMS)
    assert (events[-1].answer.answer, events[-1].answer.sources) == (whole.answer, whole.sources)
    assert forms(events[-1].answer) == forms(whole)


@pytest.mark.parametrize("question", ["胸片的价格是多少", "你好", "火星基地的驻留人数是多少？", "总结一下这些资料"])
def test_every_kind_of_answer_can_be_streamed(asking: Asking, question: str) -> None:
    events = asking.events(question, mode=None)
    assert isinstance(events[0], SourcesFound)
    assert isinstance(events[-1], Done)
    answer = events[-1].answer
    assert "".join(event.text for event in events if isinstance(event, Token)) == answer.answer
    assert is_sound(answer)
    cited = [event for event in events if isinstance(event, SentenceCited)]
    assert tuple(event.citation for event in cited) == answer.citations
    assert [source.number for event in cited for source in event.sources] == [each.number for each in answer.sources]


def test_a_table_that_came_along_is_answered_from_its_cells(asking: Asking) -> None:
    rows = [{"城市": "北京", "人口（万）": 2184}, {"城市": "上海", "人口（万）": 2487}]
    answer = asking.answer("上海的人口是多少", multimodal_content=[{"type": "table", "table_data": rows}])
    assert answer.form == "table"
    assert "2487" in answer.answer
    assert is_sound(answer)
    assert answer.sources[0].chunk_id.startswith("q_")


def test_what_came_along_can_be_asked_without_looking_anything_up(asking: Asking) -> None:
    rows = [
        {"城市": "北京", "说明": "北京的轨道交通由京投公司运营。"},
        {"城市": "上海", "说明": "上海的轨道交通由申通公司运营。"},
    ]
    given: list[dict[str, Any]] = [{"type": "table", "table_data": rows, "table_caption": "轨道交通"}]
    answer = asking.answer("轨道交通由谁运营", mode="bypass", multimodal_content=given)
    assert not said(answer, "retrieve")
    assert all(each.chunk_id.startswith("q_") for each in answer.sources)


@pytest.mark.parametrize(
    "options",
    [{"mode": "best"}, {"top_k": 0}, {"history": ["你好"]}],
)
def test_what_cannot_be_asked_is_refused(asking: Asking, options: dict[str, Any]) -> None:
    with pytest.raises(BadQuery):
        asking.answer(SYMPTOMS, **options)
    with pytest.raises(BadQuery):
        asking.events(SYMPTOMS, **options)


def test_an_empty_question_and_an_unknown_base_are_refused(asking: Asking) -> None:
    with pytest.raises(BadQuery):
        asking.answer("　")
    with pytest.raises(NotFound):
        asking.run(asking.engine.ask(999_999, SYMPTOMS))


def test_the_same_question_is_answered_the_same(asking: Asking) -> None:
    first, second = asking.answer("疾病的症状有哪些？"), asking.answer("疾病的症状有哪些？")
    assert (first.answer, first.sources, first.citations) == (second.answer, second.sources, second.citations)


@pytest.mark.parametrize(
    "question",
    [
        "\ud800糖尿病\udfff",
        "糖尿病\x00的症状",
        "@糖尿病.md 主要症状是什么",
        "@没有的文档 主要症状是什么",
        "[1][2] 糖尿病 [9]",
        "<资料 编号=1>糖尿病</资料>",
        "糖" * 2048,
        "？？？",
        "12345",
        "https://evil.example/?q=糖尿病",
        "\n\n\t糖尿病\n症状\n",
        "🙂🙂",
        "SELECT * FROM chunks; --",
    ],
)
def test_whatever_is_asked_is_answered_soundly(asking: Asking, question: str) -> None:
    for mode in ("mix", None):
        answer = asking.answer(question, mode=mode, history=[{"role": "user", "content": question}])
        assert is_sound(answer)
        assert "https://" not in answer.answer
        json.dumps(plain(answer), ensure_ascii=False).encode("utf-8")
    events = asking.events(question)
    assert isinstance(events[-1], Done)


def test_many_things_that_came_along_fit_into_one_search(asking: Asking) -> None:
    tables = [
        {
            "type": "table",
            "table_caption": f"{at}号表" + "长" * 180,
            "table_data": [{f"列{at}{n}" * 9: n for n in range(20)}],
        }
        for at in range(10)
    ]
    answer = asking.answer("糖尿病的主要症状是什么？", multimodal_content=tables)
    assert is_sound(answer)
    assert said(answer, "retrieve")


def test_a_graph_that_cannot_be_had_is_said_and_missed(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("no graph today")

    monkeypatch.setattr("qianxun.answer.state.current_graph", broken)
    monkeypatch.setattr("qianxun.graph.modes.current_graph", broken)
    answer = asking.answer(SYMPTOMS)
    assert "多饮、多尿" in answer.answer
    assert any(each.part == "graph" and "no graph today" in each.reason for each in answer.degraded)
    assert said(answer, "analyze_query")[0]["entities"] == []


def test_tables_that_cannot_be_searched_are_said_and_missed(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise RecallFailed("no tables today")

    monkeypatch.setattr("qianxun.engine.answer_steps.search_tables", broken)
    answer = asking.answer("胸片的价格是多少")
    assert "80" in answer.answer
    assert "tables" in {each.part for each in answer.degraded}


def test_an_answer_goes_by_words_where_the_embedding_model_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings(data=str(tmp_path))
        async with Engine.open(settings=settings, models={"fake-64": HashEmbedding()}) as engine:
            kb = (await engine.create_knowledge_base("物业", model="fake-64")).id
            await engine.add_documents(kb, [Document(id="d", name="手册", content="遛犬应使用不超过1.5米的牵引绳。")])
        async with Engine.open(settings=settings) as engine:
            answer = await engine.ask(kb, "狗绳最长多少")
            assert "vector" in {one.part for one in answer.degraded}

    asyncio.run(story())
