"""Layered recall of prose and tables as lists of dictionaries, for code that passes plain values on.

with open_blocking("./qianxun-data") as rag:
    for found in LayeredRetriever(rag, "医保").search_tables("住院的报销比例", top_k=5):
        print(found["score"], found["document_name"], found["match_details"])

`search_texts` and `search_tables` by themselves open the folder of the settings for one call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from qianxun.core.layered_types import LayeredRecall, LayeredResult
from qianxun.doors.frameworks.engine_caller import EngineCaller, GraphId, base_of, two_forms
from qianxun.engine.blocking import BlockingEngine, open_blocking
from qianxun.engine.engine import Engine

_LABELS: Final = {
    "words": "命中",
    "coverage": "覆盖",
    "similarity": "相似度",
    "keyword": "词语",
    "relevance": "相关度",
    "keyword_match": "关键词",
    "structure": "结构",
    "title": "标题",
    "headers": "表头",
    "type": "类型",
    "expansion": "换个说法",
}


class LayeredRetriever:
    """``knowledge_base`` is a name or an id; without it, the only one there is. The forms with an ``a`` are awaited."""

    def __init__(self, rag: Engine | BlockingEngine, knowledge_base: GraphId | None = None) -> None:
        self._caller = EngineCaller(rag)
        self._base = knowledge_base

    async def _search_texts(self, query: str, top_k: int | None = None) -> list[dict[str, Any]]:
        """Prose by vector, by keywords where that gives too little, by related words where both do."""
        return await self._found(self._caller.engine.search_texts, query, top_k)

    async def _search_tables(self, query: str, top_k: int | None = None) -> list[dict[str, Any]]:
        """Tables by structure, meaning, keywords, related words."""
        return await self._found(self._caller.engine.search_tables, query, top_k)

    search_texts, asearch_texts = two_forms(_search_texts)
    search_tables, asearch_tables = two_forms(_search_tables)

    async def _found(
        self, search: Callable[[int, str, int | None], Awaitable[LayeredRecall]], query: str, top_k: int | None
    ) -> list[dict[str, Any]]:
        base = await base_of(self._caller.engine, self._base)
        return [as_dict(result) for result in (await search(base.id, query, top_k)).results]


def search_texts(
    query: str, top_k: int | None = None, *, knowledge_base: GraphId | None = None
) -> list[dict[str, Any]]:
    """`LayeredRetriever.search_texts` over the folder of the settings, which is opened for this call."""
    with open_blocking(background=False) as rag:
        return LayeredRetriever(rag, knowledge_base).search_texts(query, top_k)


def search_tables(
    query: str, top_k: int | None = None, *, knowledge_base: GraphId | None = None
) -> list[dict[str, Any]]:
    """`LayeredRetriever.search_tables` over the folder of the settings, which is opened for this call."""
    with open_blocking(background=False) as rag:
        return LayeredRetriever(rag, knowledge_base).search_tables(query, top_k)


def as_dict(result: LayeredResult) -> dict[str, Any]:
    """``match_details`` for people; the numbers behind it are in what `Engine.search_texts` returns."""
    return {
        "doc": result.doc,
        "score": result.score,
        "strategy": result.strategy,
        "layer": result.layer,
        "content": result.content,
        "metadata": dict(result.metadata),
        "doc_id": result.doc_id,
        "document_name": result.document_name,
        "match_details": f"第{result.layer}层 {result.strategy}：{described(result.match_details)}",
    }


def described(details: Mapping[str, Any]) -> str:
    """What the layers saw in a result, without what they did not see."""
    parts = [(_LABELS.get(name, name), _shown(value)) for name, value in details.items()]
    return "；".join(f"{label} {shown}" for label, shown in parts if shown)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        if {"word", "by"} <= set(value):
            return f"{value['word']}→{value['by']}"
        return described(value)
    if isinstance(value, list | tuple):
        return "、".join(filter(None, map(_shown, value)))
    if isinstance(value, float):
        return f"{value:.2f}" if value else ""
    return str(value) if value else ""
