"""The knowledge graph of a base, built in one go: by statistics, then by its model where it has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qianxun.core.graph_types import (
    ExtractionProgress,
    GraphBuilt,
    LlmExtraction,
    LlmExtractionProgress,
    SummariesProgress,
    SummariesResult,
)
from qianxun.engine.engine import Engine
from qianxun.graph.curate import GraphCurator

__all__ = ["GraphCurator", "WholeBuild", "build_graph"]


class BuildWatch(Protocol):
    """Called while a graph is built."""

    def counted(self, reading: ExtractionProgress) -> None: ...
    def read(self, progress: LlmExtractionProgress) -> None: ...
    def summarised(self, progress: SummariesProgress) -> None: ...


@dataclass(frozen=True, slots=True)
class WholeBuild:
    statistics: GraphBuilt
    read: LlmExtraction | None = None  # None: without a model
    summaries: SummariesResult | None = None

    @property
    def is_whole(self) -> bool:
        is_read = self.read is None or self.read.is_whole
        return is_read and (self.summaries is None or not self.summaries.failed)


async def build_graph(
    engine: Engine, knowledge_base: int, watch: BuildWatch, *, use_model: bool = True, anew: bool = False
) -> WholeBuild:
    """Builds the graph; ``anew``: what the model read before is forgotten, and read again at full cost.

    Communities are summarised only after everything has been read.
    """
    curator = await engine.graph_keeper(knowledge_base)
    if anew:
        await curator.forget()
    built = await engine.admin.build_graph(knowledge_base, watch=watch.counted)
    if not use_model or not curator.has_model:
        return WholeBuild(built)
    read = await curator.read(watch.read)
    summaries = await curator.summarise(watch.summarised) if not read.left else None
    return WholeBuild(await engine.admin.build_graph(knowledge_base), read, summaries)
