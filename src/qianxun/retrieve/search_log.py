"""Every recall leaves a record, written behind the searches' backs: no search waits for the log or fails with it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import InterfaceError, OperationalError

from qianxun.core.codec.recall_bytes import digest, layered_digest
from qianxun.core.errors import FolderInUse, Overloaded, RecordsUnavailable
from qianxun.core.log_types import LogEntry
from qianxun.core.types import KnowledgeBase, Recall, StepTime
from qianxun.records import Records, logs
from qianxun.retrieve.recall_cache import is_replaying

if TYPE_CHECKING:
    from qianxun.core.layered_types import LayeredRecall

log = logging.getLogger(__name__)

AWAY = (RecordsUnavailable, FolderInUse, Overloaded, OperationalError, InterfaceError)  # the database, for now
BATCH = 500
PRUNE_EVERY = 1000  # entries written between two looks at what is too old


@dataclass(frozen=True, slots=True)
class _Note:
    at: datetime
    base: KnowledgeBase
    recall: Recall | LayeredRecall
    params: Mapping[str, Any]


@dataclass
class Journal:
    """Takes notes at once, writes them in batches. When ``bound`` notes are waiting the oldest is dropped."""

    records: Records
    keep_days: float = 30.0
    keep_rows: int = 100_000
    bound: int = 2_000  # an answer of ten chunks is some 20 KB
    pause_seconds: float = 1.0  # how long notes gather before they are written together
    dropped: int = field(default=0, init=False)
    _waiting: deque[_Note | LogEntry] = field(default_factory=deque, init=False, repr=False)
    _writer: asyncio.Task[None] | None = field(default=None, init=False, repr=False)
    _flushing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _since_prune: int = field(default=PRUNE_EVERY, init=False, repr=False)
    _has_failed: bool = field(default=False, init=False, repr=False)
    _is_closed: bool = field(default=False, init=False, repr=False)

    def note(self, base: KnowledgeBase, recall: Recall | LayeredRecall, params: Mapping[str, Any]) -> None:
        """Takes note of a recall; ``params`` as `parameters` writes them. Called in the event loop."""
        self._take(_Note(datetime.now(UTC), base, recall, params))

    def note_entry(self, entry: LogEntry) -> None:
        """Takes note of what has its written form already: of a question (`question_log`)."""
        self._take(entry)

    def _take(self, note: _Note | LogEntry) -> None:
        if is_replaying() or self._is_closed:
            return
        self._waiting.append(note)
        self._keep_to_bound()
        if self._writer is None or self._writer.done():
            # It writes for many: in a context of its own, lest it log under the trace of whoever was first.
            self._writer = asyncio.get_running_loop().create_task(self._write_soon(), context=Context())

    async def flush(self) -> None:
        """Writes what is waiting. What the database does not take now waits for the next time."""
        async with self._flushing:
            # Not what comes in the meantime: under searches without a pause it was written by twos and threes, always
            # in a new transaction, which cost a sixth of what the searches did.
            left = len(self._waiting)
            while left and self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, left, len(self._waiting)))]
                left -= len(batch)
                if not await self._is_written(batch):
                    self._waiting.extendleft(reversed(batch))
                    self._keep_to_bound()
                    return

    async def close(self) -> None:
        """Writes what is left and takes no more."""
        self._is_closed = True
        if self._writer is not None and not self._flushing.locked():
            self._writer.cancel()
        if self._writer is not None:
            with suppress(asyncio.CancelledError):
                await self._writer
        await self.flush()
        if self._waiting:
            log.warning("%s recalls are missing from the log: the database did not take them", len(self._waiting))

    async def _write_soon(self) -> None:
        while True:
            await asyncio.sleep(self.pause_seconds)
            await self.flush()
            if not self._waiting or self._has_failed or self._is_closed:  # the next note, or `close`, sees to the rest
                return

    async def _is_written(self, batch: Sequence[_Note | LogEntry]) -> bool:
        try:
            await asyncio.to_thread(self._write, batch)
        except AWAY as error:
            if not self._has_failed:
                log.warning("the log of recalls cannot be written now, searches go on: %s", error)
            self._has_failed = True
            return False
        self._has_failed = False
        return True

    def _write(self, batch: Sequence[_Note | LogEntry]) -> None:
        entries = [entry for entry in map(self._entry, batch) if entry is not None]
        is_due = self._since_prune >= PRUNE_EVERY
        try:
            with self.records.writing() as tx:  # one transaction: what is tried again was not written before
                logs.append(tx, entries)
                if is_due:
                    logs.prune(tx, self.keep_days, self.keep_rows)
        except AWAY:
            raise
        except Exception:  # an outer door: whatever one of them holds must not cost the others their record
            for entry in entries:
                self._write_alone(entry)
        self._since_prune = len(batch) + (0 if is_due else self._since_prune)

    def _write_alone(self, entry: LogEntry) -> None:
        """One of a batch cannot be stored: each answers for itself."""
        try:
            with self.records.writing() as tx:
                logs.append(tx, [entry])
        except Exception as error:  # as above
            self.dropped += 1
            log.warning("a recall cannot be stored in the log: %s", error)

    def _entry(self, note: _Note | LogEntry) -> LogEntry | None:
        if isinstance(note, LogEntry):
            return note
        try:
            if isinstance(note.recall, Recall):
                return entry_of(note.base, note.recall, note.params, note.at)
            return layered_entry(note.base, note.recall, note.params, note.at)
        except Exception as error:  # as above
            self.dropped += 1
            log.warning("a recall has no written form and is missing from the log: %s", error)
            return None

    def _keep_to_bound(self) -> None:
        over = len(self._waiting) - self.bound
        if over <= 0:
            return
        if not self.dropped:
            log.warning("more than %s recalls wait for the log: the oldest are dropped", self.bound)
        self.dropped += over
        for _ in range(over):
            self._waiting.popleft()


# How the log calls layered recalls, beside the modes of plain ones.
LAYERED: Final = {"text": "texts", "table": "tables"}


def layered_entry(base: KnowledgeBase, recall: LayeredRecall, params: Mapping[str, Any], at: datetime) -> LogEntry:
    """Its ``tier`` is the last layer that let a result in; its steps are the layers that ran."""
    last = max((each.layer for each in recall.results), default=0)
    return LogEntry(
        knowledge_base_id=base.id,
        tenant=base.tenant,
        query=recall.query,
        params=params,
        results=tuple((each.doc.chunk_id, each.score) for each in recall.results),
        time_cost_ms=recall.seconds * 1000,
        created_at=at,
        mode=LAYERED[recall.kind],
        tier=f"layer {last}" if last else "",
        trace_id=recall.trace_id,
        generation=str(recall.generation) if recall.generation is not None else "",
        digest=layered_digest(recall),
        steps=tuple(StepTime(f"layer.{run.strategy}", run.seconds, run.count) for run in recall.layers if run.ran),
        degraded=recall.degraded,
    )


def entry_of(base: KnowledgeBase, recall: Recall, params: Mapping[str, Any], at: datetime) -> LogEntry:
    milliseconds = recall.seconds * 1000
    return LogEntry(
        knowledge_base_id=base.id,
        tenant=base.tenant,
        query=recall.query,
        params=params,
        results=tuple((each.chunk.chunk_id, each.score) for each in recall.found),
        time_cost_ms=milliseconds if math.isfinite(milliseconds) else 0.0,
        created_at=at,
        mode=recall.mode,
        tier=recall.tier or "",
        trace_id=recall.trace_id,
        generation=str(recall.generation) if recall.generation is not None else "",
        digest=digest(recall),
        steps=recall.steps,
        degraded=recall.degraded,
        from_cache=recall.from_cache,
    )
