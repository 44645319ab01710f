"""What is deleted, or fails, while a question is on its way: nothing that is gone is quoted, nothing found is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qianxun.answer.run import answer_question, begun, generate_answer, generate_stream, prepared
from qianxun.answer.state import Answering, AnswerState
from qianxun.core.answer_types import Answer, Done
from qianxun.core.errors import NotFound, RecallFailed
from qianxun.core.types import Document, Message
from tests.answer.answers_base import Asking, said

SYMPTOMS = "糖尿病的主要症状是什么？"
UNSAID = "消渴症在火星基地由谁负责治疗？"  # also searched for as 糖尿病
PRICE = "胸片的价格是多少？"


class Acting:
    """A language model that says what its first passage says; and does something while it writes."""

    name = "acting"

    def __init__(self) -> None:
        self.act: Callable[[], None] = lambda: None
        self.written = 0

    def complete(self, messages: Sequence[Message]) -> str:
        if "JSON" in messages[0].content:
            return '{"relevant": [1], "enough": true, "missing": ""}'
        self.written += 1
        self.act()
        has_read = any("多饮" in each.content for each in messages)
        return "糖尿病的主要症状是多饮、多尿、多食和体重下降[1]。" if has_read else "资料中没有说明。"


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    with Asking(tmp_path) as opened:
        yield opened


@pytest.fixture
def model() -> Acting:
    return Acting()


@pytest.fixture
def writing(tmp_path: Path, model: Acting) -> Iterator[Asking]:
    with Asking(tmp_path, model, config={"chat_model": "acting"}) as opened:
        yield opened


def is_clean(at: Asking, answer: Answer) -> bool:
    """Nothing in it comes from a document that has been deleted."""

    async def left() -> dict[str, set[int]]:
        states = await at.engine.documents(at.kb)
        return {one.doc_id: {chunk.key for chunk in await at.engine.chunks(at.kb, one.doc_id)} for one in states}

    evidence = [place for each in answer.context.relations for place in each.evidence]
    evidence += [place for each in answer.context.communities for place in each.sources]
    documents = at.run(left())
    keys = {place.chunk for place in evidence}
    return {source.doc_id for source in answer.sources} <= set(documents) and keys <= set().union(*documents.values())


async def _whole(answering: Answering, state: AnswerState) -> AnswerState:
    return await generate_answer(answering, state)


async def _streamed(answering: Answering, state: AnswerState) -> AnswerState:
    *_, (last, after) = [each async for each in generate_stream(answering, state)]
    assert isinstance(last, Done)
    assert last.answer == after.answer
    return after


@pytest.mark.parametrize("generate", [_whole, _streamed])
@pytest.mark.parametrize(("question", "doc_id"), [(SYMPTOMS, "dm"), (PRICE, "price")])
def test_what_was_deleted_before_the_answer_is_written_is_not_quoted(
    asking: Asking, generate: Callable[..., Any], question: str, doc_id: str
) -> None:
    async def story() -> AnswerState:
        answering = await asking.engine.answering(asking.kb)
        state = await prepared(answering, begun(question, "mix"), ())
        assert doc_id in {each.chunk.doc_id for each in state.found}
        await asking.engine.delete_document(asking.kb, doc_id)
        after: AnswerState = await generate(answering, state)
        return after

    after = asking.run(story())
    assert after.answer is not None
    assert is_clean(asking, replace(after.answer, context=after.graph))
    assert doc_id not in {each.chunk.doc_id for each in after.found}
    assert "多饮" not in after.answer.answer
    assert "80" not in after.answer.answer


def deleting(at: Asking, *doc_ids: str) -> Callable[[], None]:
    """Deletes these, one each time it is called; from a model's thread."""
    left = list(doc_ids)

    def act() -> None:
        if left:
            asyncio.run_coroutine_threadsafe(at.engine.delete_document(at.kb, left.pop(0)), at.loop).result(60)

    return act


@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_is_deleted_while_a_model_writes_is_not_quoted(writing: Asking, model: Acting, is_streamed: bool) -> None:
    model.act = deleting(writing, "dm")
    answer = writing.events(SYMPTOMS)[-1].answer if is_streamed else writing.answer(SYMPTOMS)
    assert is_clean(writing, answer)
    assert "多饮" not in answer.answer
    assert "sources" in {each.part for each in answer.degraded}
    (row,) = writing.run(writing.engine.logs.list())
    assert not any("_dm_" in chunk_id for chunk_id, _ in row.results)


def test_what_goes_unquoted_leaves_the_answer_as_it_is(writing: Asking, model: Acting) -> None:
    model.act = deleting(writing, "hbp")
    answer = writing.answer(SYMPTOMS)
    assert (answer.form, model.written) == ("model", 1)
    assert [source.doc_id for source in answer.sources] == ["dm"]
    assert is_clean(writing, answer)


def test_where_sources_go_again_and_again_nothing_is_said(writing: Asking, model: Acting) -> None:
    text = "糖尿病的主要症状是多饮、多尿、多食和体重下降。"
    copies = [Document(f"copy{at}", f"{text}第{at}次修订。", name="糖尿病.md") for at in range(6)]
    writing.run(writing.engine.add_documents(writing.kb, copies))

    def act() -> None:
        async def all_that_stand() -> None:
            for each in ("dm", *(f"copy{at}" for at in range(6))):
                await writing.engine.delete_document(writing.kb, each)
            again = Document(f"late{model.written}", text, name="糖尿病.md")
            await writing.engine.delete_document(writing.kb, f"late{model.written - 1}")
            await writing.engine.add_documents(writing.kb, [again])

        asyncio.run_coroutine_threadsafe(all_that_stand(), writing.loop).result(60)

    model.act = act
    answer = writing.answer(SYMPTOMS)
    assert answer.is_declined
    assert not answer.sources
    assert model.written == 3


def test_a_base_that_goes_while_a_model_writes_is_gone_and_its_answer_with_it(writing: Asking, model: Acting) -> None:
    def act() -> None:
        gone = writing.engine.delete_knowledge_base(writing.kb)
        asyncio.run_coroutine_threadsafe(gone, writing.loop).result(60)

    model.act = act
    heard: list[Any] = []

    async def listen() -> None:
        async for event in writing.engine.ask_stream(writing.kb, SYMPTOMS):
            heard.append(event)

    with pytest.raises(NotFound):
        writing.run(listen())
    assert not any(isinstance(event, Done) for event in heard)


def test_a_wording_that_cannot_be_searched_for_does_not_cost_what_others_found(asking: Asking) -> None:
    async def story() -> Answer:
        async def search_again(query: str, mode: Any) -> Any:
            raise RecallFailed("各路都没有回答")

        answering = await asking.engine.answering(asking.kb)
        return await answer_question(replace(answering, search_again=search_again), UNSAID)

    answer = asking.run(story())
    assert len(said(answer, "retrieve")) > 1
    assert "recall" in {each.part for each in answer.degraded}


def test_a_question_that_cannot_be_searched_for_at_all_is_no_answer(asking: Asking) -> None:
    async def story() -> None:
        async def search(query: str, mode: Any) -> Any:
            raise RecallFailed("各路都没有回答")

        answering = await asking.engine.answering(asking.kb)
        with pytest.raises(RecallFailed):
            await answer_question(replace(answering, search=search), SYMPTOMS)

    asking.run(story())
