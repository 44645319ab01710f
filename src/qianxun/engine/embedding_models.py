"""Embedding models by name: those that the caller brought, the endpoint of the settings, plug-ins, the cards on this
machine; and the registered ones, which only their tenant's registry has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from qianxun.core import plugins
from qianxun.core.errors import BadSettings, Forbidden, ModelUnavailable, PluginError
from qianxun.core.model_types import is_ref
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import LOCAL_TENANT
from qianxun.engine.settings import Settings
from qianxun.models import CARDS, SENTENCE_PREFIX, RemoteEndpoint, card, find_local, open_embedding
from qianxun.models.embedding import LazyEmbedding
from qianxun.models.registry import RegisteredEmbedding, Registry
from qianxun.rank.calibrate import UNCALIBRATED, Chance, Curves

log = logging.getLogger(__name__)

NO_MODEL = "none"


def model_folders(settings: Settings) -> list[Path]:
    """Where model files are looked for: the folders of the settings, then where `models pull` puts them."""
    vectors = settings.vectorization
    return [Path(folder).expanduser() for folder in (*vectors.model_folders, vectors.model_home)]


def open_model(settings: Settings, name: str) -> EmbeddingModel:
    """The embedding model of this name under these settings. Raises NotFound, ModelUnavailable or PluginError."""
    vectors = settings.vectorization
    if vectors.base_url and name == vectors.model:
        return open_embedding(
            RemoteEndpoint(
                base_url=vectors.base_url,
                model=name,
                dimension=vectors.dimension,
                api_key=vectors.api_key,
                batch_size=vectors.batch_size,
                timeout_seconds=vectors.timeout_seconds,
            )
        )
    if name in plugins.names("embedding"):
        options = {name: getattr(vectors, name) for name in ("batch_size", "device", "threads", "timeout_seconds")}
        api_key = vectors.api_key if name == vectors.model else ""
        created: EmbeddingModel = plugins.create("embedding", name, name, api_key=api_key, **options)
        return created
    return open_embedding(name, folders=model_folders(settings), threads=vectors.threads, device=vectors.device)


def _check_operator(tenant: str) -> None:
    """Only the operator may name any folder, or any model of a hub, to be downloaded and loaded here."""
    if tenant != LOCAL_TENANT:
        raise Forbidden("不能指定这样的模型", hint="登记一个模型服务，或请管理员把它写进设置 vectorization.model")


class Embeddings:
    """One for all tenants and bases: a model's weights are loaded once."""

    def __init__(self, settings: Settings, brought: Mapping[str, Any]) -> None:
        self._settings = settings
        self._brought = brought
        self._models: dict[tuple[str, int], LazyEmbedding] = {}
        self._dimensions: dict[str, int] = {}
        self._probed: dict[str, EmbeddingModel] = {}

    def choose(self, requested: str | None, registry: Registry, owner: str = "") -> tuple[str, int]:
        """(name, dimension) for a base; ("", 0) for none. Without a name: the owner's default, then the settings'."""
        if requested is None and owner and (default := registry.default(owner, "embedding")) is not None:
            requested = default.ref
        if requested is not None and is_ref(requested):
            return requested, registry.embedding(requested).dimension
        name = requested or self._settings.vectorization.model
        if name == NO_MODEL:
            return "", 0
        if name in self._brought:
            return name, self._brought[name].dimension
        if name.startswith(SENTENCE_PREFIX) and name != self._settings.vectorization.model:
            _check_operator(registry.tenant)
        return self._of_settings(name) or self._of_cards(name, is_required=bool(requested))

    def offered(self) -> tuple[str, ...]:
        """The names that every tenant can use now: brought, of the settings, cards with files here, plug-ins."""
        vectors = self._settings.vectorization
        brought = (name for name, model in self._brought.items() if hasattr(model, "embed_passages"))
        named = (vectors.model,) if vectors.base_url or vectors.model.startswith(SENTENCE_PREFIX) else ()
        folders = model_folders(self._settings)
        here = (known.name for known in CARDS if find_local(known, folders) is not None)
        return tuple(dict.fromkeys((*brought, *named, *here, *plugins.names("embedding"))))

    def _of_settings(self, name: str) -> tuple[str, int] | None:
        vectors = self._settings.vectorization
        if name.startswith(SENTENCE_PREFIX):
            return name, self._dimension(name)
        if not vectors.base_url or name != vectors.model:
            return (name, self._dimension(name)) if name in plugins.names("embedding") else None
        if vectors.dimension < 1:
            raise BadSettings("设置了 vectorization.base_url，却没有向量的维度", hint="再设置 vectorization.dimension")
        return name, vectors.dimension

    def _dimension(self, name: str) -> int:
        """Of a model that has to be opened to know it; `get` uses the opened one."""
        if name not in self._dimensions:
            model = self._probed[name] = open_model(self._settings, name)
            self._dimensions[name] = model.dimension
        return self._dimensions[name]

    def _of_cards(self, name: str, *, is_required: bool) -> tuple[str, int]:
        known = card(name)
        if find_local(name, model_folders(self._settings)) is not None:
            return known.name, known.dimension
        if is_required:
            raise ModelUnavailable(f"模型 {name} 还没有下载", hint=f"先运行 qianxun models pull {name}")
        log.warning("模型 %s 还没有下载，知识库只按词语检索；可运行 qianxun models pull %s", name, name)
        return "", 0

    def get(self, name: str, dimension: int, registry: Registry) -> EmbeddingModel | None:
        """The model of a base, loaded on first use; None without a name."""
        if not name:
            return None
        if is_ref(name):
            return RegisteredEmbedding(registry, name, dimension)
        model = self._models.get((name, dimension))
        if model is None:
            model = self._models[name, dimension] = LazyEmbedding(name, dimension, lambda: self._opened(name))
        return model

    def _opened(self, name: str) -> EmbeddingModel:
        try:
            return self._brought.get(name) or self._probed.pop(name, None) or open_model(self._settings, name)
        except PluginError as error:  # so that a search goes on by words
            raise ModelUnavailable(error.message, hint=error.hint) from error

    def curves(self, model: str) -> Curves:
        """The calibration of a model's scores: of the settings, of its card, or none."""
        vectors = self._settings.vectorization
        known = next((row for row in CARDS if row.name == model), None)
        curves = UNCALIBRATED
        if known is not None:
            chances = {name: Chance(*fitted) for name, fitted in known.chances.items()}
            curves = Curves(known.calibration, known.hybrid, known.reranked, known.table_cosine, known.table, chances)
        if vectors.calibration_slope > 0.0 and model == vectors.model:
            return replace(curves, cosine=(vectors.calibration_midpoint, vectors.calibration_slope), chances={})
        return curves

    def close(self) -> None:
        for model in self._models.values():
            model.close()
