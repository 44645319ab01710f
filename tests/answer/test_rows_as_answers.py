"""Rows of a table as an answer: none where the question denies what they have in common, and never as if all."""

from __future__ import annotations

from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Passage


def passage(*rows: str) -> Passage:
    text = "\n".join(("报修工单", "| 工单号 | 处理人 | 状态 |", *(f"| {row} |" for row in rows)))
    return Passage(1, "d", "报修工单.xlsx", "c", text, 0, len(text), 0.9, {})


def answered(question: str, *rows: str) -> str:
    return AnswerGenerator().generate(question, [passage(*rows)]).answer


def test_rows_that_do_not_say_so_are_no_answer_to_what_is_denied() -> None:
    done = ("W1 | 老邱 | 处理完", "W2 | 小章 | 处理完", "W3 | 老邱 | 排队")
    assert "资料中没有找到" in answered("还没处理完的工单有哪些", *done)
    one = ("W1 | 老邱 | 处理完", "W2 | 小章 | 处理完，仍不制冷")
    assert "资料中没有找到" in answered("还没处理完的工单有哪些", *one)
    assert "W1" in answered("处理完的工单有哪些", *done)


def test_a_list_that_is_cut_says_so() -> None:
    many = answered("老邱的工单", *(f"W{at} | 老邱 | 处理完" for at in range(9)))
    assert many.count("老邱") == 6
    assert "可能还有" in many
    assert "可能还有" not in answered("老邱的工单", "W1 | 老邱 | 处理完", "W2 | 老邱 | 排队")
