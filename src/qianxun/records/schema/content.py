"""Bases, documents and their versions, chunks, vectors, tables, question–answer pairs, terms and graphs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ColumnElement, ForeignKey, Index, Integer, LargeBinary, String, Text, UniqueConstraint

from qianxun.records.schema.base import Base, BigKey, DocId, LongText, Moment, column


class KnowledgeBaseRow(Base):
    __tablename__ = "knowledge_bases"
    __table_args__ = (UniqueConstraint("tenant", "name", name="uq_knowledge_bases_tenant_name"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    tenant: ColumnElement[str] = column(String(64))
    name: ColumnElement[str] = column(String(200))
    kind: ColumnElement[str] = column(String(32))
    embedding_model: ColumnElement[str] = column(String(200))
    dimension: ColumnElement[int] = column(Integer)
    config: ColumnElement[dict[str, Any]] = column(JSON)
    # Outbox rows up to here are in the index and have been removed: an index that knows less must be rebuilt.
    indexed_sequence: ColumnElement[int] = column(BigKey)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class DocumentRow(Base):
    """A document's identity and state. A deleted document leaves its row, so that late events find its generation."""

    __tablename__ = "documents"
    __table_args__ = (
        UniqueConstraint("knowledge_base_id", "doc_id", name="uq_documents_base_doc"),
        Index("ix_documents_base_status", "knowledge_base_id", "status"),
    )

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"))
    doc_id: ColumnElement[str] = column(DocId)
    generation: ColumnElement[int] = column(BigKey)  # the latest accepted
    served: ColumnElement[int] = column(BigKey)  # the generation whose chunks are stored; 0: none yet
    status: ColumnElement[str] = column(String(16))  # a `DocumentStatus`
    attempts: ColumnElement[int] = column(Integer)  # that failed, for a reason of its own
    outages: ColumnElement[int] = column(Integer)  # attempts that failed because the model could not be reached
    retry_at: ColumnElement[datetime | None] = column(Moment, nullable=True)
    reason: ColumnElement[str | None] = column(Text, nullable=True)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)
    # Who may see it: an `AccessSetRow`, 0 for everybody; and its own labels where it has them, else a rule's count.
    access_set: ColumnElement[int] = column(BigKey, server_default="0")
    own_access: ColumnElement[list[str] | None] = column(JSON(none_as_null=True), nullable=True)


class VersionRow(Base):
    """The content of a document at one generation. The served version stays until the next one is searchable."""

    __tablename__ = "document_versions"
    __table_args__ = (Index("ix_document_versions_name", "knowledge_base_id", "name"),)

    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"), primary_key=True)
    generation: ColumnElement[int] = column(BigKey, primary_key=True)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    name: ColumnElement[str] = column(String(512))
    format: ColumnElement[str] = column(String(16))
    content_type: ColumnElement[str] = column(String(64))
    user_id: ColumnElement[str] = column(String(128))
    project_id: ColumnElement[str] = column(String(128))
    tags: ColumnElement[list[str]] = column(JSON)
    # `metadata` itself is SQLAlchemy's name for the tables.
    extra: ColumnElement[dict[str, Any]] = column("metadata", JSON)
    source: ColumnElement[str] = column(Text)
    fingerprint: ColumnElement[str] = column(String(64))
    structure: ColumnElement[dict[str, Any] | None] = column(JSON, nullable=True)
    content: ColumnElement[str] = column(LongText)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class ChunkRow(Base):
    __tablename__ = "chunks"
    __table_args__ = (
        Index("ix_chunks_document", "document_key", "generation"),
        Index("ix_chunks_base", "knowledge_base_id", "key"),
    )

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"))
    generation: ColumnElement[int] = column(BigKey)
    position: ColumnElement[int] = column(Integer)
    start: ColumnElement[int] = column(Integer)
    end: ColumnElement[int] = column(Integer)
    kind: ColumnElement[str] = column(String(8))
    page: ColumnElement[int | None] = column(Integer, nullable=True)
    table_position: ColumnElement[int | None] = column(Integer, nullable=True)
    headings: ColumnElement[list[str]] = column(JSON)
    text: ColumnElement[str] = column(LongText)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)
    corrected: ColumnElement[dict[str, Any] | None] = column(JSON(none_as_null=True), nullable=True)  # a `Corrected`


class VectorRow(Base):
    """A chunk's vector under one model: stored so that a lost index is rebuilt without embedding again."""

    __tablename__ = "chunk_vectors"

    chunk_key: ColumnElement[int] = column(BigKey, ForeignKey("chunks.key"), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    vector: ColumnElement[bytes] = column(LargeBinary)  # see `stored_vectors`
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class TableRow(Base):
    __tablename__ = "tables"
    __table_args__ = (Index("ix_tables_document", "document_key", "generation"),)

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"))
    generation: ColumnElement[int] = column(BigKey)
    position: ColumnElement[int] = column(Integer)
    start: ColumnElement[int] = column(Integer)
    end: ColumnElement[int] = column(Integer)
    title: ColumnElement[str] = column(Text)
    source: ColumnElement[str] = column(Text)
    notes: ColumnElement[str] = column(LongText)
    columns: ColumnElement[list[Any]] = column(JSON)
    rows: ColumnElement[list[Any]] = column(JSON)
    texts: ColumnElement[list[Any]] = column(JSON)
    row_starts: ColumnElement[list[int]] = column(JSON)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)
    # By the numbers of rows, what corrections put in their place (values and texts): nothing where they took them out.
    corrected_rows: ColumnElement[dict[str, Any] | None] = column(JSON(none_as_null=True), nullable=True)


class PairRow(Base):
    """A question and answer of a document; ``chunk_key`` is the chunk that holds the answer, once there are chunks.

    ``chunk_digest`` identifies the text that a model generated the question for, so that it is not done again.
    """

    __tablename__ = "qa_pairs"
    __table_args__ = (
        Index("ix_pairs_document", "document_key", "generation"),
        Index("ix_pairs_chunk", "knowledge_base_id", "chunk_key"),
        Index("ix_pairs_digest", "knowledge_base_id", "chunk_digest"),
    )

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"))
    generation: ColumnElement[int] = column(BigKey)
    position: ColumnElement[int] = column(Integer)
    chunk_key: ColumnElement[int | None] = column(BigKey, nullable=True)
    question: ColumnElement[str] = column(LongText)
    answer: ColumnElement[str] = column(LongText)
    origin: ColumnElement[str] = column(String(220), server_default="given")  # given | model:<name>
    chunk_digest: ColumnElement[str | None] = column(String(40), nullable=True)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class PairVectorRow(Base):
    """A question's vector under one model, stored for the same reason as those of chunks."""

    __tablename__ = "pair_vectors"

    pair_key: ColumnElement[int] = column(BigKey, ForeignKey("qa_pairs.key"), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    vector: ColumnElement[bytes] = column(LargeBinary)  # see `stored_vectors`
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class TermRow(Base):
    """A word of a base and its vector under one model: related words of a query are searched among them."""

    __tablename__ = "terms"

    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    term: ColumnElement[str] = column(String(64), primary_key=True)
    vector: ColumnElement[bytes] = column(LargeBinary)  # little-endian float32


class GraphFactsRow(Base):
    """The facts of a chunk by one reader: statistical:<version> or model:<name>. Deleted with the chunk.

    ``digest`` identifies what was read, so that a model does not read the same again; ``revision`` is the base's own
    count of changes to its graph, as it was with this one.
    """

    __tablename__ = "graph_facts"
    __table_args__ = (Index("ix_graph_facts_digest", "knowledge_base_id", "digest"),)

    chunk_key: ColumnElement[int] = column(BigKey, ForeignKey("chunks.key"), primary_key=True)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey)
    revision: ColumnElement[int] = column(BigKey)
    origin: ColumnElement[str] = column(String(220))
    digest: ColumnElement[str] = column(String(40))
    facts: ColumnElement[str] = column(LongText)


class GraphAliasRow(Base):
    """Two names of one entity, confirmed by a user or a model."""

    __tablename__ = "graph_aliases"

    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    alias: ColumnElement[str] = column(DocId, primary_key=True)
    name: ColumnElement[str] = column(DocId)
    origin: ColumnElement[str] = column(String(220))
    details: ColumnElement[dict[str, Any]] = column(JSON)
    created_at: ColumnElement[datetime] = column(Moment)


class GraphSummaryRow(Base):
    """What a model wrote about a community, whose id is made of its content: another content has another row."""

    __tablename__ = "graph_summaries"

    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    community: ColumnElement[str] = column(String(64), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    title: ColumnElement[str] = column(Text)
    summary: ColumnElement[str] = column(LongText)
    created_at: ColumnElement[datetime] = column(Moment)
