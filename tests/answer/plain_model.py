"""What a knowledge base should be, as a plain dictionary: the state machine's other half.

It knows nothing of outboxes or indexes, only the promises: later generations win, deletes win, the old version serves
until the new one is in, a failing document is tried three times, an unreachable model is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.types import Attributes, Document, Filter, Vector, Vectors, matches
from qianxun.testing.scripted import HashEmbedding

ATTEMPTS = 3


@dataclass
class Weather:
    """How the embedding models feel today."""

    down: bool = False
    poison: set[str] = field(default_factory=set)  # texts with one of these cannot be embedded

    def spoils(self, content: str) -> bool:
        return any(mark in content for mark in self.poison)


class MoodyEmbedding(HashEmbedding):
    """A model that is sometimes unreachable, and chokes on some texts."""

    def __init__(self, dimension: int, weather: Weather) -> None:
        super().__init__(dimension)
        self.weather = weather

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if self.weather.down:
            raise ModelUnavailable("模型连不上")
        if any(self.weather.spoils(text) for text in texts):
            raise BadModelReply("向量含有非数")
        return super().embed_passages(texts)

    def embed_query(self, text: str) -> Vector:
        if self.weather.down:
            raise ModelUnavailable("模型连不上")
        found: Vector = super().embed_passages([text])[0]
        return found


@dataclass
class Entry:
    """One document: its newest generation, what was last accepted and what can be found."""

    generation: int
    newest: Document | None  # None: deleted
    shown: tuple[int, Document] | None = None  # (generation, document) that a search returns
    status: str = "pending"
    attempts: int = 0
    due: bool = False


@dataclass
class PlainModel:
    weather: Weather
    entries: dict[str, Entry] = field(default_factory=dict)
    handled: set[str] = field(default_factory=set)

    # ── writes ───────────────────────────────────────────────────────────────────────────────────

    def accept(self, document: Document, generation: int | None = None, *, retry: bool = False) -> str:
        """``retry``: the caller waits for it, so that what waits for its next attempt is attempted now."""
        entry = self.entries.get(document.id)
        if entry is None:
            self.entries[document.id] = Entry(generation or 1, document)
            return "created"
        if generation is not None and generation <= entry.generation:
            return "stale"
        waiting = entry.status in ("indexed", "pending") or (entry.status == "retrying" and not retry)
        if generation is None and waiting and entry.newest == document:
            return "unchanged"
        outcome = "created" if entry.newest is None else "updated"
        entry.generation = generation or entry.generation + 1
        entry.newest, entry.status, entry.attempts, entry.due = document, "pending", 0, False
        return outcome

    def delete(self, doc_id: str, generation: int | None = None) -> bool:
        entry = self.entries.get(doc_id)
        if entry is None:
            if generation is not None:
                self.entries[doc_id] = Entry(generation, None, status="deleted")
            return False
        if generation is not None and generation < entry.generation:
            return False
        was_there = entry.newest is not None
        if generation is not None or was_there:
            entry.generation = generation or entry.generation + 1
        entry.newest, entry.shown, entry.status, entry.due = None, None, "deleted", False
        return was_there

    def is_repeated(self, event_id: str) -> bool:
        if event_id in self.handled:
            return True
        self.handled.add(event_id)
        return False

    # ── the indexer ──────────────────────────────────────────────────────────────────────────────

    def drain(self, *, retries: bool) -> None:
        for entry in self.entries.values():
            if retries and entry.status == "retrying" and entry.due:
                entry.status, entry.due = "pending", False
            if entry.status == "pending":
                self._attempt(entry)

    def _attempt(self, entry: Entry) -> None:
        assert entry.newest is not None
        if not self.weather.down and not self.weather.spoils(entry.newest.content):
            entry.shown, entry.status = (entry.generation, entry.newest), "indexed"
            return
        entry.attempts += not self.weather.down  # an outage is not the document's fault
        entry.status = "retrying" if self.weather.down or entry.attempts < ATTEMPTS else "quarantined"

    def time_passes(self) -> None:
        for entry in self.entries.values():
            entry.due = entry.status == "retrying"

    # ── search ───────────────────────────────────────────────────────────────────────────────────

    def visible(self, where: Filter) -> dict[str, tuple[int, Document]]:
        """What can be found now: exactly this, whether the index lags or not."""
        shown = {doc_id: entry.shown for doc_id, entry in self.entries.items() if entry.shown is not None}
        return {doc_id: each for doc_id, each in shown.items() if matches(where, attributes(each[1]))}


def attributes(document: Document) -> Attributes:
    return Attributes(
        document.id,
        document.user_id,
        document.project_id,
        document.content_type,
        document.tags,
        document.metadata,
    )
