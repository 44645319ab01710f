"""Every door hands out a passage with its document's path, its headings and its text, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.types import KnowledgeBase
from qianxun.doors.cli import main
from qianxun.doors.client import Client
from qianxun.doors.frameworks import langchain, llamaindex
from qianxun.doors.mcp import tools
from qianxun.doors.mcp.collection import Collection
from tests.http.openai_doors import Doors, doors

HANDBOOK = "# 员工手册\n\n## 差旅标准\n\n| 职级 | 一线城市 |\n| --- | --- |\n| 总监 | 600 元 |\n"
PATH = "制度/差旅/index.md"
SHOWN = "员工手册 › 差旅标准\n\n| 职级 | 一线城市 |\n| 总监 | 600 元 |"
PLACE = f"{PATH} › 员工手册 › 差旅标准"
QUESTION = "总监在一线城市的差旅标准"


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A service to which a folder was sent with one `index.md` for each subject."""
    folder = tmp_path_factory.mktemp("folder") / "制度"
    for name, text in (("差旅", HANDBOOK), ("考勤", "# 员工手册\n\n迟到三次记旷工半天。\n")):
        (folder / name).mkdir(parents=True)
        (folder / name / "index.md").write_text(text, "utf-8")
    with doors(tmp_path_factory.mktemp("service")) as made:
        made.base("制度")
        made.run(_send(made, folder))
        yield made


async def _send(made: Doors, folder: Path) -> None:
    async with Client(made.served.url, key=made.key(scope="write")) as client:
        base = await client.knowledge_base("制度")
        assert (await client.add(base.id, [folder])).added == 2


def dify(at: Doors) -> tuple[str, str]:
    body = {"knowledge_id": "制度", "query": QUESTION, "retrieval_setting": {"top_k": 1, "score_threshold": 0}}
    (record,) = at.plain("POST", f"{at.served.url}/retrieval", body).json()["records"]
    assert record["metadata"]["headings"] == ["员工手册", "差旅标准"]
    return record["title"], record["content"]


def vector_store(at: Doors) -> tuple[str, str]:
    (found,) = at.client().vector_stores.search("制度", query=QUESTION, max_num_results=1)
    assert found.attributes is not None
    assert found.attributes["path"] == PATH
    return found.filename, found.content[0].text


def mcp(at: Doors) -> tuple[str, str]:
    answer = at.run(tools.retrieve(Collection(at.served.engine), QUESTION, top_k=1))
    (passage,) = answer["passages"]
    return passage["document"]["title"], passage["text"]


def with_langchain(at: Doors) -> tuple[str, str]:
    rag = Client(at.served.url, key=at.key())
    (found,) = langchain.QianxunRetriever(rag=rag, knowledge_base="制度", top_k=1).invoke(QUESTION)
    assert found.metadata["headings"] == ["员工手册", "差旅标准"]
    return found.metadata["path"], found.page_content


def with_llamaindex(at: Doors) -> tuple[str, str]:
    rag = Client(at.served.url, key=at.key())
    (found,) = llamaindex.QianxunRetriever(rag, "制度", top_k=1).retrieve(QUESTION)
    return found.metadata["path"], found.text


@pytest.mark.parametrize("door", [dify, vector_store, mcp, with_langchain, with_llamaindex])
def test_a_passage_comes_with_its_path_and_its_headings_once(
    at: Doors, door: Callable[[Doors], tuple[str, str]]
) -> None:
    assert door(at) == (PATH, SHOWN)


def test_what_is_cited_and_what_is_found_name_the_place(
    at: Doors, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer: Any = at.client().chat.completions.create(
        model="制度", messages=[{"role": "user", "content": f"{QUESTION}是多少"}]
    )
    assert answer.choices[0].message.annotations[0].url_citation.title == PLACE
    at.run(_search_by_mcp(at))
    key = ("--url", at.served.url, "--key", at.key())
    assert main([*key, "search", QUESTION, "--kb", "制度", "--top-k", "1"]) == 0
    out = capsys.readouterr().out
    assert (PLACE in out, out.count("差旅标准")) == (True, 1)
    assert main([*key, "ask", f"{QUESTION}是多少", "--kb", "制度"]) == 0
    assert PLACE in capsys.readouterr().out


async def _search_by_mcp(at: Doors) -> None:
    results = (await tools.search(Collection(at.served.engine), QUESTION))["results"]
    assert results[0]["title"] == PLACE


def test_an_engine_and_a_client_know_the_same_path(at: Doors, tmp_path: Path) -> None:
    (tmp_path / "资料" / "子").mkdir(parents=True)
    (tmp_path / "资料" / "子" / "说明.txt").write_text("自己的说明。", "utf-8")

    async def added() -> tuple[Any, Any]:
        here: KnowledgeBase = await at.served.engine.create_knowledge_base("自己的", model="none")
        await at.served.engine.add(here.id, [tmp_path / "资料"])
        (state,) = await at.served.engine.documents(here.id)
        ((chunk,), other) = (
            await at.served.engine.chunks(here.id, state.doc_id),
            (await at.served.engine.retrieve((await at.served.engine.knowledge_base("制度")).id, QUESTION)).found[0],
        )
        return chunk.attributes.metadata["path"], other.chunk.attributes.metadata["path"]

    assert at.run(added()) == ("资料/子/说明.txt", PATH)
