"""Nothing that a model gets wrong reaches the records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from qianxun.core.errors import BadModelReply
from qianxun.core.types import Document, Vectors
from qianxun.core.vectors import embed
from qianxun.indexing.prepare import prepare
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.testing.scripted import HashEmbedding


class Wrong(HashEmbedding):
    """A model whose replies are spoilt."""

    def __init__(self, spoil: str) -> None:
        super().__init__()
        self._spoil = spoil

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        right = super().embed_passages(texts)
        if self._spoil == "count":
            return right[:-1]
        if self._spoil == "dimension":
            return right[:, :-1]
        right[-1] = {"nan": np.nan, "infinite": np.inf, "zero": 0.0}[self._spoil]
        return right


@pytest.mark.parametrize("spoil", ["count", "dimension", "nan", "infinite", "zero"])
def test_a_spoilt_reply_raises_before_anything_is_stored(spoil: str) -> None:
    with pytest.raises(BadModelReply):
        prepare([Document("d", "住院报销比例为85%。")], ChunkSplitter(), Wrong(spoil))


def test_the_vectors_of_many_documents_stay_with_their_documents() -> None:
    model = HashEmbedding()
    documents = [Document(str(n), f"第{n}条规定。" * (n + 1)) for n in range(150)]
    splitter = ChunkSplitter(chunk_size=60, chunk_overlap=6)
    seen: list[int] = []
    prepared = prepare(documents, splitter, model, on_embedded=seen.append)
    assert sum(seen) == sum(len(each.pieces) for each in prepared)
    for each in prepared:
        expected = embed([piece.text for piece in each.pieces], model)
        assert each.vectors is not None
        np.testing.assert_allclose(each.vectors, expected, atol=1e-6)


def test_without_a_model_there_are_pieces_and_no_vectors() -> None:
    (prepared,) = prepare([Document("d", "门诊报销比例为60%。")], ChunkSplitter(), None)
    assert prepared.vectors is None
    assert [piece.text for piece in prepared.pieces] == ["门诊报销比例为60%。"]
