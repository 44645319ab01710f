"""Writing documents one by one or in batches: to a knowledge base, or to a vector database of the caller's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from qianxun.bases.base import OpenBase
from qianxun.bases.vector_database import base_or_database
from qianxun.core.errors import BadInput
from qianxun.core.ports import VectorDatabase, Vectorizer
from qianxun.core.types import Document
from qianxun.indexing.add import add_documents
from qianxun.indexing.maintenance import keep_up
from qianxun.indexing.vector_database import DatabaseWriter
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.preprocess import TextPreprocessor
from qianxun.records import chunks, document_heads, documents

log = logging.getLogger(__name__)

FAILED = -1


class KnowledgeBaseManager:
    """Writes that have reached the index when they return.

    ``KnowledgeBaseManager(vectorizer, vector_db)``: ``vector_db`` is an opened base (`Engine.base`), which cleans and
    cuts texts as it is configured, or anything with `insert`, `search` and `delete_by_document_id`, for which
    ``preprocessor`` and ``chunker`` do so. In a base the vectors are made by its own model: ``vectorizer`` may be left
    out, ``KnowledgeBaseManager(base)``, and no other one is accepted. ``wake`` tells its background indexer of events.
    """

    def __init__(
        self,
        vectorizer: Vectorizer | OpenBase,
        vector_db: VectorDatabase | OpenBase | None = None,
        preprocessor: TextPreprocessor | None = None,
        chunker: ChunkSplitter | None = None,
        *,
        wake: Callable[[], None] | None = None,
    ) -> None:
        target = base_or_database(vectorizer, vector_db)
        self.wake = wake
        self.base = target if isinstance(target, OpenBase) else None
        self._database: DatabaseWriter | None = None
        if not isinstance(target, OpenBase):
            cleaning = preprocessor or TextPreprocessor()
            self._database = DatabaseWriter(*target, cleaning, chunker or ChunkSplitter())
        elif preprocessor is not None or chunker is not None:
            raise BadInput(
                "知识库自己清洗与分块，不用别的 preprocessor 与 chunker",
                hint='分块的大小用 create_knowledge_base(config={"chunk_size": 500}) 指定',
            )

    async def index_document(self, document: Document) -> int:
        """Indexes a document, replacing an earlier version. Returns the number of its chunks.

        In a knowledge base in one step; 0 for a document that is stored but cannot be embedded now: it is retried
        later. In another database the vectors are made before the earlier version goes. Raises BadInput or ModelError.
        """
        if self._database is not None:
            return await asyncio.to_thread(self._database.replace, document)
        await add_documents(self._of_records(), [document])
        return await asyncio.to_thread(self._chunk_count, document.id) or 0

    async def delete_document(self, document_id: str, *, file_missing: bool = False) -> bool:
        """Deletes a document: no search finds it any more when this returns. Returns True if it existed, as far as the
        database says so.

        With ``file_missing`` it goes because its file does, and comes back with it; otherwise people deleted it.
        """
        if self._database is not None:
            return await asyncio.to_thread(self._database.delete, document_id)
        removed = await asyncio.to_thread(self._remove, document_id, None if file_missing else document_heads.WITHDRAWN)
        await keep_up(self._of_records(), preparing=False)
        return removed

    async def batch_index(self, batch: Sequence[Document]) -> dict[str, int]:
        """Indexes documents. Returns the number of chunks of each, or -1 for one that is not searchable now."""
        if self._database is not None:
            return {document.id: await self._indexed(document) for document in batch}
        try:
            await add_documents(self._of_records(), batch)
            stored = list(batch)
        except BadInput:  # one of them cannot be stored, so none was: one by one
            stored = [document for document in batch if await self._is_added(document)]
        counts = {document.id: FAILED for document in batch}
        for document in stored:
            found = await asyncio.to_thread(self._chunk_count, document.id)
            counts[document.id] = FAILED if found is None else found
        return counts

    async def _indexed(self, document: Document) -> int:
        try:
            return await self.index_document(document)
        except Exception as error:  # whatever the caller's database raises: the others of the batch go on
            log.exception("document %s was not taken in: %s", document.id, error)
            return FAILED

    def _of_records(self) -> OpenBase:
        assert self.base is not None
        return self.base

    async def _is_added(self, document: Document) -> bool:
        try:
            await add_documents(self._of_records(), [document])
        except BadInput as error:
            log.warning("document %s was not taken in: %s", document.id, error)
            return False
        return True

    def _remove(self, document_id: str, reason: str | None) -> bool:
        base = self._of_records()
        with base.records.writing() as tx:
            return documents.remove(tx, base.id, document_id, reason=reason)

    def _chunk_count(self, document_id: str) -> int | None:
        """None if the newest version is not searchable yet."""
        base = self._of_records()
        with base.records.reading() as tx:
            head = document_heads.heads(tx, base.id, [document_id]).get(document_id)
            if head is None or head.status != "indexed":
                return None
            return len(chunks.document_chunks(tx, base.id, document_id))
