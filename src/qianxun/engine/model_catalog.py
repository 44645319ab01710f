"""Rerank and chat models by name, looked up for every request: those that the caller brought, the endpoints of the
settings, the cards of models on this machine, then plug-ins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from qianxun.core import plugins
from qianxun.core.errors import ModelUnavailable, NotFound, PluginError
from qianxun.core.model_types import is_ref
from qianxun.core.ports import ChatKind, ChatModel, EmbeddingModel, RerankModel
from qianxun.core.types import LOCAL_TENANT, KnowledgeBase
from qianxun.engine.configure import MODEL_KEYS, changed, flat
from qianxun.engine.embedding_models import Embeddings
from qianxun.engine.settings import ChatSettings, Chunking, RerankSettings, Settings
from qianxun.models import RERANK_CARDS, ChatEndpoint, MaxSim, RerankEndpoint, find_local, open_chat, open_reranker
from qianxun.models.registry import CHAT_TYPES, DEFAULT, Registry
from qianxun.models.remote.url_policy import UrlPolicy
from qianxun.models.threads import ModelThreads
from qianxun.records import Records
from qianxun.records.secrets.sealing import FILE_NAME, Sealing

MAXSIM = "maxsim"
# How much MaxSim decides beside the fused score (docs/quality.md): more of it would cost questions that need two
# passages, less would gain less.
MAXSIM_SHARE = 0.17


Model = TypeVar("Model")


class ModelCatalog:
    """The models of all tenants; implements `ports.Models`. A model is opened once and reused."""

    def __init__(self, settings: Settings, folders: list[Path], brought: Mapping[str, Any]) -> None:
        self._settings = settings
        self._folders = folders
        self._brought = brought
        self._opened: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def rerank(self, name: str, embedding: EmbeddingModel | None) -> RerankModel:
        if name in self._brought:
            brought: RerankModel = self._brought[name]
            return brought
        if name == MAXSIM:
            if embedding is None:
                raise ModelUnavailable("这个知识库没有向量模型，不能用 maxsim 重排", hint="为它加上模型，或不重排")
            return self._open_once((MAXSIM, embedding.name), lambda: MaxSim(embedding, share=MAXSIM_SHARE))
        section = self._settings.rerank
        if section.base_url and name == section.model:
            return self._open_once(("rerank", name), self._remote_rerank)
        if any(name in (card.name, *card.aliases) for card in RERANK_CARDS):
            return self._open_once(("card", name), lambda: open_reranker(name, folders=self._folders))
        if name in plugins.names("reranker"):
            reranker: RerankModel = self._open_once(("plugin", name), partial(self._of_plugin, "reranker", name))
            return reranker
        ours = (MAXSIM, *self._brought, *filter(None, [section.model]), *(card.name for card in RERANK_CARDS))
        known = "、".join((*ours, *plugins.names("reranker")))
        raise NotFound(f"没有名为“{name}”的重排模型", hint=f"可用：{known}")

    def knows_rerank(self, name: str) -> bool:
        """Whether one of these has the name, be its files here or not."""
        return name in self.rerankers() or any(name in (card.name, *card.aliases) for card in RERANK_CARDS)

    def rerankers(self) -> tuple[str, ...]:
        """The names that every tenant can use now: brought, of the settings, cards with files here, plug-ins."""
        brought = (name for name, model in self._brought.items() if hasattr(model, "score"))
        named = (self._settings.rerank.model,) if self._settings.rerank.base_url else ()
        here = (card.name for card in RERANK_CARDS if find_local(card, self._folders) is not None)
        return tuple(dict.fromkeys((MAXSIM, *brought, *named, *here, *plugins.names("reranker"))))

    def chat(self, name: str, kind: ChatKind = "chat") -> ChatModel:
        """The settings know one endpoint for every kind."""
        if name in self._brought:
            brought: ChatModel = self._brought[name]
            return brought
        section = self._settings.chat
        if section.base_url and name == section.model:
            return self._open_once(("chat", name), self._remote_chat)
        if name in plugins.names("chat"):
            options = {"max_tokens": section.max_tokens or None} if name == section.model else {"max_tokens": None}
            chat: ChatModel = self._open_once(("chat", name), partial(self._of_plugin, "chat", name, **options))
            return chat
        raise NotFound(f"没有名为“{name}”的语言模型", hint="设置 chat.base_url 与 chat.model，或改正知识库的配置")

    def configured(self, kind: ChatKind = "chat") -> str:
        """The settings' model, for chat alone: a base has to name its models for questions, graphs and pictures."""
        section = self._settings.chat
        is_usable = section.base_url or (section.model and section.model in plugins.names("chat"))
        return section.model if kind == "chat" and is_usable else ""

    def _open_once(self, key: tuple[str, str], open_it: Callable[[], Model]) -> Model:
        with self._lock:
            if key not in self._opened:
                self._opened[key] = open_it()
            model: Model = self._opened[key]
            return model

    def _of_plugin(self, kind: Literal["reranker", "chat"], name: str, **options: Any) -> Any:
        """The settings' API key is passed only to the model that they name."""
        section: ChatSettings | RerankSettings = self._settings.chat if kind == "chat" else self._settings.rerank
        api_key = section.api_key if name == section.model else ""
        try:
            return plugins.create(kind, name, name, api_key=api_key, timeout_seconds=section.timeout_seconds, **options)
        except PluginError as error:  # a search goes on without it, and says why
            raise ModelUnavailable(error.message, hint=error.hint) from error

    def _remote_rerank(self) -> RerankModel:
        section = self._settings.rerank
        return open_reranker(
            RerankEndpoint(
                section.base_url, section.model, api_key=section.api_key, timeout_seconds=section.timeout_seconds
            )
        )

    def _remote_chat(self) -> ChatModel:
        section = self._settings.chat
        return open_chat(
            ChatEndpoint(
                section.base_url,
                section.model,
                api_key=section.api_key,
                timeout_seconds=section.timeout_seconds,
                max_tokens=section.max_tokens or None,
            )
        )

    def close(self) -> None:
        with self._lock:
            for model in self._opened.values():
                if hasattr(model, "close"):
                    model.close()
            self._opened.clear()


def open_registry(settings: Settings, records: Records, threads: ModelThreads) -> Registry:
    """The models that users of the local tenant registered; `Registry.of` has those of others."""
    sealing = Sealing(settings.secrets.key, settings.folder / FILE_NAME)
    return Registry(records, sealing, LOCAL_TENANT, UrlPolicy(allow=settings.outbound.allow), threads)


@dataclass(frozen=True, slots=True)
class BaseModels:
    """The models that one base can use: those of its tenant, then the catalog's. Implements `ports.Models`."""

    catalog: ModelCatalog
    registry: Registry  # of the base's tenant
    owner: Callable[[], str] = str

    def rerank(self, name: str, embedding: EmbeddingModel | None) -> RerankModel:
        """A registered model that was deleted is unavailable: a search goes on without it."""
        name = self._resolved(name, ("rerank",))
        return _available(self.registry.rerank, name) if is_ref(name) else self.catalog.rerank(name, embedding)

    def chat(self, name: str, kind: ChatKind = "chat") -> ChatModel:
        name = self._resolved(name, (kind, "chat"))
        return _available(self.registry.chat, name) if is_ref(name) else self.catalog.chat(name)

    def configured(self, kind: ChatKind = "chat") -> str:
        return self.catalog.configured(kind)

    def check(self, config: Mapping[str, Any], embedding: EmbeddingModel | None) -> None:
        """Raises NotFound, ModelUnavailable or BadInput for a name in ``config`` that no model has."""
        for name, value in flat(config).items():
            if name == "search.rerank" and isinstance(value, str):
                self.check_rerank(value, embedding)
            elif name in MODEL_KEYS and isinstance(value, str):
                self.check_chat(value)

    def check_rerank(self, name: str, embedding: EmbeddingModel | None) -> None:
        """A registered model that is disabled right now can be named, and `default` whichever it will be."""
        if is_ref(name):
            self.registry.expect(name, ("rerank",))
        elif name != DEFAULT:
            self.catalog.rerank(name, embedding)

    def check_chat(self, name: str) -> None:
        if is_ref(name):
            self.registry.expect(name, CHAT_TYPES)
        elif name != DEFAULT:
            self.catalog.chat(name)

    def _resolved(self, name: str, types: tuple[str, ...]) -> str:
        if name != DEFAULT:
            return name
        owner = self.owner()
        found = [model for kind in types if (model := self.registry.default(owner, kind)) is not None]
        if not found:
            whose = f"用户 {owner}" if owner else "知识库的所有者"
            raise ModelUnavailable(f"{whose}没有默认的 {types[0]} 模型", hint="登记一个并设为默认，或写明用哪个模型")
        return found[0].ref


def registered_models(base: KnowledgeBase) -> list[str]:
    """The models of a base that only its tenant has: registered ones, and whichever is its owner's default."""
    config = flat(base.config)
    named = (base.embedding_model, *(config.get(name) for name in MODEL_KEYS))
    return sorted({name for name in named if isinstance(name, str) and (is_ref(name) or name == DEFAULT)})


def _available(find: Callable[[str], Model], ref: str) -> Model:
    try:
        return find(ref)
    except NotFound as error:
        raise ModelUnavailable(f"登记的模型 {ref} 已被删去", hint="换一个模型，或重新登记") from error


async def chosen_for(
    embeddings: Embeddings,
    models: BaseModels,
    chunking: Chunking,
    model: str | None,
    changes: Mapping[str, Any],
) -> dict[str, Any]:
    """The embedding model, dimension and configuration that `bases.create` stores for a new base."""
    owner = str(changes.get("user_id") or "")
    chosen, dimension = await asyncio.to_thread(embeddings.choose, model, models.registry, owner)
    config = changed(asdict(chunking), changes)
    await asyncio.to_thread(models.check, config, embeddings.get(chosen, dimension, models.registry))
    return {"embedding_model": chosen, "dimension": dimension, "config": config}
