from __future__ import annotations

import pytest

from qianxun.text.reasoning import Thoughts, marked_thoughts, reply_in, without_thoughts

PIECES = (1, 2, 3, 5, 100)


def said(text: str, size: int) -> str:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    told = list(without_thoughts(iter(pieces)))
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
    told = without_thoughts(pieces)
    assert next(told) == "报"
    assert next(pieces) == "销"  # not asked for yet


# ── a tag that the model's template opened ───────────────────────────────────────────────────────

CLOSED_ONLY = [
    ("问的是比例。\n85？\n</think>\n\n报销 85%[1]。", "报销 85%[1]。"),
    ("</think>\n好", "好"),
    ("想\n  </think> \n好\n</think>\n再好", "好\n</think>\n再好"),
    ("想来想去\n</think>", ""),
    ("想来想去\n</think>\n\n  ", ""),
    ("标签 </think> 结束思考。\n它单独成行。", "标签 </think> 结束思考。\n它单独成行。"),
    ("先写 <think>，\n</think>\n后写。", "先写 <think>，\n</think>\n后写。"),
    ("报销 85%[1]。\n", "报销 85%[1]。\n"),
]


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize(("text", "expected"), CLOSED_ONLY)
def test_thoughts_that_nothing_opened_are_unsaid_once_they_are_closed(text: str, expected: str, size: int) -> None:
    told: list[str] = []
    for piece in marked_thoughts(iter(text[at : at + size] for at in range(0, len(text), size))):
        if piece is Thoughts.BEFORE:
            assert text.startswith("".join(told))  # all of it was told as it came
            told.clear()
        else:
            told.append(piece)
    assert "".join(told) == expected


@pytest.mark.parametrize(("text", "expected"), [*CLOSED_ONLY, ("<think>想</think>好", "好"), ("", "")])
def test_a_whole_reply_is_what_is_said_in_the_end(text: str, expected: str) -> None:
    assert reply_in(text) == expected
