"""Where a table is clear and its cells give no answer, an answer says why, and does not show the cells for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.core.answer_types import Answer, Done
from qianxun.core.codec.wire import read_answer, written_answer
from qianxun.core.types import Document
from tests.answer.asked import Opened

STOCK = Document(
    "stock",
    "# 库存\n\n| 商品名称 | 单价 | 数量 | 金额 |\n| --- | --- | --- | --- |\n| 打印机 | 1299 | 15 | =B2*C2 |\n"
    "| 显示器 | 1150 | #N/A | =B3*C3 |\n| 键盘 | 89 | 120 | =B4*C4 |\n",
    name="库存.md",
    format="markdown",
)
NEWS = Document("news", "本季度采购了一批投影仪，投影仪的采购数量为 6 台，由行政部验收。", name="采购简讯.md")


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("stock"), (STOCK, NEWS)) as opened:
        yield opened


def _answer(stock: Opened, question: str) -> Answer:
    return stock.run(stock.engine.ask(stock.kb, question))


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("打印机的金额是多少", "没有保存计算结果；用 Excel 打开并保存一次，再添加"),
        ("显示器的数量", "错误值（#N/A）"),
        ("单价超过5000的商品名称有哪些", "没有符合条件的行"),
    ],
)
def test_the_tables_reason_is_the_answers(stock: Opened, question: str, told: str) -> None:
    answer = _answer(stock, question)
    assert answer.is_declined
    assert told in answer.reason
    assert f"：{answer.reason}。" in answer.answer
    assert "最接近的行" not in answer.answer  # it shows none


def test_it_comes_so_too(stock: Opened) -> None:
    async def last() -> Answer:
        events = [each async for each in stock.engine.ask_stream(stock.kb, "打印机的金额是多少")]
        assert isinstance(events[-1], Done)
        return events[-1].answer

    assert stock.run(last()).answer == _answer(stock, "打印机的金额是多少").answer


def test_cells_that_hold_a_value_and_prose_answer_as_ever(stock: Opened) -> None:
    assert _answer(stock, "键盘的数量").form == "table"
    told = _answer(stock, "投影仪的采购数量是多少")
    assert (told.form, told.reason) == ("extractive", "")
    assert "6 台" in told.answer


def test_what_nothing_speaks_of_is_named(stock: Opened) -> None:
    assert "腾讯" in _answer(stock, "腾讯的注册资本是多少").reason


def test_the_reason_travels_and_an_older_service_has_none(stock: Opened) -> None:
    answer = _answer(stock, "显示器的数量")
    written = written_answer(1, answer)
    assert read_answer(written).reason == answer.reason
    del written["reason"]
    assert read_answer(written).reason == ""
