"""Examples to vectors, a batch of like-long texts at a time, each reply checked before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from qianxun.core.errors import BadModelReply
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vectors

BATCH: Final = 64

Watch: TypeAlias = Callable[[int, int], None]  # (done, of how many)


def unwatched(_done: int, _total: int) -> None:
    return None


def vectorize_text(text: str, model: EmbeddingModel) -> list[float]:
    """The unit vector of one text, as it is stored."""
    numbers: list[float] = vectorize([text], model)[0].tolist()
    return numbers


def vectorize(texts: Sequence[str], model: EmbeddingModel, watch: Watch = unwatched, batch: int = BATCH) -> Vectors:
    """One unit vector per text, in order. Raises ModelUnavailable, or BadModelReply for what is no such vector."""
    rows = np.empty((len(texts), model.dimension), np.float32)
    order = sorted(range(len(texts)), key=lambda position: len(texts[position]))  # padding costs as much as text
    for start in range(0, len(order), batch):
        at = order[start : start + batch]
        rows[at] = _unit(np.asarray(model.embed_passages([texts[position] for position in at])), len(at), model)
        watch(min(start + batch, len(order)), len(order))
    return rows


def _unit(reply: Vectors, count: int, model: EmbeddingModel) -> Vectors:
    if reply.shape != (count, model.dimension):
        raise BadModelReply(
            f"模型 {model.name} 应返回 {count} 个 {model.dimension} 维向量，实际返回形状 {reply.shape}",
            hint="请核对所选模型及其维度设置；没有写入任何内容",
        )
    wide = reply.astype(np.float64)  # squares of large values overflow in single precision
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(wide, axis=1, keepdims=True)
    if not (np.isfinite(norms) & (norms > 0)).all():
        raise BadModelReply(
            f"模型 {model.name} 返回的向量含有非数、无穷大或全为零", hint="请检查模型服务或权重文件；没有写入任何内容"
        )
    unit: Vectors = (wide / norms).astype(np.float32)
    return unit
