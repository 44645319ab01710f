"""What an answer may draw on, and how what several searches found comes together."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from qianxun.answer_types import QueryMode
from qianxun.errors import NotFound, QianxunError
from qianxun.graph.network import KnowledgeGraph
from qianxun.ingest.sandbox import ParserPool
from qianxun.pipelines.base import OpenBase
from qianxun.pipelines.graphing import graph_of
from qianxun.pipelines.layered import LayeredRecall
from qianxun.pipelines.modes import ModeRecall
from qianxun.pipelines.options import RecallOptions
from qianxun.ports import RerankModel
from qianxun.types import Degraded, Filter, Found

log = logging.getLogger(__name__)

Search: TypeAlias = Callable[[str, QueryMode], Awaitable[ModeRecall]]
Graph: TypeAlias = Callable[[], Awaitable[tuple[KnowledgeGraph | None, tuple[Degraded, ...]]]]
Tables: TypeAlias = Callable[[str], Awaitable[LayeredRecall]]


@dataclass(frozen=True)
class Answering:
    """The base and how it is searched, under the filter of the one who asks."""

    base: OpenBase
    search: Search
    options: RecallOptions = field(default_factory=RecallOptions)
    graph: Graph | None = None
    tables: Tables | None = None
    parsers: ParserPool | None = None  # of pictures and tables that come with a question
    step_seconds: float = 20.0  # for a model's part in analysing, grading and refining


def reader_of(base: OpenBase) -> RerankModel | None:
    """Who can read a question and a passage together here; None where the base has no vector model."""
    model = base.model
    if base.models is None or model is None:
        return None
    try:
        return base.models.rerank("maxsim", model)
    except QianxunError:  # a model without token vectors: the rules do without
        return None


def merged(before: Sequence[Found], found: Sequence[Found], top_k: int) -> tuple[Found, ...]:
    """Both together, each chunk once with its better score, best first."""
    best: dict[int, Found] = {}
    for each in (*before, *found):
        held = best.get(each.chunk.key)
        if held is None or each.score > held.score:
            best[each.chunk.key] = each
    return tuple(sorted(best.values(), key=lambda each: (-each.score, each.chunk.key)))[:top_k]


async def graph_or_reason(base: OpenBase, where: Filter) -> tuple[KnowledgeGraph | None, tuple[Degraded, ...]]:
    """The base's graph as far as the filter lets it be seen; None, with the reason, where it cannot be had."""
    try:
        return await graph_of(base, where), ()
    except NotFound:  # the base itself is gone
        raise
    except QianxunError as error:
        return None, (Degraded("graph", str(error)),)
    except Exception as error:  # derived from what strangers wrote; the question goes on without it
        log.exception("the graph of base %s could not be derived", base.id)
        return None, (Degraded("graph", f"图谱不可用：{type(error).__name__}: {error}"),)
