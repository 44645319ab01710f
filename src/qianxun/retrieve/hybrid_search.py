"""Search as a writing platform needs it: one user's one project, meaning and words, fused by rank."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.bases.vector_database import base_or_database
from qianxun.core.errors import BadQuery
from qianxun.core.options import FusionName, SearchOptions, check
from qianxun.core.ports import VectorDatabase, Vectorizer
from qianxun.core.types import EVERYTHING, Eq, Filter, Found, In, Metadata, Recall, Tier, all_of
from qianxun.retrieve.run import recall
from qianxun.retrieve.vector_database import DatabaseHit, DatabaseSearch

Search: TypeAlias = Callable[[OpenBase, str, SearchOptions], Awaitable[Recall]]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One chunk. ``metadata`` is its document's own, with what the document belongs to."""

    chunk_id: str
    document_id: str
    chunk_text: str
    score: float
    metadata: Metadata = field(default_factory=dict)
    highlights: tuple[str, ...] = ()  # at most three
    source: str = ""  # the name of an arm, or hybrid
    tier: Tier = "fuzzy"

    @property
    def id(self) -> str:
        return self.chunk_id


class HybridSearchEngine:
    """Searches for one user's one project at a time: in a knowledge base, or in a vector database of the caller's own.

    ``HybridSearchEngine(vectorizer, vector_db)``: ``vector_db`` is an opened base (`Engine.base`), or anything with
    `insert`, `search` and `delete_by_document_id`, where words can only reorder what vectors found. In a base, words
    are looked for in the whole of it; its own choice of a reranker holds here too, and ``vectorizer`` may be left out:
    ``HybridSearchEngine(base)``. ``fusion`` is "rrf" (k = 60) with these weights. `Engine.hybrid_search` makes one
    whose searches are logged and cached.
    """

    def __init__(
        self,
        vectorizer: Vectorizer | OpenBase,
        vector_db: VectorDatabase | OpenBase | None = None,
        semantic_weight: float = 0.7,
        keyword_weight: float = 0.3,
        *,
        fusion: FusionName = "rrf",
        search_with: Search = recall,
        options: SearchOptions | None = None,  # deadlines, and what the base leaves open
        platform: OpenBase | None = None,  # a base for all users that is searched too, under a filter of its own
        platform_where: Filter = EVERYTHING,
    ) -> None:
        target = base_or_database(vectorizer, vector_db)
        self.semantic_weight, self.keyword_weight = semantic_weight, keyword_weight
        self.fusion: FusionName = fusion
        self._weights = {"vector": semantic_weight, "keyword": keyword_weight}
        self._search_with = search_with
        self._platform, self._platform_where = platform, platform_where
        self._options = options or SearchOptions()
        self._base = target if isinstance(target, OpenBase) else None
        self._database = None if isinstance(target, OpenBase) else DatabaseSearch(*target, fusion, self._weights)
        check(self._chosen(EVERYTHING, self._options.top_k, enable_hybrid=True))

    async def search(
        self,
        query: str,
        user_id: str,
        project_id: str,
        top_k: int = 10,
        content_types: Sequence[str] | None = None,
        enable_hybrid: bool = True,
    ) -> list[SearchResult]:
        """The best chunks of this user's project, best first; without ``enable_hybrid`` by meaning alone.

        Raises RecallFailed when no arm can answer: by meaning alone, also when the base has no model.
        """
        belongs = _belongs(user_id, project_id, content_types)
        options = self._chosen(belongs, top_k, enable_hybrid=enable_hybrid)
        if self._base is not None:
            return await self._search_bases(self._base, query, options, _of_types(content_types))
        assert self._database is not None
        check(options)
        if not query.strip():
            raise BadQuery("没有可检索的文字", hint="写上要问的话")
        filters: dict[str, Any] = {"user_id": user_id, "project_id": project_id}
        filters |= {"content_type": list(content_types)} if content_types else {}
        search = partial(self._database.search, query, top_k, filters, by_words=enable_hybrid)
        return [_of_database(hit) for hit in await asyncio.to_thread(search)]

    async def _search_bases(
        self, base: OpenBase, query: str, options: SearchOptions, types: Filter
    ) -> list[SearchResult]:
        if self._platform is None:
            return [_result(found) for found in (await self._search_with(base, query, options)).results]
        searched = ((base, options), (self._platform, replace(options, where=all_of(self._platform_where, types))))
        answers = await asyncio.gather(*(self._search_with(one, query, chosen) for one, chosen in searched))
        results = [
            _result(found, {"knowledge_base": one.id})
            for (one, _), answer in zip(searched, answers, strict=True)
            for found in answer.results
        ]
        return sorted(results, key=lambda result: -result.score)[: options.top_k]

    def _chosen(self, where: Filter, top_k: int, *, enable_hybrid: bool) -> SearchOptions:
        of_base = (self._base.about.config.get("search") if self._base is not None else None) or {}
        own = {name: of_base[name] for name in ("rerank", "fuzzy", "bm25_k1", "bm25_b") if name in of_base}
        if "arms" in of_base:
            own["arms"] = tuple(of_base["arms"])
        return replace(
            self._options,
            **own,
            mode="hybrid" if enable_hybrid else "vector",
            top_k=top_k,
            where=where,
            fusion=self.fusion,
            weights=self._weights,
        )


def _belongs(user_id: str, project_id: str, content_types: Sequence[str] | None) -> Filter:
    """Never wider than one user's one project, whatever is handed over."""
    if not isinstance(user_id, str) or not isinstance(project_id, str):
        raise BadQuery("user_id 与 project_id 须为文字", hint="两者都要给出；没有归属的文档用空字符串")
    if isinstance(content_types, str):
        raise BadQuery("content_types 须为列表", hint=f'写成 ["{content_types}"]')
    return all_of(Eq("user_id", user_id), Eq("project_id", project_id), _of_types(content_types))


def _of_database(hit: DatabaseHit) -> SearchResult:
    own = {name: value for name, value in hit.metadata.items() if name not in ("chunk_text", "metadata")}
    return SearchResult(
        chunk_id=hit.chunk_id,
        document_id=str(hit.metadata.get("document_id", "")),
        chunk_text=hit.text,
        score=hit.score,
        metadata={**(hit.metadata.get("metadata") or {}), **own},
        highlights=hit.highlights,
        source="hybrid",
    )


def _of_types(content_types: Sequence[str] | None) -> Filter:
    return In("content_type", tuple(content_types)) if content_types else EVERYTHING


def _result(found: Found, more: Metadata | None = None) -> SearchResult:
    chunk, owner = found.chunk, found.chunk.attributes
    belongs = {"user_id": owner.user_id, "project_id": owner.project_id, "content_type": owner.content_type}
    return SearchResult(
        chunk_id=chunk.chunk_id,
        document_id=chunk.doc_id,
        chunk_text=chunk.text,
        score=found.score,
        metadata={
            **owner.metadata,
            **belongs,
            "document_name": chunk.doc_name,
            "chunk_index": chunk.index,
            **(more or {}),
        },
        highlights=found.highlights,
        source=found.source,
        tier=found.tier,
    )
