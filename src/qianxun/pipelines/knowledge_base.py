"""One knowledge base as its owner writes to it: index, delete, many at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from qianxun.errors import QianxunError
from qianxun.pipelines.base import OpenBase
from qianxun.pipelines.indexing import drain
from qianxun.pipelines.ingest import submission, take
from qianxun.records import chunks, documents
from qianxun.types import Document

log = logging.getLogger(__name__)

FAILED = -1


@dataclass(frozen=True, slots=True)
class KnowledgeBaseManager:
    """Writes that are searchable, or gone, when they return."""

    base: OpenBase

    async def index_document(self, document: Document) -> int:
        """Takes a document in, replacing an earlier version in one step; answers the number of its chunks."""
        await take(self.base, [submission(self.base, document)])
        return await asyncio.to_thread(self._chunk_count, document.id)

    async def delete_document(self, document_id: str) -> bool:
        """Removes a document; answers whether there was one. From its return on it cannot be found."""
        removed = await asyncio.to_thread(self._remove, document_id)
        await drain(self.base, preparing=False)
        return removed

    async def batch_index(self, batch: Sequence[Document]) -> dict[str, int]:
        """The number of chunks of each document, or -1 for one that was not taken in; the others are."""
        counts: dict[str, int] = {}
        for document in batch:
            try:
                counts[document.id] = await self.index_document(document)
            except QianxunError as error:
                log.warning("document %s was not taken in: %s", document.id, error)
                counts[document.id] = FAILED
        return counts

    def _remove(self, document_id: str) -> bool:
        with self.base.records.writing() as tx:
            return documents.remove(tx, self.base.id, document_id)

    def _chunk_count(self, document_id: str) -> int:
        with self.base.records.reading() as tx:
            return len(chunks.of_document(tx, self.base.id, document_id))
