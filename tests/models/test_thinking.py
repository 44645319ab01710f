from __future__ import annotations

import pytest

from qianxun.models.thinking import spoken

PIECES = (1, 2, 3, 5, 100)


def said(text: str, size: int) -> str:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    told = list(spoken(iter(pieces)))
    assert all(told)
    return "".join(told)


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("报销 85%[1]。", "报销 85%[1]。"),
        ("<think>问的是比例…\n85？</think>\n\n报销 85%[1]。", "报销 85%[1]。"),
        ("\n<think>\n</think>好", "好"),
        ("<think>没完没了", ""),
        ("<think>没有回答</think>  ", ""),
        ("  <thi", "<thi"),
        ("<things> 是标签", "<things> 是标签"),
        ("说：<think>不在开头的照旧</think>", "说：<think>不在开头的照旧</think>"),
        ("", ""),
    ],
)
def test_thoughts_before_a_reply_are_no_part_of_it(text: str, expected: str, size: int) -> None:
    assert said(text, size) == expected


def test_nothing_is_held_back_that_cannot_be_a_tag() -> None:
    pieces = iter(["报", "销"])
    told = spoken(pieces)
    assert next(told) == "报"
    assert next(pieces) == "销"  # not asked for yet
