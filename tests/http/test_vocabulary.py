"""One vocabulary: a base goes by its name or number, an option stands where either request has it, on every route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from qianxun.core.types import Document
from qianxun.doors.client import Client
from tests.http.openai_doors import Doors, doors

QUERY = "住院费用的报销比例是多少"
DOCUMENTS = tuple(
    Document(
        f"d{number}",
        f"第{number}号通知：住院费用的报销比例为{80 + number}%。",
        name=f"通知{number}.md",
        tags=("重要", "医保"),
        metadata={"年份": 2020 + number, "地区": ("北京", "上海")},
    )
    for number in range(3)
)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with doors(tmp_path_factory.mktemp("service")) as made:
        made.base("医保", *DOCUMENTS)
        yield made


def asked(at: Doors, path: str, **body: Any) -> Any:
    answer = at.plain("POST", path, {"query": QUERY, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


SEARCHES = ("retrieval/医保", "explain/医保", "recall/医保/texts", "recall/医保/tables", "query/医保")


@pytest.mark.parametrize("path", SEARCHES)
@pytest.mark.parametrize("body", [{"top_k": 1}, {"retrieval_config": {"top_k": 1}}, {}])
def test_every_search_takes_a_name_and_top_k_in_either_place(at: Doors, path: str, body: dict[str, Any]) -> None:
    data = asked(at, path, **body)
    assert data["knowledge_base_id"] == 1001
    if path.startswith("retrieval"):
        assert len(data["chunks"]) == (1 if body else 3)


def test_what_is_said_twice_must_be_the_same(at: Doors) -> None:
    body = {"query": QUERY, "top_k": 2, "retrieval_config": {"top_k": 1}}
    for path in ("retrieval/医保", "query/医保"):
        refused = at.plain("POST", path, body)
        assert (refused.status_code, refused.json()["error"]) == (422, "validation")
        assert "top_k" in refused.json()["fields"][0]["field"]
    assert len(asked(at, "retrieval/医保", top_k=2, retrieval_config={"top_k": 2})["chunks"]) == 2
    assert asked(at, "retrieval/医保", score_threshold=1.0, fuzzy=False)["chunks"] == []


def test_a_name_that_is_a_number_gives_way_to_the_id(at: Doors) -> None:
    other = at.base("1001")  # which is the id of 医保
    own = at.base("2024")
    for name, number in (("1001", 1001), ("2024", own.id), (str(other.id), other.id)):
        assert at.plain("GET", f"knowledge-bases/{name}").json()["data"]["id"] == number
        assert at.plain("GET", f"models/{name}").json()["knowledge_base_id"] == number


def test_documents_show_their_tags_and_metadata(at: Doors) -> None:
    expected = {"tags": ["重要", "医保"], "metadata": {"年份": 2021, "地区": ["北京", "上海"]}}
    one = at.plain("GET", "knowledge-bases/医保/documents/d1").json()["data"]
    listed = at.plain("GET", "knowledge-bases/医保/documents").json()["data"]["documents"][1]
    assert {name: one[name] for name in expected} == {name: listed[name] for name in expected} == expected

    async def client() -> None:
        async with Client(at.served.url, key=at.key()) as client:
            base = await client.knowledge_base(" 医保 ")
            state = await client.document(base.id, "d1")
            assert (state.tags, dict(state.metadata)) == (("重要", "医保"), {"年份": 2021, "地区": ("北京", "上海")})

    at.run(client())


def test_events_and_logs_take_a_name_too(at: Doors) -> None:
    event = {"type": "created", "knowledge_base_id": "医保", "document_id": "e", "content": "事件里的通知。"}
    headers = {"authorization": f"Bearer {at.key(scope='write')}"}
    assert at.http.post("events", json=event, headers=headers).status_code == 202
    asked(at, "retrieval/医保")
    logged = at.plain("GET", "retrieval-logs?knowledge_base_id=医保").json()["data"]["list"]
    assert {entry["knowledge_base_id"] for entry in logged} == {1001}
    assert at.plain("GET", "retrieval-logs?knowledge_base_id=没有").status_code == 404
