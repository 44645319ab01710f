"""Vectors and scores of models: checked and normalised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadModelReply
from qianxun.core.ports import EmbeddingModel, nothing
from qianxun.core.types import Scores, Vectors

ROUNDED_FROM = 128  # numbers to a vector: of fewer the error would be seen in the fourth decimal of a cosine
EMBED_SLICE = 64  # texts per call: large enough for good batches, small enough for progress and Ctrl-C


def unit_rows(rows: NDArray[Any], count: int, dimension: int, model: str) -> Vectors:
    """The rows as unit vectors. Raises BadModelReply on a wrong shape, a value that is no number, or a zero vector."""
    if rows.shape != (count, dimension):
        raise BadModelReply(
            f"模型 {model} 应返回 {count} 个 {dimension} 维向量，实际返回形状 {rows.shape}",
            hint="请核对所选模型及其维度设置；没有写入任何内容",
        )
    wide = rows.astype(np.float64)  # squares of large values overflow in single precision
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(wide, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(norms[:, 0]) & (norms[:, 0] > 0)))
    if bad.size:
        raise BadModelReply(
            f"模型 {model} 返回的第 {int(bad[0]) + 1} 个向量含有非数、无穷大或全为零（共 {bad.size} 个）",
            hint="请检查模型服务或权重文件；没有写入任何内容",
        )
    unit: Vectors = (wide / norms).astype(np.float32)
    return unit


def rounded(vectors: Vectors) -> Vectors:
    """Vectors as they are stored and searched: in half precision, which takes half of the space. Of 512 numbers, the
    cosine moves by about .00001."""
    if vectors.shape[1] < ROUNDED_FROM:
        return vectors
    found: Vectors = vectors.astype(np.float16).astype(np.float32)
    return found


def sigmoid(logits: Scores) -> Scores:
    """1 ÷ (1 + e⁻ˣ), without overflow however large a logit is."""
    curve: Scores = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, np.float64)))
    return curve


def embed(
    texts: Sequence[str],
    model: EmbeddingModel,
    on_embedded: Callable[[int], None] = nothing,
    *,
    batch_size: int = EMBED_SLICE,
    by_length: bool = False,
) -> Vectors:
    """One unit vector per text, in order. Raises BadModelReply for a wrong count or dimension, or a value that is no
    number.

    ``on_embedded`` is called with the size of each batch; ``by_length`` puts texts of similar length in one batch.
    """
    vectors = np.empty((len(texts), model.dimension), dtype=np.float32)
    order = list(range(len(texts)))
    if by_length:
        order.sort(key=lambda position: len(texts[position]))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        reply = np.asarray(model.embed_passages([texts[position] for position in batch]))
        vectors[batch] = unit_rows(reply, len(batch), model.dimension, model.name)
        on_embedded(len(batch))
    return vectors
