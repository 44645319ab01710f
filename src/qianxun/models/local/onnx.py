"""Models on this machine: a card's tokenizer and ONNX weights, with checked hashes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.unicode import sound_text
from qianxun.models.cards import ModelCard, RerankCard
from qianxun.models.local.weights import check_folder

if TYPE_CHECKING:
    from tokenizers import Encoding as Encoding
    from tokenizers import Tokenizer

log = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")
QUERY_SHARE = 0.75  # of a pair's tokens, at most: the rest is for the passage


class OnnxModel:
    """Tokenizer and weights of one model. Thread-safe."""

    def __init__(self, model: ModelCard | RerankCard, folder: Path, *, threads: int = 0, device: str = "cpu") -> None:
        """``threads=0`` means all cores. Raises ModelUnavailable or HashMismatch."""
        if threads < 0:
            raise BadInput(f"threads 不能为负，而不是 {threads}", hint="0 表示使用全部处理器核")
        check_folder(model, folder)
        self.name = model.name
        self.threads = threads or _cores()
        self._max_tokens = model.max_tokens
        self._tokenizer = _open_tokenizer(model, folder)
        self._session = _open_session(model, folder, device)
        self.device = "cuda" if "CUDAExecutionProvider" in self._session.get_providers() else "cpu"
        self._inputs = {given.name for given in self._session.get_inputs()}
        self._errors = _onnx_errors()

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """The tokens of each text with special ones, truncated to the model's length."""
        most = self._max_tokens - self._tokenizer.num_special_tokens_to_add(False)
        return [self._tokenizer.post_process(_cut(bare, most)) for bare in self._bare(texts)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of the text stands, special ones left out. `encode` does not follow that, to save time."""
        bare = self._tokenizer.encode(sound_text(text), add_special_tokens=False)
        most = self._max_tokens - self._tokenizer.num_special_tokens_to_add(False)
        return list(_cut(bare, most).offsets)

    def encode_pairs(self, query: str, passages: Sequence[str]) -> list[Encoding]:
        """The tokens of each (query, passage). The passage is truncated; the query only beyond `QUERY_SHARE`."""
        room = max(2, self._max_tokens - self._tokenizer.num_special_tokens_to_add(True))
        first = _cut(self._bare([query])[0], max(1, int(room * QUERY_SHARE)))
        most = room - len(first)
        return [self._tokenizer.post_process(first, _cut(bare, most)) for bare in self._bare(passages)]

    def run(self, encodings: Sequence[Encoding]) -> NDArray[np.float32]:
        """The first output for one batch, padded to its longest."""
        feed = {name: array for name, array in _padded(encodings).items() if name in self._inputs}
        try:
            output: NDArray[np.float32] = self._session.run(None, feed)[0]
        except self._errors as error:
            raise BadModelReply(
                f"模型 {self.name} 运行失败：{_first_line(error)}", hint="请核对模型卡片与权重文件是否相配"
            ) from error
        return output

    def in_parallel(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The results in order, one task per core at a time. A single one runs in the caller's thread."""
        if len(tasks) <= 1 or self.threads == 1:
            return [work(task) for task in tasks]
        with ThreadPoolExecutor(min(self.threads, len(tasks)), "model") as pool:
            return list(pool.map(work, tasks))

    def _bare(self, texts: Sequence[str]) -> list[Encoding]:
        return self._tokenizer.encode_batch_fast([sound_text(text) for text in texts], add_special_tokens=False)


def _cut(tokens: Encoding, most: int) -> Encoding:
    tokens.truncate(most)
    return tokens


def _padded(encodings: Sequence[Encoding]) -> dict[str, NDArray[np.int64]]:
    shape = (len(encodings), max(len(encoding) for encoding in encodings))
    ids, mask, kinds = (np.zeros(shape, np.int64) for _ in range(3))
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = encoding.ids
        mask[row, : len(encoding)] = 1
        kinds[row, : len(encoding)] = encoding.type_ids
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}


def _open_tokenizer(model: ModelCard | RerankCard, folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / model.tokenizer.path))
    except Exception as error:  # the library raises nothing narrower
        raise _unreadable(model, model.tokenizer.path, error) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _open_session(model: ModelCard | RerankCard, folder: Path, device: str) -> Any:
    import onnxruntime  # type: ignore[import-untyped]

    providers = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
    if device not in providers:
        raise ModelUnavailable(f"没有 {device!r} 这样的 device", hint=f"可用：{'、'.join(providers)}")
    if providers[device] not in onnxruntime.get_available_providers():
        log.warning(
            "onnxruntime 不能在设备 %s 上运行，模型 %s 改用处理器（cpu）；要用显卡，请安装 onnxruntime-gpu",
            device,
            model.name,
        )
        device = "cpu"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # batches run in parallel instead; threads within one spin and wait
    options.log_severity_level = 3
    path = str(folder / model.weights.path)
    try:
        return onnxruntime.InferenceSession(path, sess_options=options, providers=[providers[device]])
    except _onnx_errors() as error:
        raise _unreadable(model, model.weights.path, error) from error


def _onnx_errors() -> tuple[type[Exception], ...]:
    """The runtime's errors, which have no common root."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # type: ignore[import-untyped]

    return tuple(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))


def _unreadable(model: ModelCard | RerankCard, path: str, error: Exception) -> ModelUnavailable:
    return ModelUnavailable(
        f"模型 {model.name} 的 {path} 打不开：{_first_line(error)}",
        hint=f"文件可能不完整；请删除后运行 qianxun models pull {model.name}",
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _cores() -> int:
    """The cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
