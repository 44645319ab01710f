"""From what was typed into a row to what is stored."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.examples.files.cleaning import (
    LONGEST_TAG,
    MOST_CHARACTERS,
    MOST_TAGS,
    BadExample,
    ExampleDraft,
    clean,
    field_of,
    grade_of,
    is_blank,
    tags_of,
    text_of,
)
from tests.linear import is_linear


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("  血压　高  怎么办 ", "血压 高 怎么办"),
        ("一行\r\n二行\r三行", "一行\n二行\n三行"),
        ("一行_x000D_\n二行", "一行\n二行"),
        ("一\n\n\n\n二", "一\n\n二"),
        ("１２０／８０ ｍｍＨｇ，５０％", "120/80 mmHg，50%"),
        ("标点，不动：（对吧？）！", "标点，不动：（对吧？）！"),
        ("零\u200b宽\ufeff与\x00控制\x07", "零宽与控制"),
        ("a\u00a0\tb", "a b"),
        ("半个\ud83d表情", "半个?表情"),
        ("👨‍👩‍👧 全家", "👨‍👩‍👧 全家"),
        (120, "120"),
        (36.5, "36.5"),
        (68.0, "68"),
        (True, "是"),
        (datetime(2025, 3, 4), "2025-03-04"),
        (datetime(2025, 3, 4, 7, 30), "2025-03-04 07:30"),
        (date(2025, 3, 4), "2025-03-04"),
        (None, ""),
        ("　\n ", ""),
    ],
)
def test_text_is_put_in_order(typed: Any, stored: str) -> None:
    assert text_of(typed) == stored


@given(st.text())
def test_what_is_in_order_stays_as_it_is(typed: str) -> None:
    once = text_of(typed)
    assert text_of(once) == once
    once.encode("utf-8")
    assert "\x00" not in once


@pytest.mark.parametrize("piece", [" \n\t", "　", "\r\n", "_x000D_", "a　"])
def test_long_texts_take_time_by_their_length_alone(piece: str) -> None:
    assert is_linear(lambda size: lambda: text_of(piece * size), 50_000)


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("高血压,用药，饮食、运动", ("高血压", "用药", "饮食", "运动")),
        (" 高血压 ，, 高血压；", ("高血压",)),
        (["用药", " 饮食 ", "用药", 3], ("用药", "饮食", "3")),
        ("blood_pressure\n完整", ("blood_pressure", "完整")),
        (None, ()),
        ("", ()),
        ([], ()),
    ],
)
def test_tags_are_parted_by_commas_of_either_width(typed: Any, stored: tuple[str, ...]) -> None:
    assert tags_of(typed) == stored


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"a": 1}, "应是列表"),
        ([["a"]], "都应是文字"),
        ("长" * (LONGEST_TAG + 1), "是不是填错了列"),
        ([str(number) for number in range(MOST_TAGS + 1)], "上限是 50"),
    ],
)
def test_what_are_no_tags_is_told(typed: Any, told: str) -> None:
    with pytest.raises(BadExample, match=told):
        tags_of(typed)


@pytest.mark.parametrize(
    ("typed", "stored"),
    [("优秀", "优秀"), (" 良好 ", "良好"), ("優秀", "优秀"), (None, "一般"), ("", "一般"), ("　", "一般")],
)
def test_an_example_nobody_graded_is_ordinary(typed: Any, stored: str) -> None:
    assert grade_of(typed) == stored


@pytest.mark.parametrize("typed", ["很好", "A", 5, 0, ["优秀"], "优秀 良好", False])
def test_no_other_grades_are_known(typed: Any) -> None:
    with pytest.raises(BadExample, match="不是 优秀、良好、一般 之一"):
        grade_of(typed)


@pytest.mark.parametrize(
    ("heading", "field"),
    [
        ("user_input", "user_input"),
        ("User_Input *", "user_input"),
        ("user_input*（用户输入）", "user_input"),
        ("用户输入(必填)", "user_input"),
        ("Agent回复", "agent_response"),
        ("回答", "agent_response"),
        ("标签", "tags"),
        ("质量等级", "quality_grade"),
        ("备注", "notes"),
        ("作者", ""),
        (None, ""),
        (3, ""),
    ],
)
def test_headings_are_known_in_both_languages(heading: Any, field: str) -> None:
    assert field_of(heading) == field


def test_a_clean_row_is_a_draft() -> None:
    row = {"user_input": " 问 ", "agent_response": "答", "tags": "a，b", "quality_grade": "良好", "notes": "秘密"}
    assert clean(row) == ExampleDraft("问", "答", ("a", "b"), "良好")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"agent_response": "答"}, r"缺少 user_input（用户输入）"),
        ({"user_input": "问", "agent_response": " \n"}, r"缺少 agent_response（助手回复）"),
        ({"user_input": "问" * (MOST_CHARACTERS + 1), "agent_response": "答"}, "20001 个字"),
        ({"user_input": ["问"], "agent_response": "答"}, "应是一段文字"),
    ],
)
def test_what_is_missing_or_too_much_is_named(row: dict[str, Any], told: str) -> None:
    with pytest.raises(BadExample, match=told):
        clean(row)


def test_a_row_with_nothing_but_notes_is_blank() -> None:
    assert is_blank({"user_input": None, "agent_response": " ", "tags": [], "notes": "以后补"})
    assert not is_blank({"tags": "a"})
