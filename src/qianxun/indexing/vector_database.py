"""Documents into a vector database of the caller's own: cleaned, cut, embedded, inserted."""

from __future__ import annotations

from dataclasses import dataclass

from qianxun.core.documents import VectorDocument
from qianxun.core.ports import VectorDatabase, Vectorizer
from qianxun.core.types import Document
from qianxun.indexing.read import content_format
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.preprocess import TextPreprocessor


@dataclass(frozen=True, slots=True)
class DatabaseWriter:
    """Blocking. Such a database has no transactions: what fails between two calls is for the caller to repeat."""

    vectorizer: Vectorizer
    database: VectorDatabase
    preprocessor: TextPreprocessor
    chunker: ChunkSplitter

    def replace(self, document: Document) -> int:
        """Returns the number of chunks. A document that cannot be embedded leaves its earlier version as it was."""
        vector_docs = self.vector_documents(document)
        self.database.delete_by_document_id(document.id)
        if vector_docs:
            self.database.insert(vector_docs)
        return len(vector_docs)

    def delete(self, document_id: str) -> bool:
        """True unless the database says that there was nothing to delete."""
        return self.database.delete_by_document_id(document_id) not in (False, 0)

    def vector_documents(self, document: Document) -> list[VectorDocument]:
        cleaned = self.preprocessor.preprocess(document.content, content_type=content_format(document))
        cut = self.chunker.split(cleaned)
        vectors = self.vectorizer.encode([text for text, _ in cut]) if cut else ()
        owner = {
            "user_id": document.user_id,
            "project_id": document.project_id,
            "content_type": document.content_type,
        }
        about = {**document.stated_dates(), **document.metadata}
        return [
            VectorDocument(
                id=f"{document.id}_{at}",
                document_id=document.id,
                chunk_index=at,
                chunk_text=text,
                embedding=[float(number) for number in vector],
                # The owner last: nothing in a document's own metadata may say whose it is.
                metadata={"offset": offset, **about, **owner},
            )
            for at, ((text, offset), vector) in enumerate(zip(cut, vectors, strict=True))
        ]
