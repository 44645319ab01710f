"""Index backends and models that other packages bring, named by settings and bases like our own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import BadSettings, ModelUnavailable, NotFound, PluginError
from qianxun.engine.model_catalog import ModelCatalog
from qianxun.engine.settings import ChatSettings, IndexSettings, RerankSettings, Settings, Vectorization
from qianxun.index.embedded.backend import EmbeddedBackend
from tests.installed_plugins import Install, install

__all__ = ["install"]

EMBEDDING = """
from qianxun.testing.scripted import HashEmbedding
seen = {}
def create(name, **options):
    seen[name] = options
    return HashEmbedding(name=name)
"""
CHAT = """
class Chat:
    def __init__(self, name, options): self.name, self.options = name, options
    def complete(self, messages): return "好"
def create(name, **options): return Chat(name, options)
"""
RERANKER = """
class Reranker:
    share = 1.0
    def __init__(self, name, options): self.name, self.options = name, options
    def score(self, query, passages, stop=None): return [0.5 for _ in passages]
def create(name, **options): return Reranker(name, options)
"""
INDEX = """
from qianxun.index.embedded.backend import create as _create
def create(root, exact_limit, url): return _create(root=root / "theirs", exact_limit=exact_limit)
"""


def test_a_base_has_the_embedding_model_of_a_package(install: Install, tmp_path: Path) -> None:
    install("vectors", {"embedding": {"theirs": "plug_embed:create"}}, plug_embed=EMBEDDING)
    settings = Settings(
        data=str(tmp_path / "data"), vectorization=Vectorization(model="theirs", api_key="k", batch_size=7)
    )

    async def story() -> None:
        async with Engine.open(settings=settings, background=False) as engine:
            assert "theirs" in engine.embeddings.offered()
            base = await engine.create_knowledge_base("a")
            assert (base.embedding_model, base.dimension) == ("theirs", 64)
            await engine.add_documents(base.id, [Document("d", "住院费用的报销比例")])
            assert (await engine.retrieve(base.id, "住院报销", mode="vector")).found

    asyncio.run(story())
    import plug_embed  # type: ignore[import-not-found]

    assert plug_embed.seen["theirs"]["api_key"] == "k"
    assert plug_embed.seen["theirs"]["batch_size"] == 7


def test_a_base_whose_package_was_removed_is_searched_by_words(install: Install, tmp_path: Path) -> None:
    folder = install("vectors", {"embedding": {"theirs": "plug_gone:create"}}, plug_gone=EMBEDDING)
    settings = Settings(data=str(tmp_path / "data"))

    async def build() -> int:
        async with Engine.open(settings=settings, background=False) as engine:
            kb = (await engine.create_knowledge_base("a", model="theirs")).id
            await engine.add_documents(kb, [Document("d", "住院费用的报销比例")])
            return kb

    async def search(kb: int) -> None:
        async with Engine.open(settings=settings, background=False) as engine:
            recall = await engine.retrieve(kb, "住院费用")
            assert recall.found
            assert recall.degraded

    kb = asyncio.run(build())
    (folder / "entry_points.txt").unlink()
    install("other", {"chat": {"x": "y:z"}})
    asyncio.run(search(kb))


def test_rerank_and_chat_models_of_packages(install: Install) -> None:
    parts = {"reranker": {"theirs": "plug_rerank:create"}, "chat": {"talker": "plug_chat:create"}}
    install("models", parts, plug_rerank=RERANKER, plug_chat=CHAT)
    settings = Settings(rerank=RerankSettings(model="theirs", api_key="k"), chat=ChatSettings(model="talker"))
    catalog = ModelCatalog(settings, [], {})
    reranker = catalog.rerank("theirs", None)
    assert reranker.options["api_key"] == "k"  # type: ignore[attr-defined]
    assert reranker is catalog.rerank("theirs", None)
    assert catalog.chat("talker").complete([]) == "好"
    assert catalog.configured() == "talker"
    assert "theirs" in catalog.rerankers()
    assert catalog.knows_rerank("theirs")
    with pytest.raises(NotFound, match="theirs"):
        catalog.rerank("魔法", None)
    other = ModelCatalog(Settings(rerank=RerankSettings(model="another", api_key="k")), [], {})
    assert other.rerank("theirs", None).options["api_key"] == ""  # type: ignore[attr-defined]


def test_a_model_that_does_not_fit_is_unavailable_with_its_package(install: Install) -> None:
    install("models", {"chat": {"talker": "plug_misfit:create"}}, plug_misfit="def create(name, **options): return 1")
    with pytest.raises(ModelUnavailable, match=r"models 1\.2.*缺少 name、complete"):
        ModelCatalog(Settings(), [], {}).chat("talker")


def test_an_index_backend_of_a_package(install: Install, tmp_path: Path) -> None:
    install("indexes", {"index": {"theirs": "plug_index"}}, plug_index=INDEX)
    settings = Settings(data=str(tmp_path / "data"), index=IndexSettings(backend="theirs"))

    async def story() -> None:
        async with Engine.open(settings=settings, background=False) as engine:
            assert isinstance(engine.backend, EmbeddedBackend)
            kb = (await engine.create_knowledge_base("a", model="none")).id
            await engine.add_documents(kb, [Document("d", "住院费用")])
            assert (await engine.retrieve(kb, "住院")).found

    asyncio.run(story())
    assert (tmp_path / "data" / "index" / "theirs").is_dir()


def test_an_index_backend_that_is_not_there_or_does_not_fit(install: Install, tmp_path: Path) -> None:
    install("indexes", {"index": {"theirs": "plug_bad_index"}}, plug_bad_index="")

    async def opened(backend: str) -> None:
        settings = Settings(data=str(tmp_path / "data"), index=IndexSettings(backend=backend))
        async with Engine.open(settings=settings, background=False):
            pass

    with pytest.raises(BadSettings, match=r"没有名为 none 的索引后端.*theirs"):
        asyncio.run(opened("none"))
    with pytest.raises(PluginError, match=r"indexes 1\.2.*没有可调用的 create"):
        asyncio.run(opened("theirs"))
