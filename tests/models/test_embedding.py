from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.types import Vector, Vectors
from qianxun.engine.standalone_models import EmbeddingEngine
from qianxun.models import RemoteEndpoint, open_embedding
from qianxun.models.remote.embedding import RemoteEmbedding
from qianxun.testing.scripted import HashEmbedding
from tests.models.embedding_service import DIMENSION, expected, serving, well
from tests.shared import MODELS, needs_model

TEXTS = ["医保报销比例", "门诊", "", "城镇职工基本医疗保险的住院起付标准", "发票"]


class Scripted(HashEmbedding):
    """An extender's model that changes what it should have returned, and remembers the sizes of what it was asked."""

    def __init__(self, change: Callable[[Vectors], Vectors]) -> None:
        super().__init__(DIMENSION)
        self._change = change
        self.asked: list[list[int]] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.asked.append([len(text) for text in texts])
        return self._change(super().embed_passages(texts))

    def embed_query(self, text: str) -> Vector:
        row: Vector = self._change(super().embed_passages([text]))[0]
        return row


def test_any_model_is_asked_in_batches_of_like_length_and_answered_in_order() -> None:
    model = Scripted(lambda rows: rows)
    engine = EmbeddingEngine(model=model, batch_size=2)
    assert np.allclose(engine.encode(TEXTS), expected(TEXTS), atol=1e-6)
    assert model.asked == [[0, 2], [2, 6], [17]]
    assert engine.encode([]).shape == (0, DIMENSION)
    assert np.allclose(engine.encode_query("门诊"), expected(["门诊"])[0], atol=1e-6)


def test_vectors_are_brought_to_unit_length() -> None:
    engine = EmbeddingEngine(model=Scripted(lambda rows: rows * 7))
    assert np.allclose(engine.encode(TEXTS), expected(TEXTS), atol=1e-6)


BAD = {
    "too few": lambda rows: rows[:-1],
    "too narrow": lambda rows: rows[:, 1:],
    "flat": lambda rows: rows.ravel(),
    "not a number": lambda rows: np.where(rows == rows.max(), np.nan, rows),
    "infinite": lambda rows: np.where(rows == rows.max(), np.inf, rows),
    "zero": lambda rows: rows * 0,
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_a_bad_reply_of_any_model_is_refused(change: Callable[[Vectors], Vectors]) -> None:
    with pytest.raises(BadModelReply):
        EmbeddingEngine(model=Scripted(change)).encode(TEXTS)


def test_a_single_string_is_not_a_list_of_characters() -> None:
    with pytest.raises(BadInput, match="encode_query"):
        EmbeddingEngine(model=HashEmbedding()).encode("医保")
    with pytest.raises(BadInput, match="batch_size"):
        EmbeddingEngine(model=HashEmbedding(), batch_size=0)


def test_a_remote_endpoint_opens_as_a_model() -> None:
    with serving(well) as service:
        model = open_embedding(RemoteEndpoint(service.url, "bge", DIMENSION, name="云端"))
        assert isinstance(model, RemoteEmbedding)
        assert EmbeddingEngine(model=model).encode(TEXTS).shape == (len(TEXTS), DIMENSION)
        assert model.name == "云端"
        model.close()


@needs_model
def test_the_seed_form_opens_a_local_model_by_name() -> None:
    engine = EmbeddingEngine("BAAI/bge-small-zh-v1.5", batch_size=2, device="cpu", folders=[MODELS])
    assert engine.encode(TEXTS).shape == (len(TEXTS), 512)
    assert np.array_equal(engine.encode(["门诊"])[0], engine.encode_query("门诊"))
