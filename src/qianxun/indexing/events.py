"""Document events from another system: created, updated, deleted.

An event is handled once its effect is durable in the records; indexing follows from the outbox. Repeats and late
arrivals change nothing: `event_id` names an event, `generation` orders the events of one document.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadInput, Refused
from qianxun.core.ingest_types import EventOutcome, Handled
from qianxun.core.limits import DOC_ID_LIMIT, EVENT_ID_LIMIT
from qianxun.core.types import Document, Submission
from qianxun.core.unicode import is_storable
from qianxun.indexing.knowledge_base import KnowledgeBaseManager
from qianxun.indexing.maintenance import keep_up
from qianxun.indexing.read import checked_metadata, read_documents
from qianxun.records import document_heads, documents, outbox

log = logging.getLogger(__name__)

KINDS: Final = ("created", "updated", "deleted")
Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[EventOutcome]]


class RAGIndexEventHandler:
    """Stores the events of one knowledge base, or those of a manager's own vector database.

    An invalid event is logged and `rejected`; a document that cannot be indexed is retried in the background and then
    quarantined; neither raises. Only when the records cannot store an event does the handler raise, so that its sender
    sends it again. A database of the caller's own has no records: what it refuses is logged and `rejected`.
    """

    def __init__(self, kb_manager: KnowledgeBaseManager) -> None:
        self.kb_manager = kb_manager

    async def handle(self, event_data: Mapping[str, Any]) -> EventOutcome:
        """By its ``type``: created, updated or deleted, with or without "document." before it."""
        kind = str(event_data.get("type")).removeprefix("document.")
        if kind not in KINDS:
            return _rejected(event_data, BadInput(f"事件的 type 为 {kind!r}", hint=f"应为 {'、'.join(KINDS)}"))
        handle: Handler = getattr(self, f"handle_document_{kind}")
        return await handle(event_data)

    async def handle_document_created(self, event_data: Mapping[str, Any]) -> EventOutcome:
        return await self._store(event_data)

    async def handle_document_updated(self, event_data: Mapping[str, Any]) -> EventOutcome:
        """Replaces the document; searches find the old version until the new one is indexed.

        A document whose text was cleared is stored without text: nothing of it is found any more.
        """
        return await self._store(event_data, may_be_empty=True)

    async def handle_document_deleted(self, event_data: Mapping[str, Any]) -> EventOutcome:
        try:
            document_id = _text(event_data, "document_id", required=True)
            document_heads.check_id(document_id)
            generation = _generation(event_data)
            if self.kb_manager.base is None:
                return await _directly(document_id, self.kb_manager.delete_document(document_id))
            work = partial(self._delete, self.kb_manager.base, document_id, generation, event_data)
            return await self._finish(asyncio.to_thread(work))
        except BadInput as error:
            return _rejected(event_data, error)

    async def _store(self, event_data: Mapping[str, Any], *, may_be_empty: bool = False) -> EventOutcome:
        try:
            document = document_of(event_data, may_be_empty=may_be_empty)
            generation = _generation(event_data)
            base = self.kb_manager.base
            if base is None:
                return await _directly(document.id, self.kb_manager.index_document(document))
            (offered,) = await read_documents(base, [document], generation)
            return await self._finish(asyncio.to_thread(self._accept, base, offered, event_data))
        except (BadInput, Refused) as error:
            return _rejected(event_data, error)

    async def _finish(self, work: Any) -> EventOutcome:
        outcome: EventOutcome = await work
        log.info("event for document %s: %s", outcome.document_id, outcome.result)
        if outcome.result != "accepted":
            return outcome
        if self.kb_manager.wake is not None:
            self.kb_manager.wake()
        elif self.kb_manager.base is not None:  # nobody else would
            await keep_up(self.kb_manager.base)
        return outcome

    def _accept(self, base: OpenBase, offered: Submission, event_data: Mapping[str, Any]) -> EventOutcome:
        document = offered.document
        with base.records.writing() as tx:
            if not _is_first(tx, base, event_data):
                return EventOutcome("duplicate", document.id)
            (result,) = documents.accept(tx, base.id, [offered])
        words: dict[str, Handled] = {"stale": "stale", "unchanged": "unchanged"}
        return EventOutcome(words.get(result.outcome, "accepted"), document.id, result.generation)

    def _delete(
        self, base: OpenBase, document_id: str, generation: int | None, event_data: Mapping[str, Any]
    ) -> EventOutcome:
        with base.records.writing() as tx:
            if not _is_first(tx, base, event_data):
                return EventOutcome("duplicate", document_id)
            removed = documents.remove(tx, base.id, document_id, generation)
            reached = document_heads.heads(tx, base.id, [document_id]).get(document_id)
        at = reached.generation if reached else 0
        if generation is not None and generation < at:
            return EventOutcome("stale", document_id, at)
        return EventOutcome("accepted" if removed else "unchanged", document_id, at)


def _is_first(tx: Any, base: OpenBase, event_data: Mapping[str, Any]) -> bool:
    event_id = str(event_data.get("event_id") or "")
    if len(event_id) > EVENT_ID_LIMIT or not is_storable(event_id):
        raise BadInput(f"事件的 event_id 超过 {EVENT_ID_LIMIT} 个字符，或不是文字", hint="改正后重新发送")
    return not event_id or outbox.first_time(tx, base.id, event_id)


async def _directly(document_id: str, work: Awaitable[object]) -> EventOutcome:
    """Into a database of the caller's own, whatever that may raise."""
    try:
        await work
    except Exception as error:
        log.exception("event for document %s failed", document_id)
        return EventOutcome("rejected", document_id, reason=str(error))
    return EventOutcome("accepted", document_id)


def _rejected(event_data: Mapping[str, Any], error: BadInput | Refused) -> EventOutcome:
    named = str(event_data.get("document_id", ""))[:DOC_ID_LIMIT]
    log.error("event rejected: %s (document %r)", error, named)
    return EventOutcome("rejected", named, reason=str(error))


def document_of(event_data: Mapping[str, Any], *, may_be_empty: bool = False) -> Document:
    """The document that an event carries. Raises BadInput naming the field that is wrong."""
    metadata = event_data.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise BadInput("事件的 metadata 应为键值对", hint="改正后重新发送")
    chosen = _text(event_data, "format") or "text"
    if chosen not in ("text", "html", "markdown"):
        raise BadInput(f"事件的 format 为 {chosen!r}，应为 text、html 或 markdown", hint="改正后重新发送")
    tags = event_data.get("tags") or ()
    if not isinstance(tags, (list, tuple)) or not all(isinstance(tag, str) for tag in tags):
        raise BadInput("事件的 tags 应为文字的列表", hint="改正后重新发送")
    document_id = _text(event_data, "document_id", required=True)
    return Document(
        id=document_id,
        content=_text(event_data, "content", required=True, may_be_empty=may_be_empty),
        name=_text(event_data, "name") or document_id,
        format=chosen,  # type: ignore[arg-type]  # checked above
        content_type=_text(event_data, "content_type"),
        user_id=_text(event_data, "user_id"),
        project_id=_text(event_data, "project_id"),
        tags=tuple(tags),
        metadata=checked_metadata({str(name): value for name, value in metadata.items()}),
        source="event",
    )


def _text(event_data: Mapping[str, Any], name: str, *, required: bool = False, may_be_empty: bool = False) -> str:
    value = event_data.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"事件缺少 {name}，或它不是文字", hint="补全后重新发送")
    if required and not may_be_empty and not value.strip():
        raise BadInput(f"事件的 {name} 是空的", hint="补全后重新发送")
    return value


def _generation(event_data: Mapping[str, Any]) -> int | None:
    value = event_data.get("generation")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**62:
        raise BadInput("事件的 generation 应为正整数", hint="改正后重新发送")
    return value
