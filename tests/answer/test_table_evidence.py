"""A table's exact answer beside a language model is evidence; without one it leaves nothing of the question over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.answer_types import Answer
from qianxun.core.errors import ModelUnavailable
from qianxun.core.types import Document
from tests.answer.asked import FakeChat, Opened

CONTRACT = Document(
    "yf",
    "# 云帆技术服务合同\n\n甲方委托乙方提供云帆平台的技术服务。云帆技术服务合同总金额为193万元，含三年运维。"
    "本期按下列节点支付。\n\n| 付款节点 | 付款条件 | 金额（万元） |\n| --- | --- | --- |\n"
    "| 首付款 | 合同签订后 | 15 |\n| 二期款 | 中期验收后 | 20 |\n| 尾款 | 终验后 | 10 |\n",
    name="云帆技术服务合同.md",
    format="markdown",
)
TOTAL = "云帆技术服务合同总金额是多少万元"
ROWS = "首付款和尾款的金额合计是多少万元"


@pytest.fixture(scope="module")
def without_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("contract"), (CONTRACT,)) as opened:
        yield opened


def _with_model(folder: Path, reply: Any) -> tuple[Opened, FakeChat]:
    chat = FakeChat("qwen", reply if callable(reply) else lambda: reply)
    return Opened(folder, (CONTRACT,), chat, config={"chat_model": "qwen"}), chat


def _answer(opened: Opened, question: str) -> Answer:
    return opened.run(opened.engine.ask(opened.kb, question))


def _fail() -> str:
    raise ModelUnavailable("没有应答")


@pytest.mark.parametrize("question", [TOTAL, TOTAL.removesuffix("万元")])
def test_a_sum_of_rows_is_no_answer_about_what_the_table_belongs_to(without_model: Opened, question: str) -> None:
    answer = _answer(without_model, question)
    assert "45" not in answer.answer
    assert "193万元" in answer.answer
    assert answer.form == "extractive"


def test_a_sum_of_rows_that_are_named_is_exact(without_model: Opened) -> None:
    answer = _answer(without_model, ROWS)
    assert answer.form == "table"
    assert answer.answer.startswith("25万元")


def test_a_model_is_offered_the_rows_and_what_they_give(tmp_path: Path) -> None:
    opened, chat = _with_model(tmp_path, "首付款和尾款合计25万元。[1]")
    with opened:
        answer = _answer(opened, ROWS)
    assert (answer.form, answer.answer) == ("model", "首付款和尾款合计25万元。[1]")
    assert not answer.flags  # the sum stands in no cell, and is evidence all the same
    first = chat.asked[-1].split("</资料>")[0]
    assert "| 首付款 | 合同签订后 | 15 |" in first
    assert "求和，得 25万元" in first


def test_a_wrong_sum_does_not_keep_the_question_from_the_model(tmp_path: Path) -> None:
    opened, chat = _with_model(tmp_path, "云帆技术服务合同总金额为193万元。[1][2]")
    with opened:
        answer = _answer(opened, TOTAL)
    assert "求和，得 45万元" in chat.asked[-1]
    assert answer.form == "model"
    assert "193万元" in answer.answer


@pytest.mark.parametrize("reply", [_fail, "一共是99万元。[1]"], ids=["no reply", "a figure of its own"])
def test_where_the_model_gives_nothing_the_cells_answer(tmp_path: Path, reply: Any) -> None:
    opened, _ = _with_model(tmp_path, reply)
    with opened:
        answer = _answer(opened, ROWS)
    assert answer.form == "table"
    assert answer.answer.startswith("25万元")
    assert [part.part for part in answer.degraded] == ["model"]
