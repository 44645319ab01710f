"""Writing to one knowledge base: index and delete documents, one or many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadInput
from qianxun.core.types import Document
from qianxun.indexing.add import add_documents
from qianxun.indexing.maintenance import keep_up
from qianxun.records import chunks, documents

log = logging.getLogger(__name__)

FAILED = -1


@dataclass(frozen=True, slots=True)
class KnowledgeBaseManager:
    """Writes that have reached the index when they return."""

    base: OpenBase

    async def index_document(self, document: Document) -> int:
        """Indexes a document, replacing an earlier version in one step. Returns the number of its chunks.

        0 for a document that is stored but cannot be embedded now: it is retried later. Raises BadInput.
        """
        await add_documents(self.base, [document])
        return await asyncio.to_thread(self._chunk_count, document.id) or 0

    async def delete_document(self, document_id: str, *, file_missing: bool = False) -> bool:
        """Deletes a document: no search finds it any more when this returns. Returns True if it existed.

        With ``file_missing`` it goes because its file does, and comes back with it; otherwise people deleted it.
        """
        removed = await asyncio.to_thread(self._remove, document_id, None if file_missing else documents.WITHDRAWN)
        await keep_up(self.base, preparing=False)
        return removed

    async def batch_index(self, batch: Sequence[Document]) -> dict[str, int]:
        """Indexes documents. Returns the number of chunks of each, or -1 for one that is not searchable now."""
        try:
            await add_documents(self.base, batch)
            stored = list(batch)
        except BadInput:  # one of them cannot be stored, so none was: one by one
            stored = [document for document in batch if await self._is_added(document)]
        counts = {document.id: FAILED for document in batch}
        for document in stored:
            found = await asyncio.to_thread(self._chunk_count, document.id)
            counts[document.id] = FAILED if found is None else found
        return counts

    async def _is_added(self, document: Document) -> bool:
        try:
            await add_documents(self.base, [document])
        except BadInput as error:
            log.warning("document %s was not taken in: %s", document.id, error)
            return False
        return True

    def _remove(self, document_id: str, reason: str | None) -> bool:
        with self.base.records.writing() as tx:
            return documents.remove(tx, self.base.id, document_id, reason=reason)

    def _chunk_count(self, document_id: str) -> int | None:
        """None if the newest version is not searchable yet."""
        with self.base.records.reading() as tx:
            head = documents.heads(tx, self.base.id, [document_id]).get(document_id)
            if head is None or head.status != "indexed":
                return None
            return len(chunks.of_document(tx, self.base.id, document_id))
