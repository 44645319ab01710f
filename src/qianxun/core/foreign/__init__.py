"""Models of other libraries by what they can do, as ours: a `SentenceTransformer` or LangChain `Embeddings`, a
`CrossEncoder`, a LangChain chat model. Nothing of those libraries is imported.

`embedding_model`, `rerank_model` and `chat_model` return one of ours as it is, and raise BadInput, saying what is
expected, for anything that is neither.
"""

from __future__ import annotations

from typing import Any

from qianxun.core.foreign.chat import chat_model as chat_model
from qianxun.core.foreign.embedding import ForeignEmbedding as ForeignEmbedding
from qianxun.core.foreign.embedding import embedding_model as embedding_model
from qianxun.core.foreign.rerank import rerank_model as rerank_model


def model_of_any_kind(given: Any, name: str) -> Any:
    """For callers that bring models by name and do not say of which kind they are."""
    if any(hasattr(given, method) for method in ("embed_passages", "complete", "share")):
        return given
    kinds = {"invoke": chat_model, "encode": embedding_model, "embed_documents": embedding_model}
    adapt = next((kinds[method] for method in kinds if hasattr(given, method)), rerank_model)
    return adapt(given, name)
