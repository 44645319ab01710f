"""Document 003, 4: the second tier also holds where the system recognises that a question is for one document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.core.types import Document, Eq
from qianxun.engine.settings import Search
from tests.answer.asked import Opened

LIBRARY = [
    Document(id="d1", content="服务器至少要有八核。安装之前先备份数据库。", name="部署手册.md", user_id="张三"),
    Document(id="d2", content="部署之后有什么要求要写进周报。部署手册由运维组维护。", name="周报.md", user_id="张三"),
    Document(id="d3", content="机房的要求见墙上的告示。", name="机房.md", user_id="李四"),
    Document(id="d4", content="第一版。", name="草案.md", user_id="张三"),
    Document(id="d5", content="第二版。", name="草案.txt", user_id="张三"),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("spoken"), LIBRARY, search=Search(cache_entries=0)) as opened:
        yield opened


def doc_ids(shelf: Opened, query: str, **options: object) -> set[str]:
    return {found.chunk.doc_id for found in shelf.ask(query, **options).found}


@pytest.mark.parametrize(
    "query",
    ["部署手册里有什么要求", "请问部署手册中对服务器有什么要求", "《部署手册》有什么要求", "《部署手册.md》怎么说"],
)
def test_the_document_that_a_question_speaks_of_is_searched_alone(shelf: Opened, query: str) -> None:
    recall = shelf.ask(query, threshold=0.9)
    assert [(found.chunk.doc_id, found.tier) for found in recall.found] == [("d1", "document")]
    assert recall.degraded == ()


def test_the_explanation_says_why_another_is_left_out(shelf: Opened) -> None:
    told = shelf.run(shelf.engine.explain(shelf.kb, "部署手册里有什么要求", f"c_{shelf.kb}_d2_0"))
    assert told.chunk is not None
    assert told.chunk.step == "filter"
    assert "点名" in told.chunk.reason
    assert "d1" in told.chunk.reason


@pytest.mark.parametrize(
    "query", ["部署有什么要求", "机房里有什么要求", "草案里有什么", "《没有的手册》有什么要求", "手册里有什么要求"]
)
def test_without_one_such_name_everything_is_searched(shelf: Opened, query: str) -> None:
    assert all(found.tier != "document" for found in shelf.ask(query).found)


def test_a_chosen_or_hidden_document_is_not_overruled(shelf: Opened) -> None:
    assert doc_ids(shelf, "部署手册里有什么要求", doc_ids=("d2",)) == {"d2"}
    assert "d1" not in doc_ids(shelf, "部署手册里有什么要求", where=Eq("user_id", "李四"))
