"""Models as the requests of other programs name them, and models run for a request alone.

Such a run has threads of its own, apart from those of searches; those of a registered model are its own, too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.limits import NAME_LIMIT
from qianxun.core.model_types import UserModel, is_ref
from qianxun.core.options import rerank_from_wire
from qianxun.core.ports import EmbeddingModel, RerankModel
from qianxun.core.types import Vectors
from qianxun.core.unicode import storable
from qianxun.core.vectors import EMBED_SLICE, embed, unit_rows
from qianxun.engine.embedding_models import NO_MODEL
from qianxun.engine.engine import Engine
from qianxun.engine.model_catalog import MAXSIM
from qianxun.models import CARDS
from qianxun.models.remote.url_policy import check_url
from qianxun.rank.rerank import checked_scores
from qianxun.text.tokens import tokens_of_all

NAMES_SHOWN: Final = 20  # in a hint
SEE_MODELS: Final = "用 GET /v1/models 查看可用的"


def count_tokens(texts: Iterable[str]) -> int:
    """An estimate of how many tokens the texts cost a language model."""
    return tokens_of_all(texts)


def check_base_url(engine: Engine, url: str) -> None:
    """Raises BadInput for a model service that may not be registered: malformed, or not to be reached from here."""
    check_url(url.strip(), engine.registry.policy)


# ── embedding models ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NamedEmbedding:
    name: str
    model: EmbeddingModel


async def embedding_names(engine: Engine) -> Sequence[str]:
    """The models of all tenants, then those that users of this tenant registered and have not disabled."""
    registered = await engine.registry.list(model_type="embedding")
    offered = await asyncio.to_thread(engine.embeddings.offered)
    return (*offered, *(model.ref for model in registered if model.status))


async def find_embedding(engine: Engine, name: str) -> NamedEmbedding:
    """The embedding model of this name, or of the base of this name or id. Raises NotFound or BadInput."""
    known = card_name(name)
    if is_ref(known):
        chosen = known, await asyncio.to_thread(lambda: engine.registry.embedding(known).dimension)
    elif known in await asyncio.to_thread(engine.embeddings.offered):
        chosen = await asyncio.to_thread(engine.embeddings.choose, known, engine.registry)
    else:
        try:
            base = await engine.knowledge_base(name)
        except NotFound:
            raise no_such_model(name) from None
        chosen = base.embedding_model, base.dimension
    model = engine.embeddings.get(*chosen, engine.registry)
    if model is None:
        raise BadInput(f"知识库“{name}”没有向量，只按词语检索", hint=SEE_MODELS)
    return NamedEmbedding(chosen[0], model)


def card_name(name: str) -> str:
    """The name of a model card that is given by its name on a model hub: BAAI/bge-small-zh-v1.5."""
    return next((card.name for card in CARDS if name in card.aliases), name)


def no_such_model(name: str) -> NotFound:
    return NotFound(f"没有名为“{storable(name)[:NAME_LIMIT]}”的知识库或嵌入模型", hint=SEE_MODELS)


async def embed_texts(engine: Engine, model: EmbeddingModel, texts: Sequence[str], *, as_query: bool) -> Vectors:
    """One unit vector per text, the same as ingest and search use. In slices, so that cancelling ends it soon."""
    threads = engine.model_threads.lane("texts", repr((engine.tenant, model.name)) if is_ref(model.name) else "")
    work = _embed_queries if as_query else embed
    loop = asyncio.get_running_loop()
    slices = [texts[start : start + EMBED_SLICE] for start in range(0, len(texts), EMBED_SLICE)]
    return np.concatenate([await loop.run_in_executor(threads, work, part, model) for part in slices])


def _embed_queries(texts: Sequence[str], model: EmbeddingModel) -> Vectors:
    rows = np.stack([np.asarray(model.embed_query(text)) for text in texts])
    return unit_rows(rows, len(texts), model.dimension, model.name)


# ── rerank models ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NamedReranker:
    model: RerankModel
    threads: str  # whose threads it runs in: "" for those that all share
    is_remote: bool  # a service, which may fail without that being the caller's fault


async def find_reranker(engine: Engine, name: str) -> NamedReranker:
    """The rerank model of this name. Raises NotFound, BadInput or ModelUnavailable, whose hints list what there is."""
    registered = await engine.registry.list(model_type="rerank")
    return await asyncio.to_thread(_find_reranker, engine, name, registered)


def _find_reranker(engine: Engine, given: str, registered: Sequence[UserModel]) -> NamedReranker:
    if not given.strip():
        raise BadInput("缺少这个字段", hint=_available(engine, registered))
    name = _resolve_reranker(engine, given, registered)
    try:
        model = (
            engine.registry.rerank(name) if is_ref(name) else engine.catalog.rerank(name, _embedding_for(engine, name))
        )
    except NotFound:
        raise NotFound(f"没有“{storable(given)[:80]}”这个重排模型", hint=_available(engine, registered)) from None
    threads = repr((engine.tenant, name)) if is_ref(name) else ""
    return NamedReranker(model, threads, is_ref(name) or name == engine.settings.rerank.model)


def _resolve_reranker(engine: Engine, given: str, registered: Sequence[UserModel]) -> str:
    """The engine's name for it, "" if unknown. Raises BadInput if several registered models share the name."""
    name = rerank_from_wire(given)
    if is_ref(name) or engine.catalog.knows_rerank(name):
        return name
    found = [model for model in registered if model.status and given in (model.config_name, model.model_name)]
    if len(found) > 1:
        ids = "、".join(str(model.id) for model in found[:NAMES_SHOWN])
        raise BadInput(f"有 {len(found)} 个登记的模型叫“{given[:80]}”", hint=f"改写编号：{ids}")
    return found[0].ref if found else ""


def _embedding_for(engine: Engine, reranker: str) -> EmbeddingModel | None:
    """For MaxSim, the embedding model that a new base would have."""
    if reranker != MAXSIM or engine.settings.vectorization.model == NO_MODEL:
        return None
    name, dimension = engine.embeddings.choose(None, engine.registry)
    return engine.embeddings.get(name, dimension, engine.registry)


def _available(engine: Engine, registered: Sequence[UserModel]) -> str:
    own = [f"{model.id}（{model.config_name}）" for model in registered if model.status]
    return f"可用：{'、'.join([*engine.catalog.rerankers(), *own][:NAMES_SHOWN])}"


async def rerank_scores(engine: Engine, reranker: NamedReranker, query: str, passages: Sequence[str]) -> list[float]:
    """One score in [0, 1] per passage, in order, as a search with this model would give them."""
    cancelled = threading.Event()

    def score() -> list[float]:
        return checked_scores(reranker.model.score(query, passages, cancelled.is_set), len(passages))

    try:
        threads = engine.model_threads.lane("passages", reranker.threads)
        return await asyncio.get_running_loop().run_in_executor(threads, score)
    finally:
        cancelled.set()
