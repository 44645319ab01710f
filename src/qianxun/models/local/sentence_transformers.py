"""Embedding by sentence-transformers, for users who have torch anyway."""

from __future__ import annotations

import logging
from typing import Any

from qianxun.core.errors import MissingExtra, ModelUnavailable
from qianxun.core.foreign import ForeignEmbedding

log = logging.getLogger(__name__)


class SentenceEmbedding(ForeignEmbedding):
    """A sentence-transformers model by hub name or folder. Runs no code from the model."""

    def __init__(
        self, model: str, *, device: str = "cpu", batch_size: int = 32, local_files_only: bool = False
    ) -> None:
        loaded = _load(model, device, local_files_only)
        super().__init__(model, loaded.encode, loaded.encode, batch_size=batch_size)


def _load(model: str, device: str, local_files_only: bool) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtra("sentence-transformers", "sentence-transformers") from error
    if device == "cuda" and not _has_cuda():
        log.warning("没有可用的显卡，模型 %s 改用处理器（cpu）", model)
        device = "cpu"
    try:
        return SentenceTransformer(model, device=device, trust_remote_code=False, local_files_only=local_files_only)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelUnavailable(
            f"sentence-transformers 打不开模型 {model}：{reason}", hint="请检查模型名或文件夹，以及 device"
        ) from error


def _has_cuda() -> bool:
    import torch  # which sentence-transformers brings

    return bool(torch.cuda.is_available())
