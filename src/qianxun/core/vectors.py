"""Vectors and scores of models: checked and normalised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadModelReply
from qianxun.core.types import Scores, Vectors


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


def sigmoid(logits: Scores) -> Scores:
    """1 ÷ (1 + e⁻ˣ), without overflow however large a logit is."""
    curve: Scores = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, np.float64)))
    return curve
