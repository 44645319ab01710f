"""Answers that no model writes keep the promise of all: no link, no HTML, no mark that cites nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.core.answer_types import Answer
from qianxun.core.types import Document
from tests.answer.asked import Opened

PRICES = (
    "# 收费\n\n| 项目 | 网址 | 备注 |\n| --- | --- | --- |\n| 胸片 | https://evil.test/b | 见 [99] |\n"
    "| 血常规 | www.evil.test/c | 空腹 |\n"
)
STORY = "王小明出生于北京 [66]。《https://evil.test/book》的作者是王小明。王小明位于<img src=//evil.test/i>北京。"


class Asked(Opened):
    def answer(self, question: str, **options: object) -> Answer:
        return self.run(self.engine.ask(self.kb, question, **options))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder: Path = tmp_path_factory.mktemp("links")
    documents = (
        Document("p", PRICES, name="收费.md", format="markdown"),
        Document("s", STORY, name="人物.md"),
    )
    with Asked(folder, documents, model="none") as opened:
        yield opened


def is_clean(answer: Answer) -> bool:
    marks = {int(number) for number in re.findall(r"\[(\d+)\]", answer.answer)}
    return not re.search(r"evil\.|://|<", answer.answer) and marks == {each.number for each in answer.sources}


@pytest.mark.parametrize("question", ["胸片的网址是什么", "血常规的网址是什么", "胸片的备注是什么"])
def test_a_cell_is_quoted_without_its_link_and_its_marks(asked: Asked, question: str) -> None:
    answer = asked.answer(question)
    assert answer.form == "table"
    assert is_clean(answer), answer.answer


def test_so_is_a_cell_of_a_table_that_came_along(asked: Asked) -> None:
    rows = [["医院", "网址"], ["协和医院", "https://evil.test/1"], ["同仁医院", "无"]]
    answer = asked.answer("协和医院的网址是什么", multimodal_content=[{"type": "table", "table_data": rows}])
    assert answer.form == "table"
    assert is_clean(answer), answer.answer


def test_an_overview_has_no_marks_but_its_own(asked: Asked) -> None:
    answer = asked.answer("总结一下这些资料", mode="global")
    assert "王小明出生于北京" in answer.answer
    assert is_clean(answer), answer.answer
