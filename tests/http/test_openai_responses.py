"""OpenAI's own client: responses whole and streamed, vector stores and files listed and read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from qianxun.core.types import Document
from tests.http.openai_doors import Doors, doors

QUESTION = "住院费用的报销比例是多少？"
HANDBOOK = "# 医保手册\n\n## 住院\n\n住院费用的报销比例为85%。\n\n## 门诊\n\n门诊费用的报销比例为60%。\n"


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with doors(tmp_path_factory.mktemp("service")) as made:
        made.base("医保", Document("手册/1", HANDBOOK, name="医保手册.md", format="markdown"), model="none")
        made.base("制度", Document("考勤", "迟到三次记旷工半天。", name="考勤.txt"), model="none")
        made.base("别人的", Document("秘密", "别人的秘密。", name="秘密.txt"), tenant="乙", model="none")
        yield made


def check_cited(response: Any) -> None:
    assert (response.object, response.status, response.model) == ("response", "completed", "医保")
    assert "85%" in response.output_text
    ((part,),) = ((*message.content,) for message in response.output)
    citation = part.annotations[0]
    assert (citation.type, citation.file_id) == ("file_citation", "1001/手册/1")
    assert citation.filename == "医保手册.md › 住院"
    assert part.text[citation.index :].startswith("[1]")
    assert response.sources[0]["doc_name"] == "医保手册.md"
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def test_a_question_is_answered_whole(at: Doors) -> None:
    check_cited(at.client().responses.create(model="医保", input=QUESTION, instructions="不采用", store=False))


def test_the_same_answer_comes_as_the_events_that_the_client_expects(at: Doors) -> None:
    with at.client().responses.stream(model="医保", input=QUESTION) as stream:
        events = list(stream)
        check_cited(stream.get_final_response())
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "response.output_text.annotation.added" in kinds
    assert [event.sequence_number for event in events] == list(range(len(events)))
    whole = at.client().responses.create(model="医保", input=QUESTION).output_text
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole


def test_a_conversation_goes_with_the_request(at: Doors) -> None:
    conversation: Any = [
        {"role": "user", "content": QUESTION},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "85%。"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "门诊费用的报销比例是多少？"}]},
    ]
    assert "60%" in at.client().responses.create(model="医保", input=conversation).output_text
    with pytest.raises(openai.BadRequestError) as refused:
        at.client().responses.create(model="医保", input=QUESTION, previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"
    with pytest.raises(openai.BadRequestError):
        at.client().responses.create(model="医保", input=conversation[1:3])
    with pytest.raises(openai.NotFoundError):
        at.client().responses.create(model="别人的", input=QUESTION)


def test_vector_stores_are_listed_page_by_page_and_read(at: Doors) -> None:
    client = at.client()
    assert [(store.id, store.name) for store in client.vector_stores.list(limit=1)] == [
        ("1001", "医保"),
        ("1002", "制度"),
    ]
    store = client.vector_stores.retrieve("医保")
    assert (store.id, store.status, store.file_counts.completed, store.file_counts.total) == ("1001", "completed", 1, 1)
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.retrieve("别人的")


def test_files_are_listed_page_by_page_and_their_text_is_read(at: Doors) -> None:
    client = at.client()
    listed = [(file.id, file.filename, file.status) for file in client.files.list(limit=1)]
    assert listed == [("1001/手册/1", "医保手册.md", "processed"), ("1002/考勤", "考勤.txt", "processed")]
    assert client.files.retrieve("1001/手册/1").filename == "医保手册.md"
    found = client.vector_stores.search("制度", query="迟到").data[0]
    assert client.files.retrieve(found.file_id).id == "1002/考勤"
    assert client.files.content(found.file_id).text == "迟到三次记旷工半天。"
    for unknown in ("没有", "1001/没有", "1003/秘密", "秘密"):
        with pytest.raises(openai.NotFoundError):
            client.files.retrieve(unknown)
