"""The client of the document over a collection: stored, searched, filtered, deleted; nothing cut, nothing injected."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import numpy as np
import pytest

from qianxun import Document, EmbeddingEngine, HybridSearchEngine, KnowledgeBaseManager, MilvusClient, VectorDocument
from qianxun.core.errors import BadFilter, BadInput, BadModelReply, RetrieverUnavailable
from qianxun.testing.index_material import HOSTILE, unit
from qianxun.testing.scripted import HashEmbedding
from tests.servers.milvus import LightServer

DIMENSION = 16


@pytest.fixture
def client(milvus: LightServer) -> Iterator[MilvusClient]:
    made = MilvusClient(milvus.host, milvus.port, collection=f"kb_{uuid.uuid4().hex[:8]}", dimension=DIMENSION)
    yield made
    made.close()


def chunk(number: int, document: str = "d1", text: str = "林黛玉", **metadata: str) -> VectorDocument:
    owner = {"user_id": "u1", "project_id": "p1", "content_type": "chapter", **metadata}
    return VectorDocument(f"{document}_{number}", document, number, text, unit(number, DIMENSION).tolist(), owner)


def test_the_collection_of_the_document_is_made_as_it_says(milvus: LightServer) -> None:
    MilvusClient(milvus.host, milvus.port).close()
    client = MilvusClient(host=milvus.host, port=milvus.port, user="", password="")
    fields = client._milvus.schema("qingyu_kb")
    assert [field["name"] for field in fields] == [
        "id", "document_id", "chunk_index", "chunk_text", "embedding", "user_id", "project_id", "content_type",
        "metadata_json",
    ]  # fmt: skip
    assert fields[4]["params"]["dim"] == MilvusClient.VECTOR_DIM == 1024
    client.close()


def test_what_is_inserted_is_found_with_its_metadata_until_it_is_deleted(client: MilvusClient) -> None:
    assert client.insert([chunk(0), chunk(1, 回="三"), chunk(2, "d2")]) == ["d1_0", "d1_1", "d2_2"]
    (found, score, metadata), *_ = client.search(unit(1, DIMENSION).tolist(), top_k=2)
    assert (found, score) == ("d1_1", pytest.approx(1, abs=1e-4))
    assert metadata == {
        "document_id": "d1",
        "chunk_text": "林黛玉",
        "user_id": "u1",
        "project_id": "p1",
        "content_type": "chapter",
        "metadata": {"user_id": "u1", "project_id": "p1", "content_type": "chapter", "回": "三"},
    }
    client.insert([chunk(1, text="薛宝钗")])
    assert client.search(unit(1, DIMENSION), 1)[0][2]["chunk_text"] == "薛宝钗"
    client.delete_by_document_id("d1")
    assert [hit[0] for hit in client.search(unit(1, DIMENSION), 10)] == ["d2_2"]


def test_filters_are_equality_and_one_of_a_list(client: MilvusClient) -> None:
    client.insert([chunk(at, f"d{at}", user_id=f"u{at % 2}", content_type="角色") for at in range(6)])

    def found(**filters: object) -> set[str]:
        return {hit[0] for hit in client.search(unit(9, DIMENSION), 10, filters)}

    assert found(user_id="u1") == {"d1_1", "d3_3", "d5_5"}
    assert found(user_id="u1", chunk_index=3) == {"d3_3"}
    assert found(document_id=["d0", "d4", "没有"]) == {"d0_0", "d4_4"}
    assert found(content_type=[]) == found(content_type="chapter") == set()


def test_no_value_of_a_filter_is_read_as_an_expression(client: MilvusClient) -> None:
    texts = [text for text in HOSTILE if "\0" not in text and len(text) < 30]
    client.insert([chunk(at, f"d{at}", user_id=text) for at, text in enumerate(texts)])
    for at, text in enumerate([*texts]):
        assert {hit[0] for hit in client.search(unit(9, DIMENSION), 50, {"user_id": text})} == {f"d{at}_{at}"}
    for attack in ('u1" or "1" == "1', '"] or id in ["d0_0', "u1\\", '\\" or 1 == 1 or \\"'):
        assert client.search(unit(9, DIMENSION), 50, {"user_id": attack}) == []
        client.delete_by_document_id(attack)
    assert len(client.search(unit(9, DIMENSION), 50)) == len(texts)


def test_what_does_not_fit_is_refused_and_nothing_is_stored(client: MilvusClient) -> None:
    """A Chinese character is three bytes to a VARCHAR."""
    client.insert([chunk(0, text="长" * 21_845)])
    assert client.search(unit(0, DIMENSION), 1)[0][2]["chunk_text"] == "长" * 21_845
    with pytest.raises(BadInput, match="65538 字节"):
        client.insert([chunk(1), chunk(2, text="长" * 21_846)])
    with pytest.raises(BadInput, match="user_id"):
        client.insert([chunk(1), chunk(2, user_id="户" * 34)])
    with pytest.raises(BadModelReply):
        client.insert([VectorDocument("x", "x", 0, "", unit(1, 8).tolist())])
    assert len(client.search(unit(0, DIMENSION), 10)) == 1


def test_an_impossible_filter_is_refused_with_what_there_is(client: MilvusClient) -> None:
    for filters in ({"metadata": "x"}, {"user_id == 1 or id": "x"}, {"user_id": 5}, {"chunk_index": "1"}):
        with pytest.raises(BadFilter):
            client.search(unit(0, DIMENSION), 10, filters)
    with pytest.raises(BadModelReply):
        client.search(np.zeros(3), 10)
    with pytest.raises(BadInput, match="top_k"):
        client.search(unit(0, DIMENSION), 0)


def test_a_server_that_is_not_there_is_said(milvus: LightServer) -> None:
    with pytest.raises(RetrieverUnavailable, match="Milvus"):
        MilvusClient("127.0.0.1", 9)


def test_the_managers_of_the_document_run_over_it(milvus: LightServer) -> None:
    async def story() -> None:
        vectorizer = EmbeddingEngine(model=HashEmbedding())
        size = len(vectorizer.encode_query("题"))
        name = f"kb_{uuid.uuid4().hex[:8]}"
        vector_db = MilvusClient(milvus.host, milvus.port, collection=name, dimension=size)
        manager, engine = KnowledgeBaseManager(vectorizer, vector_db), HybridSearchEngine(vectorizer, vector_db)
        owner = {"user_id": "u1", "project_id": "p1"}
        await manager.index_document(Document("d1", "林黛玉初进荣国府。", content_type="chapter", **owner))
        await manager.index_document(Document("d2", "宝玉挨打。", content_type="chapter", **owner))
        found = await engine.search("林黛玉", **owner)
        assert found[0].document_id == "d1"
        assert await engine.search("林黛玉", user_id="别人", project_id="p1") == []
        await manager.delete_document("d1")
        assert "d1" not in {hit.document_id for hit in await engine.search("林黛玉", **owner)}
        vector_db.close()

    asyncio.run(story())
