"""Search as the writing platform needs it: one user's one project, meaning and words, fused by rank."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadQuery
from qianxun.core.options import FusionName, SearchOptions, check
from qianxun.core.types import EVERYTHING, Eq, Filter, Found, In, Metadata, Recall, Tier, all_of
from qianxun.retrieve.run import recall

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


@dataclass(frozen=True, slots=True)
class HybridSearchEngine:
    """Searches one base for one user's one project at a time.

    Words are looked for in the whole base, so that they find what vectors missed. ``fusion`` is "rrf" (k = 60) with
    these weights; the base's own choice of a reranker holds here too. `Engine.hybrid_search` makes one whose
    searches are logged and cached.
    """

    base: OpenBase
    semantic_weight: float = 0.7
    keyword_weight: float = 0.3
    fusion: FusionName = "rrf"
    search_with: Search = recall
    options: SearchOptions = field(default_factory=SearchOptions)  # deadlines, and what the base leaves open

    def __post_init__(self) -> None:
        check(self._options(EVERYTHING, self.options.top_k, enable_hybrid=True))

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
        options = self._options(_belongs(user_id, project_id, content_types), top_k, enable_hybrid=enable_hybrid)
        answer = await self.search_with(self.base, query, options)
        return [_result(found) for found in answer.found]

    def _options(self, where: Filter, top_k: int, *, enable_hybrid: bool) -> SearchOptions:
        of_base = self.base.about.config.get("search") or {}
        own = {name: of_base[name] for name in ("rerank", "fuzzy") if name in of_base}
        if "arms" in of_base:
            own["arms"] = tuple(of_base["arms"])
        return replace(
            self.options,
            **own,
            mode="hybrid" if enable_hybrid else "vector",
            top_k=top_k,
            where=where,
            fusion=self.fusion,
            weights={"vector": self.semantic_weight, "keyword": self.keyword_weight},
        )


def _belongs(user_id: str, project_id: str, content_types: Sequence[str] | None) -> Filter:
    """Never wider than one user's one project, whatever is handed over."""
    if not isinstance(user_id, str) or not isinstance(project_id, str):
        raise BadQuery("user_id 与 project_id 须为文字", hint="两者都要给出；没有归属的文档用空字符串")
    if isinstance(content_types, str):
        raise BadQuery("content_types 须为列表", hint=f'写成 ["{content_types}"]')
    types = In("content_type", tuple(content_types)) if content_types else EVERYTHING
    return all_of(Eq("user_id", user_id), Eq("project_id", project_id), types)


def _result(found: Found) -> SearchResult:
    chunk, owner = found.chunk, found.chunk.attributes
    belongs = {"user_id": owner.user_id, "project_id": owner.project_id, "content_type": owner.content_type}
    return SearchResult(
        chunk_id=chunk.chunk_id,
        document_id=chunk.doc_id,
        chunk_text=chunk.text,
        score=found.score,
        metadata={**owner.metadata, **belongs, "document_name": chunk.doc_name, "chunk_index": chunk.index},
        highlights=found.highlights,
        source=found.source,
        tier=found.tier,
    )
