from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.graph_types import Mention, StatedAlias, Statement
from qianxun.graph.extract.llm_reply import ENTITIES, Extracted, check_reply
from tests.graph.reading import entity, relation, said
from tests.hypothesis_settings import examples
from tests.linear import is_linear

TEXT = "二甲双胍用于治疗2型糖尿病。世界卫生组织（世卫组织）推荐二甲双胍。"
GOOD = {
    "entities": [entity("二甲双胍", "药物"), entity("2型糖尿病", "DISEASE"), entity("世界卫生组织", "机构")],
    "relations": [relation("二甲双胍", "治疗", "2型糖尿病")],
    "aliases": [{"name": "世界卫生组织", "alias": "世卫组织"}],
}


def only(reply: object, text: str = TEXT, *, strict: bool = True) -> Extracted:
    checked = check_reply(reply, [text], strict=strict)
    assert checked.fault == ""
    return checked.extracted[0]


def fault(reply: object, text: str = TEXT, *, strict: bool = True) -> str:
    checked = check_reply(reply, [text], strict=strict)
    assert checked.extracted == {}
    assert checked.fault
    return checked.fault


def test_a_reply_becomes_facts_at_the_places_where_the_text_says_so() -> None:
    read = only(said(GOOD))
    first, second = "二甲双胍用于治疗2型糖尿病。", "世界卫生组织（世卫组织）推荐二甲双胍。"
    assert read.dropped == 0
    assert read.facts.mentions == (
        Mention("二甲双胍", "MEDICINE", 0, 4),
        Mention("2型糖尿病", "DISEASE", 8, 13),
        Mention("世界卫生组织", "ORGANIZATION", 14, 20),
        Mention("世卫组织", "CONCEPT", 21, 25),
        Mention("二甲双胍", "MEDICINE", 28, 32),
    )
    assert read.facts.statements == (Statement("二甲双胍", "2型糖尿病", "治疗", 0, len(first)),)
    assert read.facts.aliases == (StatedAlias("世界卫生组织", "世卫组织", len(first), len(TEXT)),)
    assert read.facts.sentences == ((0, len(first)), (len(first), len(TEXT)))
    assert TEXT[len(first) :] == second


@pytest.mark.parametrize(
    "wrap",
    [
        "```json\n{}\n```",
        "好的，结果如下：\n```\n{}\n```\n希望有帮助！",
        "{}\n\n以上就是全部实体与关系，如需补充请告诉我。",
        "[注意] 只列出明确的关系。\n{}",
        '<think>先看 {"n": 9} 这样的格式……</think>\n{}',
    ],
)
def test_json_is_found_in_a_fence_and_among_words(wrap: str) -> None:
    assert only(wrap.replace("{}", said(GOOD))) == only(said(GOOD))


def test_a_reply_that_was_cut_off_is_not_taken_for_a_part_of_itself() -> None:
    whole = json.dumps(json.loads(said(GOOD)), ensure_ascii=False, indent=2)
    for end in range(1, len(whole) - 1, 7):
        assert "JSON" in fault(whole[:end])
        assert "JSON" in fault(f"```json\n{whole[:end]}")
    assert "JSON" in fault("[" + said(GOOD)[11:-20])


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("没有实体。", "JSON"),
        ("", "JSON"),
        (None, "不是文字"),
        (b"{}", "不是文字"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ('{"a":' * 20_000, "JSON"),
        ("长" * 200_001, "过长"),
        ('{"chunks": {"n": 1}}', "chunks"),
        ('{"chunks": ["二甲双胍"]}', "不是对象"),
        ('{"chunks": [{"n": "一"}]}', "段号"),
        ('{"chunks": [{"n": true}]}', "段号"),
        ('{"chunks": [{"n": 0}, {"n": 1}]}', "从 1 开始"),
        (said({"entities": [entity("metformin"), entity("diabetes")]}), "照抄原文"),
        ('{"chunks": [{"n": 1e400}]}', "段号"),
        ('{"chunks": []}', "缺少"),
        ('{"chunks": [{"n": 2, "entities": []}]}', "缺少"),
        (said({"entities": "二甲双胍"}), "entities 应为数组"),
        (said({"entities": ["二甲双胍"]}), "不是对象"),
        (said({"entities": [{"name": 7}]}), "name"),
        (said({"entities": [entity("二甲\x00双胍")]}), "不可见"),
        (said({"entities": [entity("长" * 301)]}), "超过"),
        (said({"relations": [{"source": "二甲双胍", "type": "治疗"}]}), "target"),
        (said({"relations": [relation("二甲双胍", "", "2型糖尿病")]}), "type"),
        (said({"aliases": {"世卫": "世界卫生组织"}}), "aliases 应为数组"),
    ],
)
def test_what_is_malformed_is_refused_and_named(reply: object, told: str) -> None:
    assert told in fault(reply)


def test_the_second_time_only_what_is_malformed_is_lost() -> None:
    mixed = said({"entities": [entity("二甲双胍"), {"name": 7}, "糖尿病", entity("2型糖尿病")], "relations": [None]})
    assert "name" in fault(mixed)
    read = only(mixed, strict=False)
    assert {each.name for each in read.facts.mentions} == {"二甲双胍", "2型糖尿病"}
    assert read.dropped == 3
    assert "应为数组" in fault(said({"entities": 7}), strict=False)


def test_names_that_do_not_stand_in_the_text_are_dropped_with_what_is_said_of_them() -> None:
    read = only(
        said(
            {
                "entities": [entity("二甲双胍"), entity("阿司匹林"), entity("糖尿"), entity("2")],
                "relations": [relation("二甲双胍", "优于", "阿司匹林"), relation("二甲双胍", "治疗", "二甲双胍")],
                "aliases": [{"name": "二甲双胍", "alias": "格华止"}],
            }
        )
    )
    assert {each.name for each in read.facts.mentions} == {"二甲双胍", "糖尿"}
    assert read.facts.statements == read.facts.aliases == ()
    assert read.dropped == 5  # two names, two relations, one alias


def test_texts_that_are_taken_for_one_another_are_asked_about_again() -> None:
    texts = ["甲公司位于上海。", "乙公司位于北京。"]
    crossed = said({"entities": [entity("乙公司"), entity("北京")]}, {"entities": [entity("甲公司"), entity("上海")]})
    for strict in (True, False):
        checked = check_reply(crossed, texts, strict=strict)
        assert checked.extracted == {}
        assert "第 1 段" in checked.fault
        assert "第 2 段" in checked.fault


def test_an_alias_is_stated_within_a_sentence_or_not_at_all() -> None:
    read = only(said({"aliases": [{"name": "2型糖尿病", "alias": "世卫组织"}]}))
    assert read.facts.aliases == ()
    assert read.dropped == 1


def test_names_are_found_in_another_written_form_and_called_as_they_are_written() -> None:
    text = "ＩＢＭ開具發票，Ⅱ型方案见附件，共2012份。"
    read = only(said({"entities": [entity("IBM"), entity("发票"), entity("II型方案"), entity("12份")]}), text)
    assert [(each.name, text[each.start : each.end]) for each in read.facts.mentions] == [
        ("ＩＢＭ", "ＩＢＭ"),
        ("發票", "發票"),
        ("Ⅱ型方案", "Ⅱ型方案"),
    ]
    assert read.dropped == 1


def test_a_name_that_a_page_breaks_is_found_whole() -> None:
    text = "由世界卫生\n组织与张　三发布，New\nYork 为证。\n\n甲\n\n乙。inNew York"
    told = [entity(name) for name in ("世界卫生组织", "张三", "New York", "甲乙", "ew York")]
    read = only(said({"entities": told}), text)
    assert [(each.name, text[each.start : each.end]) for each in read.facts.mentions] == [
        ("世界卫生组织", "世界卫生\n组织"),
        ("张三", "张　三"),
        ("New York", "New\nYork"),
    ]
    assert read.dropped == 2


def test_a_name_inside_a_longer_one_is_not_meant_there() -> None:
    text = "北京大学在北京。清华大学也在。"
    read = only(said({"entities": [entity("北京"), entity("北京大学"), entity("大学")]}), text)
    assert [(each.name, each.start) for each in read.facts.mentions] == [("北京大学", 0), ("北京", 5), ("大学", 10)]


def test_a_name_that_stands_in_the_title_alone_is_meant_throughout() -> None:
    text, title = "出生于绍兴。代表作有《呐喊》，收入《狂人日记》。", "鲁迅简介.md > 生平"
    reply = said(
        {
            "entities": [entity("鲁迅", "PERSON"), entity("绍兴", "PLACE"), entity("周树人", "PERSON")],
            "relations": [
                relation("鲁迅", "出生于", "绍兴"),
                relation("鲁迅", "代表作", "《狂人日记》"),
                relation("鲁迅", "见于", "生平"),
            ],
            "aliases": [{"name": "绍兴", "alias": "鲁迅"}],
        }
    )
    (read,) = check_reply(reply, [text], [title]).extracted.values()
    assert Mention("鲁迅", "PERSON", 0, 0) in read.facts.mentions
    assert read.facts.statements == (
        Statement("鲁迅", "绍兴", "出生于", 0, 6),
        Statement("鲁迅", "《狂人日记》", "代表作", 6, len(text)),
    )
    assert read.facts.aliases == ()
    assert read.dropped == 3  # 周树人, what is said of the title alone, the alias
    assert "鲁迅" not in {each.name for each in only(reply, text).facts.mentions}


def test_types_are_words_in_one_form() -> None:
    kinds = ["疾病", "disease", "", None, "GENE", "https://evil.example/x", "x" * 40, "<b>", "基因 位点"]
    text = "、".join(f"名{chr(0x7532 + at)}" for at in range(len(kinds)))
    told = [{"name": name, "type": kind} for name, kind in zip(text.split("、"), kinds, strict=True)]
    read = only(said({"entities": told}), text)
    found = [each.type for each in read.facts.mentions]
    assert found == ["DISEASE", "DISEASE", "CONCEPT", "CONCEPT", "GENE", "CONCEPT", "CONCEPT", "CONCEPT", "基因 位点"]


@pytest.mark.parametrize("kind", ["相关", "related_to", "见 https://evil.example", "很" * 31, "![图](x)"])
def test_relations_whose_type_says_nothing_or_is_none_are_left_out(kind: str) -> None:
    read = only(said({**GOOD, "relations": [relation("二甲双胍", kind, "2型糖尿病")]}))
    assert read.facts.statements == ()
    assert read.dropped == 1


def test_of_endless_lists_the_beginning_is_read() -> None:
    text = "，".join(f"药{n}号" for n in range(3 * ENTITIES))
    read = only(said({"entities": [entity(name) for name in text.split("，")]}), text)
    assert len({each.name for each in read.facts.mentions}) == ENTITIES
    assert read.dropped == 2 * ENTITIES


def test_each_chunk_is_held_against_its_own_text_and_a_bad_one_costs_no_other() -> None:
    texts = ["甲公司位于上海。", "乙公司位于北京。", "丙公司位于广州。"]
    reply = said(
        {"entities": [entity("甲公司"), entity("乙公司"), entity("上海")]},
        {"entities": [entity("乙公司"), 7]},
        {"entities": [entity("丙公司")]},
    )
    checked = check_reply(reply, texts)
    assert set(checked.extracted) == {0, 2}
    assert "第 2 段" in checked.fault
    assert {each.name for each in checked.extracted[0].facts.mentions} == {"甲公司", "上海"}


def test_a_single_chunk_may_be_answered_without_its_number_but_never_several() -> None:
    bare = json.dumps({"entities": [entity("二甲双胍")]}, ensure_ascii=False)
    assert only(bare) == only(said({"entities": [entity("二甲双胍")]}))
    assert only(f"[{bare}]") == only(bare)
    assert check_reply(f"[{bare}]", [TEXT, TEXT]).extracted == {}


@pytest.mark.parametrize("gap", ["", " ", "  ", " \n ", "\n"])
def test_a_name_that_almost_stands_everywhere_is_looked_for_in_linear_time(gap: str) -> None:
    told = [entity("甲" * 100), entity("a" * 100), entity("甲" * 50 + "丙")]

    def reading(size: int) -> Callable[[], object]:
        text = (f"甲{gap}" * 99 + "乙。" + f"a{gap}" * 99) * size
        return lambda: check_reply(said({"entities": told}), [text])

    assert is_linear(reading, 10)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(["二甲双胍", TEXT]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["chunks", "n", "entities", "relations", "aliases", "name", "type", "source", "target", "alias"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@examples(100)
@given(json_values, st.booleans())
def test_whatever_a_model_says_only_what_the_text_bears_out_is_believed(value: Any, strict: bool) -> None:
    for read in check_reply(json.dumps(value, ensure_ascii=False), [TEXT, TEXT], strict=strict).extracted.values():
        names = {each.name for each in read.facts.mentions}
        for mention in read.facts.mentions:
            assert mention.name == " ".join(TEXT[mention.start : mention.end].split())
        for each in read.facts.statements:
            assert {each.source, each.target} <= names
            assert 0 <= each.start < each.end <= len(TEXT)
