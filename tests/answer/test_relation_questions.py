"""Who is what to whom: answered by the sentence that says so, without a language model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.core.answer_types import Answer, Done
from qianxun.core.types import Document, Eq
from tests.answer.asked import Opened

CAST = ["沈长安", "沈长宁", "顾清和", "顾清辞", "陆沉舟", "韩千秋"]
NOVEL = (
    Document("card", "身份：捕头。\n\n沈长安好酒。沈长宁是沈长安的妹妹，今年十六岁。", name="人物.md"),
    Document("one", "沈长安走进客栈，想起了沈长宁。顾清辞坐在角落里，独自饮酒。", name="第一章.txt"),
    Document("two", "沈长安没有答话。陆沉舟的仇人是韩千秋。沈长宁在门外等沈长安。", name="第二章.txt"),
    Document("world", "城中有三大家族。顾清和与顾清辞是孪生姐妹。", name="设定.md", user_id="李四"),
)


@pytest.fixture(scope="module")
def novel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("novel"), NOVEL, config={"dictionary": CAST}, model="none") as opened:
        yield opened


def answer(novel: Opened, question: str, **options: object) -> Answer:
    return novel.run(novel.engine.ask(novel.kb, question, **options))


@pytest.mark.parametrize("mode", ["local", "hybrid", "mix"])
@pytest.mark.parametrize(
    "question", ["沈长宁是沈长安的什么人", "沈长安的妹妹是谁", "沈长宁是谁的妹妹", "沈长安和沈长宁是什么关系？"]
)
def test_the_sentence_that_states_the_tie_answers(novel: Opened, question: str, mode: str) -> None:
    told = answer(novel, question, mode=mode)
    assert told.answer == "沈长宁是沈长安的妹妹，今年十六岁。[1]"
    (source,) = told.sources
    assert NOVEL[0].content[source.start : source.end] == source.text


def test_the_same_as_it_comes(novel: Opened) -> None:
    async def heard() -> list[object]:
        return [event async for event in novel.engine.ask_stream(novel.kb, "沈长宁是沈长安的什么人")]

    last = novel.run(heard())[-1]
    assert isinstance(last, Done)
    assert last.answer.answer == "沈长宁是沈长安的妹妹，今年十六岁。[1]"


def test_names_are_whole_words_whatever_a_segmenter_makes_of_them(novel: Opened) -> None:
    assert answer(novel, "顾清和和顾清辞是什么关系").answer == "顾清和与顾清辞是孪生姐妹。[1]"


def test_a_sentence_about_one_of_two_says_nothing_of_their_tie(novel: Opened) -> None:
    assert answer(novel, "沈长安和韩千秋是什么关系").is_declined


def test_what_one_may_not_see_does_not_answer(novel: Opened) -> None:
    assert answer(novel, "顾清和和顾清辞是什么关系", where=Eq("user_id", "张三")).is_declined


def test_a_deleted_document_answers_no_more(novel: Opened) -> None:
    question = "韩千秋的徒弟是谁"
    novel.run(novel.engine.add_documents(novel.kb, [Document("three", "陆沉舟是韩千秋的徒弟。", name="第三章.txt")]))
    assert answer(novel, question).answer == "陆沉舟是韩千秋的徒弟。[1]"
    novel.run(novel.engine.delete_document(novel.kb, "three"))
    assert "徒弟。" not in answer(novel, question).answer
