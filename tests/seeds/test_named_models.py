"""Document 004, 2.3 and 4.2: an embedding model and a reranker by the names that the document has for them."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from qianxun import EmbeddingEngine, Reranker
from qianxun.core.errors import ModelUnavailable, NotFound
from qianxun.testing.scripted import HashEmbedding
from tests.shared import MODELS, needs_model

TEXTS = ["医保报销比例", "门诊"]


@pytest.fixture
def downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_HOME", str(MODELS))


@needs_model
@pytest.mark.usefixtures("downloaded")
def test_a_model_that_was_downloaded_is_found_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        vectorizer = EmbeddingEngine(model_name="BAAI/bge-small-zh-v1.5", batch_size=32, device="cuda")
    assert "cuda" in caplog.text
    assert (vectorizer.device, vectorizer.batch_size) == ("cpu", 32)
    embeddings = vectorizer.encode(TEXTS, show_progress=False)
    assert embeddings.shape == (2, 512)
    assert np.allclose(np.linalg.norm(embeddings, axis=1), 1.0, atol=1e-5)
    query_vector = vectorizer.encode_query(query="门诊")
    assert len(query_vector.tolist()) == 512


def test_progress_is_shown_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    vectorizer = EmbeddingEngine(model=HashEmbedding(), batch_size=1)
    vectorizer.encode(TEXTS)
    assert capsys.readouterr() == ("", "")
    vectorizer.encode(TEXTS, show_progress=True)
    shown = capsys.readouterr()
    assert (shown.out, "2/2" in shown.err) == ("", True)


def test_what_is_not_downloaded_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_HOME", str(tmp_path))
    with pytest.raises(ModelUnavailable, match=str(tmp_path)):
        EmbeddingEngine()
    with pytest.raises(ModelUnavailable, match="models pull bge-reranker-large"):
        Reranker("BAAI/bge-reranker-large")
    with pytest.raises(ModelUnavailable, match="bge-reranker-large"):
        Reranker()
    with pytest.raises(NotFound):
        Reranker("没有这个模型")


@needs_model
@pytest.mark.usefixtures("downloaded")
def test_a_reranker_by_name_reads_what_a_search_gave() -> None:
    from qianxun import SearchResult

    results = [SearchResult(str(at), "d", text, 0.5, {}) for at, text in enumerate(("天气预报", "门诊报销比例为60%"))]
    reranker = Reranker("maxsim")
    reranked = reranker.rerank("门诊能报多少", results)
    assert [result.chunk_id for result in reranked] == ["1", "0"]
    assert [result.score for result in results] == [0.5, 0.5]
    assert len(reranker.rerank(query="门诊能报多少", results=results, top_k=1)) == 1
    assert reranker.rerank("门诊", []) == []
