"""A logged search or question, run again as it was logged, and compared with what it found then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from qianxun.answer.question_log import is_question, retrieve_again
from qianxun.core.codec.digests import digest, found_digest, layered_digest
from qianxun.core.codec.options import choices_from
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.log_types import LogEntry
from qianxun.core.options import SearchOptions, TablesOptions, TextsOptions
from qianxun.core.types import KnowledgeBase, Recall
from qianxun.engine.engine import Engine
from qianxun.graph.modes import ModeRecall
from qianxun.retrieve.recall_cache import replaying

AnyRecall: TypeAlias = Recall | LayeredRecall | ModeRecall


@dataclass(frozen=True, slots=True)
class Replayed:
    entry: LogEntry
    base: KnowledgeBase
    recall: AnyRecall
    is_same: bool  # byte for byte, without times and trace; of a question, what was found

    @property
    def found(self) -> Recall | LayeredRecall:
        """What a question found, as a search would return it."""
        found = self.recall
        if not isinstance(found, ModeRecall):
            return found
        return Recall(found.query, found.mode, found.results, found.degraded, found.seconds, found.trace_id)

    @property
    def generation(self) -> str:
        return str(self.recall.generation) if self.recall.generation is not None else ""

    @property
    def is_question(self) -> bool:
        return isinstance(self.recall, ModeRecall)

    @property
    def was_looked_up(self) -> bool:
        return bool(self.entry.params.get("wordings", True)) and self.entry.params["mode"] != "bypass"

    @property
    def form(self) -> str:
        """Of the answer to a question; "" where none was written."""
        return str(self.entry.params.get("form", ""))

    @property
    def writer(self) -> str:
        """rules | model:<name>; "" where no answer was written."""
        return str(self.entry.params.get("writer", ""))

    @property
    def changed(self) -> list[dict[str, Any]]:
        return changes(self.entry.results, _results(self.recall))


async def replay(engine: Engine, log_id: int) -> Replayed:
    """Searches again with the logged parameters, without cache or log. Raises NotFound for an unknown id."""
    entry = await engine.logs.get(log_id)
    base = await engine.knowledge_base(entry.knowledge_base_id)
    with replaying():
        if entry.mode in ("texts", "tables"):
            search = engine.search_texts if entry.mode == "texts" else engine.search_tables
            kind = TextsOptions if entry.mode == "texts" else TablesOptions
            layered = await search(base.id, entry.query, **choices_from(kind, entry.params))
            return Replayed(entry, base, layered, layered_digest(layered) == entry.digest)
        if is_question(entry):
            found = await retrieve_again(entry, partial(engine.gather, base.id))
            is_same = found_digest(found.query, found.mode, found.results) == entry.digest
            return Replayed(entry, base, found, is_same)
        recall = await engine.retrieve(base.id, entry.query, **choices_from(SearchOptions, entry.params))
    return Replayed(entry, base, recall, digest(recall) == entry.digest)


def _results(recall: AnyRecall) -> list[tuple[str, float]]:
    if isinstance(recall, LayeredRecall):
        return [(result.doc.chunk_id, result.score) for result in recall.results]
    return [(hit.chunk.chunk_id, hit.score) for hit in recall.results]


def changes(then: Sequence[tuple[str, float]], now: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Which results came, went, moved or got another score: in the order of the new results, then the missing ones."""
    before = {chunk_id: (rank, score) for rank, (chunk_id, score) in enumerate(then, 1)}
    after = {chunk_id: (rank, score) for rank, (chunk_id, score) in enumerate(now, 1)}
    found = []
    for chunk_id in dict.fromkeys([*after, *before]):
        old, new = before.get(chunk_id), after.get(chunk_id)
        if old == new:
            continue
        kind = "came" if old is None else "went" if new is None else "moved" if old[0] != new[0] else "rescored"
        found.append(
            {
                "chunk_id": chunk_id,
                "change": kind,
                "rank_then": old[0] if old else None,
                "rank_now": new[0] if new else None,
                "score_then": old[1] if old else None,
                "score_now": new[1] if new else None,
            }
        )
    return found
