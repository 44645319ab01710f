"""Reranking on this machine: a cross-encoder reads query and passage together and gives one logit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.ports import RerankModel, never
from qianxun.models.cards import RerankCard, rerank_card
from qianxun.models.checks import sigmoid
from qianxun.models.local.onnx import OnnxModel
from qianxun.models.local.weights import find_local

if TYPE_CHECKING:
    from qianxun.models.local.onnx import Encoding

PAIRS_PER_CORE = 2  # read before `stop` is asked again


def open_cross_encoder(
    name: str | RerankCard, *, folders: Sequence[Path] = (), threads: int = 0, device: str = "cpu"
) -> RerankModel:
    """The cross-encoder of a card, whose files are looked for in ``folders``.

    Raises NotFound for a name that no card has, ModelUnavailable when its files are nowhere, HashMismatch when they
    are not the right ones.
    """
    wanted = rerank_card(name)
    found = find_local(wanted, folders)
    if found is None:
        looked = "、".join(str(folder) for folder in folders) or "（没有给出文件夹）"
        command = f"qianxun models pull {wanted.name}" + ("" if wanted.pinned else " --accept-unpinned")
        raise ModelUnavailable(
            f"重排模型 {wanted.name} 还没有下载；找过：{looked}",
            hint=f"请运行 {command}，或改用 maxsim",
        )
    return CrossEncoder(wanted, found, threads=threads, device=device)


class CrossEncoder:
    """A RerankModel over a card's ONNX weights. Safe to call from several threads at once.

    The score is the sigmoid of the logit. Each pair runs alone, one to a core, so that no score depends on the
    passages beside it, as it does when quantised weights run a batch. A blank query or passage scores 0 unread.
    """

    share = 1.0

    def __init__(self, name: str | RerankCard, folder: Path, *, threads: int = 0, device: str = "cpu") -> None:
        self._card = rerank_card(name)
        self._onnx = OnnxModel(self._card, folder, threads=threads, device=device)

    @property
    def name(self) -> str:
        return self._card.name

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        scores = np.zeros(len(passages))
        worth = [place for place, passage in enumerate(passages) if passage.strip()] if query.strip() else []
        size = PAIRS_PER_CORE * self._onnx.threads
        for start in range(0, len(worth), size):
            if stop():
                raise ModelUnavailable(f"重排模型 {self.name} 到了时限，没有做完", hint="请放宽时限，或减少重排的条数")
            places = worth[start : start + size]
            pairs = self._onnx.encode_pairs(query, [passages[place] for place in places])
            scores[places] = sigmoid(np.array(self._onnx.side_by_side(self._logit, pairs)))
        found: list[float] = scores.tolist()
        return found

    def _logit(self, pair: Encoding) -> float:
        output = self._onnx.run([pair])
        if output.size != 1 or not np.isfinite(output).all():
            raise BadModelReply(
                f"重排模型 {self.name} 应给出一个数，实际输出形状 {output.shape}，或含有非数",
                hint="请核对权重文件：需要单输出的交叉编码器",
            )
        return float(output.reshape(-1)[0])
