"""Document 004, 9.2: its configuration file loads whole; an unknown key is refused with the nearest real one."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from qianxun.core.errors import BadSettings
from qianxun.engine.settings import Settings, load
from qianxun.engine.storage import index_backend, milvus_address
from qianxun.index.milvus.index import MilvusBackend

YAML = """
rag:
  vectorization:
    model: "BAAI/bge-large-zh-v1.5"
    batch_size: 32
    device: "cuda"

  chunking:
    chunk_size: 500
    chunk_overlap: 50

  search:
    top_k: 10
    semantic_weight: 0.7
    keyword_weight: 0.3
    enable_rerank: true

  milvus:
    host: "localhost"
    port: 19530
"""


def loaded(folder: Path, yaml: str, **environment: str) -> Settings:
    file = folder / "qianxun.yaml"
    file.write_text(yaml, encoding="utf-8")
    return load(file, {"QIANXUN_DATA": str(folder), **environment})


def test_the_file_of_the_document_loads_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = loaded(tmp_path, YAML)
    assert (settings.vectorization.model, settings.vectorization.device) == ("BAAI/bge-large-zh-v1.5", "cuda")
    assert (settings.search.semantic_weight, settings.search.keyword_weight) == (0.7, 0.3)
    assert (settings.milvus.host, settings.milvus.port) == ("localhost", 19530)
    assert settings.search.rerank == "maxsim"
    with caplog.at_level(logging.WARNING):
        index_backend(settings)
    assert "milvus" in caplog.text  # the index is elsewhere, and that is said


@pytest.mark.parametrize(
    ("enabled", "rerank", "endpoint", "expected"),
    [
        ("true", "bge-reranker-base", "", "bge-reranker-base"),
        ("true", "", "bge-cloud", "bge-cloud"),
        ("false", "bge-reranker-base", "", ""),
        (None, "bge-reranker-base", "", "bge-reranker-base"),
    ],
)
def test_reranking_is_switched_on_and_off(
    tmp_path: Path, enabled: str | None, rerank: str, endpoint: str, expected: str
) -> None:
    variables = {"QIANXUN_SEARCH_RERANK": rerank}
    variables |= {"QIANXUN_SEARCH_ENABLE_RERANK": enabled} if enabled else {}
    if endpoint:
        variables |= {"QIANXUN_RERANK_BASE_URL": "https://api.example.com/v1", "QIANXUN_RERANK_MODEL": endpoint}
    assert loaded(tmp_path, "{}", **variables).search.rerank == expected


@pytest.mark.parametrize(
    ("host", "expected"), [("localhost", "http://localhost:19530"), ("https://db.cn/", "https://db.cn:19530")]
)
def test_the_section_says_where_the_index_is(tmp_path: Path, host: str, expected: str) -> None:
    chosen = loaded(
        tmp_path, YAML.replace("localhost", host) + "  index: {backend: milvus}\n", QIANXUN_MILVUS_USER="甲"
    )
    assert milvus_address(chosen) == {"uri": expected, "user": "甲", "password": ""}
    assert isinstance(index_backend(chosen), MilvusBackend)


def test_a_backend_that_there_is_not_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="faiss") as refused:
        index_backend(loaded(tmp_path, YAML + "  index: {backend: faiss}\n"))
    assert "milvus" in refused.value.hint


@pytest.mark.parametrize(
    ("yaml", "nearest"),
    [
        ("search: {enable_reranking: true}", "search.enable_rerank"),
        ("milvus: {prot: 19530}", "milvus.port"),
        ("vectorisation: {model: none}", "vectorization.model"),
        ("chunking: {size: 500}", "chunking.chunk_size"),
        ("search: {zzz: 1}", "search."),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(tmp_path: Path, yaml: str, nearest: str) -> None:
    with pytest.raises(BadSettings, match="没有名为") as refused:
        loaded(tmp_path, yaml)
    assert nearest in refused.value.hint
    assert "doctor" not in str(refused.value)


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "milvus: {password: 秘密}")
    assert "秘密" not in repr(settings) + repr(settings.rows())
