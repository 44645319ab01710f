from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from qianxun.core.ports import EmbeddingModel
from qianxun.testing.fake_embedding import HashEmbedding

TEXTS = ["城镇职工医保住院报销比例", "职工医保的住院报销比例是多少", "发动机机油更换周期", "", "ＡＢＣ", "\ud800"]


def test_rows_are_unit_vectors_in_order() -> None:
    model: EmbeddingModel = HashEmbedding(dimension=32)
    vectors = model.embed_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), 32)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-6)
    for row, text in zip(vectors, TEXTS, strict=True):
        assert np.array_equal(row, model.embed_query(text))


def test_shared_bigrams_bring_texts_together() -> None:
    near, query, far = HashEmbedding().embed_passages(TEXTS[:3])
    assert near @ query > 0.35
    assert near @ query > far @ query + 0.3


def test_another_process_gets_the_same_vector() -> None:
    script = (
        "from qianxun.testing.fake_embedding import HashEmbedding; print(HashEmbedding().embed_query('医保').tolist())"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert other.strip() == str(HashEmbedding().embed_query("医保").tolist())


def test_no_texts_give_no_rows_and_the_name_tells_the_dimension() -> None:
    model = HashEmbedding(dimension=16)
    assert model.embed_passages([]).shape == (0, 16)
    assert (model.name, HashEmbedding().name, HashEmbedding(name="甲").name) == ("fake-16", "fake-64", "甲")
