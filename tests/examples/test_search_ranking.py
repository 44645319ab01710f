"""Merging, grading, checking and showing what was found: pure functions over plain mappings."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from qianxun.examples.keywords import KeywordIndex
from qianxun.examples.library import cache_key, tables_for
from qianxun.examples.results import (
    NO_EXAMPLES,
    format_for_prompt,
    format_retrieved_examples,
    merge_and_rank_results,
    quality_filter,
    valid_results,
)
from qianxun.examples.schema import DEFAULT_TABLE_NAMES


def result(similarity: Any, said: str = "", grade: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "user_input": said or f"问{similarity}",
        "agent_response": "答",
        "similarity": similarity,
        "source": "qa_examples",
        "quality_grade": grade,
        "metadata": {},
        **more,
    }


# ── merging ──────────────────────────────────────────────────────────────────────────────────────


def test_the_most_similar_come_first_and_fifteen_are_kept() -> None:
    ranked = merge_and_rank_results([result(number / 20) for number in range(20)])
    assert [each["similarity"] for each in ranked] == [number / 20 for number in range(19, 4, -1)]
    assert len(merge_and_rank_results([result(0.5)] * 3, 2)) == 1
    assert merge_and_rank_results([], 15) == merge_and_rank_results([result(0.9)], 0) == []


def test_of_equals_the_better_grade_comes_first_then_the_newer() -> None:
    old, new = "2024-01-01T00:00:00+00:00", "2025-01-01T00:00:00+00:00"
    given = [
        result(0.8, "没有等级"),
        result(0.8, "良好，旧", "良好", metadata={"created_at": old}),
        result(0.8, "一般，新", "一般", metadata={"created_at": new}),
        result(0.8, "良好，改过", "良好", metadata={"created_at": old, "updated_at": new}),
        result(0.8, "优秀", "优秀"),
        result(0.81, "更像", "一般"),
    ]
    order = [each["user_input"] for each in merge_and_rank_results(given)]
    assert order == ["更像", "优秀", "良好，改过", "良好，旧", "一般，新", "没有等级"]


def test_dates_may_be_moments_or_text_with_or_without_a_zone_or_rubbish() -> None:
    given = [
        result(0.8, "乱写", created_at="昨天"),
        result(0.8, "时刻", created_at=datetime(2024, 5, 1, tzinfo=UTC)),
        result(0.8, "无时区", created_at="2024-05-02T00:00:00"),
        result(0.8, "数字", created_at=5),
    ]
    assert [each["user_input"] for each in merge_and_rank_results(given)] == ["无时区", "时刻", "乱写", "数字"]


def test_the_same_content_comes_once_in_its_best_form() -> None:
    given = [
        result(0.8, "高血压能喝酒吗", "一般"),
        result(0.8, "高血压能喝酒吗", "优秀", source="query_examples"),
        result(0.7, "高血压\n 能喝酒吗"),
        result(0.9, "高血压 能喝酒吗"),
    ]
    ranked = merge_and_rank_results(given)
    assert [(each["similarity"], each["quality_grade"]) for each in ranked] == [(0.9, None), (0.8, "优秀")]


def test_results_without_words_are_not_taken_for_each_other() -> None:
    assert merge_and_rank_results([{"similarity": 0.5}, {"similarity": 0.9}]) == [
        {"similarity": 0.9},
        {"similarity": 0.5},
    ]


def test_two_answers_to_one_question_are_two_contents() -> None:
    assert len(merge_and_rank_results([result(0.9, "问"), result(0.8, "问", agent_response="另答")])) == 2


# ── grades ───────────────────────────────────────────────────────────────────────────────────────


def test_ordinary_ones_go_while_fifteen_remain() -> None:
    good = [result(0.9 - n / 100, f"好{n}", "优秀" if n % 2 else "良好") for n in range(8)]
    ordinary = [result(0.95 - n / 100, f"凡{n}", "一般" if n % 2 else None) for n in range(8)]
    assert quality_filter([*ordinary, *good]) == [*ordinary[:-1], *good]  # the last of them is one too many
    assert quality_filter([*ordinary, *good][1:]) == [*ordinary, *good][1:]  # fifteen are no more than enough
    assert quality_filter([*ordinary, *good], 8) == quality_filter([*ordinary, *good], 3) == good


def test_grades_never_leave_too_few() -> None:
    ordinary = [result(0.9, f"凡{n}", "一般") for n in range(16)]
    assert quality_filter(ordinary) == ordinary[:15]
    assert quality_filter([]) == []


def test_a_grade_may_stand_in_the_metadata() -> None:
    found = [result(0.9, f"凡{n}", None, metadata={"quality_grade": "一般"}) for n in range(15)]
    best = result(0.8, "好", None, metadata={"quality_grade": "优秀"})
    assert quality_filter([*found, best]) == [*found[:14], best]


# ── checks ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        result(1.01),
        result(-0.01),
        result(float("nan")),
        result(None),
        result("0.9"),
        result(0.9, " "),
        result(0.9, agent_response=""),
        result(0.9, content="  "),
        result(0.9, metadata=None),
    ],
)
def test_what_is_incomplete_is_left_out_and_said(wrong: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    right = result(1.0), result(0)
    with caplog.at_level(logging.WARNING):
        assert valid_results([right[0], wrong, right[1]]) == list(right)
    assert "qa_examples" in caplog.text


# ── showing ──────────────────────────────────────────────────────────────────────────────────────


def test_an_example_is_shown_as_a_dialogue() -> None:
    about = {"tags": ["饮食"]}
    (shown,) = format_retrieved_examples([result(0.83, "高血压能喝酒吗", metadata=about)])
    assert shown == {
        "content": "用户：高血压能喝酒吗\n助手：答",
        "similarity": 0.83,
        "source": "qa_examples",
        "metadata": about,
    }
    assert shown["metadata"] is not about  # whoever changes one does not change the other


def test_an_unknown_source_is_shown_as_it_stands_and_what_is_formatted_stays() -> None:
    strange = {"source": "wiki", "similarity": 0.5, "text": "正文"}
    (shown,) = format_retrieved_examples([strange])
    assert shown == {"content": str(strange), "similarity": 0.5, "source": "wiki", "metadata": {}}
    once = format_retrieved_examples([result(0.9)])
    assert format_retrieved_examples(once) == once
    assert format_retrieved_examples([]) == []


def test_a_prompt_gets_numbered_examples_or_is_told_that_there_are_none() -> None:
    examples = format_retrieved_examples([result(0.9, "甲"), result(0.8, "乙", source="wiki", content="原文{x}")])
    text = format_for_prompt({"query_text": "甲", "retrieved_examples": examples})["retrieved_examples"]
    assert text == "示例1（问答）：\n用户：甲\n助手：答\n\n示例2：\n原文{x}"
    assert f"参考：{text}".endswith("{x}")
    for nothing in ({}, {"retrieved_examples": []}, {"retrieved_examples": None}, None):
        assert format_for_prompt(nothing) == {"retrieved_examples": NO_EXAMPLES}
    assert "文字" in format_for_prompt({"retrieved_examples": ["文字"]})["retrieved_examples"]


# ── which tables ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("你好", {"greeting_examples"}),
        ("Hello！", {"greeting_examples"}),
        ("谢谢，再见", {"greeting_examples"}),
        ("高血压能不能喝酒", {"qa_examples"}),
        ("感冒了怎么办？", {"qa_examples"}),
        ("帮我记一下血压130/85", {"record_examples"}),
        ("早上吃了2片氨氯地平", {"record_examples"}),
        ("查一下我的用药记录", {"query_examples", "record_examples"}),
        ("上周的血压情况", {"query_examples"}),
        ("你好，头晕怎么办", {"greeting_examples", "qa_examples"}),
        ("阿司匹林", set(DEFAULT_TABLE_NAMES)),
        ("", set(DEFAULT_TABLE_NAMES)),
    ],
)
def test_words_tell_which_tables_are_meant(text: str, tables: set[str]) -> None:
    assert set(tables_for(text)) == tables


# ── words ────────────────────────────────────────────────────────────────────────────────────────


def test_rare_words_count_more_and_all_of_them_make_nearly_one() -> None:
    texts = ["高血压 饮食", "高血压 运动", "高血压 饮酒", "糖尿病 饮食"]
    index = KeywordIndex.of([4, 7, 9, 12], texts)
    ids = [key for key, _ in index.match("高血压饮酒", 10)]
    assert ids == [9, 4, 7]  # of equals the lower number; the one without any of the words is not there
    scores = dict(index.match("高血压饮酒", 10))
    assert 0.0 < scores[4] < scores[9] <= 1.0
    assert index.match("高血压饮酒", 1) == [(9, scores[9])]


def test_a_word_that_no_example_has_lowers_the_score_of_all() -> None:
    index = KeywordIndex.of([1, 2], ["高血压 饮食", "糖尿病 饮食"])
    assert dict(index.match("高血压", 5))[1] > dict(index.match("高血压 阿莫西林", 5))[1] > 0.0
    assert index.match("阿莫西林", 5) == index.match("的", 5) == index.match("", 5) == []
    assert KeywordIndex.of([], []).match("高血压", 5) == []


# ── cached answers ───────────────────────────────────────────────────────────────────────────────


def test_keys_differ_wherever_the_question_does() -> None:
    keys = {
        cache_key("高血压", (), 15),
        cache_key("高血压", ("用药",), 15),
        cache_key("高血压 用药", (), 15),
        cache_key("高血压", (), 10),
        cache_key("高血压", ("用", "药"), 15),
        cache_key("\ud800", (), 15),  # half of a pair: nothing can be searched for it, but nothing breaks
    }
    assert len(keys) == 6
