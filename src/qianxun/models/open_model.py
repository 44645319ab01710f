"""Opening models of each kind: `open_embedding`, `open_reranker`, `open_chat`.

A spec is the name of a card or a card of one's own (ONNX weights on this machine), ``sentence-transformers:NAME`` for
an embedding model, or the endpoint of a service. Models of plug-ins are opened by `core.plugins.create`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qianxun.core.errors import ModelUnavailable
from qianxun.core.ports import EmbeddingModel, RerankModel, StreamingChatModel
from qianxun.models.cards import ModelCard, RerankCard, card, rerank_card
from qianxun.models.local.cross_encoder import CrossEncoder
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.models.local.sentence_transformers import SentenceEmbedding
from qianxun.models.local.weights import find_local
from qianxun.models.remote.endpoints import ChatEndpoint, RemoteEndpoint, RerankEndpoint

SENTENCE_PREFIX = "sentence-transformers:"


def open_embedding(
    spec: str | ModelCard | RemoteEndpoint, *, folders: Sequence[Path] = (), threads: int = 0, device: str = "cpu"
) -> EmbeddingModel:
    """Opens an embedding model; the files of a card are looked for in ``folders``.

    Raises NotFound for an unknown name, ModelUnavailable if its files are missing, HashMismatch if they are wrong.
    """
    if isinstance(spec, RemoteEndpoint):
        from qianxun.models.remote.embedding import RemoteEmbedding  # its HTTP client is slow to import

        return RemoteEmbedding(spec)
    if isinstance(spec, str) and spec.startswith(SENTENCE_PREFIX):
        return SentenceEmbedding(spec.removeprefix(SENTENCE_PREFIX), device=device)
    found = find_local(spec, folders)
    if found is None:
        name = card(spec).name
        raise ModelUnavailable(
            f"模型 {name} 还没有下载；找过：{_listed(folders)}", hint=f"请运行 qianxun models pull {name}，或先不用模型"
        )
    return LocalEmbedding(spec, found, threads=threads, device=device)


def open_reranker(
    spec: str | RerankCard | RerankEndpoint, *, folders: Sequence[Path] = (), threads: int = 0, device: str = "cpu"
) -> RerankModel:
    """Opens a reranker, as `open_embedding` does."""
    if isinstance(spec, RerankEndpoint):
        from qianxun.models.remote.rerank import RemoteRerank  # its HTTP client is slow to import

        return RemoteRerank(spec)
    own = rerank_card(spec)
    found = find_local(own, folders)
    if found is None:
        command = f"qianxun models pull {own.name}" + ("" if own.pinned else " --accept-unpinned")
        raise ModelUnavailable(
            f"重排模型 {own.name} 还没有下载；找过：{_listed(folders)}", hint=f"请运行 {command}，或改用 maxsim"
        )
    return CrossEncoder(own, found, threads=threads, device=device)


def open_chat(endpoint: ChatEndpoint) -> StreamingChatModel:
    """Opens the chat model of a service."""
    from qianxun.models.remote.chat import RemoteChat  # its HTTP client is slow to import

    return RemoteChat(endpoint)


def _listed(folders: Sequence[Path]) -> str:
    return "、".join(str(folder) for folder in folders) or "（没有给出文件夹）"
