"""The log of searches, written in the background: no search waits for it or fails with it. `Journal.note` adds one."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy.exc import InterfaceError, OperationalError

from qianxun.core.codec.digests import digest, layered_digest
from qianxun.core.errors import FolderInUse, Overloaded, RecordsUnavailable
from qianxun.core.log_types import LogEntry
from qianxun.core.types import KnowledgeBase, Recall, StepTime
from qianxun.records import Records, logs
from qianxun.retrieve.recall_cache import is_replaying

if TYPE_CHECKING:
    from qianxun.core.layered_types import LayeredRecall

log = logging.getLogger(__name__)

UNAVAILABLE = (RecordsUnavailable, FolderInUse, Overloaded, OperationalError, InterfaceError)  # the database, for now
BATCH = 500
PRUNE_EVERY = 1000  # entries written between two looks at what is too old


# What is logged, as it comes: a search, or the entry itself.
_Note: TypeAlias = "tuple[KnowledgeBase, Recall | LayeredRecall, Mapping[str, Any], datetime, str | None] | LogEntry"


@dataclass
class Journal:
    """Takes notes at once, writes them in batches. If more than ``bound`` are pending the oldest is dropped."""

    records: Records
    keep_days: float = 30.0
    keep_rows: int = 100_000
    bound: int = 2_000  # an answer of ten chunks is some 20 KB
    pause_seconds: float = 1.0  # how long notes gather before they are written together
    dropped: int = field(default=0, init=False)
    _pending: deque[_Note] = field(default_factory=deque, init=False, repr=False)
    _writer: asyncio.Task[None] | None = field(default=None, init=False, repr=False)
    _flushing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _since_prune: int = field(default=PRUNE_EVERY, init=False, repr=False)
    _has_failed: bool = field(default=False, init=False, repr=False)
    _is_closed: bool = field(default=False, init=False, repr=False)

    def note(
        self,
        base: KnowledgeBase,
        recall: Recall | LayeredRecall,
        params: Mapping[str, Any],
        principal: str | None = None,
    ) -> None:
        """Logs a search; ``params`` as `params_of` writes them, ``principal`` where it does not see everything. Called
        in the event loop."""
        self._add((base, recall, params, datetime.now(UTC), principal))

    def note_entry(self, entry: LogEntry, principal: str | None = None) -> None:
        """Logs what has its entry already: a question (`question_log`)."""
        self._add(entry if principal is None else replace(entry, principal=principal))

    def _add(self, note: _Note) -> None:
        if is_replaying() or self._is_closed:
            return
        self._pending.append(note)
        self._drop_oldest()
        if self._writer is None or self._writer.done():
            # It writes for many: in a context of its own, so as not to log under the trace of the first.
            self._writer = asyncio.get_running_loop().create_task(self._write_soon(), context=Context())

    async def flush(self) -> None:
        """Writes what is pending. What the database does not take now stays pending."""
        async with self._flushing:
            # Not what comes in the meantime: under searches without a pause it was written by twos and threes, always
            # in a new transaction, which cost a sixth of what the searches did.
            left = len(self._pending)
            while left and self._pending:
                batch = [self._pending.popleft() for _ in range(min(BATCH, left, len(self._pending)))]
                left -= len(batch)
                if not await self._is_written(batch):
                    self._pending.extendleft(reversed(batch))
                    self._drop_oldest()
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
        if self._pending:
            log.warning("%s recalls are missing from the log: the database did not take them", len(self._pending))

    async def _write_soon(self) -> None:
        while True:
            await asyncio.sleep(self.pause_seconds)
            await self.flush()
            if not self._pending or self._has_failed or self._is_closed:  # the next note, or `close`, writes the rest
                return

    async def _is_written(self, batch: Sequence[_Note]) -> bool:
        try:
            await asyncio.to_thread(self._write, batch)
        except UNAVAILABLE as error:
            if not self._has_failed:
                log.warning("the log of recalls cannot be written now, searches go on: %s", error)
            self._has_failed = True
            return False
        self._has_failed = False
        return True

    def _write(self, batch: Sequence[_Note]) -> None:
        entries = [entry for entry in map(self._entry, batch) if entry is not None]
        is_due = self._since_prune >= PRUNE_EVERY
        try:
            with self.records.writing() as tx:  # one transaction: what is tried again was not written before
                logs.append(tx, entries)
                if is_due:
                    logs.prune(tx, self.keep_days, self.keep_rows)
        except UNAVAILABLE:
            raise
        except Exception:  # whatever is in one of them must not cost the others their entry
            for entry in entries:
                self._write_alone(entry)
        self._since_prune = len(batch) + (0 if is_due else self._since_prune)

    def _write_alone(self, entry: LogEntry) -> None:
        """For a batch that could not be stored as a whole."""
        try:
            with self.records.writing() as tx:
                logs.append(tx, [entry])
        except Exception as error:  # as above
            self.dropped += 1
            log.warning("a recall cannot be stored in the log: %s", error)

    def _entry(self, note: _Note) -> LogEntry | None:
        try:
            return note if isinstance(note, LogEntry) else entry_of(*note)
        except Exception as error:  # as above
            self.dropped += 1
            log.warning("a recall has no written form and is missing from the log: %s", error)
            return None

    def _drop_oldest(self) -> None:
        over = len(self._pending) - self.bound
        if over <= 0:
            return
        if not self.dropped:
            log.warning("more than %s recalls wait for the log: the oldest are dropped", self.bound)
        self.dropped += over
        for _ in range(over):
            self._pending.popleft()


# The ``mode`` of layered searches in the log.
LAYERED: Final = {"text": "texts", "table": "tables"}


def entry_of(
    base: KnowledgeBase,
    recall: Recall | LayeredRecall,
    params: Mapping[str, Any],
    at: datetime,
    principal: str | None = None,
) -> LogEntry:
    """Of a layered search, ``tier`` is the last layer that admitted a result, and the steps are the layers that ran."""
    milliseconds = recall.seconds * 1000
    entry = LogEntry(
        knowledge_base_id=base.id,
        tenant=base.tenant,
        query=recall.query,
        params=params,
        results=(),
        time_cost_ms=round(milliseconds) if math.isfinite(milliseconds) else 0,
        created_at=at,
        trace_id=recall.trace_id,
        generation=str(recall.generation) if recall.generation is not None else "",
        degraded=recall.degraded,
        principal=principal,
    )
    if isinstance(recall, Recall):
        return replace(
            entry,
            results=tuple((found.chunk.chunk_id, found.score) for found in recall.results),
            mode=recall.mode,
            tier=recall.tier or "",
            digest=digest(recall),
            steps=recall.steps,
            from_cache=recall.from_cache,
        )
    last = max((result.layer for result in recall.results), default=0)
    return replace(
        entry,
        results=tuple((result.doc.chunk_id, result.score) for result in recall.results),
        mode=LAYERED[recall.kind],
        tier=f"layer {last}" if last else "",
        digest=layered_digest(recall),
        steps=tuple(StepTime(f"layer.{run.strategy}", run.seconds, run.count) for run in recall.layers if run.ran),
    )
